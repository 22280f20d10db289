// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/examination.hpp"

#include "base/duration_text.hpp"
#include "base/numbers.hpp"
#include "base/readable.hpp"
#include "servers/redis/url.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

namespace conch::redis {

namespace {

using namespace std::chrono_literals;

std::string_view value_of(server_info const& info, std::string_view key) {
  auto const found = info.find(key);
  return found == info.end() ? std::string_view{} : std::string_view{found->second};
}

std::int64_t leading_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

finding not_told(std::string what) {
  return {verdict::warning, std::move(what), "unknown: INFO does not say",
          "grant the user +info, or ask the server's operator"};
}

}  // namespace

server_info parse_info(std::string_view text) {
  server_info all;
  while (!text.empty()) {
    auto const end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    auto const colon = line.find(':');
    if (line.starts_with('#') || colon == std::string_view::npos) continue;
    all.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
  return all;
}

finding judge_version(server_info const& info, bool in_cluster) {
  std::string_view const valkey = value_of(info, "valkey_version");
  std::string_view const redis = value_of(info, "redis_version");
  if (redis.empty()) return not_told("version");
  std::string const shown = valkey.empty() ? "Redis " + readable(redis) : "Valkey " + readable(valkey);
  std::int64_t const major = leading_number(redis);
  auto const dot = redis.find('.');
  std::int64_t const minor = dot == std::string_view::npos ? 0 : leading_number(redis.substr(dot + 1));
  if (major < 6 || (major == 6 && minor < 2))
    return {verdict::bad, "version", shown, "conch needs Redis 6.2 or newer, or Valkey"};
  if (in_cluster && major < 7)
    return {verdict::bad, "version", shown,
            "in a Cluster conch needs Redis 7.0 or newer, or Valkey: they have channels of shards"};
  return {verdict::ok, "version", shown, ""};
}

finding judge_role(server_info const& info, bool in_cluster) {
  std::string_view const mode = value_of(info, "redis_mode");
  std::string_view const role = value_of(info, "role");
  bool const is_node = mode == "cluster" || value_of(info, "cluster_enabled") == "1";
  if (is_node && !in_cluster)
    return {verdict::bad, "role", "a node of a Cluster",
            "this URL is for one server: redis-cluster:// is for a Cluster"};
  if (!is_node && in_cluster)
    return {verdict::bad, "role", "not a node of a Cluster",
            "redis-cluster:// is for a Cluster, redis:// for one server"};
  if (mode == "sentinel")
    return {
        verdict::bad, "role", "a Sentinel",
        "a Sentinel keeps no locks: use redis-sentinel://HOST?sentinelMasterId=NAME, or the port of the server itself"};
  if (role.empty()) return not_told("role");
  if (role != "master") {
    return {verdict::bad, "role",
            "the server is a replica of " + readable(value_of(info, "master_host")) + ':' +
                readable(value_of(info, "master_port")),
            "the master keeps the locks: name the master in the URL, or the Sentinels (redis-sentinel://)"};
  }
  return {verdict::ok, "role", "master", ""};
}

bool is_sentinel(server_info const& info) { return value_of(info, "redis_mode") == "sentinel"; }

bool is_master(server_info const& info) { return value_of(info, "role") == "master"; }

std::optional<finding> judge_memory(server_info const& info) {
  std::int64_t const limit = leading_number(value_of(info, "maxmemory")),
                     used = leading_number(value_of(info, "used_memory"));
  if (limit <= 0 || value_of(info, "used_memory").empty()) return std::nullopt;
  std::string const words = std::to_string(used) + " of " + std::to_string(limit) + " bytes in use";
  if (used >= limit) {
    return finding{verdict::bad, "memory", words,
                   "it is full, so no lock can be acquired: raise maxmemory, or remove keys"};
  }
  if (used >= limit - limit / 10)
    return finding{verdict::warning, "memory", words,
                   "when it is full no lock can be acquired: raise maxmemory, or remove keys"};
  return finding{verdict::ok, "memory", words, ""};
}

finding judge_eviction(server_info const& info) {
  std::string_view const policy = value_of(info, "maxmemory_policy");
  std::string_view const limit = value_of(info, "maxmemory");
  if (policy.empty()) return not_told("eviction");
  std::string shown = "maxmemory-policy " + readable(policy) + ", maxmemory ";
  if (limit == "0") {
    shown += "not set";
  } else {
    shown.append(readable(limit)).append(" bytes");
  }
  if (policy == "noeviction") return {verdict::ok, "eviction", shown, ""};
  if (limit == "0")
    return {verdict::warning, "eviction", shown, "set maxmemory-policy noeviction before setting maxmemory"};
  return {verdict::bad, "eviction", shown,
          "the server may remove a held lock and grant it to another client: set maxmemory-policy noeviction"};
}

finding judge_persistence(server_info const& info) {
  std::string_view const log = value_of(info, "aof_enabled");
  if (log.empty()) return not_told("persistence");
  if (log == "1") {
    if (value_of(info, "aof_last_write_status") == "err") {
      return {verdict::bad, "persistence", "the append-only file cannot be written",
              "the server refuses writes then: look at its disk"};
    }
    return {verdict::ok, "persistence",
            "append-only file; a crash loses up to a second of grants, or none with appendfsync always", ""};
  }
  return {verdict::warning, "persistence",
          "no append-only file: a restart forgets all holds, or goes back to a snapshot",
          "set appendonly yes and appendfsync always; or, after a crash, start the server only when the longest lease "
          "has passed; and check fences"};
}

finding judge_replicas(server_info const& info, std::size_t synced, bool in_cluster) {
  std::string_view const count = value_of(info, "connected_slaves");
  if (count.empty()) return not_told("replicas");
  std::string const there = readable(count);
  auto const all = static_cast<std::size_t>(std::max<std::int64_t>(leading_number(count), 0));
  if (all < synced) {
    return {verdict::bad, "replicas",
            there + ", and sync-replicas is " + std::to_string(synced) + ": no lock is granted",
            "start the missing ones, or lower the number"};
  }
  if (all == 0 && in_cluster)
    return {verdict::warning, "replicas", "none: when this master dies, its locks wait until it is back",
            "add a replica"};
  if (all == 0) return {verdict::ok, "replicas", "none, so no failover can lose a grant", ""};
  if (all == synced) return {verdict::ok, "replicas", there + ", and all of them have a lock before it counts", ""};
  if (synced > 0) {
    return {verdict::warning, "replicas",
            there + ", and a lock counts when " + std::to_string(synced) +
                " of them have it: a failover may promote another one",
            "set sync-replicas to " + there};
  }
  return {verdict::warning, "replicas", there + ", which may lag: a failover may lose the latest grants",
          "set sync-replicas to " + there +
              ", check fences where the locked resource is written, or use several independent servers (redlock://)"};
}

/// slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0
std::vector<replica_address> replicas_of(server_info const& info) {
  std::vector<replica_address> all;
  for (auto const& [key, value] : info) {
    if (!key.starts_with("slave") || key.find_first_not_of("0123456789", 5) != std::string::npos || key.size() == 5)
      continue;
    auto const word = [&value](std::string_view name) {
      for (std::string_view rest = value; !rest.empty();) {
        std::string_view const one = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), one.size() + 1));
        if (one.starts_with(name)) return std::string{one.substr(name.size())};
      }
      return std::string{};
    };
    std::string const host = word("ip=");
    auto const port = whole_number<std::uint16_t>(word("port="));
    if (can_be_host(host) && port && *port != 0) all.push_back({host, *port});
  }
  return all;
}

finding judge_sentinels(std::vector<sentinel_word> const& all) {
  std::string shown;
  for (sentinel_word const& one : all)
    shown += (shown.empty() ? "" : "; ") + one.sentinel + (one.is_error ? ": " : " names ") + one.said;
  auto const fails = [](sentinel_word const& one) { return one.is_error; };
  auto const first = std::find_if_not(all.begin(), all.end(), fails);
  bool const all_lack_the_name = !all.empty() && std::all_of(all.begin(), all.end(), [](auto const& one) {
    return one.said.ends_with("without a name");
  });
  if (first == all.end())
    return {verdict::bad, "Sentinels", shown,
            all_lack_the_name ? "the URL names no master: add ?sentinelMasterId=NAME"
                              : "none of them names a master: check that they run, and sentinelMasterId"};
  bool const differ =
      std::any_of(all.begin(), all.end(), [&](auto const& one) { return !one.is_error && one.said != first->said; });
  if (differ)
    return {verdict::warning, "Sentinels", shown,
            "they name different masters: a failover is under way, or one of them is cut off"};
  if (std::any_of(all.begin(), all.end(), fails))
    return {verdict::warning, "Sentinels", shown, "a failover needs most of them"};
  return {verdict::ok, "Sentinels", shown, ""};
}

finding judge_cluster(std::vector<master_word> const& masters) {
  constexpr std::size_t all_slots = 16384;
  std::string shown;
  std::size_t covered = 0;
  for (master_word const& one : masters) {
    shown += (shown.empty() ? "" : ", ") + one.address + " with " + std::to_string(one.slots) + " slots";
    covered += one.slots;
  }
  if (covered < all_slots) {
    return {verdict::bad, "Cluster", shown + "; " + std::to_string(all_slots - covered) + " slots have no master",
            "a lock in one of these slots cannot be acquired: redis-cli --cluster fix"};
  }
  return {verdict::ok, "Cluster", shown, ""};
}

std::vector<earlier_version> const& earlier_versions() {
  // acquire, permit_acquire, release, renew and gathered of lua/, as cmake/embed_lua.cmake makes them. A release adds
  // those of the previous one.
  static std::vector<earlier_version> const all = {
      {"0.2.0",
       {"7dbe84fa375e063283a03fba995ba1c27e258ae0", "e380d61980aeecb7a88665e04150c7b6bc43bc39",
        "994168504f942abe89feee975c43698399369801", "80fec9451af41052101ce9a0a9b1d96267172baa",
        "efa4c0e605b08b26ac2ab8569d51f0150c7de431"}},
  };
  return all;
}

finding judge_client_versions(std::vector<std::string_view> const& found, bool known) {
  constexpr char const* what = "versions of conch";
  if (!known)
    return {verdict::ok, what, "not known: the user lacks the right script|exists, which locks do not need", ""};
  if (found.empty())
    return {verdict::ok, what, "no client of an earlier version has used this server since it started", ""};
  std::string shown;
  for (std::string_view const one : found) shown.append(shown.empty() ? "" : ", ").append(one);
  return {verdict::warning, what, "clients of " + shown + " have used this server since it started",
          "they may share locks with newer ones; what newer versions mend is mended for their own clients only: update "
          "the others"};
}

finding judge_replica_clocks(std::vector<clock_offset> const& all, std::vector<std::string> const& unknown,
                             duration lease) {
  constexpr char const* what = "replica clocks";
  constexpr char const* ntp =
      "a replica that takes over would end leases too early or too late: run NTP on each server";
  duration const allowed = lease / 100 + 2ms;  // the drift that every deadline allows for
  servers::clocks_apart found{.shown = "not known"};
  if (all.size() > 1) {
    found = furthest_apart(all);
    found.shown += "; with a lease of " + duration_text(lease) + " up to " + duration_text(allowed) + " is acceptable";
  }
  auto& [apart, unsure, shown] = found;
  for (std::string const& one : unknown) shown += "; " + one;
  if (apart - unsure > allowed) return {verdict::bad, what, shown, ntp};
  if (apart - unsure > allowed / 3)
    return {verdict::warning, what, shown,
            "run NTP on each server, so that a replica that takes over does not end leases too early"};
  if (!unknown.empty())
    return {verdict::warning, what, shown,
            "run conch doctor where it can reach the replicas, with a user that they know; or check NTP there"};
  if (apart + unsure > allowed)
    return {verdict::warning, what, shown, "the connection to them is too slow to say: run conch doctor near them"};
  return {verdict::ok, what, shown, ""};
}

}  // namespace conch::redis
