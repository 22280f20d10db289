// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/entropy.hpp"
#include "base/identity.hpp"
#include "protocol/server.hpp"
#include "servers/scheme.hpp"

#include <utility>

namespace conch::servers {

std::unique_ptr<entropy> nonces_for(target const& t) {
  if (t.needs_nonces()) return std::make_unique<detail::system_entropy>();
  return std::make_unique<detail::no_entropy>();
}

deployment make_single(target const& t, client_services const& client) {
  deployment d;
  d.nonces = nonces_for(t);
  auto to_server = t.make_transport(client);
  auto one = std::make_unique<protocol::server>(client.settings, detail::seed_of(client.client_id), *d.nonces,
                                                client.timers, *to_server, client.up, client.log, client.stats);
  to_server->report_to(one->receiver());
  d.connections.push_back(std::move(to_server));
  d.backend = std::move(one);
  return d;
}

}  // namespace conch::servers
