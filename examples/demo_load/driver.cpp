#include "driver.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace demo_load {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

namespace {

constexpr auto request_limit = 30s;
constexpr auto retry_pause = 100ms;

boost::json::object parse_body(http_client::response const& answer) {
  boost::system::error_code error;
  auto value = boost::json::parse(answer.body(), error);
  return !error && value.is_object() ? std::move(value.as_object()) : boost::json::object{};
}

// Retry a 503 only if the server knows that nothing has changed; otherwise the increment might count twice.
bool may_be_repeated(http_client::response const& answer) {
  if (answer.result() != http::status::service_unavailable) {
    return false;
  }
  auto const body = parse_body(answer);
  auto const* const changed = body.if_contains("changed");
  return changed != nullptr && *changed == "no";
}

void rethrow(std::exception_ptr failure) {
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace

result driver::run() {
  if (options_.reset) {
    asio::co_spawn(ctx_, reset(), rethrow);
    ctx_.run();
    ctx_.restart();
  }
  auto const begin = clock::now();
  int running = std::min(options_.connections, options_.requests);
  auto ended = [&](std::exception_ptr failure) {
    rethrow(failure);
    if (--running == 0) {
      ctx_.stop();
    }
  };
  auto const count = options_.servers.size();
  for (int i = 0, n = running; i < n; ++i) {
    asio::co_spawn(ctx_, drive(options_.servers[static_cast<std::size_t>(i) % count]), ended);
  }
  asio::co_spawn(ctx_, show_progress(), rethrow);
  ctx_.run_for(options_.limit);
  result_.elapsed = clock::now() - begin;
  if (running > 0) {
    result_.failures = options_.requests - result_.confirmed;
    result_.first_failure = "not finished after --max-seconds";
  }
  ctx_.restart();
  asio::co_spawn(ctx_, read_counter(), [this](std::exception_ptr) { ctx_.stop(); });
  ctx_.run_for(request_limit);
  std::sort(result_.latencies.begin(), result_.latencies.end());
  return std::move(result_);
}

asio::awaitable<void> driver::reset() {
  auto const executor = co_await asio::this_coro::executor;
  http_client client(executor, options_.servers.front());
  auto const answer = co_await client.request(http::verb::delete_, "/counter", request_limit);
  if (answer.result() != http::status::ok) {
    throw std::runtime_error("DELETE /counter: " + answer.body());
  }
}

asio::awaitable<void> driver::drive(server_address server) {
  auto const executor = co_await asio::this_coro::executor;
  http_client client(executor, std::move(server));
  std::string const target = options_.locked ? "/counter" : "/counter?lock=off";
  while (started_ < options_.requests) {
    ++started_;
    auto const begin = clock::now();
    bool const confirmed = co_await increment(client, target);
    if (confirmed) {
      ++result_.confirmed;
      result_.latencies.push_back(clock::now() - begin);
    } else {  // do not spin if the server is down
      asio::steady_timer pause(executor, retry_pause);
      co_await pause.async_wait(asio::use_awaitable);
    }
  }
}

asio::awaitable<bool> driver::increment(http_client& client, std::string target) {
  while (true) {
    http_client::response answer;
    try {
      answer = co_await client.request(http::verb::post, target, request_limit);
    } catch (boost::system::system_error const& error) {
      fail(error.what());
      co_return false;
    }
    if (answer.result() == http::status::ok) {
      co_return true;
    }
    if (!may_be_repeated(answer)) {
      fail(std::to_string(answer.result_int()) + ' ' + answer.body());
      co_return false;
    }
    ++result_.retries;
    asio::steady_timer pause(co_await asio::this_coro::executor, retry_pause);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<void> driver::show_progress() {
  asio::steady_timer tick(co_await asio::this_coro::executor);
  while (true) {
    tick.expires_after(2s);
    co_await tick.async_wait(asio::use_awaitable);
    std::cerr << answered() << " of " << options_.requests << " answered\n";
  }
}

asio::awaitable<void> driver::read_counter() {
  auto const executor = co_await asio::this_coro::executor;
  http_client client(executor, options_.servers.front());
  auto const answer = co_await client.request(http::verb::get, "/counter", request_limit);
  auto const body = parse_body(answer);
  auto const* const counter = body.if_contains("counter");
  if (counter != nullptr && counter->is_int64()) {
    result_.counter = counter->as_int64();
  }
}

void driver::fail(std::string why) {
  ++result_.failures;
  if (result_.first_failure.empty()) {
    result_.first_failure = std::move(why);
  }
}

}  // namespace demo_load
