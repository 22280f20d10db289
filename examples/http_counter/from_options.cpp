#include "from_options.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "memory_values.hpp"
#ifdef HTTP_COUNTER_POSTGRESQL
#include "postgres_values.hpp"
#endif
#include "redis_address.hpp"
#include "redis_values.hpp"

namespace http_counter {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// The timeout of one command to Redis. A request is answered soon, even if the answer is 503.
conch::duration command_limit(options const& chosen) { return std::min<conch::duration>(1s, chosen.lease / 3); }

/// A lock over several servers keeps its counter on the first of them.
std::string server_of_values(std::string const& url) {
  constexpr std::string_view several = "redlock://";
  if (!url.starts_with(several)) return url;
  return "redis://" + url.substr(several.size(), url.find(',') - several.size());
}

std::string shown_url(std::string const& url) {
  auto const begin = url.find("://");
  auto const at = url.rfind('@');
  return begin == url.npos || at == url.npos ? url : url.substr(0, begin + 3) + url.substr(at + 1);
}

/// Removes the names of certificate and key files, which are local: `?cacert=FILE&cert=FILE`.
std::string without_files(std::string const& url) {
  auto const mark = std::min(url.find('?'), url.size());
  std::string kept = url.substr(0, mark);
  char before = '?';
  for (auto at = mark; at < url.size();) {
    auto const end = std::min(url.find('&', at + 1), url.size());
    std::string const word = url.substr(at + 1, end - at - 1);
    bool const is_file = word.starts_with("cacert=") || word.starts_with("cacertdir=") || word.starts_with("cert=") ||
                         word.starts_with("key=");
    if (!is_file) {
      kept += before + word;
      before = '&';
    }
    at = end;
  }
  return kept;
}

}  // namespace

std::string shown_lock_servers(options const& chosen) {
  if (chosen.lock_servers.empty()) return without_files(shown_url(chosen.redis));
  std::string all;
  for (std::string const& url : chosen.lock_servers) all += (all.empty() ? "" : ", ") + without_files(shown_url(url));
  return all;
}

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
  // the first request must have time to connect
  c.offline_timeout = std::clamp<conch::duration>(chosen.wait, 200ms, 2s);
  c.reconnect_max = 500ms;
  c.client_name = "conch-http-counter";
  c.log = conch::log_to_stderr(conch::log_level::warning);
  return c;
}

std::unique_ptr<value_store> make_store(asio::io_context& ctx, options const& chosen) {
  auto const limit = std::chrono::duration_cast<std::chrono::milliseconds>(command_limit(chosen));
  if (chosen.redis.starts_with("postgresql://") || chosen.redis.starts_with("postgres://")) {
#ifdef HTTP_COUNTER_POSTGRESQL
    // Longer than for Redis, because the server starts a process for each connection. A late write is harmless: it
    // carries its token.
    return std::make_unique<postgres_values>(ctx, chosen.redis, 5 * limit);
#else
    throw std::invalid_argument("a counter in PostgreSQL needs libpq, and this program was built without it");
#endif
  }
  redis_address address = parse_address(server_of_values(chosen.redis));
  if (address.in_memory) {
    return std::make_unique<memory_values>();
  }
  return std::make_unique<redis_values>(ctx, std::move(address), limit);
}

}  // namespace http_counter
