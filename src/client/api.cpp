// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "backends/deployment.hpp"
#include "client/checked.hpp"
#include "client/core.hpp"
#include "cohort/lease.hpp"

#include <conch/client.hpp>
#include <conch/hold.hpp>
#include <conch/mutex.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <string>
#include <utility>

// The public classes: checks, and calls of the core.
namespace conch {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr duration shortest_lease = milliseconds{100};
constexpr duration longest_lease = milliseconds{engine::longest_lease_ms};
constexpr duration shortest_hold = milliseconds{1};
// Below these the messages would follow each other as fast as the server answers, without any use.
constexpr duration shortest_renewal = milliseconds{10};
constexpr duration shortest_keep_alive = milliseconds{10};

using detail::refuse;

void require(bool holds, std::string const& why) {
  if (!holds) refuse(errc::invalid_config, why);
}

/// The duration as text, in the largest unit in which it is a whole number.
std::string text(duration d) {
  struct unit {
    duration of;
    char const* name;
  };
  using std::chrono::nanoseconds;
  for (auto const& [of, name] :
       {unit{hours{24}, " d"}, unit{hours{1}, " h"}, unit{std::chrono::minutes{1}, " min"}, unit{std::chrono::seconds{1}, " s"},
        unit{milliseconds{1}, " ms"}, unit{std::chrono::microseconds{1}, " us"}, unit{nanoseconds{1}, " ns"}}) {
    if (d != duration::zero() && d % of == duration::zero()) return std::to_string(d / of) + name;
  }
  return "0";
}

std::string less_than(std::string const& member, duration d, duration least) {
  return d < least ? member + " must be at least " + text(least) + ", got " + text(d) : std::string{};
}

void at_least(std::string const& member, duration d, duration least) {
  std::string const why = less_than(member, d, least);
  require(why.empty(), why);
}

/// Why the value is refused; empty: it is not.
std::string not_between(std::string const& member, duration d, duration least, duration most, std::string const& explained = {}) {
  if (d >= least && d <= most) return {};
  return member + " must be " + text(least) + " to " + text(most) + explained + ", got " + text(d);
}

void between(std::string const& member, duration d, duration least, duration most, std::string const& explained = {}) {
  std::string const why = not_between(member, d, least, most, explained);
  require(why.empty(), why);
}

/// The same for the lease of a lock, or of one acquire.
std::string wrong_lease(std::string const& member, duration lease, config const& c) {
  if (std::string why = not_between(member, lease, shortest_lease, longest_lease); !why.empty()) return why;
  if (!backends::is_quorum(c) || lease >= c.quorum.vote_claim) return {};
  return member + " must not be shorter than quorum_config::vote_claim (" + text(c.quorum.vote_claim) + "), and is " + text(lease);
}

/// The same, where 0 switches the member off.
void zero_or_between(std::string const& member, duration d, duration least, duration most, std::string const& explained = {}) {
  if (d == duration::zero() || (d >= least && d <= most)) return;
  refuse(errc::invalid_config, member + " must be 0, or " + text(least) + " to " + text(most) + explained + ", got " + text(d));
}

/// The name must suit CLIENT SETNAME and a line of CLIENT LIST.
void check_client_name(std::string const& name) {
  constexpr std::size_t longest = 64;
  if (name.empty() || name.size() > longest) {
    refuse(errc::invalid_config, "client_name must have 1 to " + std::to_string(longest) + " characters, got " + std::to_string(name.size()));
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] > ' ' && name[i] < 127) continue;
    refuse(errc::invalid_config, "client_name must consist of printable ASCII characters without spaces, and has byte " +
                                     std::to_string(static_cast<unsigned char>(name[i])) + " at " + std::to_string(i));
  }
}

/// The prefix begins keys, channels, and words in messages that a blank ends; in a key a brace begins the hash tag.
void check_key_prefix(std::string const& prefix) {
  constexpr std::size_t longest = 64;
  if (prefix.empty() || prefix.size() > longest) {
    refuse(errc::invalid_config, "key_prefix must have 1 to " + std::to_string(longest) + " characters, got " + std::to_string(prefix.size()));
  }
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (prefix[i] > ' ' && prefix[i] < 127 && prefix[i] != '{' && prefix[i] != '}') continue;
    refuse(errc::invalid_config, "key_prefix must consist of printable ASCII characters without spaces and braces, and has byte " +
                                     std::to_string(static_cast<unsigned char>(prefix[i])) + " at " + std::to_string(i));
  }
}

void check_files(std::string const& member, tls_config const& t) {
  require(t.key_file.empty() || !t.cert_file.empty(), member + ".key_file needs " + member + ".cert_file");
  for (std::string const* text : {&t.ca_file, &t.ca_path, &t.cert_file, &t.key_file, &t.server_name}) {
    require(text->find('\0') == std::string::npos, "a member of " + member + " contains a NUL");
  }
}

/// Who sets something of TLS means to use it.
void check_tls(config const& c) {
  tls_config const& t = c.tls;
  check_files("tls", t);
  bool const is_set = !t.verify || !(t.ca_file + t.ca_path + t.cert_file + t.server_name).empty();
  auto const servers = backends::servers_of(c);
  auto const through = backends::sentinels_of(c);
  bool const of_sentinels = through && through->sentinels.front().over_tls && !c.sentinel_tls;
  bool const used = of_sentinels || std::any_of(servers.begin(), servers.end(), [](auto const& one) { return one.over_tls; });
  require(!is_set || used, "tls is set, and no URL begins with rediss:// or zookeepers://");
}

/// `host:port`, as Sentinels are understood to name it.
void check_host_and_port(std::string const& member, std::string const& text) {
  redis::address to;
  to.port = 0;
  try {
    redis::read_host_and_port(text, to);
  } catch (boost::system::system_error const& e) {
    refuse(errc::invalid_config, member + ": " + e.what());
  }
  require(to.port != 0, member + " must be host:port, and is '" + text + "'");
}

void check_address_map(config const& c) {
  constexpr std::size_t most = 1000;
  require(c.address_map.size() <= most,
          "address_map must have at most " + std::to_string(most) + " addresses, got " + std::to_string(c.address_map.size()));
  for (auto const& [from, to] : c.address_map) {
    check_host_and_port("address_map: '" + from + "'", from);
    check_host_and_port("address_map['" + from + "']", to);
  }
}

void check_topology(config const& c) {
  between("topology_refresh", c.topology_refresh, milliseconds{100}, hours{1});
  auto const through = backends::sentinels_of(c);
  bool const maps = through || backends::cluster_of(c);
  require(maps || c.address_map.empty(), "address_map is set, and the URL begins neither with redis-sentinel:// nor with redis-cluster://");
  check_address_map(c);
  if (!through) {
    for (auto const& [is_set, member] :
         {std::pair{!c.master_name.empty(), "master_name"}, std::pair{!c.sentinel_username.empty(), "sentinel_username"},
          std::pair{!c.sentinel_password.empty(), "sentinel_password"}, std::pair{c.sentinels_over_tls.has_value(), "sentinels_over_tls"},
          std::pair{c.sentinel_tls.has_value(), "sentinel_tls"}}) {
      require(!is_set, std::string{member} + " is set, and the URL does not begin with redis-sentinel://");
    }
    return;
  }
  std::string const& name = through->server.master;
  require(!name.empty(), "master_name is empty, and the URL has no ?sentinelMasterId=");
  require(c.master_name.empty() || c.master_name == name, "master_name is '" + c.master_name + "', and the URL names '" + name + "'");
  require(std::all_of(name.begin(), name.end(), [](char x) { return x > ' ' && x < 127; }),
          "master_name must consist of printable ASCII characters without spaces");
  require(c.sentinel_username.empty() || !c.sentinel_password.empty(), "sentinel_username needs sentinel_password");
  if (c.sentinel_tls) check_files("sentinel_tls", *c.sentinel_tls);
  require(!c.sentinel_tls || through->sentinels.front().over_tls,
          "sentinel_tls is set, but the Sentinels are reached without TLS: use rediss-sentinel://, or set sentinels_over_tls");
}

/// Only a Redis server has replicas, of which WAIT tells. Over several servers each vote is for itself.
void check_sync(config& c) {
  constexpr std::size_t most = 100;
  require(c.sync_replicas <= most, "sync_replicas must be 0 to " + std::to_string(most) + ", got " + std::to_string(c.sync_replicas));
  at_least("sync_timeout", c.sync_timeout, milliseconds{1});
  c.sync_timeout = std::min({c.sync_timeout, c.command_timeout, c.claim / 3});
  if (c.sync_replicas == 0) return;
  if (backends::is_quorum(c))
    refuse(errc::not_supported, "sync_replicas is set, and several servers decide: each gives a vote, whatever its replicas have");
  if (backends::cluster_of(c)) refuse(errc::not_supported, "sync_replicas is set, and over a Cluster conch cannot wait for replicas");
  if (backends::is_one_redis(c)) return;
  bool const in_memory = backends::servers_of(c).front().what == redis::address::kind::memory;
  refuse(errc::not_supported,
         backends::zookeeper_of(c) ? "sync_replicas is set, and an ensemble of ZooKeeper always waits for a majority"
         : in_memory               ? "sync_replicas is set, and memory:// has no replicas"
                     : "sync_replicas is set; a standby of PostgreSQL gets none of the locks, and waits out the leases when it takes over");
}

/// Lowers what depends on the lease, and throws for values out of range.
config checked(config c) {
  constexpr duration none = duration::zero();
  between("lease", c.lease, shortest_lease, longest_lease);
  zero_or_between("renew_every", c.renew_every, shortest_renewal, c.lease / 2, " (half of the lease)");
  at_least("stop_margin", c.stop_margin, none);
  c.stop_margin = std::min(c.stop_margin, c.lease / 2);
  if (c.max_hold) at_least("max_hold", *c.max_hold, shortest_hold);
  between("local_slice", c.local_slice, none, c.lease, " (the lease)");
  at_least("claim", c.claim, milliseconds{50});
  c.claim = std::min(c.claim, c.lease);
  if (backends::is_quorum(c)) {
    at_least("quorum.vote_claim", c.quorum.vote_claim, milliseconds{50});
    c.quorum.vote_claim = std::min(c.quorum.vote_claim, c.lease);
    between("quorum.min_validity", c.quorum.min_validity, none, c.quorum.vote_claim / 2, " (half of quorum.vote_claim)");
    between("quorum.min_server_uptime", c.quorum.min_server_uptime, none, hours{24 * 30});
    std::size_t const n = backends::servers_of(c).size();
    require(c.quorum.votes_needed == 0 || (c.quorum.votes_needed > n / 2 && c.quorum.votes_needed <= n),
            "quorum.votes_needed must be 0, or " + std::to_string(n / 2 + 1) + " to " + std::to_string(n) +
                " (a majority to all of the servers), got " + std::to_string(c.quorum.votes_needed));
    c.claim = c.quorum.vote_claim;
  }
  between("fence_retention", c.fence_retention, std::chrono::seconds{1}, hours{24 * 30});
  at_least("command_timeout", c.command_timeout, milliseconds{10});
  c.command_timeout = std::min(c.command_timeout, c.lease / 3);
  between("connect_timeout", c.connect_timeout, milliseconds{10}, hours{1});
  between("offline_timeout", c.offline_timeout, none, hours{24 * 30});
  between("reconnect_min", c.reconnect_min, milliseconds{1}, hours{1});
  between("reconnect_max", c.reconnect_max, c.reconnect_min, hours{1}, " (not less than reconnect_min)");
  c.reconnect_max = std::min(c.reconnect_max, c.lease / 10);
  c.reconnect_min = std::min(c.reconnect_min, c.reconnect_max);
  zero_or_between("keep_alive", c.keep_alive, shortest_keep_alive, hours{24});
  require(c.top_k <= 100, "top_k must be 0 to 100, got " + std::to_string(c.top_k));
  between("zookeeper.session_margin", c.zookeeper.session_margin, none, std::chrono::minutes{1});
  check_sync(c);
  check_client_name(c.client_name);
  check_key_prefix(c.key_prefix);
  check_topology(c);
  check_tls(c);
  if (c.credentials_provider) {
    auto const servers = backends::servers_of(c);
    if (servers.front().what == redis::address::kind::postgresql) {
      refuse(errc::not_supported, "credentials_provider is set, and postgresql:// takes them from the URL, the environment or a password file");
    }
    if (backends::zookeeper_of(c)) refuse(errc::not_supported, "credentials_provider is set, and zookeeper:// takes user and password from the URL");
    bool const twice = std::any_of(servers.begin(), servers.end(), [](auto const& one) { return !one.password.empty(); });
    require(!twice, "credentials_provider is set, and a URL contains a password");
  }
  return c;
}

}  // namespace

detail::settings_ptr detail::checked_lock(core_ptr core, std::string name, lock_options const& o, lock_status::kind_of_lock kind,
                                          std::uint32_t limit) {
  if (name.empty()) refuse(errc::invalid_name, "it is empty");
  if (name.size() > 512) refuse(errc::invalid_name, "it has " + std::to_string(name.size()));
  config const& c = core->settings();
  duration const lease = o.lease.value_or(c.lease);
  if (std::string const why = wrong_lease("lock_options::lease", lease, c); !why.empty()) refuse(errc::invalid_config, why);
  if (o.max_hold) at_least("lock_options::max_hold", *o.max_hold, shortest_hold);
  return std::make_shared<detail::lock_settings const>(
      detail::lock_settings{std::move(core), std::move(name), lease, o.renew, o.max_hold ? o.max_hold : c.max_hold, kind, limit});
}

error_code detail::checked_acquire(config const& c, acquire_options const& o) {
  if (o.lease) {
    if (error_code const wrong = checked_lease(c, "acquire_options::lease", *o.lease)) return wrong;
  }
  std::string const why = o.max_hold ? less_than("acquire_options::max_hold", *o.max_hold, shortest_hold) : std::string{};
  return why.empty() ? error_code{} : make_error_code(errc::invalid_config, why);
}

error_code detail::checked_lease(config const& c, std::string const& what, duration lease) {
  std::string const why = wrong_lease(what, lease, c);
  return why.empty() ? error_code{} : make_error_code(errc::invalid_config, why);
}

client::client(executor_type executor, config settings) : core_{detail::client_core::make(std::move(executor), checked(std::move(settings)))} {}

client::~client() {
  if (closes_) core_->close_in_background();
}

client::executor_type client::get_executor() const noexcept { return core_->executor(); }

config const& client::settings() const noexcept { return core_->settings(); }

statistics client::stats() const { return core_->stats(); }

std::string const& client::id() const noexcept { return core_->id(); }

named_lock::executor_type named_lock::get_executor() const noexcept { return lock_->core->executor(); }

mutex::mutex(client& through, std::string name, lock_options options) : named_lock{detail::checked_lock(through.core(), std::move(name), options)} {}

hold::~hold() {
  if (node_) node_->core->abandon(*node_);
}

bool hold::valid() const noexcept { return node_ && clock::now() < deadline(); }

time_point hold::deadline() const noexcept { return node_ && node_->core->is_here() ? node_->deadline() : time_point::min(); }

std::uint32_t hold::segment() const noexcept { return node_ ? node_->segment : 0; }

std::uint32_t hold::permits() const { return node_ ? node_->core->permits_of(*node_) : 0; }

std::int64_t hold::fence() const noexcept { return node_ ? node_->fence : 0; }

}  // namespace conch
