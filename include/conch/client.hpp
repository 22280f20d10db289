// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>
#include <conch/detail/hold_node.hpp>
#include <conch/error.hpp>
#include <conch/stats.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace conch {

namespace asio = boost::asio;

namespace detail {
class client_core;
using core_ptr = std::shared_ptr<client_core>;
asio::any_io_executor executor_of(client_core const* core) noexcept;
void start_close(core_ptr core, duration timeout, close_handler handler);
}  // namespace detail

/// One place at the lock server, shared by all mutexes made from it: one connection, one timer, one watchdog.
///
/// Connects when it is first needed, and again by itself. As long as it is connected its io_context has work: destroy the
/// client, or close it, for io_context::run() to return.
///
/// Thread safety: everything may be called from any thread that runs the io_context (config::single_threaded: from its one
/// thread).
class client {
 public:
  using executor_type = asio::any_io_executor;

  /// Checks the settings; does no I/O.
  /// Throws boost::system::system_error: errc::invalid_url, errc::invalid_config; what() names the member.
  client(executor_type executor, config settings);
  client(executor_type executor, std::string url) : client{std::move(executor), with_url(std::move(url))} {}
  client(executor_type executor, char const* url) : client{std::move(executor), std::string{url}} {}

  client(client&&) noexcept = default;
  client& operator=(client&&) = delete;

  /// Waiters end with errc::closed, holds are told they are lost; their locks are given back in the background.
  /// Does not block.
  ~client();

  executor_type get_executor() const noexcept;
  /// As they are in force: what follows a short lease is filled in.
  config const& settings() const noexcept;
  /// A snapshot. Takes the client's lock for as long as copying takes.
  statistics stats() const;

  /// 32 hexadecimal digits, made at random for this object: by them others see whose a lock is (lock_holder::client).
  std::string const& id() const noexcept;

  /// Drains: no more acquires (errc::closed), waiters end, holders may finish within `timeout` (0 or less: not at all; duration::max():
  /// as long as they need);
  /// what is still held then is told lost and given back, for which it waits 1 s more at most.
  ///
  /// Completion signature: void(error_code)
  /// Executor: the handler's associated one, else the client's. Never completes inside the initiating function.
  /// Per-operation cancellation: none.
  /// Errors: errc::timed_out if the server did not confirm everything in time (it goes on while the server answers);
  /// errc::closed if it was closed before.
  /// Thread safety: as client.
  /// Round trips: those of the releases.
  template <asio::completion_token_for<void(error_code)> Token = asio::deferred_t>
  auto async_close(duration timeout, Token&& token = {}) {
    return asio::async_initiate<Token, void(error_code)>(initiate_close{{core_.get()}}, token, core_, timeout);
  }

  /// Used by the locks.
  detail::core_ptr const& core() const noexcept { return core_; }

 private:
  struct initiate_close : detail::initiation_at<detail::client_core> {
    template <class Handler>
    void operator()(Handler&& handler, detail::core_ptr core, duration timeout) const {
      detail::start_close(std::move(core), timeout, std::forward<Handler>(handler));
    }
  };

  static config with_url(std::string url) {
    config c;
    c.url = std::move(url);
    return c;
  }

  detail::core_ptr core_;
};

}  // namespace conch
