// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/rights.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace conch::redis {

using servers::finding;
using servers::verdict;

namespace {

constexpr std::string_view nothing = "no lock can be acquired";
constexpr std::string_view several = "no semaphore, shared_mutex, striped_mutex or reentrant_mutex can be acquired";
constexpr std::string_view waiting = "clients cannot wait for a lock";
constexpr std::string_view dead_clients = "behind each dead client in the queue the others wait for a claim (3 s)";
constexpr needed_right on_one_server[]{
    {"evalsha", "EVALSHA 0000000000000000000000000000000000000000 1 KEY", verdict::bad, nothing},
    {"eval", "EVAL return 1 KEY", verdict::bad, nothing},
    {"ping", "PING", verdict::bad, "a dead connection is not noticed"},
    {"time", "TIME", verdict::bad, nothing},
    {"exists", "EXISTS KEY", verdict::bad, nothing},
    {"get", "GET KEY", verdict::bad, nothing},
    {"set", "SET KEY 0 PX 1000", verdict::bad, nothing},
    {"del", "DEL KEY", verdict::bad, "no lock can be released"},
    {"pttl", "PTTL KEY", verdict::bad, nothing},
    {"pexpire", "PEXPIRE KEY 1000", verdict::bad, "no lock can be renewed"},
    {"zadd", "ZADD KEY:q NX 0 m", verdict::bad, waiting},
    {"zcard", "ZCARD KEY:q", verdict::bad, waiting},
    {"zrange", "ZRANGE KEY:q 0 0", verdict::bad, waiting},
    {"zscore", "ZSCORE KEY:q m", verdict::bad, waiting},
    {"zrem", "ZREM KEY:q m", verdict::bad, waiting},
    {"zpopmin", "ZPOPMIN KEY:q", verdict::bad, waiting},
    {"publish", "PUBLISH CHANNEL m", verdict::bad, waiting},
    {"subscribe", "SUBSCRIBE CHANNEL", verdict::bad, waiting},
    {"hset", "HSET KEY:e f 0", verdict::bad, several},
    {"hget", "HGET KEY:e f", verdict::bad, several},
    {"hmget", "HMGET KEY:e f", verdict::bad, several},
    {"hgetall", "HGETALL KEY:e", verdict::bad, several},
    {"hlen", "HLEN KEY:e", verdict::bad, several},
    {"hdel", "HDEL KEY:e f", verdict::bad, several},
    {"hexists", "HEXISTS KEY:r f", verdict::warning,
     "a holder misses a request (async_requested) that comes while it is not connected"},
    {"mget", "MGET KEY", verdict::warning, "renewals cost the server more"},
    {"info", "INFO server", verdict::warning, "no warning about an eviction policy; the server's uptime is unknown"},
    {"pubsub|numsub", "PUBSUB NUMSUB CHANNEL", verdict::warning, dead_clients},
    {"type", "TYPE KEY", verdict::warning, "conch status and conch unlock do not work"},
    {"scan", "SCAN 0 COUNT 1", verdict::ok, "conch list and conch watch do not work; locks do not need it"},
    {"client|info", "CLIENT INFO", verdict::warning, "earlier connections are not closed, as without client|kill"},
    {"wait", "WAIT 0 1", verdict::ok, "no lock is granted with sync-replicas; otherwise it is not needed"},
    {"client|kill", "CLIENT KILL ID ID", verdict::ok,
     "some releases cost one more script; grant it only on a server that conch uses alone"},
};
/// At a node of a Cluster: instead of those with the same number in `of_channels`.
constexpr std::string_view of_channels[]{"publish", "subscribe", "pubsub|numsub"};
constexpr needed_right of_shard_channels[]{
    {"spublish", "SPUBLISH CHANNEL m", verdict::bad, waiting},
    {"ssubscribe", "SSUBSCRIBE CHANNEL", verdict::bad, waiting},
    {"pubsub|shardnumsub", "PUBSUB SHARDNUMSUB CHANNEL", verdict::warning, dead_clients},
};
constexpr needed_right on_a_node_only[]{
    {"cluster|slots", "CLUSTER SLOTS", verdict::bad, "the masters of the locks cannot be found"},
    {"asking", "ASKING", verdict::bad, "a hold is lost while its slot moves for longer than its lease"},
};

}  // namespace

std::vector<needed_right> needed_rights(bool in_cluster) {
  std::vector<needed_right> all{std::begin(on_one_server), std::end(on_one_server)};
  if (!in_cluster) return all;
  for (needed_right& one : all) {
    auto const* const found = std::find(std::begin(of_channels), std::end(of_channels), one.name);
    if (found != std::end(of_channels)) one = of_shard_channels[found - std::begin(of_channels)];
  }
  all.insert(all.end(), std::begin(on_a_node_only), std::end(on_a_node_only));
  return all;
}

std::vector<finding> judge_rights(std::vector<needed_right const*> const& lacking, std::size_t asked,
                                  std::size_t synced) {
  std::vector<finding> all;
  for (needed_right const* const one : lacking) {
    bool const is_for_replicas = one->name == "wait";
    finding f{is_for_replicas && synced > 0 ? verdict::bad : one->without,
              "right " + std::string{one->name},
              "missing: " + std::string{one->consequence},
              {}};
    if (f.how != verdict::ok)
      f.advice =
          "ACL SETUSER USER +" + std::string{one->name} + "; or the user lacks the keys or the channels KEY_PREFIX*";
    all.push_back(std::move(f));
  }
  if (lacking.empty()) all.push_back({verdict::ok, "rights", "all " + std::to_string(asked) + " that conch uses", ""});
  return all;
}

}  // namespace conch::redis
