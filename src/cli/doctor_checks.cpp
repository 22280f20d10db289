// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/doctor_checks.hpp"

#include "cli/duration.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::cli {

namespace {

using namespace std::chrono_literals;

std::string_view get(server_info const& info, std::string_view key) {
  auto const found = info.find(key);
  return found == info.end() ? std::string_view{} : std::string_view{found->second};
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

finding unknown(std::string what) {
  return {verdict::warning, std::move(what), "unknown: INFO does not say", "grant the user +info, or ask the server's operator"};
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
  std::string_view const valkey = get(info, "valkey_version");
  std::string_view const redis = get(info, "redis_version");
  if (redis.empty()) return unknown("version");
  std::string const shown = valkey.empty() ? "Redis " + std::string{redis} : "Valkey " + std::string{valkey};
  std::int64_t const major = number(redis);
  auto const dot = redis.find('.');
  std::int64_t const minor = dot == std::string_view::npos ? 0 : number(redis.substr(dot + 1));
  if (major < 6 || (major == 6 && minor < 2)) return {verdict::bad, "version", shown, "conch needs Redis 6.2 or newer, or Valkey"};
  if (in_cluster && major < 7)
    return {verdict::bad, "version", shown, "in a Cluster conch needs Redis 7.0 or newer, or Valkey: they have channels of shards"};
  return {verdict::ok, "version", shown, ""};
}

finding judge_role(server_info const& info, bool in_cluster) {
  std::string_view const mode = get(info, "redis_mode");
  std::string_view const role = get(info, "role");
  bool const is_node = mode == "cluster" || get(info, "cluster_enabled") == "1";
  if (is_node && !in_cluster) return {verdict::bad, "role", "a node of a Cluster", "this URL is for one server: redis-cluster:// is for a Cluster"};
  if (!is_node && in_cluster) return {verdict::bad, "role", "not a node of a Cluster", "redis-cluster:// is for a Cluster, redis:// for one server"};
  if (mode == "sentinel")
    return {verdict::bad, "role", "a Sentinel",
            "a Sentinel keeps no locks: use redis-sentinel://HOST?sentinelMasterId=NAME, or the port of the server itself"};
  if (role.empty()) return unknown("role");
  if (role != "master") {
    return {verdict::bad, "role", "a replica of " + std::string{get(info, "master_host")} + ':' + std::string{get(info, "master_port")},
            "the master keeps the locks: name it in the URL"};
  }
  return {verdict::ok, "role", "master", ""};
}

bool is_sentinel(server_info const& info) { return get(info, "redis_mode") == "sentinel"; }

bool is_master(server_info const& info) { return get(info, "role") == "master"; }

std::optional<finding> judge_memory(server_info const& info) {
  std::int64_t const limit = number(get(info, "maxmemory")), used = number(get(info, "used_memory"));
  if (limit <= 0 || get(info, "used_memory").empty()) return std::nullopt;
  std::string const words = std::to_string(used) + " of " + std::to_string(limit) + " bytes in use";
  if (used >= limit) {
    return finding{verdict::bad, "memory", words, "it is full, so no lock can be acquired: raise maxmemory, or remove keys"};
  }
  if (used >= limit - limit / 10)
    return finding{verdict::warning, "memory", words, "when it is full no lock can be acquired: raise maxmemory, or remove keys"};
  return finding{verdict::ok, "memory", words, ""};
}

finding judge_eviction(server_info const& info) {
  std::string_view const policy = get(info, "maxmemory_policy");
  std::string_view const limit = get(info, "maxmemory");
  if (policy.empty()) return unknown("eviction");
  std::string shown = "maxmemory-policy " + std::string{policy} + ", maxmemory ";
  if (limit == "0") {
    shown += "not set";
  } else {
    shown.append(limit).append(" bytes");
  }
  if (policy == "noeviction") return {verdict::ok, "eviction", shown, ""};
  if (limit == "0") return {verdict::warning, "eviction", shown, "set maxmemory-policy noeviction before setting maxmemory"};
  return {verdict::bad, "eviction", shown, "the server may remove a held lock and grant it to another client: set maxmemory-policy noeviction"};
}

finding judge_persistence(server_info const& info) {
  std::string_view const log = get(info, "aof_enabled");
  if (log.empty()) return unknown("persistence");
  if (log == "1") {
    if (get(info, "aof_last_write_status") == "err") {
      return {verdict::bad, "persistence", "the append-only file cannot be written", "the server refuses writes then: look at its disk"};
    }
    return {verdict::ok, "persistence", "append-only file; a crash loses up to a second of grants, or none with appendfsync always", ""};
  }
  return {verdict::warning, "persistence", "no append-only file: a restart forgets all holds, or goes back to a snapshot",
          "set appendonly yes and appendfsync always; or, after a crash, start the server only when the longest lease has passed; and check fences"};
}

finding judge_replicas(server_info const& info, std::size_t synced, bool in_cluster) {
  std::string_view const count = get(info, "connected_slaves");
  if (count.empty()) return unknown("replicas");
  std::string const there{count};
  auto const all = static_cast<std::size_t>(std::max<std::int64_t>(number(count), 0));
  if (all < synced) {
    return {verdict::bad, "replicas", there + ", and sync-replicas is " + std::to_string(synced) + ": no lock is granted",
            "start the missing ones, or lower the number"};
  }
  if (all == 0 && in_cluster) return {verdict::warning, "replicas", "none: when this master dies, its locks wait until it is back", "add a replica"};
  if (all == 0) return {verdict::ok, "replicas", "none, so no failover can lose a grant", ""};
  if (all == synced) return {verdict::ok, "replicas", there + ", and all of them have a lock before it counts", ""};
  if (synced > 0) {
    return {verdict::warning, "replicas",
            there + ", and a lock counts when " + std::to_string(synced) + " of them have it: a failover may promote another one",
            "set sync-replicas to " + there};
  }
  return {verdict::warning, "replicas", there + ", which may lag: a failover may lose the latest grants",
          "set sync-replicas to " + there + ", check fences where the locked resource is written, or use several independent servers (redlock://)"};
}

/// slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0
std::vector<replica_address> replicas_of(server_info const& info) {
  std::vector<replica_address> all;
  for (auto const& [key, value] : info) {
    if (!key.starts_with("slave") || key.find_first_not_of("0123456789", 5) != std::string::npos || key.size() == 5) continue;
    auto const word = [&value](std::string_view name) {
      for (std::string_view rest = value; !rest.empty();) {
        std::string_view const one = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), one.size() + 1));
        if (one.starts_with(name)) return std::string{one.substr(name.size())};
      }
      return std::string{};
    };
    replica_address const at{word("ip="), word("port=")};
    if (!at.host.empty() && !at.port.empty()) all.push_back(at);
  }
  return all;
}

finding judge_way(std::string const& tls, bool on_this_machine, bool has_password) {
  return servers::judge_exposure({tls, on_this_machine, has_password, "use rediss://"});
}

finding judge_sentinels(std::vector<sentinel_word> const& all) {
  std::string shown;
  for (sentinel_word const& one : all) shown += (shown.empty() ? "" : "; ") + one.sentinel + (one.is_error ? ": " : " names ") + one.said;
  auto const fails = [](sentinel_word const& one) { return one.is_error; };
  auto const first = std::find_if_not(all.begin(), all.end(), fails);
  bool const all_lack_the_name =
      !all.empty() && std::all_of(all.begin(), all.end(), [](auto const& one) { return one.said.ends_with("without a name"); });
  if (first == all.end())
    return {verdict::bad, "Sentinels", shown,
            all_lack_the_name ? "the URL names no master: add ?sentinelMasterId=NAME"
                              : "none of them names a master: check that they run, and sentinelMasterId"};
  bool const differ = std::any_of(all.begin(), all.end(), [&](auto const& one) { return !one.is_error && one.said != first->said; });
  if (differ) return {verdict::warning, "Sentinels", shown, "they name different masters: a failover is under way, or one of them is cut off"};
  if (std::any_of(all.begin(), all.end(), fails)) return {verdict::warning, "Sentinels", shown, "a failover needs most of them"};
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

finding judge_hand_over(duration median, duration round_trip) {
  std::string const shown = "median " + readable(median) + " from a release to the next holder";
  constexpr duration slack = std::chrono::milliseconds{5};
  if (median - slack > 10 * round_trip)
    return {verdict::warning, "hand-over", shown, "much longer than a round trip of " + readable(round_trip) + ": the server is busy"};
  return {verdict::ok, "hand-over", shown, ""};
}

finding judge_failure(std::string what, error_code why, std::string const& server) {
  std::string words = why.message();
  if (!server.empty() && words.find(server) == std::string::npos) words = server + ": " + words;
  auto const says = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  std::string advice;
  if (says("begins with rediss://") || says("did you mean") || says("is a Sentinel") || says("no Sentinel")) {
    // The words say what to do.
  } else if (says("OOM")) {
    advice = "the memory of the server is full: raise maxmemory, or remove keys";
  } else if (says("READONLY") || says("is a replica")) {
    advice = "this is a replica: name the master in the URL, or the Sentinels (redis-sentinel://)";
  } else if (says("MISCONF")) {
    advice = "the server cannot write its snapshot or its append-only file: look at its disk and its log";
  } else if (says("NOREPLICAS")) {
    advice = "fewer replicas are connected than min-replicas-to-write demands";
  } else if (says("LOADING") || says("MASTERDOWN") || says("CLUSTERDOWN")) {
    advice = "it runs, and is not ready yet: wait, and look at its log";
  } else if (says("BUSY")) {
    advice = "another client's script keeps it busy: wait, or end that with SCRIPT KILL";
  } else if (says("DB index is out of range")) {
    advice = "the URL names a database that the server does not have: see `databases` in its configuration";
  } else if (says("does not know this name")) {
    advice = "check sentinelMasterId: SENTINEL MASTERS at a Sentinel lists the names";
  } else if (says("no node of a Cluster") || says("is a Cluster node")) {
    // The words say what to do.
  } else if (says("max number of clients")) {
    advice = "raise maxclients, or find out who has opened so many connections (CLIENT LIST)";
  } else if (why == errc::tls_failed && says("certificate")) {
    advice = "set tls-ca-file to the authority that signed the server's certificate, and tls-server-name to the name in it";
  } else if (why == errc::tls_failed || says("is this a TLS port?")) {
    advice = "if that port does not speak TLS, begin the URL with redis://";
  } else if (why == errc::access_denied) {
    advice = "set user and password (conch doctor --help), and give that user the rights of the guide";
  } else if (says("no answer to the greeting")) {
    advice = "it takes the connection and says nothing: has it stopped, is it overloaded, is it another kind of server?";
  } else if (why == condition::unreachable) {
    advice = "check that it runs, the URL, and firewalls in between";
  }
  return {verdict::bad, std::move(what), words, advice};
}

namespace {

/// The two clocks that are furthest apart.
struct clocks_apart {
  duration apart{}, unsure{};
  std::string shown{};
};

clocks_apart furthest_apart(std::vector<clock_offset> const& all) {
  auto const [least, most] =
      std::minmax_element(all.begin(), all.end(), [](clock_offset const& a, clock_offset const& b) { return a.ahead < b.ahead; });
  clocks_apart found{most->ahead - least->ahead, most->uncertainty + least->uncertainty};
  found.shown = "up to " + readable(found.apart) + " apart, give or take " + readable(found.unsure) + " (" + most->server + " is ahead of " +
                least->server + ')';
  return found;
}

}  // namespace

finding judge_clocks(std::vector<clock_offset> const& all) {
  auto const [apart, unsure, shown] = furthest_apart(all);
  constexpr duration of_a_vote = std::chrono::milliseconds{500}, noticeable = std::chrono::milliseconds{100};
  if (apart - unsure > of_a_vote) {
    return {verdict::bad, "clocks", shown,
            "without quorum.strict_fence (the default has it) fences of a new server may be smaller than earlier ones: run NTP"};
  }
  if (apart - unsure > noticeable) return {verdict::warning, "clocks", shown, "run NTP on each server"};
  return {verdict::ok, "clocks", shown, ""};
}

finding judge_distinct(std::vector<server_run> const& all, std::size_t needed) {
  std::vector<server_run> distinct;
  std::string doubles;
  for (server_run const& one : all) {
    auto const same = std::find_if(distinct.begin(), distinct.end(), [&](server_run const& o) { return !one.run.empty() && o.run == one.run; });
    if (same == distinct.end()) {
      distinct.push_back(one);
    } else {
      doubles += (doubles.empty() ? "" : "; ") + one.server + " is the same server as " + same->server;
    }
  }
  constexpr char const* what = "servers";
  if (doubles.empty() && distinct.size() < needed) {
    return {verdict::bad, what, std::to_string(distinct.size()) + " can be used, and " + std::to_string(needed) + " votes are needed",
            "see the lines above"};
  }
  if (doubles.empty()) return {verdict::ok, what, std::to_string(distinct.size()) + " different ones", ""};
  doubles += ": each server has one vote, whatever its names and databases";
  if (distinct.size() >= needed) return {verdict::warning, what, doubles, "name each server once; till then fewer of them may be away"};
  return {verdict::bad, what, doubles + ", and " + std::to_string(needed) + " votes are needed", "name each server once, and more of them"};
}

std::vector<earlier_version> const& earlier_versions() {
  // acquire, permit_acquire, release, renew and gathered of lua/, as cmake/embed_lua.cmake makes them. A release adds those of the one before.
  static std::vector<earlier_version> const all = {
      {"0.2.0",
       {"7dbe84fa375e063283a03fba995ba1c27e258ae0", "e380d61980aeecb7a88665e04150c7b6bc43bc39", "994168504f942abe89feee975c43698399369801",
        "80fec9451af41052101ce9a0a9b1d96267172baa", "efa4c0e605b08b26ac2ab8569d51f0150c7de431"}},
  };
  return all;
}

finding judge_client_versions(std::vector<std::string_view> const& found, bool known) {
  constexpr char const* what = "versions of conch";
  if (!known) return {verdict::ok, what, "not known: the user lacks the right script|exists, which locks do not need", ""};
  if (found.empty()) return {verdict::ok, what, "no client of an earlier version has used this server since it started", ""};
  std::string shown;
  for (std::string_view const one : found) shown.append(shown.empty() ? "" : ", ").append(one);
  return {verdict::warning, what, "clients of " + shown + " have used this server since it started",
          "they may share locks with newer ones; what newer versions mend is mended for their own clients only: update the others"};
}

finding judge_replica_clocks(std::vector<clock_offset> const& all, std::vector<std::string> const& unknown, duration lease) {
  constexpr char const* what = "replica clocks";
  constexpr char const* ntp = "a replica that takes over would end leases too early or too late: run NTP on each server";
  duration const allowed = lease / 100 + 2ms;  // the drift that every deadline allows for
  clocks_apart found{.shown = "not known"};
  if (all.size() > 1) {
    found = furthest_apart(all);
    found.shown += "; with a lease of " + readable(lease) + " up to " + readable(allowed) + " is acceptable";
  }
  auto& [apart, unsure, shown] = found;
  for (std::string const& one : unknown) shown += "; " + one;
  if (apart - unsure > allowed) return {verdict::bad, what, shown, ntp};
  if (apart - unsure > allowed / 3)
    return {verdict::warning, what, shown, "run NTP on each server, so that a replica that takes over does not end leases too early"};
  if (!unknown.empty())
    return {verdict::warning, what, shown, "run conch doctor where it can reach the replicas, with a user that they know; or check NTP there"};
  if (apart + unsure > allowed) return {verdict::warning, what, shown, "the connection to them is too slow to say: run conch doctor near them"};
  return {verdict::ok, what, shown, ""};
}

namespace {

std::vector<needed_right> rights_on_one_server() {
  constexpr std::string_view nothing = "no lock can be acquired";
  constexpr std::string_view several = "no semaphore, shared_mutex, striped_mutex or reentrant_mutex can be acquired";
  constexpr std::string_view waiting = "clients cannot wait for a lock";
  return {
      {"evalsha", {"EVALSHA", "0000000000000000000000000000000000000000", "1", "KEY"}, verdict::bad, nothing},
      {"eval", {"EVAL", "return 0", "1", "KEY"}, verdict::bad, nothing},
      {"ping", {"PING"}, verdict::bad, "a dead connection is not noticed"},
      {"time", {"TIME"}, verdict::bad, nothing},
      {"exists", {"EXISTS", "KEY"}, verdict::bad, nothing},
      {"get", {"GET", "KEY"}, verdict::bad, nothing},
      {"set", {"SET", "KEY", "0", "PX", "1000"}, verdict::bad, nothing},
      {"del", {"DEL", "KEY"}, verdict::bad, "no lock can be released"},
      {"pttl", {"PTTL", "KEY"}, verdict::bad, nothing},
      {"pexpire", {"PEXPIRE", "KEY", "1000"}, verdict::bad, "no lock can be renewed"},
      {"zadd", {"ZADD", "KEY:q", "NX", "0", "m"}, verdict::bad, waiting},
      {"zcard", {"ZCARD", "KEY:q"}, verdict::bad, waiting},
      {"zrange", {"ZRANGE", "KEY:q", "0", "0"}, verdict::bad, waiting},
      {"zscore", {"ZSCORE", "KEY:q", "m"}, verdict::bad, waiting},
      {"zrem", {"ZREM", "KEY:q", "m"}, verdict::bad, waiting},
      {"zpopmin", {"ZPOPMIN", "KEY:q"}, verdict::bad, waiting},
      {"publish", {"PUBLISH", "CHANNEL", ""}, verdict::bad, waiting},
      {"subscribe", {"SUBSCRIBE", "CHANNEL"}, verdict::bad, waiting},
      {"hset", {"HSET", "KEY:e", "f", "0"}, verdict::bad, several},
      {"hget", {"HGET", "KEY:e", "f"}, verdict::bad, several},
      {"hmget", {"HMGET", "KEY:e", "f"}, verdict::bad, several},
      {"hgetall", {"HGETALL", "KEY:e"}, verdict::bad, several},
      {"hlen", {"HLEN", "KEY:e"}, verdict::bad, several},
      {"hdel", {"HDEL", "KEY:e", "f"}, verdict::bad, several},
      {"hexists", {"HEXISTS", "KEY:r", "f"}, verdict::warning, "a holder misses a request (async_requested) that comes while it is not connected"},
      {"mget", {"MGET", "KEY"}, verdict::warning, "renewals cost the server more"},
      {"info", {"INFO", "server"}, verdict::warning, "no warning about an eviction policy; the server's uptime is unknown"},
      {"pubsub|numsub", {"PUBSUB", "NUMSUB", "CHANNEL"}, verdict::warning, "behind each dead client in the queue the others wait for a claim (3 s)"},
      {"type", {"TYPE", "KEY"}, verdict::warning, "conch status and conch unlock do not work"},
      {"scan", {"SCAN", "0", "COUNT", "1"}, verdict::ok, "conch list and conch watch do not work; locks do not need it"},
      {"client|info", {"CLIENT", "INFO"}, verdict::warning, "earlier connections are not closed, as without client|kill"},
      {"wait", {"WAIT", "0", "1"}, verdict::ok, "no lock is granted with sync-replicas; otherwise it is not needed"},
      {"client|kill",
       {"CLIENT", "KILL", "ID", "ID"},
       verdict::ok,
       "some releases cost one more script; grant it only on a server that conch uses alone"},
  };
}

std::vector<needed_right> rights_on_a_node() {
  std::vector<needed_right> all = rights_on_one_server();
  for (needed_right& one : all) {
    if (one.name == "publish" || one.name == "subscribe") {
      one.probe[0].insert(0, "S");
      one.name = one.name == "publish" ? "spublish" : "ssubscribe";
    } else if (one.name == "pubsub|numsub") {
      one.probe[1] = "SHARDNUMSUB";
      one.name = "pubsub|shardnumsub";
    }
  }
  all.push_back({"cluster|slots", {"CLUSTER", "SLOTS"}, verdict::bad, "the masters of the locks cannot be found"});
  all.push_back({"asking", {"ASKING"}, verdict::bad, "a hold is lost while its slot moves for longer than its lease"});
  return all;
}

}  // namespace

std::vector<needed_right> const& needed_rights(bool in_cluster) {
  static std::vector<needed_right> const on_one = rights_on_one_server(), on_a_node = rights_on_a_node();
  return in_cluster ? on_a_node : on_one;
}

std::vector<finding> judge_rights(std::vector<needed_right const*> const& lacking, std::size_t asked, std::size_t synced) {
  std::vector<finding> all;
  for (needed_right const* const one : lacking) {
    bool const is_for_replicas = one->name == "wait";
    finding f{is_for_replicas && synced > 0 ? verdict::bad : one->without,
              "right " + std::string{one->name},
              "missing: " + std::string{one->consequence},
              {}};
    if (f.how != verdict::ok) f.advice = "ACL SETUSER USER +" + std::string{one->name} + "; or the user lacks the keys or the channels KEY_PREFIX*";
    all.push_back(std::move(f));
  }
  if (lacking.empty()) all.push_back({verdict::ok, "rights", "all " + std::to_string(asked) + " that conch uses", ""});
  return all;
}

}  // namespace conch::cli
