// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>

#include <cstddef>

namespace conch {

/// The least number of votes of which any two sets share a server.
constexpr std::size_t majority_of(std::size_t servers) { return servers / 2 + 1; }

/// The votes of that many servers that make a hold.
constexpr std::size_t votes_needed(quorum_config const& q, std::size_t servers) {
  return q.votes_needed != 0 ? q.votes_needed : majority_of(servers);
}

/// May they make one? Fewer than a majority would give two clients the same lock.
constexpr bool is_valid_number_of_votes(std::size_t votes, std::size_t servers) {
  return votes >= majority_of(servers) && votes <= servers;
}

}  // namespace conch
