// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/scheme.hpp"

#include "base/checks.hpp"
#include "base/entropy.hpp"
#include "base/identity.hpp"
#include "protocol/sharded.hpp"
#include "protocol/synced_server.hpp"
#include "servers/redis/cluster_transport.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/connection.hpp"
#include "servers/redis/probe.hpp"
#include "servers/redis/sentinel_transport.hpp"
#include "servers/redis/url.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace conch::redis {

namespace {

using detail::refuse;
using detail::require;

/// `host:port`, as Sentinels and nodes are understood to name it.
void check_host_and_port(std::string const& member, std::string const& text) {
  endpoint to;
  try {
    url::read_host_and_port(text, to);
  } catch (boost::system::system_error const& e) {
    refuse(errc::invalid_config, member + ": " + e.what());
  }
  require(to.port != 0, member + " must be host:port, and is '" + text + "'");
}

void check_address_map(config const& c) {
  constexpr std::size_t most = 1000;
  require(c.address_map.size() <= most, "address_map must have at most " + std::to_string(most) + " addresses, got " +
                                            std::to_string(c.address_map.size()));
  for (auto const& [from, to] : c.address_map) {
    check_host_and_port("address_map: '" + from + "'", from);
    check_host_and_port("address_map['" + from + "']", to);
  }
}

void check_provider(config const& c, address const& where) {
  require(!c.credentials_provider || where.password.empty(),
          "credentials_provider is set, and a URL contains a password");
}

/// Only a Redis server has replicas that WAIT counts.
void check_sync(config& c) {
  constexpr std::size_t most = 100;
  require(c.sync_replicas <= most,
          "sync_replicas must be 0 to " + std::to_string(most) + ", got " + std::to_string(c.sync_replicas));
  detail::at_least("sync_timeout", c.sync_timeout, std::chrono::milliseconds{1});
  c.sync_timeout = std::min({c.sync_timeout, c.command_timeout, c.claim / 3});
}

/// A second connection to the same server waits for its replicas.
servers::deployment make_synced(std::array<std::unique_ptr<transport>, 2> two, servers::client_services const& client) {
  servers::deployment d;
  d.nonces = std::make_unique<detail::system_entropy>();
  auto one =
      std::make_unique<protocol::synced_server>(client.settings, detail::seed_of(client.client_id), *d.nonces,
                                                client.timers, *two[0], *two[1], client.up, client.log, client.stats);
  two[0]->report_to(one->first().receiver());
  two[1]->report_to(one->second());
  for (auto& to_server : two) d.connections.push_back(std::move(to_server));
  d.backend = std::move(one);
  return d;
}

/// What holds for all of them.
class target : public servers::target {
 public:
  std::optional<std::string> guard_key(config const& c, std::string_view name) const override {
    return lock_key({{}, c.key_prefix}, name);
  }
};

class one_server final : public target {
 public:
  explicit one_server(address where) : where_{std::move(where)} {}

  std::string shown() const override { return where_.shown(); }
  std::string identity() const override { return identity_of(where_); }
  servers::site where() const override { return {site_of(where_), std::to_string(where_.database)}; }
  bool is_over_tls() const noexcept override { return where_.over_tls; }

  void check(config& c) const override {
    check_sync(c);
    check_provider(c, where_);
  }

  servers::deployment make(servers::client_services const& client) const override {
    if (client.settings.sync_replicas == 0) return servers::make_single(*this, client);
    return make_synced({make_transport(client), make_transport(client)}, client);
  }

  std::unique_ptr<transport> make_transport(servers::client_services const& client) const override {
    return std::make_unique<connection>(client.shell, client.on, client.settings, client.client_id, where_);
  }

  std::unique_ptr<servers::probe> make_probe(config const& c) const override { return redis::make_probe(c, where_); }

 private:
  address const where_;
};

class through_sentinels final : public target {
 public:
  through_sentinels(sentinel_url where, config const& c) : where_{std::move(where)} {
    if (where_.server.master.empty()) where_.server.master = c.master_name;
    for (address& one : where_.sentinels) {
      one.user = c.sentinel_username;
      one.password = c.sentinel_password;
      one.over_tls = c.sentinels_over_tls.value_or(one.over_tls);
      if (c.sentinel_tls) one.tls = {};  // the URL's credentials are for the servers then
    }
    tls_is_for_sentinels_ = where_.sentinels.front().over_tls && !c.sentinel_tls;
  }

  std::string shown() const override { return where_.server.shown(); }
  servers::site where() const override { return {where_.server.master, std::to_string(where_.server.database)}; }
  bool is_over_tls() const noexcept override { return where_.server.over_tls || tls_is_for_sentinels_; }

  void check(config& c) const override {
    check_address_map(c);
    check_name(c);
    require(c.sentinel_username.empty() || !c.sentinel_password.empty(), "sentinel_username needs sentinel_password");
    if (c.sentinel_tls) detail::check_files("sentinel_tls", *c.sentinel_tls);
    require(!c.sentinel_tls || where_.sentinels.front().over_tls,
            "sentinel_tls is set, but the Sentinels are reached without TLS: use rediss-sentinel://, or set "
            "sentinels_over_tls");
    check_sync(c);
    check_provider(c, where_.server);
  }

  servers::deployment make(servers::client_services const& client) const override {
    if (client.settings.sync_replicas == 0) return servers::make_single(*this, client);
    auto of_master = make_sentinel_transport(client);
    auto beside = of_master->beside();
    return make_synced({std::move(of_master), std::move(beside)}, client);
  }

  std::unique_ptr<transport> make_transport(servers::client_services const& client) const override {
    return make_sentinel_transport(client);
  }

  std::unique_ptr<servers::probe> make_probe(config const& c) const override { return redis::make_probe(c, where_); }

 private:
  std::unique_ptr<sentinel_transport> make_sentinel_transport(servers::client_services const& client) const {
    return std::make_unique<sentinel_transport>(client.shell, client.on, client.settings, client.client_id, where_);
  }

  void check_name(config const& c) const {
    std::string const& name = where_.server.master;
    require(!name.empty(), "master_name is empty, and the URL has no ?sentinelMasterId=");
    require(c.master_name.empty() || c.master_name == name,
            "master_name is '" + c.master_name + "', and the URL names '" + name + "'");
    require(std::all_of(name.begin(), name.end(), [](char x) { return x > ' ' && x < 127; }),
            "master_name must consist of printable ASCII characters without spaces");
  }

  sentinel_url where_;
  bool tls_is_for_sentinels_ = false;
};

class of_cluster final : public target {
 public:
  explicit of_cluster(cluster_url where) : where_{std::move(where)} {}

  std::string shown() const override { return url::shown(where_.seeds); }
  servers::site where() const override { return {url::first_of(where_.seeds), "0"}; }
  bool is_over_tls() const noexcept override { return where_.seeds.front().over_tls; }

  void check(config& c) const override {
    check_address_map(c);
    if (c.sync_replicas != 0)
      refuse(errc::not_supported, "sync_replicas is set, and over a Cluster conch cannot wait for replicas");
    check_provider(c, where_.seeds.front());
  }

  servers::deployment make(servers::client_services const& client) const override {
    servers::deployment d;
    d.nonces = std::make_unique<detail::system_entropy>();
    auto to_nodes =
        std::make_unique<cluster_transport>(client.shell, client.on, client.settings, client.client_id, where_);
    d.backend = std::make_unique<protocol::sharded>(client.settings, detail::seed_of(client.client_id), *d.nonces,
                                                    client.timers, *to_nodes, client.up, client.log, client.stats);
    d.connections.push_back(std::move(to_nodes));
    return d;
  }

  std::unique_ptr<servers::probe> make_probe(config const& c) const override { return redis::make_probe(c, where_); }

 private:
  cluster_url const where_;
};

std::unique_ptr<servers::target> parse_server(std::string_view url, config const&) {
  return std::make_unique<one_server>(parse_one(url));
}

std::unique_ptr<servers::target> parse_with_sentinels(std::string_view url, config const& c) {
  return std::make_unique<through_sentinels>(parse_sentinels(url), c);
}

std::unique_ptr<servers::target> parse_nodes(std::string_view url, config const&) {
  return std::make_unique<of_cluster>(parse_cluster(url));
}

constexpr servers::scheme::name names_of_server[] = {{"redis"}, {"valkey"}, {"rediss", true}, {"valkeys", true}};
constexpr servers::scheme::name names_of_sentinels[] = {{"redis-sentinel"}, {"rediss-sentinel", true}};
constexpr servers::scheme::name names_of_cluster[] = {
    {"redis-cluster"}, {"valkey-cluster"}, {"rediss-cluster", true}, {"valkeys-cluster", true}};
constexpr servers::scheme::name names_of_list[] = {{"redlock"}};
constexpr servers::scheme::name names_of_socket[] = {{"unix"}};

constexpr std::string_view no_sentinel = "the URL does not begin with redis-sentinel://";

constexpr servers::own_setting map_of_addresses{
    "address_map", [](config const& c) { return !c.address_map.empty(); },
    "the URL begins neither with redis-sentinel:// nor with redis-cluster://"};

constexpr servers::own_setting own_to_sentinels[] = {
    map_of_addresses,
    {"master_name", [](config const& c) { return !c.master_name.empty(); }, no_sentinel},
    {"sentinel_username", [](config const& c) { return !c.sentinel_username.empty(); }, no_sentinel},
    {"sentinel_password", [](config const& c) { return !c.sentinel_password.empty(); }, no_sentinel},
    {"sentinels_over_tls", [](config const& c) { return c.sentinels_over_tls.has_value(); }, no_sentinel},
    {"sentinel_tls", [](config const& c) { return c.sentinel_tls.has_value(); }, no_sentinel},
};

constexpr servers::own_setting own_to_cluster[] = {map_of_addresses};

}  // namespace

std::span<servers::scheme const> schemes() noexcept {
  static servers::scheme const all[] = {
      {.names = names_of_server, .parse = parse_server},
      {.names = names_of_sentinels,
       .login = {.has_sentinels = true},
       .settings = own_to_sentinels,
       .shown_parameter = "sentinelMasterId",
       .why_no_vote = "redis-sentinel:// is not allowed here: name each server of a quorum",
       .parse = parse_with_sentinels},
      {.names = names_of_cluster,
       .settings = own_to_cluster,
       .why_no_vote = "redis-cluster:// is not allowed here: name each server of a quorum",
       .parse = parse_nodes},
      {.names = names_of_list,
       .shape = url::shape::list_of_servers,
       .why_no_vote = "redlock:// is not allowed here: name each server of a quorum",
       .votes = urls_of_list},
      {.names = names_of_socket, .shape = url::shape::socket, .parse = parse_server},
  };
  return all;
}

}  // namespace conch::redis
