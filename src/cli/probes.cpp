// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/probes.hpp"

#include "cli/redis_probe.hpp"

namespace conch::cli {

std::unique_ptr<servers::probe> probe_of(connection const& all, std::string const& url) {
  config one = all.settings;
  one.url = url;
  if (auto probe = servers::open_probe(one)) return probe;
  return make_redis_probe(all, url);  // that of Redis is not in the library yet
}

}  // namespace conch::cli
