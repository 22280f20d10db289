// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "client/hold_node.hpp"
#include "servers/scheme.hpp"

#include <conch/config.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace conch::detail {

/// What this client tells others about itself: its label, the notes of its acquires, and which of its tasks holds or
/// waits for what. A task is told of only after a second, so most cost no message. With the client locked.
class introducing {
 public:
  class deadlock_finder {
   public:
    /// The acquire has waited for a while.
    virtual void look_for_deadlock(hold_node& n) = 0;

   protected:
    ~deadlock_finder() = default;
  };

  introducing(config const& settings, std::string const& client, servers::deployment& servers, timer_queue& timers,
              deadlock_finder& finder)
      : settings_{settings},
        client_{client},
        servers_{servers},
        timers_{timers},
        finder_{finder},
        come_back_{this, call<&introducing::settle_late>} {}

  /// The backend is there.
  void begin(time_point now) { tell(now); }
  /// The acquire has a note or a task.
  void add(hold_node& n, time_point now);
  /// Something has happened to the acquire or its hold.
  void changed(hold_node& n) noexcept;
  /// Tells the servers what has changed in this input.
  void settle(time_point now);
  void drop() noexcept;

 private:
  using texts = std::map<std::string, std::string, std::less<>>;  // by the id of the client or the task

  static void leave(noted& one) noexcept;
  void come_back(time_point at);
  void settle_late(time_point) noexcept { is_outdated_ = true; }
  void tell(time_point now);
  texts what_to_tell(time_point now);
  void look_for_deadlocks(time_point now);

  config const& settings_;
  std::string const& client_;
  servers::deployment& servers_;
  timer_queue& timers_;
  deadlock_finder& finder_;
  list<noted> told_of_;       // with a note, or old
  list<noted> young_;         // the others, in the order of their ages: most end before anything is told of them
  noted* touched_ = nullptr;  // those of `young_` that have changed in this input
  texts told_;
  timer come_back_;
  bool is_outdated_ = false;
};

}  // namespace conch::detail
