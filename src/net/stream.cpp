// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "net/stream.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/socket_base.hpp>

#include <unistd.h>

namespace conch::net {

stream::stream(asio::any_io_executor const& on, endpoint const& where, tls_config const& configured)
    : names_{on},
      socket_{on},
      tls_{where.over_tls ? make_tls(tls_of(where, configured), where.host) : nullptr} {}

std::vector<std::string> stream::shown(found_addresses const& found) {
  std::vector<std::string> all;
  for (auto const& one : found) all.push_back(host_and_port(one.address().to_string(), one.port()));
  return all;
}

void stream::take(found_addresses const& found) { endpoints_.assign(found.begin(), found.end()); }

void stream::prepare(endpoint const& where, std::size_t number) {
  if (where.is_unix_socket()) endpoints_.assign(1, asio::local::stream_protocol::endpoint{where.path});
  if (tls_) tls_->expect(where.host);
  error_code ignored;
  own_.is(-1);
  socket_.close(ignored);
  auto const how = endpoints_[number].protocol();
  int const fd = open_socket(how.family(), how.type(), how.protocol());
  if (fd < 0) return;  // connecting makes another attempt, and reports what is wrong
  own_.is(fd);
  error_code wrong;
  socket_.assign(how, fd, wrong);
  if (wrong) ::close(fd);
}

void stream::connected() {
  error_code unsupported;  // a unix socket has neither of the first two
  socket_.set_option(asio::ip::tcp::no_delay{true}, unsupported);
  socket_.set_option(asio::socket_base::keep_alive{true}, unsupported);
  socket_.non_blocking(true, unsupported);  // of write_some()
}

std::string stream::begin_tls(std::string& warning) {
  over_tls_ = tls_->make(std::move(socket_));
  if (!over_tls_) return tls_->trouble();
  warning = tls_->trouble();
  return {};
}

std::size_t stream::write_some(std::string_view bytes) {
  // Never with TLS: when the socket is full, a record would have been written in part.
  if (over_tls_) return 0;
  error_code later;
  return socket_.write_some(asio::buffer(bytes), later);
}

void stream::close() {
  own_.is(-1);
  error_code ignored;
  socket_.close(ignored);
  if (over_tls_) over_tls_->close();
  over_tls_.reset();
  names_.cancel();
}

}  // namespace conch::net
