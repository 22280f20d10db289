// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/client.hpp>
#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/detail/api.hpp>
#include <conch/error.hpp>
#include <conch/mutex.hpp>
#include <conch/stats.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

/// Locks for code that waits in threads: a client with a thread of its own, and mutexes that std::unique_lock,
/// std::shared_lock, std::scoped_lock and std::lock take. Include this header by itself: <conch/conch.hpp> does not.
namespace conch::blocking {

namespace detail {

class runtime;
class lock_state;

enum class share : bool { alone, with_readers };

/// `d` in nanoseconds. What is beyond their range becomes the end of it; NaN becomes duration::min().
template <class Rep, class Period>
constexpr duration saturated(std::chrono::duration<Rep, Period> const& d) {
  using seconds = std::chrono::duration<long double>;
  if (!(seconds{d} > seconds{duration::min()})) return duration::min();
  if (seconds{d} >= seconds{duration::max()}) return duration::max();
  return std::chrono::duration_cast<duration>(d);
}

/// `end - now`, or the end of the range on that side.
constexpr duration time_left(duration end, duration now) noexcept {
  if (now > duration::zero() && end < duration::min() + now) return duration::min();
  if (now < duration::zero() && end > duration::max() + now) return duration::max();
  return end - now;
}

template <class Clock, class Duration>
duration time_left(std::chrono::time_point<Clock, Duration> const& end) {
  return time_left(saturated(end.time_since_epoch()), saturated(Clock::now().time_since_epoch()));
}

}  // namespace detail

/// A client with a thread of its own, which does all I/O and renews the leases. Make one for each process and share it.
///
/// It costs that thread, which sleeps while nothing happens, and no connection before a lock is first asked for. The
/// thread has the signal mask of the thread that makes the client.
///
/// Thread safety: everything but the constructor and the destructor may be called from any thread.
class client {
 public:
  /// Checks the settings and starts the thread; does no I/O.
  /// Throws boost::system::system_error: errc::invalid_url; errc::invalid_config, also for config::single_threaded,
  /// since the locks are called from other threads than the client's own. Throws std::system_error if there can be no
  /// more threads.
  CONCH_API explicit client(config settings);
  /// With the defaults of config. A template, so that braces mean a config: `client{{.url = "..."}}`.
  template <class Url>
  requires(std::constructible_from<std::string, Url const&>) explicit client(Url const& url)
      : client{with_url(std::string{url})} {}

  client(client const&) = delete;
  client& operator=(client const&) = delete;

  /// Ends all waits with errc::closed, reports all holds as lost (errc::closed), releases their locks, and joins the
  /// thread.
  ///
  /// It waits for the server's answers for at most about 1 s, for the end of a loss callback that runs, and for the
  /// calls of other threads, which return at once. Locks made from the client may outlive it: what is asked of them
  /// fails with errc::closed, and unlock() still works. What else runs on the executor of async() is dropped, as
  /// asio::thread_pool does.
  ///
  /// In a loss callback it does not wait: the thread ends by itself when the locks are released.
  CONCH_API ~client();

  /// The client below, for coroutines, callbacks and futures in the same process, and for the kinds of locks that have
  /// no blocking form: `conch::mutex{c.async(), "name"}` is the same lock as `mutex{c, "name"}`. Handlers run on the
  /// client's thread, unless they have an executor of their own. They must return soon and must not throw: an exception
  /// there ends the process (std::terminate).
  CONCH_API conch::client& async() noexcept;

  /// As conch::client::settings, id and stats.
  CONCH_API config const& settings() const noexcept;
  CONCH_API std::string const& id() const noexcept;  ///< As conch::client::id().
  CONCH_API statistics stats() const;                ///< As conch::client::stats().

  /// Used by the locks.
  std::shared_ptr<detail::runtime> const& runtime() const noexcept { return runtime_; }

 private:
  static config with_url(std::string url) {
    config c;
    c.url = std::move(url);
    return c;
  }

  std::shared_ptr<detail::runtime> runtime_;
};

/// Called with the loss of a hold: why (errc::lost; errc::closed: the client was destroyed or closed), and the fencing
/// token of the hold.
using lost_callback = std::function<void(error_code why, std::int64_t fence)>;

/// Called when a hold is endangered (hold::async_endangered), and with false when it has been renewed since; and the
/// fencing token of the hold.
using danger_callback = std::function<void(bool is_endangered, std::int64_t fence)>;

/// What mutex and shared_mutex have in common: everything about one holder that is alone. It is a C++ TimedLockable.
///
/// One object is used by many threads, as a std::timed_mutex is. Several objects with the same name are the same lock.
/// Unlike a std::mutex it can be lost while it is locked: see valid(), fence() and on_lost().
///
/// A hold belongs to the thread that locked. Another thread may unlock it: unlock() gives back the hold of the calling
/// thread, else the oldest one. An object that is destroyed gives back what it holds.
///
/// Where a function says "Throws: the errors of lock()", it throws boost::system::system_error and the lock is not
/// taken:
/// - errc::closed: the client is closed or destroyed, also while the call waits;
/// - errc::unreachable: no server for config::offline_timeout (10 s);
/// - errc::would_deadlock: the call is made on the client's own thread (in a loss callback, or in a handler of
/// client::async()), which
///   would have to complete it; or, for a wait without a time limit, this thread holds the lock through this object;
/// - errc::access_denied, errc::wrong_type, errc::server_refused, errc::protocol, errc::not_supported: as
/// async_acquire.
///
/// Cost of a call that asks for the lock: the round trips of async_acquire (one if the lock is free; none if it is
/// handed off in this process), and two switches of threads.
///
/// Thread safety: everything but the constructor and the destructor may be called from any thread.
class timed_lock {
 public:
  timed_lock(timed_lock const&) = delete;
  timed_lock& operator=(timed_lock const&) = delete;

  /// Waits for the lock. Throws: the errors of lock(), listed above.
  CONCH_API void lock();

  /// Waits for the lock until a stop is requested. True: it is locked. False: the stop came first, and the lock is not
  /// taken. A stop that was requested before the call sends no message. The call returns at once when a stop is
  /// requested, also while the server does not answer; what it has asked for is taken back in the background. Throws:
  /// the errors of lock().
  [[nodiscard]] CONCH_API bool lock(std::stop_token stop);

  /// Takes the lock if it is free and no client waits for it; otherwise false. It is one complete attempt, for which it
  /// connects if it must: an unreachable server is not "false", but throws after config::offline_timeout. As with a
  /// std::mutex it may be false once although the lock is free: right after an unlock() which the server has not
  /// carried out yet. Throws: the errors of lock().
  ///
  /// A try waits in one case: the thread's last try failed, and the thread holds other locks of this client whose names
  /// sort before this one. It then queues for 20 ms, or four round trips if that is longer (at most 1 s). So two
  /// processes that call std::lock() in opposite orders do not fail together again and again.
  [[nodiscard]] CONCH_API bool try_lock();

  /// Waits for the lock for at most `d`; 0 or less: as try_lock(). False: the time has passed, or a stop came first. As
  /// for lock(stop), the lock is not taken then. If there is no connection at the end of the time, or the server is
  /// silent, it throws errc::unreachable.
  /// Throws: the errors of lock().
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> const& d, std::stop_token stop = {}) {
    return acquire(detail::share::alone, detail::saturated(d), std::move(stop));
  }

  /// The same until `end`. The time that is left is computed once, at the call: a clock that is set later does not
  /// change it.
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<Clock, Duration> const& end, std::stop_token stop = {}) {
    return acquire(detail::share::alone, detail::time_left(end), std::move(stop));
  }

  /// Releases the lock, and does not wait for the answer of the server. After a loss there is nothing to release; that
  /// is not an error. Without a hold it does nothing. It takes some microseconds, never blocks on the network and never
  /// throws. The client repeats the release until the server answers or the lease has ended. Round trips: none to wait
  /// for; one message, or none if the lock is handed off in this process.
  CONCH_API void unlock() noexcept;

  /// hold::valid, hold::deadline and hold::fence of the hold that the calling thread has; if it has none, of the latest
  /// one. Without a hold: false, time_point::min(), 0. They send no message.
  [[nodiscard]] CONCH_API bool valid() const noexcept;
  /// As hold::deadline(): it moves on, so ask again instead of keeping a copy.
  [[nodiscard]] CONCH_API time_point deadline() const noexcept;
  [[nodiscard]] CONCH_API std::int64_t fence() const noexcept;  ///< As hold::fence().

  /// Sets the function to call when a hold is lost, in place of the previous one; empty: none. It applies to all holds
  /// of this object, also to the present ones. It is called once for each hold that is lost, unless that is unlocked
  /// first.
  ///
  /// `told` runs on the client's thread, which renews no lease and reads no answer meanwhile. It may set flags, request
  /// a stop, notify, log, unlock, and call valid(), fence() and on_lost(). It must return soon and must not throw: an
  /// exception ends the process. A call there that asks for a lock throws errc::would_deadlock.
  ///
  /// When on_lost() or the destructor has returned, the previous function is not called any more: both wait for the end
  /// of a call that runs, unless they are called in it. unlock() does not wait.
  CONCH_API void on_lost(lost_callback told);

  /// The same for a danger of a loss and its end. It is not called for the loss itself: see on_lost().
  CONCH_API void on_endangered(danger_callback told);

  CONCH_API std::string const& name() const noexcept;  ///< As given, 1 to 512 bytes.

 protected:
  CONCH_API explicit timed_lock(std::shared_ptr<detail::lock_state> state) noexcept;
  CONCH_API ~timed_lock();

  /// `wait`: empty, or duration::max(): until granted; 0 or less: one attempt. True: the lock is taken.
  CONCH_API bool acquire(detail::share how, std::optional<duration> wait, std::stop_token stop);
  CONCH_API void release(detail::share how) noexcept;

 private:
  std::shared_ptr<detail::lock_state> state_;
};

/// A lock with one holder. See timed_lock. It is the same lock as a conch::mutex of the same name.
class mutex : public timed_lock {
 public:
  /// Sends no message. `name`: 1 to 512 bytes of any value.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API mutex(client& through, std::string name, lock_options options = {});
};

/// A lock with one writer, or any number of readers. It is a C++ SharedTimedLockable, and the same lock as a
/// conch::shared_mutex of the same name. Waiters are served in the order in which they asked. Over a quorum of servers:
/// errc::not_supported.
///
/// The functions without "shared" are those of the writer: see timed_lock. The functions with "shared" are the same for
/// a reader, with the same errors. Each reader has a hold of its own, with its own lease and fencing token.
/// unlock_shared() gives back one of the calling thread's, else the oldest reader's.
///
/// lock() of a thread that reads through this object, and lock_shared() of one that writes, throw errc::would_deadlock.
/// A thread that reads twice waits forever if a writer has asked in between.
class shared_mutex : public timed_lock {
 public:
  /// As mutex.
  CONCH_API shared_mutex(client& through, std::string name, lock_options options = {});

  /// As lock().
  CONCH_API void lock_shared();

  /// As lock(stop).
  [[nodiscard]] CONCH_API bool lock_shared(std::stop_token stop);

  /// As try_lock(): false if a writer holds the lock, or waits for it.
  [[nodiscard]] CONCH_API bool try_lock_shared();

  /// As try_lock_for().
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> const& d, std::stop_token stop = {}) {
    return acquire(detail::share::with_readers, detail::saturated(d), std::move(stop));
  }

  /// As try_lock_until().
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> const& end,
                                           std::stop_token stop = {}) {
    return acquire(detail::share::with_readers, detail::time_left(end), std::move(stop));
  }

  /// As unlock().
  CONCH_API void unlock_shared() noexcept;
};

}  // namespace conch::blocking
