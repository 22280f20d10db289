#include "redis_connection.hpp"

#include "as_tuple.hpp"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "value_store.hpp"

namespace http_counter {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

[[noreturn]] void fail(char const* doing, error_code why) {
  throw store_error(std::string("cannot reach Redis (") + doing + ": " + why.message() + ")");
}

void expect_ok(resp2_reply const& reply) {
  if (reply.what == resp2_reply::kind::error) {
    throw store_error("Redis: " + reply.text);
  }
}

}  // namespace

redis_connection::redis_connection(asio::io_context& ctx, redis_address const& address)
    : address_(address),
      strand_(asio::make_strand(ctx)),
      stream_(strand_) {}

bool redis_connection::is_open() {
  char byte = 0;
  auto const got = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return connected_ && got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

// The stream's timer and the operations that it limits must not run concurrently, and callers run on other strands. So
// everything here runs on the connection's strand.
asio::awaitable<resp2_reply> redis_connection::exchange(std::shared_ptr<redis_connection> self, std::string command,
                                                        std::chrono::milliseconds limit) {
  auto const executor = self->strand_;
  auto running = run(std::move(self), std::move(command), limit);
  resp2_reply reply = co_await asio::co_spawn(executor, std::move(running), asio::use_awaitable);
  co_return reply;
}

asio::awaitable<resp2_reply> redis_connection::run(std::shared_ptr<redis_connection> self, std::string command,
                                                   std::chrono::milliseconds limit) {
  self->stream_.expires_after(limit);
  if (!self->connected_) {
    co_await self->connect(limit);
    co_await self->greet();
    self->connected_ = true;
  }
  resp2_reply reply = co_await self->ask(std::move(command));
  self->stream_.expires_never();
  co_return reply;
}

asio::awaitable<void> redis_connection::connect(std::chrono::milliseconds limit) {
  protocol::endpoint const endpoint = co_await resolve(limit);
  auto result = co_await stream_.async_connect(endpoint, as_tuple);
  if (std::get<0>(result)) {
    fail("connect", std::get<0>(result));
  }
  if (address_.socket.empty()) {
    error_code ignored;
    stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  }
}

// A look-up cannot be interrupted. After `limit` this stops waiting for it and drops its result.
asio::awaitable<redis_connection::protocol::endpoint> redis_connection::resolve(std::chrono::milliseconds limit) {
  if (!address_.socket.empty()) {
    co_return asio::local::stream_protocol::endpoint(address_.socket);
  }
  struct look_up {
    explicit look_up(strand const& ex) : resolver(ex), done(ex) {}
    asio::ip::tcp::resolver resolver;
    asio::steady_timer done;
    error_code error = asio::error::timed_out;
    asio::ip::tcp::endpoint endpoint;
  };
  auto const state = std::make_shared<look_up>(strand_);
  state->done.expires_after(limit);
  auto found = [state](error_code error, asio::ip::tcp::resolver::results_type const& results) {
    state->error = error;
    if (!error) {
      state->endpoint = results.begin()->endpoint();
    }
    state->done.cancel();
  };
  state->resolver.async_resolve(address_.host, address_.port, std::move(found));
  co_await state->done.async_wait(as_tuple);
  if (state->error) {
    fail("look-up", state->error);
  }
  co_return state->endpoint;
}

asio::awaitable<void> redis_connection::greet() {
  if (!address_.password.empty()) {
    std::string command = address_.user.empty() ? encode_command({"AUTH", address_.password})
                                                : encode_command({"AUTH", address_.user, address_.password});
    auto reply = co_await ask(std::move(command));
    expect_ok(reply);
  }
  if (!address_.database.empty() && address_.database != "0") {
    std::string command = encode_command({"SELECT", address_.database});
    auto reply = co_await ask(std::move(command));
    expect_ok(reply);
  }
}

asio::awaitable<resp2_reply> redis_connection::ask(std::string command) {
  auto const bytes = asio::buffer(command);
  auto written = co_await asio::async_write(stream_, bytes, as_tuple);
  if (std::get<0>(written)) {
    fail("write", std::get<0>(written));
  }
  char buffer[512];
  while (true) {
    if (auto reply = take_reply(input_)) {
      co_return std::move(*reply);
    }
    auto const space = asio::buffer(buffer);
    auto read = co_await stream_.async_read_some(space, as_tuple);
    if (std::get<0>(read)) {
      fail("read", std::get<0>(read));
    }
    input_.append(buffer, std::get<1>(read));
  }
}

}  // namespace http_counter
