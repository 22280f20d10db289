// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>
#include <conch/detail/api.hpp>
#include <conch/detail/hold_node.hpp>
#include <conch/error.hpp>
#include <conch/stats.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace conch {

namespace asio = boost::asio;

namespace detail {
class client_core;
using core_ptr = std::shared_ptr<client_core>;
CONCH_API asio::any_io_executor executor_of(client_core const* core) noexcept;
CONCH_API void start_close(core_ptr core, duration timeout, close_handler handler);
}  // namespace detail

/// A client of the lock server. All locks made from it share its one connection, one timer and one watchdog.
///
/// It connects when a lock first needs it, and reconnects by itself. While it is connected its io_context has work:
/// destroy or close the client to let io_context::run() return.
///
/// Thread safety: everything may be called from any thread, whether it runs the io_context or not
/// (config::single_threaded: from the one that runs it). Handlers run on their associated executors.
class client {
 public:
  using executor_type = asio::any_io_executor;  ///< The executor of the io_context or strand that runs the client.

  /// Checks the settings; does no I/O.
  /// Throws boost::system::system_error: errc::invalid_url, errc::invalid_config; what() names the member.
  CONCH_API client(executor_type executor, config settings);
  /// With the URL of the server, and the defaults of all other settings. A template, so that braces mean a config:
  /// `client{ex, {.url = "..."}}`.
  template <class Url>
  requires(std::constructible_from<std::string, Url const&>) client(executor_type executor, Url const& url)
      : client{std::move(executor), with_url(std::string{url})} {}

  /// The same with the executor of an io_context or thread_pool.
  template <class Context>
  requires(std::convertible_to<Context&, asio::execution_context&>) client(Context& context, config settings)
      : client{context.get_executor(), std::move(settings)} {}
  /// The same with a URL.
  template <class Context, class Url>
  requires(std::convertible_to<Context&, asio::execution_context&>&& std::constructible_from<std::string, Url const&>)
      client(Context& context, Url const& url)
      : client{context.get_executor(), url} {}

  /// The moved-from object remains another name of this client, and does not close it.
  client(client&& other) noexcept : core_{other.core_}, closes_{std::exchange(other.closes_, false)} {}
  client& operator=(client&&) = delete;

  /// Ends all waits with errc::closed, reports all holds as lost, and releases their locks in the background. Does not
  /// block. Only a running io_context releases: after io_context::stop() the locks last until their leases end.
  CONCH_API ~client();

  CONCH_API executor_type get_executor() const noexcept;  ///< The executor that it was made with.
  /// The settings in force: members that follow a short lease have the lowered value.
  CONCH_API config const& settings() const noexcept;
  /// A snapshot. Locks the client while it copies.
  CONCH_API statistics stats() const;

  /// 32 random hexadecimal digits that name this client. Other clients see them as lock_holder::client.
  CONCH_API std::string const& id() const noexcept;

  /// Drains the client. New acquires and waiting ones end with errc::closed. Holders may finish within `timeout` (0 or
  /// less: no time; duration::max(): no limit). Then the remaining holds are reported as lost and released. The
  /// operation waits at most 1 s more for the answers.
  ///
  /// Completion signature: void(error_code)
  /// Executor: the handler's associated one, else the client's. Never completes inside the initiating function.
  /// Per-operation cancellation: none.
  /// Errors: errc::timed_out if the server did not confirm everything in time (the releases continue while the server
  /// answers); errc::closed if the client was closed before.
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
  bool closes_ = true;
};

}  // namespace conch
