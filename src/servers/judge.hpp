// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <conch/detail/api.hpp>

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

}  // namespace conch::servers
