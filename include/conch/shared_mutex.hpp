// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace conch {

namespace detail {
using order_handler = asio::any_completion_handler<void(error_code)>;
void start_downgrade(settings_ptr lock, node_ref writer, order_handler handler);
void refuse_upgrade(settings_ptr const& lock, order_handler handler);
}  // namespace detail

/// One writer, or any number of readers (up to 1'000'000), by a name.
///
/// Those who wait are served in the order in which they asked, readers that stand next to each other together; so neither
/// readers nor writers starve. Each holder has its own lease and watchdog: a reader that dies delays a writer by its lease
/// at most. Each hold has its own fencing token: a writer's is greater than those of all readers before it.
///
/// A writer can become a reader without letting go (async_downgrade). There is no way back: two readers that both wait for it
/// would wait for each other. Release, and acquire as a writer; what was read has to be read again.
///
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported.
class shared_mutex : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value; another kind of lock of that name is the same key, and either finds
  /// errc::wrong_type while the other is in use.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  shared_mutex(client& owner, std::string name, lock_options options = {});

  /// Waits to be the only holder, a writer.
  ///
  /// Effects: stands in the server's line, each acquire on its own.
  /// Result: a hold, or an error; never both, and never a lock left behind.
  /// Lifetimes, executor, cancellation, errors, thread safety: as mutex::async_acquire; errc::not_supported.
  /// Completion signature: void(error_code, hold)
  /// Round trips: one if it is free; else one and a push.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(everything, options.wait, false, token);
  }

  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return start(everything, std::nullopt, false, token);
  }

  /// As a writer, if nobody holds it or waits. An empty hold means that somebody does: not an error. Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start(everything, std::nullopt, true, token);
  }

  /// Waits until no writer holds it or waits in front, and is one of the readers. Otherwise as async_acquire.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_shared(acquire_options options, Token&& token = {}) {
    return start(1, options.wait, false, token);
  }

  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire_shared(Token&& token = {}) {
    return start(1, std::nullopt, false, token);
  }

  /// As a reader, if no writer holds it or waits. Otherwise as async_try_acquire.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire_shared(Token&& token = {}) {
    return start(1, std::nullopt, true, token);
  }

  /// Makes a writer's hold a reader's, without letting go: no other writer comes in between.
  ///
  /// Effects: readers at the head of the line come in. The hold keeps its token, its lease and its watchdog. From the initiation
  /// on it must not be used to write.
  /// Result: an error, or none. A reader's hold stays what it is, without a message.
  /// Lifetimes: the hold may be moved or released meanwhile.
  /// Completion signature: void(error_code)
  /// Executor, per-operation cancellation: as async_inspect; what was sent is carried out all the same.
  /// Errors: errc::not_held (empty, released, or of another lock), errc::lost, errc::unreachable (may be repeated), and those of
  /// async_inspect.
  /// Thread safety: as client.
  /// Round trips: one, and a push for each reader that comes in.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_downgrade(hold const& writer, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_downgrade{{lock_.get()}}, token, lock_, writer.node());
  }

  /// Always completes with errc::would_deadlock, and leaves the reader's hold as it is. It is here to say so: a second
  /// async_acquire by the same coroutine would wait for its own hold for ever.
  ///
  /// Completion signature: void(error_code)
  /// Executor: as async_downgrade. Round trips: none.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_upgrade(hold const&, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code)>(initiate_upgrade{{lock_.get()}}, token, lock_);
  }

  /// The same lock for with_lock, taken as a reader: `auto reading = m.readers(); co_await with_lock(reading, body);`
  class shared_view;
  shared_view readers() const;

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
  auto start(std::uint32_t weight, std::optional<duration> wait, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_part{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'r', everything, weight}, wait, once);
  }
};

/// What readers() answers. Copies are cheap. Thread safety: as client.
class shared_mutex::shared_view {
 public:
  explicit shared_view(shared_mutex of) : of_{std::move(of)} {}

  /// shared_mutex::async_acquire_shared.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return of_.async_acquire_shared(options, std::forward<Token>(token));
  }

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
