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
using order_handler = asio::any_completion_handler<void(error_code)>;
CONCH_API void start_downgrade(settings_ptr lock, node_ref writer, order_handler handler);
CONCH_API void refuse_upgrade(settings_ptr const& lock, order_handler handler);
}  // namespace detail

/// A lock by its name with one writer, or any number of readers (up to 1'000'000).
///
/// Waiters are served in the order in which they asked. Adjacent readers are granted together. So neither readers nor
/// writers starve. Each hold has its own lease: a reader that dies delays a writer by at most that lease. Each hold has
/// its own fencing token: that of a writer is greater than those of all readers before it.
///
/// A writer can become a reader without a release (async_downgrade). A reader cannot become a writer: two readers would
/// wait for each other. Release, acquire as a writer, and read again what was read.
///
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported.
class shared_mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value. A lock of another kind under the same name uses the same key: each fails with
  /// errc::wrong_type while the other is in use.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  CONCH_API shared_mutex(client& through, std::string name, lock_options options = {});

  /// Acquires as a writer: waits to be the only holder.
  ///
  /// Effects: each acquire has its own place in the server's queue.
  /// Result: a hold, or an error; never both, and never a lock left behind.
  /// Lifetimes, executor, cancellation, errors, thread safety: as mutex::async_acquire; errc::not_supported.
  /// Completion signature: void(error_code, hold)
  /// Round trips: one if the lock is free; else one and a push.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(everything, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return start(everything, {}, false, token);
  }

  /// Takes the lock as a writer if it is free and no client waits. Otherwise the hold is empty, without an error. Round
  /// trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start(everything, {}, true, token);
  }

  /// Acquires as a reader: waits until no writer holds the lock or waits in front. Otherwise as async_acquire.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_shared(acquire_options options, Token&& token = {}) {
    return start(1, options, false, token);
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_shared(Token&& token = {}) {
    return start(1, {}, false, token);
  }

  /// Takes the lock as a reader if no writer holds it or waits. Otherwise as async_try_acquire.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire_shared(Token&& token = {}) {
    return start(1, {}, true, token);
  }

  /// Takes over a writer's or a reader's hold of this lock that hold::async_detach has let go. Otherwise as
  /// mutex::async_adopt.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_adopt(std::string detached, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_adopt{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'r', everything, 1},
                                                               std::move(detached));
  }

  /// Turns a writer's hold into a reader's without releasing it: no other writer is granted in between.
  ///
  /// Effects: readers at the head of the queue are granted. The hold keeps its token, its lease and its watchdog. The
  /// caller must not write under it from the initiation on.
  /// Result: an error, or none. A reader's hold stays as it is, without a message.
  /// Lifetimes: the hold may be moved or released meanwhile.
  /// Completion signature: void(error_code)
  /// Executor, per-operation cancellation: as async_inspect; what was sent is carried out all the same.
  /// Errors: errc::not_held (empty, released, or of another lock), errc::lost, errc::unreachable (may be repeated), and
  /// those of async_inspect.
  /// Thread safety: as client.
  /// Round trips: one, and a push for each reader that is granted.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_downgrade(hold const& writer, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_downgrade{{lock_.get()}}, token, lock_,
                                                         writer.node());
  }

  /// Always completes with errc::would_deadlock. The reader's hold stays as it is. The function is here to say so: a
  /// coroutine that calls async_acquire instead would wait for its own hold forever.
  ///
  /// Completion signature: void(error_code)
  /// Executor: as async_downgrade. Round trips: none.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_upgrade(hold const&, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_upgrade{{lock_.get()}}, token, lock_);
  }

  /// The same lock for with_lock, taken as a reader: `auto reading = m.readers(); co_await with_lock(reading, body);`
  class shared_view;
  [[nodiscard]] shared_view readers() const;  ///< See shared_view.

  /// @cond
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire, hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire, async_acquire)
  CONCH_DETAIL_MISTAKES_OF_ACQUIRE(async_acquire_shared, hold)
  CONCH_DETAIL_MISTAKES_OF_TRY(async_try_acquire_shared, async_acquire_shared)
  /// @endcond

 private:
  static constexpr std::uint32_t everything = 1'000'000;

  struct initiate_downgrade : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, detail::node_ref writer) const {
      detail::start_downgrade(std::move(lock), std::move(writer), std::forward<Handler>(handler));
    }
  };
  struct initiate_upgrade : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr const& lock) const {
      detail::refuse_upgrade(lock, std::forward<Handler>(handler));
    }
  };

  template <class Token>
  auto start(std::uint32_t weight, acquire_options const& options, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_permit{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'r', everything, weight}, options,
                                                               once);
  }
};

/// The result of readers(). Copies are cheap. Thread safety: as client.
class shared_mutex::shared_view {
 public:
  explicit shared_view(shared_mutex of) : of_{std::move(of)} {}  ///< As readers().

  /// shared_mutex::async_acquire_shared.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return of_.async_acquire_shared(options, std::forward<Token>(token));
  }
  /// The same without options: waits until granted.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return of_.async_acquire_shared(std::forward<Token>(token));
  }

  /// shared_mutex::async_try_acquire_shared.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return of_.async_try_acquire_shared(std::forward<Token>(token));
  }

 private:
  shared_mutex of_;
};

inline shared_mutex::shared_view shared_mutex::readers() const { return shared_view{*this}; }

}  // namespace conch
