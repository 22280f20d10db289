// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace conch {

/// N permits by a name: up to N holders at a time, or fewer that take several permits at once.
///
/// Each hold has its own lease, watchdog and fencing token; the permits of a process that dies come back with their
/// lease. Those who wait are served in the order in which they asked: a large request at the head of the line is not
/// overtaken by small ones behind it.
///
/// Objects of one name should agree on N. While permits are held or waited for, that of whoever came first counts.
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported, since N majorities do not
/// bound a count.
class semaphore {
 public:
  using executor_type = asio::any_io_executor;

  /// `name`: 1 to 512 bytes of any value; a mutex of that name is the same key, and either finds errc::wrong_type while
  /// the other is in use. `permits`: 1 to 1'000'000.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  semaphore(client& owner, std::string name, std::uint32_t permits, lock_options options = {});

  executor_type get_executor() const noexcept;
  std::string const& name() const noexcept { return lock_->name; }
  std::uint32_t permits() const noexcept { return permits_; }

  /// Waits for `count` permits at once.
  ///
  /// Effects: stands in the server's line, each acquire on its own.
  /// Result: one hold for all of them, or an error; never both, and never a permit left behind.
  /// Preconditions: 1 <= count <= permits(); else it completes with errc::invalid_config. (Where the limit was lowered
  /// below `count` meanwhile, it is granted when everything is free.)
  /// Lifetimes, executor, cancellation, thread safety: as mutex::async_acquire.
  /// Completion signature: void(error_code, hold)
  /// Errors: those of mutex::async_acquire, and errc::invalid_config, errc::not_supported.
  /// Round trips: one if there are enough permits; else one and a push.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(std::uint32_t count, acquire_options options, Token&& token = {}) {
    return start(count, options.wait, false, token);
  }

  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(std::uint32_t count, Token&& token = {}) {
    return start(count, std::nullopt, false, token);
  }

  /// One permit.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(acquire_options options, Token&& token = {}) {
    return start(1, options.wait, false, token);
  }

  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_acquire(Token&& token = {}) {
    return start(1, std::nullopt, false, token);
  }

  /// Takes `count` permits if that many are free and nobody waits. An empty hold means that they are not: no error.
  /// Otherwise as async_acquire. Round trips: one.
  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(std::uint32_t count, Token&& token = {}) {
    return start(count, std::nullopt, true, token);
  }

  template <asio::completion_token_for<void(error_code, hold)> Token = asio::deferred_t>
  auto async_try_acquire(Token&& token = {}) {
    return start(1, std::nullopt, true, token);
  }

 private:
  template <class Token>
  auto start(std::uint32_t count, std::optional<duration> wait, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(
        detail::initiate_part{}, token, lock_, detail::part_request{'s', permits_, count}, wait, once);
  }

  detail::settings_ptr lock_;
  std::uint32_t permits_;
};

}  // namespace conch
