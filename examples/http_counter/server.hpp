#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "options.hpp"
#include "service.hpp"
#include "session.hpp"

namespace http_counter {

/// Accepts connections until a signal, then answers the requests in flight.
class server {
 public:
  /// Starts to listen. Throws `boost::system::system_error`.
  server(boost::asio::io_context& ctx, service& handler, options const& chosen);

  /// For example `http://127.0.0.1:8080`, with the actual port.
  std::string url() const;

  /// Runs until SIGTERM or SIGINT, and then until the last connection has ended or `grace` has passed. Returns true if
  /// all have ended. Run it on `executor()`. A second signal kills the process.
  boost::asio::awaitable<bool> run(std::chrono::milliseconds grace);

  session::strand executor() const { return strand_; }

 private:
  boost::asio::awaitable<void> accept_all();
  void start(session::socket peer);

  boost::asio::io_context& ctx_;
  service& service_;
  std::chrono::milliseconds limit_;
  std::vector<std::string> const names_;
  session::strand strand_;  // protects everything below
  boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, session::strand> acceptor_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer all_ended_;
  std::unordered_set<std::shared_ptr<session>> sessions_;
  bool stopping_ = false;
};

}  // namespace http_counter
