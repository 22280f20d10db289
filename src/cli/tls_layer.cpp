// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/tls_layer.hpp"

#include "cli/exit_code.hpp"

#if CONCH_TLS

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <climits>

namespace conch::cli {

namespace {

[[noreturn]] void away(std::string const& why) { throw failure{exit_code::unreachable, why}; }
[[noreturn]] void wrong(std::string const& why) { throw failure{exit_code::wrong_config, why}; }

struct free_tls {
  void operator()(SSL_CTX* c) const noexcept { ::SSL_CTX_free(c); }
  void operator()(SSL* s) const noexcept { ::SSL_free(s); }
};
using tls_context = std::unique_ptr<SSL_CTX, free_tls>;

std::string words_of_openssl() {
  char text[256] = "TLS failed";
  if (unsigned long const code = ::ERR_get_error(); code != 0) ::ERR_error_string_n(code, text, sizeof text);
  ::ERR_clear_error();
  return text;
}

tls_context context_of(tls_config const& c) {
  tls_context made{::SSL_CTX_new(::TLS_client_method())};
  if (!made) wrong(words_of_openssl());
  ::SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION);
  bool const of_system = c.ca_file.empty() && c.ca_path.empty();
  int const trusted = of_system ? ::SSL_CTX_set_default_verify_paths(made.get())
                                : ::SSL_CTX_load_verify_locations(made.get(), c.ca_file.empty() ? nullptr : c.ca_file.c_str(),
                                                                  c.ca_path.empty() ? nullptr : c.ca_path.c_str());
  if (trusted != 1) wrong("the certificates of the authorities: " + words_of_openssl());
  if (!c.cert_file.empty()) {
    std::string const& key = c.key_file.empty() ? c.cert_file : c.key_file;
    if (::SSL_CTX_use_certificate_chain_file(made.get(), c.cert_file.c_str()) != 1) wrong(c.cert_file + ": " + words_of_openssl());
    if (::SSL_CTX_use_PrivateKey_file(made.get(), key.c_str(), SSL_FILETYPE_PEM) != 1) wrong(key + ": " + words_of_openssl());
  }
  ::SSL_CTX_set_verify(made.get(), c.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  return made;
}

bool is_address(std::string const& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

struct tls_layer::state {
  int fd;
  tls_context context;
  std::unique_ptr<SSL, free_tls> tls;

  /// False: it failed for another reason than that it would block.
  bool wait_after(int result, time_point until) const {
    int const why = ::SSL_get_error(tls.get(), result);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return false;
    wait_for_socket(fd, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until);
    return true;
  }

  void expect(std::string const& name) const {
    if (is_address(name)) {
      ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(tls.get()), name.c_str());
    } else {
      ::SSL_set_tlsext_host_name(tls.get(), name.c_str());
      ::SSL_set_hostflags(tls.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);  // as src/net/tls.cpp
      ::SSL_set1_host(tls.get(), name.c_str());
    }
  }
};

tls_layer::tls_layer(int fd, server_address const& where, time_point until) : state_{std::make_unique<state>()} {
  state_->fd = fd;
  state_->context = context_of(where.tls);
  state_->tls.reset(::SSL_new(state_->context.get()));
  state_->expect(where.tls.server_name.empty() ? where.host : where.tls.server_name);
  SSL* const tls = state_->tls.get();
  ::SSL_set_fd(tls, fd);
  for (int result = 0; (result = ::SSL_connect(tls)) != 1;) {
    if (state_->wait_after(result, until)) continue;
    long const verified = ::SSL_get_verify_result(tls);
    if (verified != X509_V_OK) wrong(std::string{"the certificate of the server is not accepted: "} + ::X509_verify_cert_error_string(verified));
    wrong(words_of_openssl());
  }
}

tls_layer::~tls_layer() = default;

ssize_t tls_layer::write(std::string_view bytes, time_point until) {
  for (;;) {
    int const size = ::SSL_write(state_->tls.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX)));
    if (size > 0) return size;
    if (!state_->wait_after(size, until)) away("the connection has ended: " + words_of_openssl());
  }
}

ssize_t tls_layer::read(char* to, int room, time_point until) {
  for (;;) {
    int const size = ::SSL_read(state_->tls.get(), to, room);
    if (size > 0) return size;
    if (!state_->wait_after(size, until)) away("the server has closed the connection");
  }
}

std::string tls_layer::description() const {
  return std::string{::SSL_get_version(state_->tls.get())} + ", " + ::SSL_get_cipher_name(state_->tls.get());
}

}  // namespace conch::cli

#else

namespace conch::cli {

struct tls_layer::state {};

tls_layer::tls_layer(int, server_address const&, time_point) { throw failure{exit_code::wrong_config, "this conch was built without TLS"}; }
tls_layer::~tls_layer() = default;
ssize_t tls_layer::write(std::string_view, time_point) { return 0; }
ssize_t tls_layer::read(char*, int, time_point) { return 0; }
std::string tls_layer::description() const { return {}; }

}  // namespace conch::cli

#endif
