// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/judge.hpp"
#include "servers/probe.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What `conch doctor` makes of what a server says. No I/O.
namespace conch::cli {

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
/// `synced`: so many replicas must have a lock (--sync-replicas); 0: none.
finding judge_replicas(server_info const& info, std::size_t synced, bool in_cluster);
/// Where the replicas are, as the master knows them.
struct replica_address {
  std::string host, port;
};
std::vector<replica_address> replicas_of(server_info const& info);
using servers::judge_round_trip;
/// `tls`: of the connection; empty: none.
finding judge_way(std::string const& tls, bool on_this_machine, bool has_password);
/// `named`: what each Sentinel says, host:port of the master, or words of an error with `is_error`.
struct sentinel_word {
  std::string sentinel, said;
  bool is_error = false;
};
finding judge_sentinels(std::vector<sentinel_word> const& all);
/// Of a Cluster: "host:port", and how many of the 16384 slots it has.
struct master_word {
  std::string address;
  std::size_t slots = 0;
};
finding judge_cluster(std::vector<master_word> const& masters);
finding judge_hand_over(duration median, duration round_trip);

/// Why the library cannot reach the server, or cannot get a lock there, in its words, and what to do. `what`: "reachable", "hand-over".
finding judge_failure(std::string what, error_code why, std::string const& server);

/// Of several servers; of one there is nothing to compare.
finding judge_clocks(std::vector<clock_offset> const& all);

/// Of a quorum: which URLs are one server, as it says itself? `run`: of INFO; empty: it does not tell. `needed`: so many must agree.
struct server_run {
  std::string server, run;
};
finding judge_distinct(std::vector<server_run> const& all, std::size_t needed);

/// Earlier versions of conch, each by scripts that no other version has. A server keeps the scripts that it has run until it restarts.
struct earlier_version {
  std::string_view version;
  std::vector<std::string_view> scripts;  // their SHA-1
};
std::vector<earlier_version> const& earlier_versions();
/// `found`: those of which the server has run a script. `known`: it tells which scripts it has run.
finding judge_client_versions(std::vector<std::string_view> const& found, bool known);

/// Of a master and its replicas, with a lease as long as this. The end of a lease is replicated as a time of day: where a replica takes over, a
/// lock ends there by its clock. `unknown`: replicas whose clocks could not be asked for, each with the reason.
finding judge_replica_clocks(std::vector<clock_offset> const& all, std::vector<std::string> const& unknown, duration lease);

/// A right that conch needs. See docs/guide.md, "A user of its own on the server".
struct needed_right {
  std::string_view name;           // as in an ACL
  std::vector<std::string> probe;  // a command that needs it and does no harm. "KEY", "CHANNEL", "ID" stand for values
  verdict without;                 // what its lack is
  std::string_view consequence;    // what does not work then
};
/// `in_cluster`: on a node of a Cluster, where the channels are those of shards.
std::vector<needed_right> const& needed_rights(bool in_cluster);

/// From the errors of the probes that were refused for a lack of rights. `synced`: as above.
std::vector<finding> judge_rights(std::vector<needed_right const*> const& lacking, std::size_t asked, std::size_t synced);

}  // namespace conch::cli
