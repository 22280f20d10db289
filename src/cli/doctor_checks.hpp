// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <conch/clock.hpp>

#include <cstddef>
#include <string>
#include <vector>

// What `conch doctor` makes of what it has measured, and of several servers together. No I/O.
namespace conch::cli {

using servers::finding;
using servers::verdict;

finding judge_hand_over(duration median, duration round_trip);
/// The label of this client, and what others can read of it.
finding judge_label(std::string const& own, std::string const& read);

/// For a quorum: which URLs lead to the same server? `run`: its run_id in INFO; empty: not reported. `needed`: how many
/// servers must agree.
struct server_run {
  std::string server, run;
};
finding judge_distinct(std::vector<server_run> const& all, std::size_t needed);

}  // namespace conch::cli
