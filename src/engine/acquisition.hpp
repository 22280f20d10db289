// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/reprieve.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"

#include <conch/clock.hpp>
#include <conch/observer.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace conch::engine {

struct lock_entry;

/// The detached hold that an acquire takes over.
struct adoption {
  std::string origin;   // place::origin
  int first_index = 0;  // of its token, as lock_entry::hand_offs
};

enum class acquisition_phase : std::uint8_t {
  fresh,    // not given to the engine yet
  waiting,  // in the local line
  staying,  // its wait has ended, but a grant that comes now is still taken
  leaving,  // its wait has ended; this is reported when the server has answered
  holding,
  detaching,  // the server is asked once more whether it is ours; then another client may take it over
  lost,       // its loss was reported; it is not released yet
  releasing,  // the release is not answered yet
  over,
};

/// One call of an acquire, and the hold that it becomes. The shell owns it, and may free it after the last event about
/// it.
struct acquisition : list_hook<acquisition>, receipt {
  acquisition();

  // Small members come together to save memory: many may wait.
  acquisition_phase phase = acquisition_phase::fresh;
  bool once = false;          // one attempt: busy instead of waiting
  bool busy_is_late = false;  // ... and busy is reported as timed_out; set by the engine
  bool fixed = false;         // the lease is not renewed
  bool endangered = false;    // a renewal is late, and was reported as late
  reprieve late{};            // its end waits once for answers that came in while this process was late itself
  std::uint32_t segment = 0;  // of the grant

  // What is asked for.
  milliseconds lease{};
  time_point until = time_point::max();  // the end of the wait; now or earlier: one attempt
  duration max_hold = duration::max();
  milliseconds at_least{};                   // the minimum interval until the next grant; 0: none
  time_point extend_to = time_point::min();  // an extension of the hold is under way: to this deadline
  time_point detached_at{};                  // when its hold was detached
  engine::permit permit;                     // of a lock with several owners; else none
  std::unique_ptr<adoption const> adopts;    // a detached hold is taken over; none: the lock is asked for

  // The result.
  std::int64_t fence = 0;
  std::atomic<time_point::rep> valid_until{time_point::min().time_since_epoch().count()};  // read by any thread
  lock_entry* lock = nullptr;
  class cohort* in = nullptr;
  error_code ending;
  time_point asked{}, granted{};
  timer due;

  bool is_extending() const noexcept { return extend_to != time_point::min(); }
  time_point deadline() const noexcept { return time_point{duration{valid_until.load(std::memory_order_acquire)}}; }
};

/// The phases that may follow each phase of an acquisition.
constexpr state_table<acquisition_phase, 9> acquisition_phases{{
    {acquisition_phase::fresh, any_of(acquisition_phase::waiting, acquisition_phase::over)},
    {acquisition_phase::waiting, any_of(acquisition_phase::staying, acquisition_phase::leaving,
                                        acquisition_phase::holding, acquisition_phase::over)},
    {acquisition_phase::staying,
     any_of(acquisition_phase::leaving, acquisition_phase::holding, acquisition_phase::over)},
    {acquisition_phase::leaving, any_of(acquisition_phase::over)},
    {acquisition_phase::holding, any_of(acquisition_phase::detaching, acquisition_phase::lost,
                                        acquisition_phase::releasing, acquisition_phase::over)},
    {acquisition_phase::detaching, any_of(acquisition_phase::over)},
    {acquisition_phase::lost, any_of(acquisition_phase::over)},
    {acquisition_phase::releasing, any_of(acquisition_phase::over)},
    // a second release, which is answered with "not held"
    {acquisition_phase::over, any_of(acquisition_phase::over)},
}};

/// The only way to change the phase of an acquisition.
inline void enter(acquisition& a, acquisition_phase to) {
  BOOST_ASSERT_MSG(acquisition_phases.allows(a.phase, to),
                   "an acquisition goes from one phase to another that does not follow it");
  a.phase = to;
}

struct named_acquisition {
  acquisition* what;
  std::string_view name;
};

enum class acquired { granted, busy, failed };

/// What has become of an acquisition, for config::observer and config::top_k.
struct observation {
  enum class kind : std::uint8_t {
    waiting,
    queued,
    retried,
    granted,
    not_granted,
    endangered,
    safe_again,
    released,
    lost,
    detached
  };

  kind what;
  std::string_view name;
  time_point at;
  // granted, not_granted: the wait; endangered: what is left; released, lost, detached: the hold
  duration took = duration::zero();
  grant_path path = grant_path::answered;
  retry_reason again = retry_reason::reconnected;
  error_code why = {};
};

/// A hold whose renewal is late.
struct danger {
  duration left;    // until its loss is reported
  duration silent;  // since its last confirmation
  std::string why;  // it is not renewed; empty: not known
};

/// What the cohort reports to the shell. No function here may call back into the engine before it has returned.
class acquisition_events {
 public:
  virtual void on_acquired(acquisition& a, acquired how, error_code why) = 0;
  virtual void on_lost(acquisition& a, error_code why) = 0;
  virtual void on_released(acquisition& a, bool was_held, error_code why) = 0;
  virtual void on_extended(acquisition&, bool /*is_held*/, error_code) {}
  virtual void on_requested(acquisition&) {}
  /// Its deadline has moved on.
  virtual void on_renewed(acquisition&) {}
  /// It will be lost unless a renewal succeeds. Then comes on_safe_again, or its end.
  virtual void on_endangered(acquisition&, danger const&) {}
  virtual void on_safe_again(acquisition&) {}
  /// Without an error the place of `a` is still owned during the call: its id and its fence are what another client
  /// takes over.
  virtual void on_detached(acquisition&, error_code) {}
  /// Only if the settings ask for observations. It comes before the event of the same moment above.
  virtual void on_observed(acquisition&, observation const&) {}

 protected:
  ~acquisition_events() = default;
};

/// The holder of a lock, as the error of a wait that has timed out tells it.
class holder_source {
 public:
  /// A wait for this lock is about to time out.
  virtual void ask(std::string_view lock, time_point now) = 0;
  /// Empty: it is not known.
  virtual std::string holder_of(std::string_view lock, time_point now) const = 0;

 protected:
  ~holder_source() = default;
};

enum class cancel_type { total, partial, terminal };

}  // namespace conch::engine
