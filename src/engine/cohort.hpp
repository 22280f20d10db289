// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/backend.hpp"
#include "engine/closing.hpp"
#include "engine/cohort_environment.hpp"
#include "engine/hold_ends.hpp"
#include "engine/local_line.hpp"
#include "engine/lock_entries.hpp"
#include "engine/reporter.hpp"
#include "engine/waits.hpp"
#include "engine/watchdog.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace conch::engine {

/// The coroutines of one client that wait for locks or hold them. It owns the parts, and gives each call to one of them
/// (docs/design/cohort.md). The cohort decides when to renew and when to report a loss. It has one place in the
/// servers' line for each lock_entry. No I/O, no clock.
class cohort final : public backend_events {
 public:
  cohort(config const& settings, timer_queue& timers, acquisition_events& shell, statistics& stats);

  /// `where`: the server, or the servers, as errors name them.
  void use(backend& b, std::string where = {}) noexcept {
    on_.servers = &b;
    on_.where = std::move(where);
  }

  void name_holders_by(holder_source& holders) noexcept { on_.holders = &holders; }

  void acquire(acquisition& a, std::string_view name, time_point now);
  /// Sends a question or an order about a lock. Ends in on_admin_answered of `whose`, perhaps before this returns.
  void administer(admin_request& i, admin_events& whose, time_point now);
  /// Tries different locks in the given order. When one is busy, the locks after it may be reported as busy without a
  /// try.
  void try_all(std::span<named_acquisition const> all, time_point now);
  void cancel(acquisition& a, cancel_type type, time_point now) { waits_.cancel(a, type, now); }
  /// Gives a hold another lease, from now on, and renews it if that moves its deadline on. Ends in on_extended, perhaps
  /// before this returns.
  void extend(acquisition& a, milliseconds lease, time_point now) { watchdog_.extend(a, lease, now); }
  /// From now on on_requested reports when another client asks the holder to let go, perhaps before this returns.
  void watch_requests(acquisition& a, time_point now) { watchdog_.watch_requests(a, now); }
  /// The hold leaves this client without being released. Ends in on_detached, perhaps before this returns: without an
  /// error when the server has renewed it for its whole lease, and then nothing here renews or releases it any more.
  /// Otherwise it is released.
  void detach(acquisition& a, time_point now) { ends_.detach(a, now); }
  /// Ends in on_released.
  void release(acquisition& a, time_point now) { ends_.end(a, true, now); }
  /// Releases a hold that was dropped: there is no event, and `a` may be freed at once.
  void abandon(acquisition& a, time_point now) { ends_.end(a, false, now); }
  /// Call this when the time of timers.next() has come. It runs the timers, then sends the renewals that are due.
  void tick(time_point now);

  /// Ends all waits and accepts no new ones. Holds stay.
  void close(time_point now) { closing_.close(now); }
  /// Reports to all holders that their hold has ended, and gives the locks back. The waits are ended first.
  void give_back_everything(time_point now) { closing_.give_back_everything(now); }
  /// True while close() or give_back_everything() still has work to do.
  bool ending() const noexcept { return closing_.is_under_way(); }
  bool closed() const noexcept { return closing_.is_closed(); }
  /// True if nothing is ending and there is no hold, not even one that is lost but not given back.
  bool idle() noexcept;

  // backend_events
  void granted(place& p, bool pushed, time_point now) override;
  void busy(place& p, time_point now) override;
  void queued(place& p, time_point now) override;
  void asked_again(place& p, retry_reason why, time_point now) override;
  void left(place& p, time_point now) override;
  void failed(place& p, error_code why, time_point now) override;
  void attempt_failed(place& p, error_code why, time_point now) override;
  void extended(place& p, time_point now) override;
  void renewal_failed(place& p, time_point now) override;
  void lost(place& p, time_point now) override;
  void requested(place& p, time_point now) override;
  void released(receipt& r, bool was_mine, error_code why, time_point now) override;
  void settled(place& p) override;
  place* find(std::string_view name) override;
  place& find_or_make(std::string_view name) override { return *entries_.get(name).place; }
  place& make_permit_place(std::string_view name, permit const& permit) override {
    return *entries_.make_single(name, permit).place;
  }

  // The timers of an acquisition and of an entry.
  void overdue(acquisition& a, time_point now);
  time_point first_alarm(acquisition const& a, time_point now) const;
  void watch(lock_entry& e, time_point now) { ends_.watch(e, now); }

 private:
  cohort_environment on_;
  lock_entries entries_;
  reporter reporter_;
  watchdog watchdog_;
  local_line line_;
  waits waits_;
  hold_ends ends_;
  closing closing_;
};

}  // namespace conch::engine
