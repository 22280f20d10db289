// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/environment.hpp"
#include "protocol/server/my_slots.hpp"
#include "protocol/server/places.hpp"
#include "protocol/server/requests.hpp"
#include "protocol/server/server_link.hpp"

namespace conch::protocol {

/// The parts below all others. Each uses only those before it.
struct common_parts {
  /// `resume`: does the work that one turn did not finish.
  common_parts(environment const& given, std::uint64_t seed, wire& out, siblings* others, neighbour& self,
               callback resume)
      : env{given},
        pause{env.settings, seed},
        slots{others, self},
        link{env.settings, out, env.log},
        sent{env, out, link},
        all{env, link},
        soon{env.timers, resume} {}
  common_parts(common_parts const&) = delete;
  common_parts& operator=(common_parts const&) = delete;

  environment env;
  pauses pause;
  my_slots slots;
  server_link link;
  requests sent;
  places all;
  next_turn soon;
};

}  // namespace conch::protocol
