#pragma once

// What the integration tests share: coroutines on an io_context with a bound on their time, and settings with short
// times.

#include <conch/all.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "support/redis_server.hpp"
#include "support/world.hpp"

/// In a coroutine, where ASSERT_ does not compile.
#define CO_ASSERT(...)                             \
  if (!(__VA_ARGS__)) {                            \
    ADD_FAILURE() << "expected: " << #__VA_ARGS__; \
    co_return;                                     \
  } else static_cast<void>(0)

namespace conch::test {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using steady = std::chrono::steady_clock;

inline double ms(steady::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// (error_code, result), instead of an exception.
inline constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);

/// A `.wait` that is meant to end in `timed_out`. On a loaded machine a healthy server needs part of it to answer; a
/// shorter wait would end in `unreachable`.
constexpr auto short_wait = std::chrono::seconds{1};

/// Settings with short times, for one server of a test, and for a client that only one thread uses (the others' are
/// not).
inline config quick(std::string url, std::chrono::milliseconds lease = 1500ms) {
  config c;
  c.url = std::move(url);
  c.single_threaded = true;
  c.lease = lease;
  c.claim = lease / 3;
  c.command_timeout = lease / 3;
  c.stop_margin = lease / 10;
  c.reconnect_min = 5ms;
  c.reconnect_max = 100ms;
  return c;
}

inline config quick(redis_server const& server, std::chrono::milliseconds lease = 1500ms) {
  return quick(server.url(), lease);
}

/// Renewed as often as with a short lease, and with one that a busy machine does not lose.
inline config often_renewed(std::string url, std::chrono::milliseconds lease = 9s) {
  config c = quick(std::move(url), lease);
  c.renew_every = 50ms;
  return c;
}

inline config often_renewed(redis_server const& server, std::chrono::milliseconds lease = 9s) {
  return often_renewed(server.url(), lease);
}

/// Default times, but a quick reconnect.
inline config steady_config(std::string url) {
  config c;
  c.url = std::move(url);
  c.reconnect_min = 5ms;
  c.reconnect_max = 100ms;
  return c;
}

inline config steady_config(redis_server const& server) { return steady_config(server.url()); }

inline std::string lock_key(std::string const& name) { return "conch:{" + name + "}"; }
inline std::string queue_key(std::string const& name) { return lock_key(name) + ":q"; }
inline std::string fence_key(std::string const& name) { return lock_key(name) + ":f"; }

inline bool is_free(redis_probe& probe, std::string const& name) {
  return probe.integer({"EXISTS", lock_key(name), queue_key(name)}) == 0;
}

inline std::int64_t in_line(redis_probe& probe, std::string const& name) {
  return probe.integer({"ZCARD", queue_key(name)});
}

/// A suite of tests with one server for all: every test has lock names of its own. `Suite` is the suite itself.
template <class Suite, class Base = testing::Test>
class with_server : public Base {
 protected:
  static void SetUpTestSuite() { start_server({}); }
  static void TearDownTestSuite() { server_.reset(); }

  static void start_server(redis_server_options options) {
    server_ = std::make_unique<redis_server>(std::move(options));
  }
  static redis_server& server() { return *server_; }

  auto in_lines(std::string const& lock, std::int64_t count) {
    return [this, lock, count] { return in_line(probe, lock) == count; };
  }

  redis_probe probe{*server_};
  world w;

 private:
  static inline std::unique_ptr<redis_server> server_;
};

/// What an action throws; no error if it throws nothing.
template <class Action>
error_code error_of(Action const& action, std::string* what = nullptr) {
  try {
    action();
  } catch (boost::system::system_error const& e) {
    if (what != nullptr) *what = e.what();
    return e.code();
  }
  return {};
}

/// A client's lines, to look at afterwards.
struct journal {
  std::shared_ptr<std::string> text = std::make_shared<std::string>();
  log_hook hook() const {
    return [t = text](log_level, std::string_view line) { t->append(line).append("\n"); };
  }
  bool contains(std::string_view words) const { return text->find(words) != std::string::npos; }
};

}  // namespace conch::test
