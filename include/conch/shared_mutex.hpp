// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace conch {

/// One writer, or any number of readers (up to 1'000'000), by a name.
///
/// Those who wait are served in the order in which they asked, readers that stand next to each other together; so neither
/// readers nor writers starve. Each holder has its own lease and watchdog: a reader that dies delays a writer by its lease
/// at most. Each hold has its own fencing token: a writer's is greater than those of all readers before it.
///
/// There is no upgrade from reader to writer: two readers that both wait for it would wait for each other. Release, and
/// acquire as a writer; what was read has to be read again.
///
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported.
class shared_mutex {
 public:
  using executor_type = asio::any_io_executor;

  /// `name`: 1 to 512 bytes of any value; another kind of lock of that name is the same key, and either finds
  /// errc::wrong_type while the other is in use.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  shared_mutex(client& owner, std::string name, lock_options options = {});

  executor_type get_executor() const noexcept;
  std::string const& name() const noexcept { return lock_->name; }

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

  /// The same lock for with_lock, taken as a reader: `auto reading = m.readers(); co_await with_lock(reading, body);`
  class shared_view;
  shared_view readers() const;

 private:
  static constexpr std::uint32_t everything = 1'000'000;

  template <class Token>
  auto start(std::uint32_t weight, std::optional<duration> wait, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(
        detail::initiate_part{}, token, lock_, detail::part_request{'r', everything, weight}, wait, once);
  }

  detail::settings_ptr lock_;
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

 private:
  shared_mutex of_;
};

inline shared_mutex::shared_view shared_mutex::readers() const { return shared_view{*this}; }

}  // namespace conch
