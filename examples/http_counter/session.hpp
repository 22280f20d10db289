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

/// One HTTP connection: reads and answers requests until either side closes it.
class session {
 public:
  using strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, strand>;

  /// `limit`: the timeout for reading a request, and again for writing its answer.
  /// `names`: the server's names, see `decide`. They must outlive the session.
  session(socket peer, service& handler, std::chrono::milliseconds limit, std::vector<std::string> const& names);

  /// Ends with the connection. Run it on the executor of the socket.
  static boost::asio::awaitable<void> run(std::shared_ptr<session> self);

  /// Closes the connection after answering a request in flight, or at once if there is none. Thread-safe.
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
  std::shared_ptr<feed::listener> listener_;  ///< set while this session streams /events
  bool reading_ = false;
  bool finishing_ = false;
};

}  // namespace http_counter
