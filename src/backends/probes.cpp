// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/probe.hpp"

#include "backends/components.hpp"
#include "backends/deployment.hpp"
#include "servers/redis/probe.hpp"
#include "servers/zookeeper/probe.hpp"

#include <utility>

namespace conch::servers {

std::unique_ptr<probe> open_probe(config const& settings) {
  if (auto ensemble = backends::zookeeper_of(settings)) return zookeeper::make_probe(settings, std::move(*ensemble));
  if (auto all = backends::sentinels_of(settings)) return redis::make_probe(settings, std::move(*all));
  if (auto all = backends::cluster_of(settings)) return redis::make_probe(settings, std::move(*all));
  if (backends::is_quorum(settings)) return nullptr;
  redis::address one = backends::servers_of(settings).front();
  if (one.what == redis::address::kind::postgresql) return backends::postgresql().make_probe(settings);
  return one.what == redis::address::kind::memory ? nullptr : redis::make_probe(settings, std::move(one));
}

}  // namespace conch::servers
