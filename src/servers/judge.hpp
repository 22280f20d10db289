// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <conch/detail/api.hpp>

#include <string>

// What holds for every kind of server. No I/O.
namespace conch::servers {

CONCH_API finding judge_round_trip(duration median, duration greatest);

/// How a connection can be read by others.
struct exposure {
  std::string tls;  // "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: none
  bool on_this_machine = false, has_password = false;
  std::string remedy;  // "use rediss://"
};
CONCH_API finding judge_exposure(exposure const& e);

}  // namespace conch::servers
