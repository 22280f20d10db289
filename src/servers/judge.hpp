// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <conch/detail/api.hpp>
#include <conch/error.hpp>

#include <algorithm>
#include <string>
#include <vector>

// What holds for every kind of server. No I/O.
namespace conch::servers {

CONCH_API finding judge_round_trip(duration median, duration greatest);
/// At least one.
inline finding judge_round_trip(std::vector<duration> trips) {
  std::sort(trips.begin(), trips.end());
  return judge_round_trip(trips[trips.size() / 2], trips.back());
}

/// How a connection can be read by others.
struct exposure {
  std::string tls;  // "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: none
  bool on_this_machine = false, has_password = false;
  std::string remedy;  // "use rediss://"
};
CONCH_API finding judge_exposure(exposure const& e);

/// Why a client or a probe cannot reach the server, or cannot get a lock there, in its words, and what to do. `what`:
/// "reachable", "hand-over".
CONCH_API finding judge_failure(std::string what, error_code why, std::string const& server);

/// The two clocks that are furthest apart.
struct clocks_apart {
  duration apart{}, unsure{};
  std::string shown{};
};
/// At least one.
clocks_apart furthest_apart(std::vector<clock_offset> const& all);

/// For several servers; with one there is nothing to compare.
CONCH_API finding judge_clocks(std::vector<clock_offset> const& all);

}  // namespace conch::servers
