#pragma once

// Servers with TLS, and what their clients say.

#include "integration/fixture.hpp"
#include "support/certificates.hpp"

#include <string>
#include <utility>
#include <vector>

namespace conch::test {

/// Certificates of one authority "ca": "server" for a.test and 127.0.0.1, and "client".
struct tls_files : certificates {
  tls_files() {
    authority("ca");
    signed_by("ca", "server", "DNS:a.test,IP:127.0.0.1");
    signed_by("ca", "client", "DNS:client.test");
  }

  /// A server with that certificate. `clients`: yes, no, optional: do they need one?
  redis_server_options options(std::string const& name = "server", std::string const& clients = "no") const {
    redis_server_options o;
    o.tls = true;
    o.arguments = {"--tls-cert-file",    certificate(name), "--tls-key-file",     key(name),
                   "--tls-ca-cert-file", certificate("ca"), "--tls-auth-clients", clients};
    return o;
  }
};

inline redis_server_options with(redis_server_options o, std::vector<std::string> const& arguments) {
  o.arguments.insert(o.arguments.end(), arguments.begin(), arguments.end());
  return o;
}

/// How one acquire ended.
struct attempt_result {
  error_code ec;
  std::chrono::milliseconds took{};
  std::string words() const { return ec.message(); }
};

/// One acquire of a client with these settings.
inline attempt_result acquire_once(config settings) {
  world w;
  attempt_result r;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings};
    mutex m{one, "tls"};
    auto const began = steady::now();
    auto got = co_await m.async_acquire(as_tuple);
    r.ec = std::get<0>(got);
    r.took = std::chrono::duration_cast<std::chrono::milliseconds>(steady::now() - began);
  };
  w.run(body);
  return r;
}

/// Settings with short times for connections.
inline config over_tls(std::string url, tls_files const& files) {
  config c = quick(std::move(url));
  c.tls.ca_file = files.certificate("ca");
  return c;
}

}  // namespace conch::test
