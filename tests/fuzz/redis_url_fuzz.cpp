// URLs, as a user writes them: understood or refused with errc::invalid_url, and what is shown of them is understood as the
// same server, without the password.

#include "base/url.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace {

using conch::redis::address;

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "redis_url_fuzz: %s\n", what);
  std::abort();
}

std::optional<address> parse(std::string_view url) {
  try {
    return conch::redis::parse_url(url);
  } catch (boost::system::system_error const& error) {
    require(error.code() == conch::errc::invalid_url, "refused with another error");
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    auto const several = conch::redis::parse_servers("redlock://" + std::string{reinterpret_cast<char const*>(data), size});
    require(!several.empty() && several.size() <= 9, "no servers, or too many");
  } catch (boost::system::system_error const& error) {
    require(error.code() == conch::errc::invalid_url, "refused with another error");
  }
  try {
    auto const found = conch::redis::parse_sentinels("rediss-sentinel://" + std::string{reinterpret_cast<char const*>(data), size});
    require(!found.sentinels.empty() && found.sentinels.size() <= 9, "no Sentinels, or too many");
    for (address const& one : found.sentinels) require(!one.host.empty() && one.port != 0 && one.password.empty(), "not a Sentinel");
    require(found.server.user.empty() || !found.server.password.empty(), "a user without a password");
  } catch (boost::system::system_error const& error) {
    require(error.code() == conch::errc::invalid_url, "refused with another error");
  }
  auto const url = parse({reinterpret_cast<char const*>(data), size});
  if (!url) return 0;
  require(url->database >= 0, "a database below 0");
  if (url->what == address::kind::tcp) {
    require(!url->host.empty() && url->port != 0, "no host or no port");
  } else if (url->what == address::kind::unix_socket) {
    require(url->path.starts_with('/') && url->path.size() <= 107, "a path that is none");
  }
  require(url->user.empty() || !url->password.empty(), "a user without a password");

  if (url->what == address::kind::postgresql) {
    std::string const shown = url->shown();
    require(shown.find('@') == std::string::npos && shown.find('?') == std::string::npos, "a secret is shown");
    return 0;
  }
  auto const again = parse(url->shown());
  require(again.has_value(), "what is shown is not understood");
  require(again->what == url->what && again->host == url->host && again->port == url->port && again->path == url->path,
          "what is shown means another server");
  require(again->user.empty() && again->password.empty(), "a secret is shown");
  return 0;
}
