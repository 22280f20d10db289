#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "redis_address.hpp"
#include "resp2.hpp"

namespace http_counter {

/// One connection, for one command at a time. The first command connects. Drop the connection after a failure.
class redis_connection {
 public:
  redis_connection(boost::asio::io_context& ctx, redis_address const& address);

  /// Sends an encoded command and returns the reply. Throws `store_error` if that takes longer than `limit`, connecting
  /// included. May be called from any executor.
  static boost::asio::awaitable<resp2_reply> exchange(std::shared_ptr<redis_connection> self, std::string command,
                                                      std::chrono::milliseconds limit);

  /// False if the server has closed the connection. Call it between two exchanges only.
  bool is_open();

 private:
  using protocol = boost::asio::generic::stream_protocol;
  using strand = boost::asio::strand<boost::asio::io_context::executor_type>;

  static boost::asio::awaitable<resp2_reply> run(std::shared_ptr<redis_connection> self, std::string command,
                                                 std::chrono::milliseconds limit);
  boost::asio::awaitable<void> connect(std::chrono::milliseconds limit);
  boost::asio::awaitable<protocol::endpoint> resolve(std::chrono::milliseconds limit);
  boost::asio::awaitable<void> greet();
  boost::asio::awaitable<resp2_reply> ask(std::string command);

  redis_address const& address_;
  strand strand_;
  boost::beast::basic_stream<protocol, strand> stream_;
  std::string input_;
  bool connected_ = false;
};

}  // namespace http_counter
