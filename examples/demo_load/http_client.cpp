#include "http_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

namespace demo_load {

namespace asio = boost::asio;
namespace http = boost::beast::http;

http_client::http_client(asio::any_io_executor executor, server_address server)
    : server_(std::move(server)),
      stream_(std::move(executor)) {}

asio::awaitable<http_client::response> http_client::request(http::verb method, std::string target,
                                                            std::chrono::milliseconds limit) {
  stream_.expires_after(limit);
  if (!std::exchange(connected_, false)) {  // true again only after a complete answer
    co_await connect();
  }
  http::request<http::empty_body> question(method, target, 11);
  bool const v6 = server_.host.find(':') != std::string::npos;
  question.set(http::field::host, (v6 ? '[' + server_.host + ']' : server_.host) + ':' + server_.port);
  question.prepare_payload();
  response answer;
  co_await http::async_write(stream_, question, asio::use_awaitable);
  co_await http::async_read(stream_, buffer_, answer, asio::use_awaitable);
  connected_ = answer.keep_alive();
  stream_.expires_never();
  co_return answer;
}

asio::awaitable<void> http_client::connect() {
  stream_.close();
  buffer_.clear();
  asio::ip::tcp::resolver resolver(stream_.get_executor());
  auto const found = co_await resolver.async_resolve(server_.host, server_.port, asio::use_awaitable);
  co_await stream_.async_connect(found, asio::use_awaitable);
  boost::system::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

}  // namespace demo_load
