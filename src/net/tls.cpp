// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "net/tls.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#if CONCH_TLS
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <sys/stat.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

namespace conch::net {

#if !CONCH_TLS

protocol::fault tls_fault(boost::system::error_code) noexcept { return protocol::fault::try_later; }

std::unique_ptr<tls_maker> make_tls(tls_config, std::string) {
  throw boost::system::system_error{
      make_error_code(errc::not_supported, "rediss:// needs a conch that was built with CMake's option CONCH_TLS=ON")};
}

#else

namespace {

namespace ssl = asio::ssl;
using boost::system::error_code;

constexpr std::size_t largest_record = 16 << 10;

/// What the certificate of a server must be for: a DNS name or an address.
struct peer_name {
  explicit peer_name(std::string host) : name{std::move(host)} {
    if (auto const zone = name.find('%'); zone != std::string::npos) name.resize(zone);  // of an IPv6 address
    error_code no_address;
    asio::ip::make_address(name, no_address);
    is_address = !no_address;
    if (!is_address && name.ends_with('.')) name.pop_back();
  }

  std::string name;
  bool is_address = false;
};

/// False: the connection would not be verified.
bool expect(SSL* on, peer_name const& peer) {
  if (peer.name.empty() || peer.name.find('\0') != std::string::npos) return false;
  X509_VERIFY_PARAM* const rules = SSL_get0_param(on);
  // Without a subjectAltName OpenSSL would take the common name, which authorities do not check as the name of a host
  // (RFC 9525, section 2).
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (peer.is_address) return X509_VERIFY_PARAM_set1_ip_asc(rules, peer.name.c_str()) == 1;
  return X509_VERIFY_PARAM_set1_host(rules, peer.name.data(), peer.name.size()) == 1;
}

class stream_over_tls final : public tls_stream, public std::enable_shared_from_this<stream_over_tls> {
 public:
  stream_over_tls(socket&& s, ssl::context& settings, peer_name peer)
      : stream_{std::move(s), settings},
        peer_{std::move(peer)} {
    SSL* const on = stream_.native_handle();
    expects_ = expect(on, peer_);
    // An address is not a server name (RFC 6066, section 3).
    if (!peer_.is_address && SSL_set_tlsext_host_name(on, peer_.name.c_str()) != 1) expects_ = false;
    ERR_clear_error();
  }

  bool expects_its_peer() const noexcept { return expects_; }

  void async_handshake(std::function<void(error_code)> handler) override {
    stream_.async_handshake(ssl::stream_base::client,
                            [self = shared_from_this(), f = std::move(handler)](error_code ec) {
                              if (self->closed_) return;
                              self->secure_ = !ec;
                              f(ec);
                            });
  }

  // The buffers are ours: Asio may look at them again when the connection is closed, and the caller has others by then.
  void async_write_some(std::string_view bytes, std::function<void(error_code, std::size_t)> handler) override {
    std::size_t const size = bytes.copy(out_.data(), out_.size());
    writes_ = true;
    stream_.async_write_some(asio::buffer(out_.data(), size),
                             [self = shared_from_this(), f = std::move(handler)](error_code ec, std::size_t n) {
                               if (self->closed_) return;
                               self->writes_ = false;
                               f(ec, n);
                             });
  }

  void async_read_some(std::span<char> room, std::function<void(error_code, std::size_t)> handler) override {
    auto const into = asio::buffer(in_.data(), std::min(in_.size(), room.size()));
    stream_.async_read_some(into,
                            [self = shared_from_this(), room, f = std::move(handler)](error_code ec, std::size_t n) {
                              if (self->closed_) return;
                              std::copy_n(self->in_.data(), n, room.data());
                              // A peer that closes without close_notify counts as closed: a truncated answer is noticed
                              // by its length.
                              f(ec == ssl::error::stream_truncated ? error_code{asio::error::eof} : ec, n);
                            });
  }

  void close() override {
    closed_ = true;
    if (secure_ && !writes_) say_good_bye();
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

  std::chrono::sys_seconds peer_expires() const override {
    X509* const shown = SSL_get1_peer_certificate(native());
    if (shown == nullptr) return {};
    std::tm end{};
    bool const known = ASN1_TIME_to_tm(X509_get0_notAfter(shown), &end) == 1;
    X509_free(shown);
    return std::chrono::sys_seconds{std::chrono::seconds{known ? ::timegm(&end) : 0}};
  }

  std::string version_and_cipher() const override {
    return std::string{SSL_get_version(native())} + ", " + SSL_get_cipher_name(native());
  }

  std::string words(error_code ec) const override {
    std::string text = ec.message();
    if (ec.category() != asio::error::get_ssl_category()) return text;
    long const verdict = SSL_get_verify_result(native());
    if (verdict != X509_V_OK) text.append(": ").append(X509_verify_cert_error_string(verdict));
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
      text += " (it has no subjectAltName '" + peer_.name + "')";
    int const reason = ERR_GET_REASON(static_cast<unsigned long>(ec.value()));
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
        reason == SSL_R_RECORD_LENGTH_MISMATCH) {
      text += "; is this a TLS port?";
    }
    if (issuer_is_unknown(verdict)) text += "; tls.ca_file names the authority to trust";
    if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED)
      text += "; the server wants a certificate of the client: tls.cert_file";
    return "TLS: " + text;
  }

 private:
  SSL* native() const { return const_cast<ssl::stream<socket>&>(stream_).native_handle(); }

  static bool issuer_is_unknown(long verdict) {
    return verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY || verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
           verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT || verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN;
  }

  /// The close_notify, as far as the socket takes it at once. asio::ssl would wait for the peer's, possibly forever.
  void say_good_bye() {
    SSL* const on = stream_.native_handle();
    BIO* const out = BIO_new(BIO_s_mem());
    if (out == nullptr) return;
    SSL_set0_wbio(on, out);  // owns it; nothing else is written any more
    SSL_shutdown(on);
    char* bytes = nullptr;
    long const size = BIO_get_mem_data(out, &bytes);
    error_code ignored;
    if (size > 0) stream_.next_layer().write_some(asio::buffer(bytes, static_cast<std::size_t>(size)), ignored);
    ERR_clear_error();
  }

  ssl::stream<socket> stream_;
  peer_name const peer_;
  bool expects_ = false;
  bool secure_ = false;
  bool writes_ = false;
  bool closed_ = false;
  std::array<char, largest_record> in_;
  std::array<char, largest_record> out_;
};

/// Which file it is, and in which version. A link leads to the file.
struct version_of_file {
  explicit version_of_file(std::string const& path) {
    struct stat found {};
    if (path.empty() || ::stat(path.c_str(), &found) != 0) return;
    numbers = {static_cast<std::int64_t>(found.st_dev),
               static_cast<std::int64_t>(found.st_ino),
               found.st_size,
               static_cast<std::int64_t>(found.st_mtim.tv_sec),
               static_cast<std::int64_t>(found.st_mtim.tv_nsec),
               static_cast<std::int64_t>(found.st_ctim.tv_sec),
               static_cast<std::int64_t>(found.st_ctim.tv_nsec)};
  }
  std::array<std::int64_t, 7> numbers{};
  friend bool operator==(version_of_file const&, version_of_file const&) = default;
};

std::string words_of(error_code ec) { return ec.message(); }

class maker_of_tls final : public tls_maker {
 public:
  maker_of_tls(tls_config settings, std::string host)
      : settings_{std::move(settings)},
        peer_{settings_.server_name.empty() ? std::move(host) : settings_.server_name} {}

  void expect(std::string const& host) override {
    if (settings_.server_name.empty()) peer_ = peer_name{host};
  }

  std::shared_ptr<tls_stream> make(tls_stream::socket&& s) override {
    read_files();
    if (!context_) return nullptr;
    auto made = std::make_shared<stream_over_tls>(std::move(s), *context_, peer_);
    if (made->expects_its_peer()) return made;
    trouble_ = "'" + peer_.name + "' cannot be the name of a server";
    return nullptr;
  }

  std::string const& trouble() const noexcept override { return trouble_; }

 private:
  void read_files() {
    trouble_.clear();
    std::array const seen{version_of_file{settings_.ca_file}, version_of_file{settings_.ca_path},
                          version_of_file{settings_.cert_file}, version_of_file{settings_.key_file}};
    if (context_ && seen == seen_) return;
    seen_ = seen;  // as they were before they are read: what changes meanwhile is read again
    ERR_clear_error();
    auto fresh = std::make_shared<ssl::context>(ssl::context::tls_client);
    trouble_ = fill(*fresh);
    ERR_clear_error();
    if (trouble_.empty()) context_ = std::move(fresh);
  }

  /// Returns what is wrong.
  std::string fill(ssl::context& c) const {
    SSL_CTX* const raw = c.native_handle();
    if (SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) != 1) return "OpenSSL has no TLS 1.2";
    // one connection for each server: there is nothing to resume
    SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // Without this OpenSSL would ask for the password of a key at the terminal.
    SSL_CTX_set_default_passwd_cb(raw, [](char*, int, int, void*) { return -1; });
    c.set_verify_mode(settings_.verify ? ssl::verify_peer : ssl::verify_none);
    std::string wrong = settings_.verify ? take_authorities(c) : std::string{};
    if (wrong.empty() && !settings_.cert_file.empty()) wrong = take_certificate(c);
    return wrong;
  }

  std::string take_authorities(ssl::context& c) const {
    error_code ec;
    if (settings_.ca_file.empty() && settings_.ca_path.empty()) {
      c.set_default_verify_paths(ec);
      return ec ? "the system's certificates: " + words_of(ec) : std::string{};
    }
    if (!settings_.ca_file.empty()) {
      std::string const named = "tls.ca_file '" + settings_.ca_file + "': ";
      if (std::string const why = unreadable(settings_.ca_file); !why.empty()) return named + why;
      if (c.load_verify_file(settings_.ca_file, ec)) return named + words_of(ec);
    }
    if (!settings_.ca_path.empty()) {
      std::string const named = "tls.ca_path '" + settings_.ca_path + "': ";
      if (std::string const why = unreadable(settings_.ca_path, S_IFDIR); !why.empty()) return named + why;
      if (c.add_verify_path(settings_.ca_path, ec)) return named + words_of(ec);
    }
    return {};
  }

  /// The path of the private key is not shown to anyone.
  std::string take_certificate(ssl::context& c) const {
    error_code ec;
    std::string const named = "tls.cert_file '" + settings_.cert_file + "': ";
    if (std::string const why = unreadable(settings_.cert_file); !why.empty()) return named + why;
    if (c.use_certificate_chain_file(settings_.cert_file, ec)) return named + words_of(ec);
    std::string const& key = settings_.key_file.empty() ? settings_.cert_file : settings_.key_file;
    std::string const of_key = settings_.key_file.empty() ? "the key in tls.cert_file: " : "tls.key_file: ";
    if (std::string const why = unreadable(key); !why.empty()) return of_key + why;
    if (c.use_private_key_file(key, ssl::context::pem, ec)) return of_key + words_of(ec);
    return {};
  }

  /// Also what is not a regular file: opening a pipe would wait for its other end.
  static std::string unreadable(std::string const& path, mode_t wanted = S_IFREG) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0 || ::access(path.c_str(), R_OK) != 0)
      return error_code{errno, boost::system::system_category()}.message();
    if ((found.st_mode & S_IFMT) == wanted) return {};
    return wanted == S_IFDIR ? "it is not a folder" : "it is not a file";
  }

  tls_config const settings_;
  peer_name peer_;
  std::shared_ptr<ssl::context> context_;  // as it was when the files could last be used
  std::array<version_of_file, 4> seen_{version_of_file{{}}, version_of_file{{}}, version_of_file{{}},
                                       version_of_file{{}}};
  std::string trouble_;
};

}  // namespace

protocol::fault tls_fault(error_code ec) noexcept {
  return ec.category() == asio::error::get_ssl_category() ? protocol::fault::tls_failed : protocol::fault::try_later;
}

std::unique_ptr<tls_maker> make_tls(tls_config settings, std::string host) {
  return std::make_unique<maker_of_tls>(std::move(settings), std::move(host));
}

#endif

}  // namespace conch::net
