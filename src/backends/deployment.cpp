// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "backends/deployment.hpp"

#include "backends/components.hpp"
#include "base/entropy.hpp"
#include "base/identity.hpp"
#include "protocol/server.hpp"
#include "protocol/sharded.hpp"
#include "protocol/synced_server.hpp"
#include "quorum/quorum.hpp"
#include "servers/memory/connection.hpp"
#include "servers/redis/cluster_transport.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/connection.hpp"
#include "servers/redis/scripts.hpp"
#include "servers/redis/sentinel_transport.hpp"
#include "servers/zookeeper/connection.hpp"
#include "servers/zookeeper/names.hpp"
#include "servers/zookeeper/queue.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace conch::backends {

namespace {

std::unique_ptr<transport> transport_to(redis::address const& where, lent const& client) {
  if (auto sentinels = sentinels_of(client.settings)) {
    return std::make_unique<redis::sentinel_transport>(client.shell, client.on, client.settings, client.client_id, std::move(*sentinels));
  }
  if (where.what == redis::address::kind::memory) {
    // Clients with different prefixes do not see each other's locks.
    std::string const store = where.path + '\n' + client.settings.key_prefix;
    return std::make_unique<memory::connection>(client.shell, client.on, client.client_id, store);
  }
  if (where.what == redis::address::kind::postgresql)
    return postgresql().make_transport({client.shell, client.on, client.settings, client.client_id, where.path});
  return std::make_unique<redis::connection>(client.shell, client.on, client.settings, client.client_id, where);
}

/// memory:// needs no nonces: each would cost a twentieth of an acquire and release there.
std::unique_ptr<engine::entropy> nonces_for(std::vector<redis::address> const& servers) {
  bool const in_memory =
      std::all_of(servers.begin(), servers.end(), [](redis::address const& one) { return one.what == redis::address::kind::memory; });
  if (in_memory) return std::make_unique<detail::no_entropy>();
  return std::make_unique<detail::system_entropy>();
}

/// A second connection to the same server tells its replicas.
deployment synced(redis::address const& where, deployment d, std::uint64_t seed, lent const& client) {
  std::array<std::unique_ptr<transport>, 2> two;
  if (auto sentinels = sentinels_of(client.settings)) {
    auto of_master = std::make_unique<redis::sentinel_transport>(client.shell, client.on, client.settings, client.client_id, std::move(*sentinels));
    two[1] = of_master->beside();
    two[0] = std::move(of_master);
  } else {
    for (auto& one : two) one = transport_to(where, client);
  }
  auto one = std::make_unique<protocol::synced_server>(client.settings, seed, *d.nonces, client.timers, *two[0], *two[1], client.up, client.log,
                                                       client.stats);
  two[0]->report_to(one->first().receiver());
  two[1]->report_to(one->second());
  for (auto& to_server : two) d.ways.push_back(std::move(to_server));
  d.backend = std::move(one);
  return d;
}

deployment in_zookeeper(redis::zookeeper_url where, deployment d, std::uint64_t seed, lent const& client) {
  redis::address const& any = where.servers.front();
  std::string secret = any.password.empty() ? std::string{} : any.user + ':' + any.password.bytes();
  auto to_ensemble = std::make_unique<zookeeper::connection>(client.shell, client.on, client.settings, std::move(where.servers));
  auto line = std::make_unique<zookeeper::queue>(client.settings, client.client_id, zookeeper::root_of(where.chroot, client.settings.key_prefix),
                                                 std::move(secret), seed, client.timers, *to_ensemble, client.up, client.stats);
  to_ensemble->report_to(line->receiver());
  d.backend = std::move(line);
  d.ways.push_back(std::move(to_ensemble));
  return d;
}

}  // namespace

std::vector<redis::address> servers_of(config const& c) {
  if (auto const through = sentinels_of(c)) return {through->server};
  if (auto const nodes = cluster_of(c)) return nodes->seeds;
  if (auto const ensemble = zookeeper_of(c)) return ensemble->servers;
  if (c.quorum.servers.empty()) return redis::parse_servers(c.url);
  try {
    return redis::parse_servers(c.quorum.servers);
  } catch (boost::system::system_error const& e) {
    throw boost::system::system_error{make_error_code(errc::invalid_config, std::string{"quorum.servers: "} + e.what())};
  }
}

std::optional<redis::sentinel_url> sentinels_of(config const& c) {
  if (!c.quorum.servers.empty() || !redis::names_sentinels(c.url)) return std::nullopt;
  redis::sentinel_url all = redis::parse_sentinels(c.url);
  if (all.server.master.empty()) all.server.master = c.master_name;
  for (redis::address& one : all.sentinels) {
    one.user = c.sentinel_username;
    one.password = c.sentinel_password;
    one.over_tls = c.sentinels_over_tls.value_or(one.over_tls);
    if (c.sentinel_tls) one.tls = {};  // what the URL says is for the servers then
  }
  return all;
}

std::optional<redis::cluster_url> cluster_of(config const& c) {
  if (!c.quorum.servers.empty() || !redis::names_cluster(c.url)) return std::nullopt;
  return redis::parse_cluster(c.url);
}

std::optional<redis::zookeeper_url> zookeeper_of(config const& c) {
  if (!c.quorum.servers.empty() || !redis::names_zookeeper(c.url)) return std::nullopt;
  if (!zookeeper::names_a_root(c.key_prefix)) {
    // The root is named without the colon. With several spellings for one root, or one for several, clients would share locks unawares.
    constexpr auto why = "key_prefix is a name and one ':' with zookeeper://, such as \"orders:\" for the node orders";
    throw boost::system::system_error{make_error_code(errc::invalid_config, why)};
  }
  return redis::parse_zookeeper(c.url);
}

bool is_quorum(config const& c) { return !c.quorum.servers.empty() || c.url.starts_with("redlock://"); }

std::string shown(config const& c) {
  std::string all;
  for (redis::address const& one : servers_of(c)) all += (all.empty() ? "" : ", ") + one.shown();
  return all;
}

bool is_one_redis(config const& c) {
  if (is_quorum(c)) return false;
  auto const what = servers_of(c).front().what;
  return what == redis::address::kind::tcp || what == redis::address::kind::unix_socket;
}

deployment make(lent const& client) {
  deployment d;
  std::vector<redis::address> const servers = servers_of(client.settings);
  d.nonces = nonces_for(servers);
  auto const seed = detail::seed_of(client.client_id);
  std::unique_ptr<quorum::quorum> several;
  if (is_quorum(client.settings)) {
    several =
        std::make_unique<quorum::quorum>(client.settings, client.client_id, seed, *d.nonces, client.timers, client.up, client.log, client.stats);
  }
  if (auto nodes = cluster_of(client.settings)) {
    auto to_nodes = std::make_unique<redis::cluster_transport>(client.shell, client.on, client.settings, client.client_id, std::move(*nodes));
    d.backend = std::make_unique<protocol::sharded>(client.settings, seed, *d.nonces, client.timers, *to_nodes, client.up, client.log, client.stats);
    d.ways.push_back(std::move(to_nodes));
    return d;
  }
  if (auto ensemble = zookeeper_of(client.settings)) return in_zookeeper(std::move(*ensemble), std::move(d), seed, client);
  if (client.settings.sync_replicas != 0) return synced(servers.front(), std::move(d), seed, client);
  for (redis::address const& where : servers) {
    auto to_server = transport_to(where, client);
    if (several) {
      to_server->report_to(several->add(*to_server, where.shown()).receiver());
    } else {
      auto one = std::make_unique<protocol::server>(client.settings, seed, *d.nonces, client.timers, *to_server, client.up, client.log, client.stats);
      to_server->report_to(one->receiver());
      d.backend = std::move(one);
    }
    d.ways.push_back(std::move(to_server));
  }
  if (several) d.backend = std::move(several);
  return d;
}

namespace {

script_text text_of(std::string_view name) {
  redis::script const& script = redis::find_script(name);
  return {script.source, script.sha1};
}

}  // namespace

std::string lock_key(config const& c, std::string_view name) { return redis::lock_key({{}, c.key_prefix}, name); }

script_text guard_prelude() noexcept { return text_of("guard"); }

script_text guarded_script() noexcept { return text_of("guarded"); }

}  // namespace conch::backends
