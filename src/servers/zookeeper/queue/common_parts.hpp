// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/environment.hpp"
#include "servers/zookeeper/queue/queue_places.hpp"
#include "servers/zookeeper/queue/requests.hpp"
#include "servers/zookeeper/session.hpp"

#include <cstdint>
#include <utility>

namespace conch::zookeeper {

/// The parts below all others. Each uses only those before it.
struct common_parts {
  /// `resume`: checks those that rest.
  common_parts(environment given, std::uint64_t seed, wire& out, session_events& events, callback resume)
      : env{std::move(given)},
        session{env.settings, env.root, env.secret, env.timers, out, events, env.stats},
        sent{env, session},
        all{env, sent, resume},
        pause{env.settings, ~seed} {}
  common_parts(common_parts const&) = delete;
  common_parts& operator=(common_parts const&) = delete;

  environment const env;
  zookeeper::session session;
  requests sent;
  queue_places all;
  pauses pause;
};

}  // namespace conch::zookeeper
