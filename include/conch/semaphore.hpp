// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/mutex.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace conch {

namespace detail {
CONCH_API void start_set_permits(settings_ptr lock, std::uint32_t permits, force_handler handler);
CONCH_API void start_change_permits(settings_ptr lock, std::int64_t by, std::uint32_t permits, bool if_unset,
                                    force_handler handler);
CONCH_API void start_release_permits(settings_ptr lock, node_ref of, std::uint32_t permits,
                                     asio::any_completion_handler<void(error_code)> handler);
}  // namespace detail

/// N permits under one name. Up to N holders have one each at a time; a holder may take several at once.
///
/// Each hold has its own lease and fencing token. The permits of a process that dies are free again when their leases
/// end. Waiters are served in the order in which they asked: a small request does not overtake a large one in front of
/// it.
///
/// Objects of one name should agree on N. If they do not, the N of the first acquire counts for all while permits are
/// held; then that of the next acquire. A limit set by async_set_permits counts instead of these, until the semaphore
/// has not been acquired or released for a lease and for config::fence_retention.
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported, since N majorities do not
/// bound a count.
class semaphore : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value. A mutex of the same name uses the same key: each fails with errc::wrong_type
  /// while the other is in use. `permits`: 1 to 1'000'000.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API semaphore(client& through, std::string name, std::uint32_t permits, lock_options options = {});

  /// The number that this object was made with. The limit on the server is lock_status::limit.
  std::uint32_t permits() const noexcept { return permits_; }

  /// Waits for `count` permits at once.
  ///
  /// Effects: each acquire has its own place in the server's queue.
  /// Result: one hold for all of them, or an error; never both, and never a permit left behind.
  /// Preconditions: 1 <= count <= 1'000'000; else it completes with errc::invalid_config. The server's limit counts,
  /// not permits(). An acquire of more than the limit waits until all permits are free, and is granted all of them.
  /// Lifetimes, executor, cancellation, thread safety: as mutex::async_acquire.
  /// Completion signature: void(error_code, hold)
  /// Errors: those of mutex::async_acquire, and errc::invalid_config, errc::not_supported.
  /// Round trips: one if there are enough permits; else one and a push.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(std::uint32_t count, acquire_options options, Token&& token = {}) {
    return start(count, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(std::uint32_t count, Token&& token = {}) {
    return start(count, {}, false, token);
  }

  /// One permit.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(1, options, false, token);
  }
  /// One permit, without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return start(1, {}, false, token);
  }

  /// Takes `count` permits if that many are free and no client waits. Otherwise the hold is empty, without an error.
  /// Otherwise as async_acquire. Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(std::uint32_t count, Token&& token = {}) {
    return start(count, {}, true, token);
  }
  /// The same for one permit.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start(1, {}, true, token);
  }

  /// Takes all permits that are free now, if no client waits for one. hold::permits() says how many there were. The
  /// hold is empty, without an error, if none was free. Otherwise as async_try_acquire. Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_drain(Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_permit{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'s', permits_, 0, "-", true},
                                                               acquire_options{}, true);
  }

  /// Adds `by` to the limit, for all objects of this name, or takes `-by` away. What two clients add at a time adds up.
  ///
  /// Effects: as async_set_permits. The limit stays between 1 and 1'000'000. Where the server knows nothing of the
  /// semaphore, permits() of this object is what is added to.
  /// Result: the limit from now on.
  /// Preconditions: by != 0; else it completes with errc::invalid_config.
  /// Completion signature: void(error_code, std::uint32_t)
  /// Lifetimes, executor, cancellation, thread safety, round trips: as async_set_permits.
  /// Errors: those of async_set_permits. errc::unreachable if the connection ended before the answer: whether it was
  /// carried out is not known, and it is not repeated.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_add_permits(std::int32_t by, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_change_permits{{lock_.get()}}, token,
                                                                        lock_, by, permits_, false);
  }

  /// Sets the limit if it was not set before: the first of many processes that start decides. Result: the limit from
  /// now on. Otherwise as async_set_permits.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_set_permits_if_unset(std::uint32_t permits, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_change_permits{{lock_.get()}}, token,
                                                                        lock_, std::int32_t{0}, permits, true);
  }

  /// Takes over a hold of this semaphore, with its permits, that hold::async_detach has let go. Otherwise as
  /// mutex::async_adopt.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_adopt(std::string detached, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_adopt{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'s', permits_, 1},
                                                               std::move(detached));
  }

  /// Gives a part of the permits of a hold back, and keeps the rest.
  ///
  /// Effects: the permits go to the waiters at the head of the queue that they are enough for. The hold keeps its
  /// token, its lease and its watchdog. hold::async_release gives back what is left.
  /// Preconditions: 1 <= permits, and the hold has more; else it completes with errc::invalid_config. A hold that asked
  /// for more than the limit, and was granted all of it, counts as large as it asked.
  /// Lifetimes: the hold may be moved or released meanwhile.
  /// Completion signature: void(error_code)
  /// Executor, per-operation cancellation: as async_inspect; what was sent is carried out all the same.
  /// Errors: errc::not_held (empty, released, or of another lock), errc::lost, errc::unreachable (the permits are given
  /// back when the connection is there again, or with the hold), errc::invalid_config, and those of async_inspect.
  /// Thread safety: as client. Several may be under way at a time.
  /// Round trips: one, and a push for each waiter that is granted its permits.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_release(hold const& of, std::uint32_t permits, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_release_permits{{lock_.get()}}, token, lock_,
                                                         of.node(), permits);
  }

  /// Sets the limit for all objects of this name, whatever number they were made with. Permits may be in use meanwhile.
  ///
  /// Effects: permits that a greater limit adds go to the waiters at once. A smaller limit takes no permit from a
  /// holder; a waiter is granted its permits as soon as they fit. If the limit is set twice, the last one counts.
  /// Result: the number of permits that are held now.
  /// Preconditions: 1 <= permits <= 1'000'000; else it completes with errc::invalid_config.
  /// Completion signature: void(error_code, std::uint32_t)
  /// Lifetimes, executor, thread safety: as async_inspect.
  /// Per-operation cancellation: as async_inspect; what was sent is carried out all the same.
  /// Errors: those of async_inspect, and errc::invalid_config.
  /// Round trips: one, and a push for each waiter that is granted its permits.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_set_permits(std::uint32_t permits, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_set_permits{{lock_.get()}}, token,
                                                                        lock_, permits);
  }

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire, hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire, async_acquire)
  /// @endcond

 private:
  struct initiate_change_permits : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, std::int32_t by, std::uint32_t permits,
                    bool if_unset) const {
      detail::start_change_permits(std::move(lock), by, permits, if_unset, std::forward<Handler>(handler));
    }
  };
  struct initiate_release_permits : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, detail::node_ref of, std::uint32_t permits) const {
      detail::start_release_permits(std::move(lock), std::move(of), permits, std::forward<Handler>(handler));
    }
  };
  struct initiate_set_permits : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, std::uint32_t permits) const {
      detail::start_set_permits(std::move(lock), permits, std::forward<Handler>(handler));
    }
  };

  template <class Token>
  auto start(std::uint32_t count, acquire_options const& options, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_permit{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'s', permits_, count}, options,
                                                               once);
  }

  std::uint32_t permits_;
};

}  // namespace conch
