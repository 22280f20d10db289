// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/timer_queue.hpp"
#include "client/hold_node.hpp"
#include "servers/scheme.hpp"

#include <conch/config.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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
        one_is_old_{this, call<&introducing::settle_late>} {}

  /// The backend is there.
  void begin(time_point now) { tell(now); }
  /// The acquire has a note or a task.
  void add(hold_node& n, time_point now);
  /// Something has happened to the acquire or its hold.
  void changed(hold_node const& n) noexcept { is_outdated_ = is_outdated_ || n.note; }
  /// Tells the servers what has changed in this input.
  void settle(time_point now) {
    if (is_outdated_) tell(now);
  }
  void drop() noexcept;

 private:
  using texts = std::map<std::string, std::string, std::less<>>;  // by the id of the client or the task

  struct entry {
    node_ref node;
    time_point old_at;     // its task is told of from then on
    time_point next_look;  // for a deadlock, if it still waits then
    duration pause;        // between the last look and the next one
  };

  void settle_late(time_point) noexcept { is_outdated_ = true; }
  void tell(time_point now);
  texts what_to_tell(time_point now);
  /// Result: when to come back.
  time_point look_for_deadlocks(time_point now);

  config const& settings_;
  std::string const& client_;
  servers::deployment& servers_;
  timer_queue& timers_;
  deadlock_finder& finder_;
  std::vector<entry> all_;
  texts told_;
  timer one_is_old_;
  bool is_outdated_ = false;
};

}  // namespace conch::detail
