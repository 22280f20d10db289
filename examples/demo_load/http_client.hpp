#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>
#include <chrono>
#include <string>

#include "options.hpp"

namespace demo_load {

/// A keep-alive connection to one server. The first request connects.
class http_client {
 public:
  using response = boost::beast::http::response<boost::beast::http::string_body>;

  http_client(boost::asio::any_io_executor executor, server_address server);

  /// Throws `boost::system::system_error` on an error or after `limit`. The next request then connects again.
  boost::asio::awaitable<response> request(boost::beast::http::verb method, std::string target,
                                           std::chrono::milliseconds limit);

 private:
  boost::asio::awaitable<void> connect();

  server_address server_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  bool connected_ = false;
};

}  // namespace demo_load
