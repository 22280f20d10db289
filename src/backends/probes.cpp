// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/probe.hpp"

#include "backends/components.hpp"
#include "backends/deployment.hpp"
#include "servers/zookeeper/probe.hpp"

#include <utility>

namespace conch::servers {

std::unique_ptr<probe> open_probe(config const& settings) {
  if (auto ensemble = backends::zookeeper_of(settings)) return zookeeper::make_probe(settings, std::move(*ensemble));
  if (backends::is_quorum(settings)) return nullptr;
  bool const in_database = backends::servers_of(settings).front().what == redis::address::kind::postgresql;
  return in_database ? backends::postgresql().make_probe(settings) : nullptr;
}

}  // namespace conch::servers
