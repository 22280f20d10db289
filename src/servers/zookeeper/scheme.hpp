// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/scheme.hpp"
#include "servers/zookeeper/wire.hpp"

#include <conch/detail/api.hpp>

#include <span>

namespace conch::zookeeper {

/// Does it come from one of these schemes?
CONCH_API bool is_ensemble(servers::target const& t) noexcept;

/// A deployment without its connections, and where the wire reports to.
struct over_wire {
  servers::deployment made;
  wire_events& receiver;
};

/// The backend over a wire that is not a connection: for a simulated world. `t`: is_ensemble().
CONCH_API over_wire make_over(wire& out, servers::target const& t, servers::client_services const& client);

/// `zookeeper://` and `zookeepers://` (TLS).
std::span<servers::scheme const> schemes() noexcept;

}  // namespace conch::zookeeper
