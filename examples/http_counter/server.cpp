#include "server.hpp"

#include "as_tuple.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

server::server(asio::io_context& ctx, service& handler, options const& chosen)
    : ctx_(ctx),
      service_(handler),
      limit_(chosen.request_timeout),
      names_(chosen.hosts),
      strand_(asio::make_strand(ctx)),
      acceptor_(strand_, tcp::endpoint(asio::ip::make_address(chosen.address), chosen.port)),
      signals_(strand_, SIGTERM, SIGINT),
      all_ended_(strand_) {}

std::string server::url() const {
  auto const endpoint = acceptor_.local_endpoint();
  auto const address = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? '[' + address + ']' : address) + ':' +
         std::to_string(endpoint.port());
}

asio::awaitable<bool> server::run(std::chrono::milliseconds grace) {
  auto report = [](std::exception_ptr failure) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  };
  asio::co_spawn(strand_, accept_all(), report);

  co_await signals_.async_wait(as_tuple);
  signals_.clear();
  stopping_ = true;
  acceptor_.close();
  for (auto const& each : sessions_) {
    session::finish(each);
  }
  all_ended_.expires_after(grace);
  if (!sessions_.empty()) {
    co_await all_ended_.async_wait(as_tuple);
  }
  co_return sessions_.empty();
}

asio::awaitable<void> server::accept_all() {
  while (!stopping_) {
    auto strand = asio::make_strand(ctx_);
    auto result = co_await acceptor_.async_accept(strand, as_tuple);
    auto& [error, peer] = result;
    if (!error) {
      start(std::move(peer));
    } else if (!stopping_ && error != asio::error::connection_aborted) {
      // Most likely out of file descriptors: wait until connections close.
      asio::steady_timer pause(strand_, std::chrono::milliseconds(100));
      co_await pause.async_wait(as_tuple);
    }
  }
}

void server::start(session::socket peer) {
  auto const executor = peer.get_executor();
  auto const added = std::make_shared<session>(std::move(peer), service_, limit_, names_);
  sessions_.insert(added);
  service_.counters().connection_opened();
  if (stopping_) {
    session::finish(added);
  }
  auto ended = [this, added](std::exception_ptr) {
    service_.counters().connection_closed();
    sessions_.erase(added);
    if (stopping_ && sessions_.empty()) {
      all_ended_.cancel();
    }
  };
  asio::co_spawn(executor, session::run(added), asio::bind_executor(strand_, std::move(ended)));
}

}  // namespace http_counter
