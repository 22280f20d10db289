// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace conch {

namespace detail {

template <class T>
struct awaited {
  static constexpr bool is_awaitable = false;
  using type = void;
};
template <class T, class Executor>
struct awaited<asio::awaitable<T, Executor>> {
  static constexpr bool is_awaitable = true;
  using type = T;
};

/// A strand over `ex`, or `ex` itself if it is a strand. So the body of a nested with_lock runs on the strand of the
/// outer one. With a strand over a strand each step would cost more with each level.
inline asio::any_io_executor strand_over(asio::any_io_executor ex) {
  using any_strand = asio::strand<asio::any_io_executor>;
  using context_strand = asio::strand<asio::io_context::executor_type>;
  if (ex.target<any_strand>() != nullptr || ex.target<context_strand>() != nullptr) return ex;
  return any_strand{std::move(ex)};
}

/// The state of one with_lock. Its body runs on a strand: a loss and a cancellation by the caller come from different
/// threads, and reach the body one after the other.
template <class Hold>
struct guarded_body {
  explicit guarded_body(asio::any_io_executor const& ex) : callers{ex}, strand{strand_over(ex)} {}

  asio::any_io_executor callers;
  asio::any_io_executor strand;
  asio::cancellation_signal stop_body;
  asio::cancellation_signal stop_watching;
  Hold hold;
  error_code lost;
};

/// Runs the body under state->hold and completes, as one Asio operation, when it has ended.
template <class T>
using body_signature =
    std::conditional_t<std::is_void_v<T>, std::type_identity<void(std::exception_ptr)>,
                       std::type_identity<void(std::exception_ptr, std::conditional_t<std::is_void_v<T>, int, T>)>>;

template <class T, class Hold, class Body>
struct start_body {
  template <class Handler>
  void operator()(Handler handler, std::shared_ptr<guarded_body<Hold>> state, Body* body) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      slot.assign([state](asio::cancellation_type type) {
        asio::dispatch(state->strand, [state, type] { state->stop_body.emit(type); });
      });
    }
    // This operation uses the caller's slot now. The body gets a signal that merges both reasons to stop.
    auto const ex = asio::get_associated_executor(handler, state->callers);
    auto done = [handler = std::move(handler), state, slot, ex](std::exception_ptr error, auto... result) mutable {
      state->stop_watching.emit(asio::cancellation_type::all);
      asio::post(ex, [handler = std::move(handler), slot, error,
                      results = std::tuple<decltype(result)...>{std::move(result)...}]() mutable {
        if (slot.is_connected()) {
          auto mine = slot;
          mine.clear();
        }
        std::apply([&](auto&&... r) { std::move(handler)(error, std::move(r)...); }, std::move(results));
      });
    };
    asio::dispatch(state->strand, [state, body, done = std::move(done)]() mutable {
      auto on_lost = [state](error_code why) {
        if (why == asio::error::operation_aborted) return;
        state->lost = why;
        state->stop_body.emit(asio::cancellation_type::terminal);
      };
      state->hold.async_lost(asio::bind_cancellation_slot(state->stop_watching.slot(),
                                                          asio::bind_executor(state->strand, std::move(on_lost))));
      asio::co_spawn(
          state->strand, (*body)(state->hold),
          asio::bind_cancellation_slot(state->stop_body.slot(), asio::bind_executor(state->strand, std::move(done))));
    });
  }
};

/// The type of a lock's holds: `hold`, unless the lock names another hold_type.
template <class Lock>
struct hold_of {
  using type = hold;
};
template <class Lock>
requires requires { typename Lock::hold_type; }
struct hold_of<Lock> {
  using type = typename Lock::hold_type;
};
template <class Lock>
using hold_of_t = typename hold_of<Lock>::type;

/// What a body under a lock results in. The sentences explain a body that does not fit.
template <class Lock, class Body>
struct body_result {
  static constexpr bool takes_hold = std::is_invocable_v<Body&, hold_of_t<Lock>&>;
  static_assert(takes_hold,
                "conch::with_lock: the body is called with a hold of the lock, as [](conch::hold&) -> "
                "boost::asio::awaitable<void>; "
                "for a reentrant_mutex with a reentrant_hold&, for a multi_lock with a multi_hold&");
  using returned = typename std::conditional_t<takes_hold, std::invoke_result<Body&, hold_of_t<Lock>&>,
                                               std::type_identity<asio::awaitable<void>>>::type;
  static_assert(awaited<returned>::is_awaitable,
                "conch::with_lock: the body is a coroutine, which returns a boost::asio::awaitable");
  using type = typename awaited<returned>::type;
};
template <class Lock, class Body>
using body_result_t = typename body_result<Lock, Body>::type;

}  // namespace detail

/// A lock that with_lock can hold: a mutex, a semaphore (one permit), a shared_mutex, a striped_mutex (any segment), a
/// multi_lock.
template <class L>
concept lockable = requires(L& l, acquire_options options) {
  requires !std::is_void_v<decltype(l.async_acquire(options, asio::use_awaitable))>;
};

/// Runs `body` under the lock.
///
/// `body` is called as `body(hold&)`, or with the lock's hold_type, and returns an asio::awaitable. It is cancelled
/// (terminal) when the lock is lost, and when the caller is cancelled. The lock is released in every case, also when
/// the body throws. The release is awaited.
///
/// Result: what the body returns. Throws what the body throws; the errors of mutex::async_acquire;
/// system_error{errc::lost} if the hold was lost before the body ended, and the body ended by that cancellation or by
/// returning.
/// Lifetimes: `body`, a named object, and the lock must outlive the awaitable.
/// Executor: the body runs on a strand of the caller's executor, or on that executor if it is a strand. Per-operation
/// cancellation: while waiting as mutex::async_acquire. Then it is passed on to the body; the result or exception of
/// the body is that of with_lock.
/// Thread safety: as client.
/// Round trips: those of acquire and release.
template <lockable Lock, class Body>
auto with_lock(Lock& m, acquire_options options, Body& body) -> asio::awaitable<detail::body_result_t<Lock, Body>> {
  using result = detail::body_result_t<Lock, Body>;
  using signature = typename detail::body_signature<result>::type;

  auto const executor = co_await asio::this_coro::executor;
  auto const state = std::make_shared<detail::guarded_body<detail::hold_of_t<Lock>>>(executor);
  state->hold = co_await m.async_acquire(options, asio::use_awaitable);

  // A cancellation may end the body and this coroutine. The release comes first in any case.
  bool const throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  std::exception_ptr failure;
  std::optional<std::conditional_t<std::is_void_v<result>, std::monostate, result>> value;
  try {
    auto running = asio::async_initiate<asio::use_awaitable_t<> const, signature>(
        detail::start_body<result, detail::hold_of_t<Lock>, Body>{}, asio::use_awaitable, state, &body);
    if constexpr (std::is_void_v<result>) {
      co_await std::move(running);
      value.emplace();
    } else {
      result ended = co_await std::move(running);
      value.emplace(std::move(ended));
    }
  } catch (...) {
    failure = std::current_exception();
  }
  auto released = co_await state->hold.async_release(asio::as_tuple(asio::use_awaitable));
  bool const was_held = std::get<1>(released);
  co_await asio::this_coro::throw_if_cancelled(throws);

  if (!was_held && state->lost) failure = std::make_exception_ptr(boost::system::system_error{state->lost});
  if (failure) std::rethrow_exception(failure);
  if constexpr (!std::is_void_v<result>) co_return std::move(*value);
}

/// The same, and waits until granted.
template <lockable Lock, class Body>
auto with_lock(Lock& m, Body& body) {
  return with_lock(m, acquire_options{}, body);
}
/// @cond
/// Not for bodies without a name, which end before the awaitable is awaited.
template <lockable Lock, class Body>
requires(!std::is_lvalue_reference_v<Body>) void with_lock(Lock&, acquire_options, Body&&) {
  static_assert(detail::never<Body>,
                "conch::with_lock: give the body a name (auto body = ...; co_await conch::with_lock(m, body)): it must "
                "outlive the awaitable");
}
template <lockable Lock, class Body>
requires(!std::is_lvalue_reference_v<Body>) void with_lock(Lock& m, Body&& body) {
  with_lock(m, acquire_options{}, std::forward<Body>(body));
}

/// Not in this order.
template <lockable Lock, class Body>
void with_lock(Lock&, Body&&, acquire_options) {
  static_assert(detail::never<Body>,
                "conch::with_lock: the options come before the body, as in with_lock(m, {.wait = 2s}, body)");
}

/// Not with a bare duration.
template <lockable Lock, class Rep, class Period, class Body>
void with_lock(Lock&, std::chrono::duration<Rep, Period>, Body&&) {
  static_assert(detail::never<Body>,
                "conch::with_lock: the time to wait is an option, as in with_lock(m, {.wait = 2s}, body)");
}

/// Not for types that are not locks.
template <class NoLock, class... Arguments>
requires(!lockable<NoLock>) void with_lock(NoLock&, Arguments&&...) {
  static_assert(detail::never<NoLock>,
                "conch::with_lock: the first argument is a lock, with async_acquire(acquire_options, token); of a "
                "reentrant_mutex: for_owner(me)");
}
/// @endcond
}  // namespace conch
