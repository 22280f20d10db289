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

/// One connection, for one command at a time. It connects with its first command. After a failure
/// it is of no use any more.
class redis_connection {
 public:
  redis_connection(boost::asio::io_context& ctx, redis_address const& address);

  /// Sends an encoded command and returns the reply. Throws `store_error` when that takes longer
  /// than `limit`, connecting included. May be called from any executor.
  static boost::asio::awaitable<resp2_reply> exchange(std::shared_ptr<redis_connection> self, std::string command, std::chrono::milliseconds limit);

  /// Does the server still keep it open, as far as is known here? Only between two exchanges.
  bool is_open();

 private:
  using protocol = boost::asio::generic::stream_protocol;
  using strand = boost::asio::strand<boost::asio::io_context::executor_type>;

  static boost::asio::awaitable<resp2_reply> run(std::shared_ptr<redis_connection> self, std::string command, std::chrono::milliseconds limit);
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
