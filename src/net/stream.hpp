// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/endpoint.hpp"
#include "base/process.hpp"
#include "net/name_lookup.hpp"
#include "net/tls.hpp"
#include "protocol/wire.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::net {

/// The stream of bytes to a server, over TCP, TLS or a unix socket, and the addresses of the server's host. It knows
/// nothing of what the bytes mean. One operation of each kind at a time; close() ends all of them, and a handler may
/// still be called as if it had ended before.
class stream {
 public:
  using error_code = boost::system::error_code;
  using found_addresses = name_lookup::addresses;

  /// Throws errc::not_supported if conch was built without TLS, and the server is to be reached with it.
  stream(asio::any_io_executor const& on, endpoint const& where, tls_config const& configured);

  /// handler(error_code, found_addresses). The connection may be open meanwhile.
  void async_resolve(endpoint const& where, name_lookup::handler handler) {
    names_.async_find(where.host, where.port, std::move(handler));
  }
  /// What it found, as texts: "10.0.0.1:6379".
  static std::vector<std::string> shown(found_addresses const& found);
  /// The addresses to connect to.
  void take(found_addresses const& found);

  /// To the address with this number, or to the unix socket. handler(error_code): after a success, connected() comes
  /// first.
  template <class Handler>
  void async_connect(endpoint const& where, std::size_t number, Handler&& handler) {
    prepare(where, number);
    socket_.async_connect(endpoints_[number], std::forward<Handler>(handler));
  }
  void connected();

  /// After connected(), if the server is to be reached over TLS. handler(error_code), with details in words(); or
  /// nothing comes, and it returns what is wrong with the settings. `warning`: what is wrong with files of which the
  /// older version still serves.
  template <class Handler>
  std::string async_handshake(std::string& warning, Handler&& handler) {
    if (std::string wrong = begin_tls(warning); !wrong.empty()) return wrong;
    over_tls_->async_handshake(std::forward<Handler>(handler));
    return {};
  }

  /// Writes what the socket takes at once. 0: nothing, or it failed, or TLS cannot; async_write_some() reports which.
  std::size_t write_some(std::string_view bytes);

  /// handler(error_code, size).
  template <class Handler>
  void async_write_some(std::string_view bytes, Handler&& handler) {
    if (over_tls_) return over_tls_->async_write_some(bytes, std::forward<Handler>(handler));
    socket_.async_write_some(asio::buffer(bytes), std::forward<Handler>(handler));
  }
  template <class Handler>
  void async_read_some(std::span<char> room, Handler&& handler) {
    if (over_tls_) return over_tls_->async_read_some(room, std::forward<Handler>(handler));
    socket_.async_read_some(asio::buffer(room.data(), room.size()), std::forward<Handler>(handler));
  }

  void close();

  /// When the certificate that the server has shown ends; 0: it has shown none.
  std::chrono::sys_seconds peer_expires() const {
    return over_tls_ ? over_tls_->peer_expires() : std::chrono::sys_seconds{};
  }
  /// "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: no TLS.
  std::string version_and_cipher() const { return over_tls_ ? over_tls_->version_and_cipher() : std::string{}; }
  /// The words for an error of this connection.
  std::string words(error_code ec) const { return over_tls_ ? over_tls_->words(ec) : ec.message(); }

 private:
  std::string begin_tls(std::string& warning);
  void prepare(endpoint const& where, std::size_t number);

  name_lookup names_;
  asio::generic::stream_protocol::socket socket_;
  own_descriptor own_;
  std::unique_ptr<tls_maker> const tls_;  // none: the server is reached without
  std::shared_ptr<tls_stream> over_tls_;  // has taken the socket
  std::vector<asio::generic::stream_protocol::endpoint> endpoints_;
};

}  // namespace conch::net
