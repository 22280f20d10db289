// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "engine/acquisition.hpp"
#include "engine/backend.hpp"

#include <conch/config.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace conch::engine {

/// An acquire with a note or a task, and the hold that it becomes.
class noted_acquire : public list_hook<noted_acquire> {
 public:
  virtual ~noted_acquire() = default;

  /// acquisition_phase::over, if its hold is given back.
  virtual acquisition_phase phase() const noexcept = 0;
  virtual std::int64_t fence() const noexcept = 0;
  virtual std::string_view lock() const noexcept = 0;
  virtual std::string_view note() const noexcept = 0;
  virtual bool has_task() const noexcept = 0;
  /// The id of its task as a word of base/introduction.hpp.
  virtual std::string task() const = 0;
  /// It is not introduced any more. It may end itself.
  virtual void left() noexcept = 0;

 private:
  friend class introducing;

  bool is_introduced_ = false, is_touched_ = false;
  noted_acquire* next_touched_ = nullptr;
  time_point old_at_{};     // its task is introduced from then on
  time_point next_look_{};  // for a deadlock, if it still waits then
  duration pause_{};        // between the last look and the next one
};

/// What this client tells others about itself: its label, the notes of its acquires, and which of its tasks holds or
/// waits for what. A task is introduced only after a second, so most cost no message. It also decides when a wait looks
/// for a deadlock.
class introducing {
 public:
  class deadlock_finder {
   public:
    /// The acquire has waited for a while.
    virtual void look_for_deadlock(noted_acquire& n) = 0;

   protected:
    ~deadlock_finder() = default;
  };

  introducing(config const& settings, std::string const& client, timer_queue& timers, deadlock_finder& finder)
      : settings_{settings},
        client_{client},
        timers_{timers},
        finder_{finder},
        come_back_{this, call<&introducing::settle_late>} {}

  /// Before anything else.
  void begin(backend& servers, time_point now) {
    servers_ = &servers;
    send_changes(now);
  }
  /// It stays until left().
  void add(noted_acquire& n, time_point now);
  /// Something has happened to the acquire or its hold.
  void changed(noted_acquire& n) noexcept;
  /// Sends the servers what has changed in this input.
  void settle(time_point now);
  void drop() noexcept;

 private:
  using texts = std::map<std::string, std::string, std::less<>>;  // by the id of the client or the task

  static void leave(noted_acquire& one) noexcept;
  static void leave_if_ended(noted_acquire& one) noexcept;
  void come_back(time_point at);
  void settle_late(time_point) noexcept { is_outdated_ = true; }
  void send_changes(time_point now);
  texts texts_to_send(time_point now);
  void look_for_deadlocks(time_point now);

  config const& settings_;
  std::string const& client_;
  timer_queue& timers_;
  deadlock_finder& finder_;
  backend* servers_ = nullptr;
  list<noted_acquire> introduced_;    // with a note, or old
  list<noted_acquire> young_;         // the others, in the order of their ages: most end before they are introduced
  noted_acquire* touched_ = nullptr;  // those of `young_` that have changed in this input
  texts sent_;
  timer come_back_;
  bool is_outdated_ = false;
};

}  // namespace conch::engine
