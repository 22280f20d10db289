// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/client.hpp>
#include <conch/detail/api.hpp>
#include <conch/hold.hpp>
#include <conch/named_lock.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace conch {

class owner;

/// The options of one lock object, for all acquires made through it. Every kind of lock takes them.
struct lock_options {
  /// How long the lock outlives a holder that has died. Empty: config::lease. 100 ms to 1 day; over several servers not
  /// less than quorum_config::vote_claim. If it is shorter than config::claim, it replaces that claim when the lock is
  /// passed on, and a third of it replaces config::command_timeout for its renewals.
  std::optional<duration> lease = std::nullopt;
  /// False: the lease is not renewed. The hold ends when the lease ends, even if its holder is alive. If the lock was
  /// waited for, a lease longer than config::claim begins up to a third of that claim after the grant.
  bool renew = true;
  /// Empty: config::max_hold. At least 1 ms.
  std::optional<duration> max_hold = std::nullopt;
};

/// The older name of lock_options.
using mutex_options = lock_options;

/// The options of one acquire, of every kind of lock. Trivially destructible, so that `co_await m.async_acquire({.wait
/// = 2s})` is safe on g++ 12. If `lease`, `max_hold` or `at_least` is out of range the acquire completes with
/// errc::invalid_config, without a message.
struct acquire_options {
  /// How long to wait. Empty, or duration::max(): until granted. The acquire ends then, whatever the server does; only
  /// an answer that is under way is awaited for a few usual round trips (docs/cancellation.md). 0 or less: one complete
  /// attempt, as a try makes. It connects (errc::unreachable after config::offline_timeout), sends the script if the
  /// server does not know it, and takes the lock if it is free. Else it ends with errc::timed_out, at once if this
  /// process holds the lock or asks for it.
  std::optional<duration> wait = std::nullopt;
  /// How long this hold outlives its holder if that dies. Empty: lock_options::lease, whose range counts here, too.
  std::optional<duration> lease = std::nullopt;
  /// False: the hold ends when its lease ends. Empty: lock_options::renew.
  std::optional<bool> renew = std::nullopt;
  /// How long the watchdog renews this hold, at least 1 ms. Empty: lock_options::max_hold.
  std::optional<duration> max_hold = std::nullopt;
  /// The minimum interval between grants: nobody is granted the lock, this client included, before this time since the
  /// grant has passed by the server's clock, however early the hold ends (docs/guarantees.md, P14). A release returns
  /// at once, and until then the lock is shown as held. 0: off; to 1 day. For a mutex; else the acquire ends with
  /// errc::not_supported. The hold cannot be detached.
  duration at_least = duration::zero();
  /// Says what the hold is for, wherever it is shown: "order 17, build 812". Up to 128 bytes of printable UTF-8; it
  /// must live until the acquire is initiated. All users that may read the lock on the server can read it
  /// (async_inspect, `conch status`). Costs one message when the acquire begins, when it is granted and when the hold
  /// ends; no caller waits for them.
  std::string_view note{};
  /// The task that asks; it must live until the acquire is initiated. Pass the same owner to all acquires of a task, so
  /// that named_lock::async_why and `conch why` can show which task blocks which. Costs nothing until the acquire or
  /// its hold is a second old; then as a note. Without one, the task of a reentrant lock is its owner.
  owner const* task = nullptr;
};
static_assert(std::is_trivially_destructible_v<acquire_options>);

namespace detail {

template <class...>
constexpr bool never = false;

template <class T>
constexpr bool is_duration = false;
template <class Rep, class Period>
constexpr bool is_duration<std::chrono::duration<Rep, Period>> = true;

/// The arguments of a call whose author took the time to wait for a parameter.
template <class... Arguments>
concept with_a_duration = (is_duration<std::remove_cvref_t<Arguments>> || ...);

/// For the mistakes that are easily made with a function of this name: a sentence, instead of all the candidates that
/// do not fit. `hold_type`: what the function results in.
#define CONCH_DETAIL_MISTAKES_OF_ACQUIRE(name, hold_type)                                                       \
  template <class... Arguments>                                                                                 \
  requires(::conch::detail::with_a_duration<Arguments...>) void name(Arguments&&...) {                          \
    static_assert(::conch::detail::never<Arguments...>,                                                         \
                  "conch: the time to wait is an option, as in " #name "({.wait = 2s})");                       \
  }                                                                                                             \
  template <::boost::asio::completion_token_for<void(::conch::error_code, hold_type)> Token>                    \
  void name(Token&&, ::conch::acquire_options) {                                                                \
    static_assert(::conch::detail::never<Token>,                                                                \
                  "conch: the options come before the completion token, as in " #name "({.wait = 2s}, token)"); \
  }
#define CONCH_DETAIL_MISTAKES_OF_TRY(name, acquire)                                                   \
  template <class... Arguments>                                                                       \
  void name(::conch::acquire_options, Arguments&&...) {                                               \
    static_assert(::conch::detail::never<Arguments...>,                                               \
                  "conch: a try does not wait and has no options: " #acquire "({.wait = 2s}) waits"); \
  }                                                                                                   \
  template <class... Arguments>                                                                       \
  requires(::conch::detail::with_a_duration<Arguments...>) void name(Arguments&&...) {                \
    static_assert(::conch::detail::never<Arguments...>,                                               \
                  "conch: a try does not wait: " #acquire "({.wait = 2s}) does");                     \
  }

CONCH_API asio::any_io_executor const& own_executor_of(settings_ptr const& lock) noexcept;

CONCH_API void start_acquire(settings_ptr lock, acquire_options const& options, bool once, acquire_handler handler,
                             bool on_own_executor = false);

/// The permit of a lock with several owners that an acquire wants.
struct permit_request {
  char kind;  // as in src/cohort/permit.hpp
  std::uint32_t limit, weight;
  std::string excluded_segments = "-";
  bool all_free = false;
};

CONCH_API void start_acquire_permit(settings_ptr lock, permit_request permit, acquire_options const& options, bool once,
                                    acquire_handler handler, bool on_own_executor = false);

struct initiate_permit : initiation_at<lock_settings> {
  template <class Handler>
  void operator()(Handler&& handler, settings_ptr lock, permit_request permit, acquire_options const& options,
                  bool once) const {
    bool const on_own_executor = runs_on_client_executor(own_executor_of(lock), handler);
    start_acquire_permit(std::move(lock), std::move(permit), options, once, std::forward<Handler>(handler),
                         on_own_executor);
  }
};

/// `permit`: its weight does not count. A kind of 0 is a mutex.
CONCH_API void start_adopt(settings_ptr lock, permit_request permit, std::string detached, acquire_handler handler,
                           bool on_own_executor = false);

struct initiate_adopt : initiation_at<lock_settings> {
  template <class Handler>
  void operator()(Handler&& handler, settings_ptr lock, permit_request permit, std::string detached) const {
    bool const on_own_executor = runs_on_client_executor(own_executor_of(lock), handler);
    start_adopt(std::move(lock), std::move(permit), std::move(detached), std::forward<Handler>(handler),
                on_own_executor);
  }
};

}  // namespace detail

/// A lock by its name. It costs nothing on the server until it is acquired. Several objects of one name are one lock.
/// Copies are cheap. Thread safety: as client.
class mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API mutex(client& through, std::string name, lock_options options = {});

  /// Waits for the lock.
  ///
  /// Effects: the acquire joins the local queue. The client has one place in the server's queue, for the first of its
  /// local queue.
  /// Result: a hold, or an error; never both, and never a lock left behind.
  /// Lifetimes: nothing needs to outlive the operation; a client that is destroyed ends it with errc::closed.
  /// Completion signature: void(error_code, hold)
  /// Executor: the handler's associated one, else the client's. Never completes inside the initiating function.
  /// Per-operation cancellation: terminal: reports operation_aborted at once, and cleans up in the background. partial:
  /// reports once the server has confirmed. total: a grant that is already on its way is still delivered. See
  /// docs/cancellation.md.
  /// Errors: operation_aborted, errc::timed_out, errc::unreachable, errc::closed, errc::access_denied,
  /// errc::wrong_type, errc::server_refused, errc::protocol. After a wait of a second or more, timed_out names the
  /// holder, if the server answers in time.
  /// Thread safety: as client.
  /// Round trips: one if the lock is free; none if it is handed off in this process; else one and a push. A wait of a
  /// second or more that times out costs up to two more: shortly before its end, once for all that wait for the lock.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(initiate_acquire{{lock_.get()}}, token, lock_, options,
                                                               false);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(initiate_acquire{{lock_.get()}}, token, lock_, false);
  }

  /// Takes the lock if it is free. An empty hold, without an error, means that the lock is held or asked for. Never
  /// joins the queue. It is one complete attempt, as with `.wait = 0`. Otherwise as async_acquire. Round trips: one;
  /// none if this process has the lock or asks for it.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(initiate_acquire{{lock_.get()}}, token, lock_, true);
  }

  /// Takes over a hold of this lock that hold::async_detach has let go, here or in another process.
  ///
  /// Effects: the hold has the lease that it had, from now on, and what this object's options say of renewal and
  /// max_hold. No other client is granted the lock in between. If several try, exactly one gets it. It never queues,
  /// and does not wait for coroutines of this client that hold or want the lock: it acts as another client would, and
  /// its release goes to the server.
  /// Result: a hold, or an error; never both. Its token is greater than that of the hold that was detached (the same
  /// after 4095 hand-offs in a row without a new grant), and smaller than that of the next grant.
  /// Lifetimes, executor, cancellation, thread safety: as async_acquire. An operation that is cancelled may have taken
  /// the hold over: then it is released. Otherwise the text is as good as before.
  /// Completion signature: void(error_code, hold)
  /// Errors: those of async_acquire. errc::lost: it was taken over, or has ended, by its lease or an operator.
  /// errc::invalid_config: the text is not what async_detach gives, or is of another lock; without a message.
  /// errc::not_supported over several servers.
  /// Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_adopt(std::string detached, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_adopt{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{0, 1, 1}, std::move(detached));
  }

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire, hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire, async_acquire)
  /// @endcond

 private:
  friend class multi_lock;

  struct initiate_acquire : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, acquire_options const& options, bool once) const {
      bool const on_own_executor = detail::runs_on_client_executor(detail::own_executor_of(lock), handler);
      detail::start_acquire(std::move(lock), options, once, std::forward<Handler>(handler), on_own_executor);
    }

    // Options that nobody gave need not be kept by each coroutine that waits.
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, bool once) const {
      (*this)(std::forward<Handler>(handler), std::move(lock), acquire_options{}, once);
    }
  };
};

}  // namespace conch
