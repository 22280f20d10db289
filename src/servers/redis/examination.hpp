// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/judge.hpp"
#include "servers/probe.hpp"

#include <conch/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the answers of Redis servers mean for locks. No I/O.
namespace conch::redis {

using servers::clock_offset;
using servers::finding;
using servers::verdict;

/// The lines of INFO.
using server_info = std::map<std::string, std::string, std::less<>>;
server_info parse_info(std::string_view text);

/// `in_cluster`: the URL is that of a Cluster.
finding judge_version(server_info const& info, bool in_cluster);
finding judge_role(server_info const& info, bool in_cluster);
bool is_master(server_info const& info);
bool is_sentinel(server_info const& info);
finding judge_eviction(server_info const& info);
/// How much of maxmemory is in use. Empty: there is no limit.
std::optional<finding> judge_memory(server_info const& info);
finding judge_persistence(server_info const& info);
/// `synced`: how many replicas must have a lock (config::sync_replicas); 0: none.
finding judge_replicas(server_info const& info, std::size_t synced, bool in_cluster);
/// Where the replicas are, as the master knows them.
struct replica_address {
  std::string host;
  std::uint16_t port = 0;
};
std::vector<replica_address> replicas_of(server_info const& info);
/// What each Sentinel reports: host:port of the master, or the text of an error with `is_error`.
struct sentinel_word {
  std::string sentinel, said;
  bool is_error = false;
};
finding judge_sentinels(std::vector<sentinel_word> const& all);
/// What a Cluster reports: "host:port", and how many of the 16384 slots it has.
struct master_word {
  std::string address;
  std::size_t slots = 0;
};
finding judge_cluster(std::vector<master_word> const& masters);

/// Earlier versions of conch, each by scripts that no other version has. A server keeps the scripts that it has run
/// until it restarts.
struct earlier_version {
  std::string_view version;
  std::vector<std::string_view> scripts;  // their SHA-1
};
std::vector<earlier_version> const& earlier_versions();
/// `found`: those of which the server has run a script. `known`: it reports which scripts it has run.
finding judge_client_versions(std::vector<std::string_view> const& found, bool known);

/// For a master and its replicas, with a lease as long as this. The end of a lease is replicated as a time of day:
/// where a replica takes over, a lock ends there by its clock. `unknown`: replicas whose clocks could not be asked for,
/// each with the reason.
finding judge_replica_clocks(std::vector<clock_offset> const& all, std::vector<std::string> const& unknown,
                             duration lease);

}  // namespace conch::redis
