#include "from_options.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "memory_values.hpp"
#include "redis_address.hpp"
#include "redis_values.hpp"

namespace http_counter {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// For one command at Redis, to lock or to count. Requests shall be answered soon, also with 503.
conch::duration command_limit(options const& chosen) { return std::min<conch::duration>(1s, chosen.lease / 3); }

/// The lock may be on several servers; the counter is on one, the first of them.
std::string server_of_values(std::string const& url) {
  constexpr std::string_view several = "redlock://";
  if (!url.starts_with(several)) return url;
  return "redis://" + url.substr(several.size(), url.find(',') - several.size());
}

}  // namespace

conch::config lock_settings(options const& chosen) {
  conch::config c;
  switch (chosen.lock_servers.size()) {
    case 0: c.url = chosen.redis; break;
    case 1: c.url = chosen.lock_servers.front(); break;
    default: c.quorum.servers = chosen.lock_servers;
  }
  c.lease = chosen.lease;
  c.stop_margin = std::min<conch::duration>(c.stop_margin, c.lease / 4);
  c.local_slice = std::min<conch::duration>(c.local_slice, c.lease);
  c.claim = std::min<conch::duration>(c.claim, c.lease);
  c.command_timeout = command_limit(chosen);
  c.connect_timeout = 1s;
  c.offline_timeout = std::clamp<conch::duration>(chosen.wait, 200ms, 2s);  // also the first request has to connect
  c.reconnect_max = 500ms;
  c.client_name = "conch-http-counter";
  c.log = [](conch::log_level level, std::string_view text) {
    if (level >= conch::log_level::warning) {
      std::fprintf(stderr, "conch: %.*s\n", static_cast<int>(text.size()), text.data());
    }
  };
  return c;
}

std::unique_ptr<value_store> make_store(asio::io_context& ctx, options const& chosen) {
  redis_address address = parse_address(server_of_values(chosen.redis));
  if (address.in_memory) {
    return std::make_unique<memory_values>();
  }
  auto const limit = std::chrono::duration_cast<std::chrono::milliseconds>(command_limit(chosen));
  return std::make_unique<redis_values>(ctx, std::move(address), limit);
}

}  // namespace http_counter
