// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/url.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::redis {

/// The stream of bytes to a server, over TCP or a unix socket, and the addresses of the server's host. It knows nothing of what the
/// bytes mean. One operation of each kind at a time; close() ends all of them, and a handler may still be called as if it had ended
/// before.
class stream {
 public:
  using error_code = boost::system::error_code;
  using found_addresses = asio::ip::tcp::resolver::results_type;

  explicit stream(asio::any_io_executor const& on) : resolver_{on}, socket_{on} {}

  /// handler(error_code, found_addresses): what it found is given to take().
  template <class Handler>
  void async_resolve(address const& where, Handler&& handler) {
    resolver_.async_resolve(where.host, std::to_string(where.port), asio::ip::resolver_query_base::numeric_service, std::forward<Handler>(handler));
  }

  /// The addresses to connect to. Returns how many there are.
  std::size_t take(found_addresses const& found);

  /// To the address with this number, or to the unix socket. handler(error_code): after a success, connected() comes first.
  template <class Handler>
  void async_connect(address const& where, std::size_t number, Handler&& handler) {
    prepare(where);
    socket_.async_connect(endpoints_[number], std::forward<Handler>(handler));
  }
  void connected();

  /// Writes what the socket takes at once. 0: nothing, or it failed; then async_write_some() says which.
  std::size_t write_some(std::string_view bytes);

  /// handler(error_code, size).
  template <class Handler>
  void async_write_some(std::string_view bytes, Handler&& handler) {
    socket_.async_write_some(asio::buffer(bytes), std::forward<Handler>(handler));
  }
  template <class Handler>
  void async_read_some(std::span<char> room, Handler&& handler) {
    socket_.async_read_some(asio::buffer(room.data(), room.size()), std::forward<Handler>(handler));
  }

  void close();

 private:
  void prepare(address const& where);

  asio::ip::tcp::resolver resolver_;
  asio::generic::stream_protocol::socket socket_;
  std::vector<asio::generic::stream_protocol::endpoint> endpoints_;
};

}  // namespace conch::redis
