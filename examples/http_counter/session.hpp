#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service.hpp"

namespace http_counter {

/// One HTTP connection: reads a request, answers it, and so on until either side has enough.
class session {
 public:
  using strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, strand>;

  /// `limit`: for a request to come in and, on its own, for an answer to go out.
  /// `names`: what the server may be called, see `decide`. They outlive the session.
  session(socket peer, service& does, std::chrono::milliseconds limit, std::vector<std::string> const& names);

  /// Ends when the connection has ended. To be run by the executor of the socket.
  static boost::asio::awaitable<void> run(std::shared_ptr<session> self);

  /// Closes the connection once what is in flight is answered: at once, if nothing is. From any
  /// thread.
  static void finish(std::shared_ptr<session> const& self);

 private:
  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<boost::system::error_code> read_request();
  boost::asio::awaitable<bool> write(response out, bool keep_alive);
  boost::asio::awaitable<bool> stream(std::string_view method);
  boost::asio::awaitable<void> linger();

  boost::beast::basic_stream<boost::asio::ip::tcp, strand> stream_;
  service& service_;
  std::chrono::milliseconds limit_;
  std::vector<std::string> const& names_;
  boost::beast::flat_buffer buffer_;
  std::optional<request_parser> parser_;
  std::shared_ptr<feed::listener> listener_;  ///< while it streams
  bool reading_ = false;
  bool finishing_ = false;
};

}  // namespace http_counter
