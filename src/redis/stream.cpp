// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "redis/stream.hpp"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/socket_base.hpp>

namespace conch::redis {

std::size_t stream::take(found_addresses const& found) {
  endpoints_.clear();
  for (auto const& entry : found) endpoints_.emplace_back(entry.endpoint());
  return endpoints_.size();
}

void stream::prepare(address const& where) {
  if (where.what == address::kind::unix_socket) endpoints_.assign(1, asio::local::stream_protocol::endpoint{where.path});
  error_code ignored;
  socket_.close(ignored);
}

void stream::connected() {
  error_code unsupported;  // a unix socket has neither of the first two
  socket_.set_option(asio::ip::tcp::no_delay{true}, unsupported);
  socket_.set_option(asio::socket_base::keep_alive{true}, unsupported);
  socket_.non_blocking(true, unsupported);  // of write_some()
}

std::size_t stream::write_some(std::string_view bytes) {
  error_code later;
  return socket_.write_some(asio::buffer(bytes), later);
}

void stream::close() {
  error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
}

}  // namespace conch::redis
