// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/client.hpp>
#include <conch/detail/api.hpp>
#include <conch/observer.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch {

/// A holder of a lock or of permits, as the server saw it.
struct lock_holder {
  /// client::id() of the holder; zeros: it does not use this library
  std::string client;
  std::string label{};     ///< config::label of that client; empty: it has none
  std::string note{};      ///< acquire_options::note; empty: there is none
  std::int64_t fence = 0;  ///< its token; hand-offs inside that process add up to 4095
  /// time of the grant by the server's clock; later if the clock was set back before
  std::chrono::system_clock::time_point since{};
  duration lease_left{};      ///< until it ends without a renewal
  bool confirmed = false;     ///< false: the lock was handed over to it and not renewed since
  std::uint32_t permits = 1;  ///< of a semaphore; a shared_mutex: 1'000'000 for a writer, else 1
  std::uint32_t segment = 0;  ///< of a striped_mutex; else 0
  /// client::id() of the last client that asked it to let go (async_request_release); empty: none
  std::string asked_by{};
  std::chrono::system_clock::time_point asked_at{};  ///< when, by the server's clock
};

/// A client that waits for a lock, as the server saw it.
struct lock_waiter {
  std::string client;   ///< client::id()
  std::string label{};  ///< as of a lock_holder
  std::string note{};   ///< as of a lock_holder; empty too, if that client waits more than once
  /// Since when it is in line, by the server's clock.
  std::chrono::system_clock::time_point since{};
  std::uint32_t permits = 1;  ///< how many it asks for, as of a lock_holder
};

/// The chain of waits: a lock, its holder, the lock for which that holder waits, and so on.
struct wait_chain {
  /// A lock, and its holder.
  struct link {
    std::string lock;      ///< its name
    lock_holder holder{};  ///< client, label, note, fence, since, lease_left; empty: several (of the last link only)
  };
  /// How the chain ends.
  enum class ending {
    free,      ///< the last lock is free: the waiter before it is about to get it
    works,     ///< the last holder waits for no lock
    unknown,   ///< what the last holder waits for is not known: it has named no task (acquire_options::task)
    several,   ///< the last lock has several holders
    deadlock,  ///< the last holder waits for the lock of the link number `circle`
  };

  std::vector<link> links{};     ///< the holder of each waits for the lock of the next one
  ending how = ending::unknown;  ///< after the last link
  std::size_t circle = 0;        ///< of a deadlock: where its circle begins

  /// No task of the circle goes on by itself.
  bool is_deadlock() const noexcept { return how == ending::deadlock; }
  /// "stock: held for 14 min by billing@pod-7 (order 17), which waits for ledger, held for ...": one sentence, with the
  /// names of locks and clients in printable form. `now`: by the clock of the server.
  CONCH_API std::string text(std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;
};

/// A lock at one moment.
struct lock_status {
  using kind_of_lock = lock_kind;  ///< mutex, semaphore and so on.

  kind_of_lock kind = kind_of_lock::mutex;  ///< of the lock on the server; without a holder, of the object that asks
  std::uint64_t waiting = 0;                ///< in the server's line: clients for a mutex, acquires for the other kinds
  std::uint32_t held = 0;                   ///< number of holders
  std::uint32_t taken = 0;                  ///< permits or segments that are held
  std::uint32_t limit = 1;                  ///< the most of these that can be held. For an unused semaphore: the
                                            ///< number that was set, else that of the object that asks
  std::vector<lock_holder> holders{};       ///< the first 100 by their fences; empty if there are more than about 1000
  std::vector<lock_waiter> waiters{};       ///< the first 100, in order

  bool locked() const noexcept { return held != 0; }  ///< Is it held?
  /// The permits or segments that a new acquire could have if no client waited. 0 also while more are held than a
  /// lowered limit.
  std::uint32_t available() const noexcept { return limit > taken ? limit - taken : 0; }
  /// Whether a writer holds the shared_mutex, and how many readers do. False and 0 for every other lock.
  bool writer() const noexcept { return kind == kind_of_lock::shared_mutex && held != 0 && taken == limit; }
  std::uint32_t readers() const noexcept {
    return kind == kind_of_lock::shared_mutex && !writer() ? held : 0;
  }  ///< 0 under a writer.
};

namespace detail {

/// The settings of a lock object. Operations share them, since they may outlive the object.
struct lock_settings {
  core_ptr core;
  std::string name;
  duration lease;
  bool renew;
  std::optional<duration> max_hold = std::nullopt;
  // From the object: async_inspect reports them where the server knows nothing of the lock.
  lock_status::kind_of_lock kind = lock_status::kind_of_lock::mutex;
  std::uint32_t limit = 1;
};
using settings_ptr = std::shared_ptr<lock_settings const>;

CONCH_API asio::any_io_executor executor_of(lock_settings const* lock) noexcept;
CONCH_API client_number client_of(lock_settings const& lock) noexcept;

using inspect_handler = asio::any_completion_handler<void(error_code, lock_status)>;
using force_handler = asio::any_completion_handler<void(error_code, std::uint32_t)>;

CONCH_API void start_inspect(settings_ptr lock, inspect_handler handler);
using why_handler = asio::any_completion_handler<void(error_code, wait_chain)>;
CONCH_API void start_why(settings_ptr lock, why_handler handler);
/// `fence`: the token of the holder that is to lose the lock; none: all holders; not positive: errc::invalid_config.
CONCH_API void start_force(settings_ptr const& lock, std::optional<std::int64_t> fence, force_handler handler);
/// The same, of the holder that is asked to let go.
CONCH_API void start_request(settings_ptr const& lock, std::optional<std::int64_t> fence, force_handler handler);
using free_handler = asio::any_completion_handler<void(error_code)>;
CONCH_API void start_wait_free(settings_ptr lock, duration wait, free_handler handler);

}  // namespace detail

/// The base of all kinds of locks: a name, and the functions for operators.
class named_lock {
 public:
  using executor_type = asio::any_io_executor;  ///< The client's executor.

  CONCH_API executor_type get_executor() const noexcept;            ///< The client's.
  std::string const& name() const noexcept { return lock_->name; }  ///< As given, 1 to 512 bytes.

  /// Returns the holders and the waiters: who they are, and since when. It is a snapshot for people: it may be outdated
  /// when it is read.
  ///
  /// Lifetimes: nothing needs to outlive the operation; a client that is destroyed ends it with errc::closed.
  /// Completion signature: void(error_code, lock_status)
  /// Executor: the handler's associated one, else the client's. Never completes inside the initiating function.
  /// Per-operation cancellation: terminal, partial and total: completes with operation_aborted at once.
  /// Errors: operation_aborted, errc::unreachable (after config::offline_timeout), errc::closed, errc::access_denied,
  /// errc::wrong_type, errc::server_refused; errc::not_supported over a quorum of servers.
  /// Thread safety: as client.
  /// Round trips: one; a second one for the labels and notes of those who hold or wait.
  template <asio::completion_token_for<void(error_code, lock_status)> Token = asio::deferred_t>
  auto async_inspect(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, lock_status)>(initiate_inspect{{lock_.get()}}, token, lock_);
  }

  /// Follows the chain of waits: from this lock to its holder, to the lock for which the holder's task waits, and so
  /// on.
  ///
  /// It knows of tasks that have held or waited for at least a second with acquire_options::task. A deadlock is
  /// reported only if the circle was seen twice, one time after the other, with the same grants and the same places in
  /// the queues: then all of them were there at a moment between. A process that has died counts until its lease ends
  /// or its place is given up, and a task whose client lost its connection until that client is back.
  ///
  /// Completion signature: void(error_code, wait_chain)
  /// Lifetimes, executor, cancellation, thread safety, errors: as async_inspect. errc::not_supported also over
  /// ZooKeeper.
  /// Round trips: three for each link; twice as many for a deadlock.
  template <asio::completion_token_for<void(error_code, wait_chain)> Token = asio::deferred_t>
  auto async_why(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, wait_chain)>(initiate_why{{lock_.get()}}, token, lock_);
  }

  /// For operators: takes the lock away from all holders, and passes it on to the waiters.
  ///
  /// Effects: one script pushes a message to each holder, and then one to the next waiter. A client that receives it
  /// ends its hold as lost (async_lost, with_lock). A client that does not receive it finds out by its next renewal.
  /// The pushes go over different connections: the old holder may still write when the new one begins. Fencing keeps
  /// such writes out.
  /// Result: the number of holders that lost it; 0: there was none.
  /// Completion signature: void(error_code, std::uint32_t)
  /// Lifetimes, executor, thread safety: as async_inspect.
  /// Per-operation cancellation: as async_inspect; what was sent is carried out all the same.
  /// Errors: those of async_inspect. errc::unreachable also when the connection breaks before the answer: the order may
  /// have been carried out. It is not repeated, since another client may have the lock by now.
  /// Round trips: one, and a push for each client that loses the lock or is granted it.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_force_release(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_force{{lock_.get()}}, token, lock_,
                                                                        std::optional<std::int64_t>{});
  }

  /// The same for one holder only, as async_inspect showed it: if the lock has another holder by now, that one keeps
  /// it. It may be repeated, and is repeated after a reconnect.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_force_release(lock_holder const& holder, Token&& token = {}) const {
    return async_force_release(holder.fence, std::forward<Token>(token));
  }

  /// The same for the holder with this fencing token. If it is not positive: errc::invalid_config, without a message.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_force_release(std::int64_t fence, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_force{{lock_.get()}}, token, lock_,
                                                                        std::optional{fence});
  }

  /// Asks the holders to let the lock go, and takes nothing away: each continues or releases, as its program decides
  /// (hold::async_requested).
  ///
  /// Effects: one script records the request until the current leases end, and pushes a message to each holder. It
  /// gives no place in the queue: also acquire the lock if you want it. Of more than 100 holders it asks those with the
  /// lowest fences; of more than 1000, none.
  /// Result: the number of holders that were asked; 0: there is none. It does not tell whether they listen:
  /// async_inspect shows which were asked.
  /// Completion signature: void(error_code, std::uint32_t)
  /// Lifetimes, executor, cancellation, thread safety: as async_force_release.
  /// Errors: those of async_inspect. It is repeated after a reconnect; a holder that receives it twice reports it once.
  /// Round trips: one, and a push for each holder.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_request_release(Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_request{{lock_.get()}}, token, lock_,
                                                                        std::optional<std::int64_t>{});
  }

  /// The same for one holder only: if the lock has another holder by now, that one is not asked.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_request_release(lock_holder const& of, Token&& token = {}) const {
    return async_request_release(of.fence, std::forward<Token>(token));
  }

  /// The same for the holder with this fencing token. A token that is not positive: errc::invalid_config, without a
  /// message.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_request_release(std::int64_t fence, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_request{{lock_.get()}}, token, lock_,
                                                                        std::optional{fence});
  }

  /// Waits until no client holds the lock, and takes nothing: at once if it is free, else when it is released or the
  /// last lease ends.
  ///
  /// Effects: the server registers the watchers and notifies all of them by a push when the lock becomes free, even if
  /// another client acquires it right after that. It is not a place in the queue: acquires go first, and a lock that
  /// passes from waiter to waiter is never free. A lock with several owners is free when no permit, reader or segment
  /// is held. After a lease that ended without a release: up to a claim later.
  /// `wait`: at most this long; 0 or less: one question.
  /// Completion signature: void(error_code)
  /// Lifetimes, executor, cancellation, thread safety: as async_inspect.
  /// Errors: those of async_inspect; errc::timed_out when `wait` is over.
  /// Round trips: one, and a push. While it waits: one question at the end of each lease that the server reported, and
  /// one on a new connection.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_wait_free(duration wait, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_wait_free{{lock_.get()}}, token, lock_, wait);
  }

  /// The same for as long as it takes.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_wait_free(Token&& token = {}) const {
    return async_wait_free(duration::max(), std::forward<Token>(token));
  }

 protected:
  explicit named_lock(detail::settings_ptr lock) noexcept : lock_{std::move(lock)} {}
  // A move copies: a lock that was moved from is still that lock.
  named_lock(named_lock const&) = default;
  named_lock& operator=(named_lock const&) = default;
  ~named_lock() = default;

  detail::settings_ptr lock_;

 private:
  struct initiate_inspect : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock) const {
      detail::start_inspect(std::move(lock), std::forward<Handler>(handler));
    }
  };
  struct initiate_why : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock) const {
      detail::start_why(std::move(lock), std::forward<Handler>(handler));
    }
  };
  struct initiate_request : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, std::optional<std::int64_t> fence) const {
      detail::start_request(lock, fence, std::forward<Handler>(handler));
    }
  };
  struct initiate_wait_free : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, duration wait) const {
      detail::start_wait_free(std::move(lock), wait, std::forward<Handler>(handler));
    }
  };
  struct initiate_force : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, std::optional<std::int64_t> fence) const {
      detail::start_force(lock, fence, std::forward<Handler>(handler));
    }
  };
};

}  // namespace conch
