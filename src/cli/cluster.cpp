// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/cluster.hpp"

#include "cli/exit_code.hpp"
#include "cli/server_connection.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace conch::cli {

namespace {

constexpr std::string_view schemes[] = {"redis-cluster://", "rediss-cluster://", "valkey-cluster://", "valkeys-cluster://"};
constexpr auto npos = std::string_view::npos;

bool is_of(reply const& range) { return range.items.size() >= 3 && range.items[2].items.size() >= 2; }

std::vector<server_address> asked_of(connection const& all, server_address const& seed) {
  server_connection server{seed, all.login.value_or(seed.login), std::chrono::seconds{3}};
  std::vector<server_address> found;
  for (reply const& range : server.answer_to({"CLUSTER", "SLOTS"}).items) {
    if (!is_of(range)) throw failure{exit_code::refused, "an answer to CLUSTER SLOTS that makes no sense"};
    server_address one = seed;
    std::string const& host = range.items[2].items[0].text;
    if (!host.empty() && host != "?") one.host = host;
    one.port = std::to_string(range.items[2].items[1].number);
    bool const known = std::any_of(found.begin(), found.end(), [&](server_address const& m) { return m.host == one.host && m.port == one.port; });
    if (!known) found.push_back(std::move(one));
  }
  if (found.empty()) throw failure{exit_code::unreachable, seed.host + ':' + seed.port + " knows of no slots"};
  return found;
}

}  // namespace

bool names_cluster(std::string_view url) noexcept {
  return std::any_of(std::begin(schemes), std::end(schemes), [&](std::string_view scheme) { return url.starts_with(scheme); });
}

std::vector<server_address> seeds_of(std::string const& url, config const& settings) {
  bool const over_tls = url.starts_with("rediss-") || url.starts_with("valkeys-");
  std::string_view rest = std::string_view{url}.substr(url.find("://") + 3);
  std::string_view const query = rest.substr(std::min(rest.find('?'), rest.size()));
  rest = rest.substr(0, rest.size() - query.size());
  std::string_view login;
  if (auto const at = rest.rfind('@'); at != npos) {
    login = rest.substr(0, at + 1);
    rest.remove_prefix(at + 1);
  }
  rest = rest.substr(0, rest.find('/'));
  std::vector<server_address> all;
  for (;;) {
    auto const comma = rest.find(',');
    std::string one = over_tls ? "rediss://" : "redis://";
    one.append(login).append(rest.substr(0, comma)).append(query);
    all.push_back(parse_address(one, settings.tls));
    if (comma == npos) return all;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<server_address> masters_of(connection const& all, std::string const& url) {
  std::vector<server_address> const seeds = seeds_of(url, all.settings);
  for (std::size_t i = 0;; ++i) {
    try {
      return asked_of(all, seeds[i]);
    } catch (failure const& error) {
      if (error.code != exit_code::unreachable || i + 1 == seeds.size()) throw;  // the password, the certificate: no other will do better
    }
  }
}

}  // namespace conch::cli
