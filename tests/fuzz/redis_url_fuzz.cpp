// URLs, as a user writes them: understood or refused with errc::invalid_url, and what is shown of them is understood as
// the same server, without the password.

#include "base/url_text.hpp"
#include "registry/registry.hpp"
#include "servers/redis/url.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace {

using conch::redis::address;

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "redis_url_fuzz: %s\n", what);
  std::abort();
}

/// Null: it is refused.
std::unique_ptr<conch::servers::target> open(std::string const& url) {
  try {
    conch::config c;
    c.url = url;
    return conch::registry::open(c);
  } catch (boost::system::system_error const& error) {
    require(error.code() == conch::errc::invalid_url || error.code() == conch::errc::not_supported,
            "refused with another error");
    return nullptr;
  }
}

void check_one_server(std::string const& url) {
  address const one = conch::redis::parse_one(url);
  require(one.database >= 0, "a database below 0");
  require(one.user.empty() || !one.password.empty(), "a user without a password");
  if (one.is_unix_socket()) require(one.path.starts_with('/') && one.path.size() <= 107, "a path that is none");
  else require(!one.host.empty() && one.port != 0, "no host or no port");

  auto const shown = open(one.shown());
  require(shown != nullptr, "what is shown is not understood");
  address const again = conch::redis::parse_one(one.shown());
  require(again.host == one.host && again.port == one.port && again.path == one.path,
          "what is shown means another server");
  require(again.user.empty() && again.password.empty(), "a secret is shown");
}

void check_sentinels(std::string const& url) {
  auto const found = conch::redis::parse_sentinels(url);
  require(!found.sentinels.empty() && found.sentinels.size() <= 9, "no Sentinels, or too many");
  for (address const& one : found.sentinels)
    require(!one.host.empty() && one.port != 0 && one.password.empty(), "not a Sentinel");
  require(found.server.user.empty() || !found.server.password.empty(), "a user without a password");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text{reinterpret_cast<char const*>(data), size};
  if (auto const several = open("redlock://" + text)) require(several->is_quorum(), "no majority decides");
  if (open("rediss-sentinel://" + text)) check_sentinels("rediss-sentinel://" + text);
  (void)open("redis-cluster://" + text);
  (void)open("zookeepers://" + text);

  if (!open(text)) return 0;
  std::string_view const scheme = conch::url::scheme_of(text).value();
  for (std::string_view const one : {"redis", "rediss", "valkey", "valkeys", "unix"}) {
    if (scheme == one) check_one_server(text);
  }
  return 0;
}
