// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/wire.hpp"

#include <conch/config.hpp>

#include <boost/asio/generic/stream_protocol.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

// TLS, as far as the rest of the library sees it. OpenSSL and the templates of asio::ssl are in tls.cpp only.
namespace conch::net {

inline constexpr bool tls_supported = CONCH_TLS != 0;

/// TLS on one connection, with its own socket. One operation of each kind at a time. After close() no handler is
/// called; what is still under way keeps the object, and touches no memory of the caller.
class tls_stream {
 public:
  using error_code = boost::system::error_code;
  using socket = asio::generic::stream_protocol::socket;

  virtual void async_handshake(std::function<void(error_code)> handler) = 0;
  virtual void async_write_some(std::string_view bytes, std::function<void(error_code, std::size_t)> handler) = 0;
  virtual void async_read_some(std::span<char> room, std::function<void(error_code, std::size_t)> handler) = 0;
  /// Sends close_notify, if that is possible at once, and closes the socket. It does not wait for the peer.
  virtual void close() = 0;
  /// When the certificate that the peer has shown ends; 0: it has shown none.
  virtual std::chrono::sys_seconds peer_expires() const = 0;
  /// "TLSv1.3, TLS_AES_256_GCM_SHA384"
  virtual std::string version_and_cipher() const = 0;
  /// What went wrong, with OpenSSL's words.
  virtual std::string words(error_code ec) const = 0;

 protected:
  ~tls_stream() = default;
};

/// fault::tls_failed if TLS itself failed, which does not get better by waiting: a certificate, a version, no TLS at
/// all. fault::try_later if the connection did.
protocol::fault tls_fault(boost::system::error_code ec) noexcept;

/// Makes TLS connections to one server: has the settings, and what OpenSSL has made of their files.
class tls_maker {
 public:
  virtual ~tls_maker() = default;

  /// From now on the server is this host, unless the settings name it.
  virtual void expect(std::string const& host) = 0;
  /// Reads the files if they have changed, and makes a stream of the socket, which is connected. Null: it cannot;
  /// trouble() then says why.
  virtual std::shared_ptr<tls_stream> make(tls_stream::socket&& s) = 0;
  /// What was wrong with the files that the last make() has read; empty: nothing, or it has read none.
  virtual std::string const& trouble() const noexcept = 0;
};

/// `host`: as in the URL. Throws boost::system::system_error{errc::not_supported} if conch was built without TLS.
std::unique_ptr<tls_maker> make_tls(tls_config settings, std::string host);

}  // namespace conch::net
