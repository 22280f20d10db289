// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/scheme.hpp"

#include "base/checks.hpp"
#include "base/entropy.hpp"
#include "base/identity.hpp"
#include "base/url_text.hpp"
#include "servers/zookeeper/connection.hpp"
#include "servers/zookeeper/names.hpp"
#include "servers/zookeeper/probe.hpp"
#include "servers/zookeeper/queue.hpp"
#include "servers/zookeeper/url.hpp"

#include <utility>

namespace conch::zookeeper {

namespace {

using detail::refuse;

class target final : public servers::target {
 public:
  explicit target(ensemble_url where) : where_{std::move(where)} {}

  std::string shown() const override { return url::shown(where_.servers); }

  servers::site where() const override { return {url::first_of(where_.servers)}; }
  bool is_over_tls() const noexcept override { return where_.servers.front().over_tls; }

  void check(config& c) const override {
    if (c.sync_replicas != 0)
      refuse(errc::not_supported, "sync_replicas is set, and an ensemble of ZooKeeper always waits for a majority");
    if (c.credentials_provider)
      refuse(errc::not_supported, "credentials_provider is set, and zookeeper:// takes user and password from the URL");
  }

  servers::deployment make(servers::client_services const& client) const override {
    auto to_ensemble = std::make_unique<connection>(client.shell, client.on, client.settings, where_.servers);
    over_wire whole = over(*to_ensemble, client);
    to_ensemble->report_to(whole.receiver);
    whole.made.connections.push_back(std::move(to_ensemble));
    return std::move(whole.made);
  }

  over_wire over(wire& out, servers::client_services const& client) const {
    servers::deployment d;
    d.nonces = std::make_unique<detail::system_entropy>();
    address const& any = where_.servers.front();
    std::string secret = any.password.empty() ? std::string{} : any.user + ':' + any.password.bytes();
    auto line = std::make_unique<queue>(client.settings, client.client_id,
                                        root_of(where_.chroot, client.settings.key_prefix), std::move(secret),
                                        detail::seed_of(client.client_id), client.timers, out, client.up, client.stats);
    wire_events& receiver = line->receiver();
    d.backend = std::move(line);
    return {std::move(d), receiver};
  }

  std::unique_ptr<servers::probe> make_probe(config const& c) const override {
    return zookeeper::make_probe(c, where_);
  }

 private:
  ensemble_url const where_;
};

std::unique_ptr<servers::target> parse_target(std::string_view url, config const& c) {
  // The root is named without the colon. With several spellings for one root, or one for several, clients would share
  // locks unawares.
  detail::require(names_a_root(c.key_prefix),
                  "key_prefix is a name and one ':' with zookeeper://, such as \"orders:\" for the node orders");
  return std::make_unique<target>(parse(url));
}

constexpr servers::scheme::name names[] = {{"zookeeper"}, {"zookeepers", true}};

}  // namespace

bool is_ensemble(servers::target const& t) noexcept { return dynamic_cast<target const*>(&t) != nullptr; }

over_wire make_over(wire& out, servers::target const& t, servers::client_services const& client) {
  return dynamic_cast<target const&>(t).over(out, client);
}

std::span<servers::scheme const> schemes() noexcept {
  static servers::scheme const all[] = {
      {.names = names,
       .login = {.takes_provider = false},
       .why_no_vote = "zookeeper:// is not allowed here: an ensemble has its own majority, and gives no votes",
       .parse = parse_target},
  };
  return all;
}

}  // namespace conch::zookeeper
