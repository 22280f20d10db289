// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace conch {

namespace detail {
void start_set_permits(settings_ptr lock, std::uint32_t permits, force_handler handler);
}  // namespace detail

/// N permits by a name: up to N holders at a time, or fewer that take several permits at once.
///
/// Each hold has its own lease, watchdog and fencing token; the permits of a process that dies come back with their
/// lease. Those who wait are served in the order in which they asked: a large request at the head of the line is not
/// overtaken by small ones behind it.
///
/// Objects of one name should agree on N. If they do not, the N of whoever came first counts for all, as long as permits are held;
/// then that of whoever comes next. A number that was set (async_set_permits) counts instead of all of these, until nobody has
/// acquired or released for a lease and for config::fence_retention.
/// Copies are cheap. Thread safety: as client. Over a quorum of servers: errc::not_supported, since N majorities do not
/// bound a count.
class semaphore : public named_lock {
 public:
  /// `name`: 1 to 512 bytes of any value; a mutex of that name is the same key, and either finds errc::wrong_type while
  /// the other is in use. `permits`: 1 to 1'000'000.
  /// Throws boost::system::system_error: errc::invalid_name, errc::invalid_config.
  semaphore(client& owner, std::string name, std::uint32_t permits, lock_options options = {});

  /// What this object was made with. What counts on the server is lock_status::limit.
  std::uint32_t permits() const noexcept { return permits_; }

  /// Waits for `count` permits at once.
  ///
  /// Effects: stands in the server's line, each acquire on its own.
  /// Result: one hold for all of them, or an error; never both, and never a permit left behind.
  /// Preconditions: 1 <= count <= 1'000'000; else it completes with errc::invalid_config. What there is says the server, not
  /// permits(): the limit may have been set. Who asks for more than the limit waits until everything is free, and is granted all of it.
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

  /// Sets the limit for all, whatever number their objects were made with, while permits are in use or not.
  ///
  /// Effects: what a greater limit frees goes to those in line at once. With a smaller one everybody keeps what he holds, and
  /// nobody gets more until what is out and what he asks for fit. Of two that set it the last one counts.
  /// Result: how many permits are out now.
  /// Preconditions: 1 <= permits <= 1'000'000; else it completes with errc::invalid_config.
  /// Completion signature: void(error_code, std::uint32_t)
  /// Lifetimes, executor, thread safety: as async_inspect.
  /// Per-operation cancellation: as async_inspect; what was sent is carried out all the same.
  /// Errors: those of async_inspect, and errc::invalid_config.
  /// Round trips: one, and a push for each that comes in.
  template <asio::completion_token_for<void(error_code, std::uint32_t)> Token = asio::deferred_t>
  auto async_set_permits(std::uint32_t permits, Token&& token = {}) const {
    return asio::async_initiate<Token, void(error_code, std::uint32_t)>(initiate_set_permits{{lock_.get()}}, token, lock_, permits);
  }

 private:
  struct initiate_set_permits : detail::initiation_at<detail::lock_settings> {
    template <class Handler>
    void operator()(Handler&& handler, detail::settings_ptr lock, std::uint32_t permits) const {
      detail::start_set_permits(std::move(lock), permits, std::forward<Handler>(handler));
    }
  };

  template <class Token>
  auto start(std::uint32_t count, std::optional<duration> wait, bool once, Token& token) {
    return asio::async_initiate<Token, void(error_code, hold)>(detail::initiate_part{{lock_.get()}}, token, lock_,
                                                               detail::permit_request{'s', permits_, count}, wait, once);
  }

  std::uint32_t permits_;
};

}  // namespace conch
