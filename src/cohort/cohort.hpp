// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/failure.hpp"
#include "base/turns.hpp"
#include "cohort/backend.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace conch::engine {

struct lock_entry;

/// The detached hold that an acquire takes over.
struct adoption {
  std::string origin;   // place::origin
  int first_index = 0;  // of its token, as lock_entry::hand_offs
};

/// One call of an acquire, and the hold that it becomes. The shell owns it, and may free it after the last event about it.
struct acquisition : list_hook<acquisition>, receipt {
  enum class phase : std::uint8_t {
    fresh,    // not given to the engine yet
    waiting,  // in the local line
    staying,  // its wait is over, but a grant that comes now is still taken
    leaving,  // its wait is over; its end is reported when the server has answered
    holding,
    detaching,  // the server is asked once more whether it is ours; then another client may take it over
    lost,       // its loss was reported; it is not released yet
    releasing,  // the release is not answered yet
    over,
  };

  acquisition();

  // What is small stands together: many may wait.
  phase at = phase::fresh;
  bool once = false;          // one attempt: busy instead of waiting
  bool busy_is_late = false;  // ... and busy is reported as timed_out; set by the engine
  bool fixed = false;         // the lease is not renewed
  bool excused = false;       // its end has waited for answers that came in while this process was late itself
  std::uint32_t segment = 0;  // of the grant

  // What is asked for.
  milliseconds lease{};
  time_point until = time_point::max();  // the end of the wait; now or earlier: one attempt
  duration max_hold = duration::max();
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
constexpr state_table<acquisition::phase, 9> acquisition_phases{{
    {acquisition::phase::fresh, any_of(acquisition::phase::waiting, acquisition::phase::over)},
    {acquisition::phase::waiting,
     any_of(acquisition::phase::staying, acquisition::phase::leaving, acquisition::phase::holding, acquisition::phase::over)},
    {acquisition::phase::staying, any_of(acquisition::phase::leaving, acquisition::phase::holding, acquisition::phase::over)},
    {acquisition::phase::leaving, any_of(acquisition::phase::over)},
    {acquisition::phase::holding,
     any_of(acquisition::phase::detaching, acquisition::phase::lost, acquisition::phase::releasing, acquisition::phase::over)},
    {acquisition::phase::detaching, any_of(acquisition::phase::over)},
    {acquisition::phase::lost, any_of(acquisition::phase::over)},
    {acquisition::phase::releasing, any_of(acquisition::phase::over)},
    {acquisition::phase::over, any_of(acquisition::phase::over)},  // a second release, which is answered with "not held"
}};

/// The only way to change the phase of an acquisition.
inline void enter(acquisition& a, acquisition::phase to) {
  BOOST_ASSERT_MSG(acquisition_phases.allows(a.at, to), "an acquisition goes from one phase to another that does not follow it");
  a.at = to;
}

struct named_acquisition {
  acquisition* what;
  std::string_view name;
};

enum class acquired { granted, busy, failed };

/// What has become of an acquisition, for those who look on (config::observer, config::top_k).
struct observation {
  enum class kind : std::uint8_t { waiting, queued, retried, granted, not_granted, released, lost, detached };

  kind what;
  std::string_view name;
  time_point at;
  duration took = duration::zero();  // granted, not_granted: the wait; released, lost, detached: the hold
  grant_path path = grant_path::answered;
  retry_reason again = retry_reason::reconnected;
  error_code why = {};
};

/// What the cohort tells the shell. No function here may call back into the engine before it has returned.
class acquisition_events {
 public:
  virtual void on_acquired(acquisition& a, acquired how, error_code why) = 0;
  virtual void on_lost(acquisition& a, error_code why) = 0;
  virtual void on_released(acquisition& a, bool was_held, error_code why) = 0;
  virtual void on_extended(acquisition&, bool /*is_held*/, error_code) {}
  virtual void on_requested(acquisition&) {}
  /// Its deadline has moved on.
  virtual void on_renewed(acquisition&) {}
  /// Without an error the place of `a` is still owned during the call: its id and its fence are what another client takes over.
  virtual void on_detached(acquisition&, error_code) {}
  /// Only where the settings name somebody who looks on. It comes before the event of the same moment above.
  virtual void on_observed(acquisition&, observation const&) {}

 protected:
  ~acquisition_events() = default;
};

enum class cancel_type { total, partial, terminal };

/// All that a client knows of one lock in use. For a lock with several owners each acquire has an entry of its own, with its own place in
/// the server's line. So has an acquire that takes a detached hold over: others of this client may stand in the server's line for that very
/// lock, behind the hold.
struct lock_entry : list_hook<lock_entry> {
  lock_entry(std::string lock_name, class cohort& owner, permit const& share, bool is_single);

  std::string const name;
  class cohort& in;
  bool const single;  // of one acquire
  std::unique_ptr<engine::place> const place;
  list<acquisition> waiting;  // in the order of asking
  acquisition* holder = nullptr;
  int hand_offs = 0;                    // of the present grant; the index in the fencing token
  bool requested = false;               // another client asks for the present grant
  bool proving = false;                 // nobody holds it: it is handed on when the server has said that it is still ours
  bool proof_repeated = false;          // it was asked again, because an answer to an earlier question came
  bool observed_in_line = false;        // that the present request is in line was told to those who look on
  time_point ends = time_point::max();  // the hold is over then at the latest, whatever the servers say
  time_point slice_began{};
  time_point proved_at{};      // when the server's last word that it is ours was heard
  time_point proving_since{};  // a word to a question from before that proves nothing
  time_point renew_at{};
  timer watch;
};

/// The coroutines of one client that wait for locks or hold them. The cohort decides when to renew and when to report a loss. It has one
/// place in the servers' line for each lock_entry. No I/O, no clock.
class cohort final : public backend_events {
 public:
  cohort(config const& settings, timer_queue& timers, acquisition_events& shell, statistics& stats);
  ~cohort();

  /// `where`: the server, or the servers, as errors name them.
  void use(backend& b, std::string where = {}) noexcept {
    backend_ = &b;
    where_ = std::move(where);
  }

  void acquire(acquisition& a, std::string_view name, time_point now);
  /// Sends a question or an order about a lock. Ends in on_admin_answered of `whose`, perhaps before this returns.
  void administer(admin_request& i, admin_events& whose, time_point now);
  /// Tries different locks in the given order. When one is busy, the locks behind it may be reported as busy without a try.
  void try_all(std::span<named_acquisition const> all, time_point now);
  void cancel(acquisition& a, cancel_type type, time_point now);
  /// Gives a hold another lease, from now on, and renews it if that moves its deadline on. Ends in on_extended, perhaps before this returns.
  void extend(acquisition& a, milliseconds lease, time_point now);
  /// From now on on_requested tells if another client asks the holder to let go, perhaps before this returns.
  void watch_requests(acquisition& a, time_point now);
  /// The hold leaves this client without being released. Ends in on_detached, perhaps before this returns: without an error when the server has
  /// renewed it for its whole lease, and then nothing here renews or releases it any more. Otherwise it is released.
  void detach(acquisition& a, time_point now);
  /// Ends in on_released.
  void release(acquisition& a, time_point now);
  /// Releases a hold that was dropped: there is no event, and `a` may be freed at once.
  void abandon(acquisition& a, time_point now);
  /// Call this when the time of timers.next() has come. It runs the timers, then sends the renewals that are due.
  void tick(time_point now);

  /// Ends all waits and accepts no new ones. Holds stay.
  void close(time_point now);
  /// Reports to all holders that their hold is over, and gives the locks back. The waits are ended first.
  void give_back_everything(time_point now);
  /// True while close() or give_back_everything() still has work to do.
  bool ending() const noexcept { return end_waits_ || end_holds_; }
  bool closed() const noexcept { return closed_; }
  /// True if nothing is ending and there is no hold, not even one that is lost but not given back.
  bool idle() noexcept;

  // backend_events
  void granted(place& s, bool pushed, time_point now) override;
  void busy(place& s, time_point now) override;
  void queued(place& s, time_point now) override;
  void asked_again(place& s, retry_reason why, time_point now) override;
  void left(place& s, time_point now) override;
  void failed(place& s, error_code why, time_point now) override;
  void attempt_failed(place& s, error_code why, time_point now) override;
  void extended(place& s, time_point now) override;
  void renewal_failed(place& s, time_point now) override;
  void lost(place& s, time_point now) override;
  void requested(place& s, time_point now) override;
  void released(receipt& r, bool was_mine, error_code why, time_point now) override;
  void settled(place& s) override;
  place* find(std::string_view name) override;
  place& find_or_make(std::string_view name) override;
  place& make_permit_place(std::string_view name, permit const& permit) override;

 private:
  friend struct lock_entry;
  friend struct acquisition;

  void go_on_ending(time_point now);
  bool end_one(time_point now);
  bool end_something(lock_entry& e, time_point now);
  lock_entry& entry(std::string_view name);
  lock_entry& new_single_entry(std::string_view name, permit const& permit);
  template <class F>
  void for_each_entry(F f);
  void ask_if_needed(lock_entry& e, time_point now);
  void deliver(lock_entry& e, grant_path how, time_point now);
  bool can_hand_off(lock_entry& e, time_point now);
  bool is_proved(lock_entry const& e, time_point now) const;
  void hand_off(lock_entry& e, time_point now);
  void prove(lock_entry& e, time_point now);
  void go_on_proving(lock_entry& e, time_point now);
  void proved(lock_entry& e, time_point now);
  void give_back(lock_entry& e, receipt* r, time_point now);
  error_code told(failed_task::kind what, error_code why, std::string_view name, duration after = duration::zero()) const;
  error_code refusal(acquisition const& a, error_code why, std::string_view name, time_point now) const;
  void stop_waiting(acquisition& a, error_code why, cancel_type type, time_point now);
  time_point given_up_at(acquisition const& a, time_point now) const;
  void give_up_staying(acquisition& a, time_point now);
  error_code why_given_up(acquisition const& a, time_point now) const;
  void finish(acquisition& a, acquired how, error_code why, time_point now);
  void refuse(acquisition& a, acquired how, error_code why, std::string_view name, time_point now);
  void end_ungranted(acquisition& a, acquired how, error_code why);
  void observe_refusal(acquisition& a, error_code why, std::string_view name, time_point now);
  void begin(acquisition& a, std::string_view name, time_point now);
  void count_end(acquisition& a, observation::kind how, std::string_view name, error_code why, time_point now);
  void tell_lost(acquisition& a, error_code why, time_point now);
  void end_hold(acquisition& a, bool tell, time_point now);
  void set_deadline(acquisition& a, time_point until);
  void overdue(acquisition& a, time_point now);
  void go_on_extending(lock_entry& e, time_point now);
  void go_on_detaching(lock_entry& e, time_point now);
  void end_detaching(acquisition& a, error_code why, time_point now);
  void end_extension(acquisition& a, bool is_held, error_code why);
  std::string why_not_renewed(lock_entry const& e, time_point now) const;
  void watch(lock_entry& e, time_point now);
  void schedule(lock_entry& e, time_point now);
  static time_point watchdog_ends(acquisition const& a);
  static bool is_over_after_lease(acquisition const& a, place const& s);
  duration validity_of(lock_entry const& e) const;
  static time_point deadline_of(lock_entry const& e) noexcept { return std::min(e.place->deadline, e.ends); }
  time_point lose_at(lock_entry const& e) const;
  void retire(lock_entry& e);

  config const& settings_;
  timer_queue& timers_;
  acquisition_events& shell_;
  statistics& stats_;
  bool const is_observed_;
  std::string where_;
  backend* backend_ = nullptr;
  bool closed_ = false;
  using entries = std::unordered_map<std::string_view, std::unique_ptr<lock_entry>>;  // keys live in the entries
  entries entries_;
  entries::node_type spare_;         // the entry that was retired last: a lock is often asked for again at once
  list<lock_entry> single_entries_;  // owned
  bool end_waits_ = false, end_holds_ = false;
  list<lock_entry> unseen_;               // those of single_entries_ that the present ending has not reached yet
  std::size_t bucket_ = 0, buckets_ = 0;  // how far the present ending has come in entries_
  timer rest_;
  std::vector<place*> due_;  // to be renewed at the end of this tick
};

}  // namespace conch::engine
