// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

// The rights of a user of a Redis server. No I/O.
namespace conch::redis {

/// A right that conch needs. docs/servers/redis.md has the same list.
struct needed_right {
  std::string_view name;  // as in an ACL
  // a command that needs it and does no harm: words with blanks between them. KEY, CHANNEL and ID stand for values
  std::string_view probe;
  servers::verdict without;      // what its lack is
  std::string_view consequence;  // what does not work then
};
/// `in_cluster`: on a node of a Cluster, where the channels are those of shards.
std::vector<needed_right> needed_rights(bool in_cluster);

/// `lacking`: those of `asked` that the user does not have. `synced`: how many replicas must have a lock
/// (config::sync_replicas); 0: none.
std::vector<servers::finding> judge_rights(std::vector<needed_right const*> const& lacking, std::size_t asked,
                                           std::size_t synced);

}  // namespace conch::redis
