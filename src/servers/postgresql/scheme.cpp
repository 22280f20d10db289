// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/scheme.hpp"

#include "base/checks.hpp"
#include "registry/registry.hpp"
#include "servers/postgresql/connection.hpp"
#include "servers/postgresql/probe.hpp"
#include "servers/postgresql/url.hpp"

#include <memory>
#include <string>
#include <utility>

namespace conch::postgresql {

namespace {

using detail::refuse;

class target final : public servers::target {
 public:
  explicit target(std::string url) : url_{std::move(url)} {}

  std::string shown() const override { return postgresql::shown(url_); }
  servers::site where() const override { return {server_in(url_), database_in(url_)}; }

  void check(config& c) const override {
    if (c.sync_replicas != 0) {
      refuse(errc::not_supported,
             "sync_replicas is set; a standby of PostgreSQL gets none of the locks, and waits out the leases when it "
             "takes over");
    }
    if (c.credentials_provider) {
      refuse(
          errc::not_supported,
          "credentials_provider is set, and postgresql:// takes them from the URL, the environment or a password file");
    }
  }

  servers::deployment make(servers::client_services const& client) const override {
    return servers::make_single(*this, client);
  }

  std::unique_ptr<transport> make_transport(servers::client_services const& client) const override {
    return std::make_unique<connection>(client.shell, client.on, client.settings, client.client_id, url_);
  }

  std::unique_ptr<servers::probe> make_probe(config const& c) const override { return postgresql::make_probe(c); }

 private:
  std::string const url_;
};

std::unique_ptr<servers::target> parse(std::string_view url, config const&) {
  check_url(url);
  return std::make_unique<target>(std::string{url});
}

constexpr servers::scheme::name names[] = {{"postgresql"}, {"postgres"}};

constexpr servers::scheme kind{
    .names = names,
    .login = {.takes_provider = false, .needs_password = false},
    .why_no_vote = "a PostgreSQL server gives no votes: postgresql:// names one server for itself",
    .parse = parse};
constinit registry::component this_component{kind};

}  // namespace

}  // namespace conch::postgresql

/// The target conch::postgresql tells the linker that this symbol is needed. So the linker takes this file, and with it
/// all others of the component, though no program names them.
extern "C" {
extern CONCH_API bool const conch_component_postgresql;
bool const conch_component_postgresql = conch::registry::add(conch::postgresql::this_component);
}
