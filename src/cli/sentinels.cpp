// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/sentinels.hpp"

#include "cli/exit_code.hpp"
#include "cli/server_connection.hpp"

#include <algorithm>
#include <chrono>

namespace conch::cli {

namespace {

constexpr std::string_view plain = "redis-sentinel://", over_tls = "rediss-sentinel://";
constexpr auto npos = std::string_view::npos;

/// "OK" or what else the server is.
std::string role_at(connection const& all, std::string const& url) {
  server_connection server{all, url, std::chrono::seconds{1}};
  reply const role = server.command({"ROLE"});
  if (role.is_error()) return "master";  // the user may not ask; the library will see
  return role.items.empty() ? "unknown" : role.items.front().text;
}

}  // namespace

bool names_sentinels(std::string_view url) noexcept { return url.starts_with(plain) || url.starts_with(over_tls); }

sentinel_addresses parse_sentinels(std::string const& url, config const& settings) {
  sentinel_addresses all;
  bool const tls = settings.sentinels_over_tls.value_or(url.starts_with(over_tls));
  std::string_view const rest = split_hosts(url).rest;
  auto const query = rest.find('?');
  std::string const behind{query == npos ? std::string_view{} : rest.substr(query)};
  for (auto const [host, port] : hosts_of(url, "26379")) {
    std::string const one = (tls ? "rediss://" : "redis://") + host_and_port(host, port) + behind;
    all.sentinels.push_back(parse_address(one, settings.sentinel_tls.value_or(settings.tls)));
  }
  all.master = query_value(rest, "sentinelMasterId");
  return all;
}

std::vector<sentinel_answer> ask_sentinels(connection const& all, std::string const& url) {
  sentinel_addresses const from = parse_sentinels(url, all.settings);
  credentials const login{all.settings.sentinel_username, all.settings.sentinel_password};
  std::vector<sentinel_answer> answers;
  for (server_address const& one : from.sentinels) {
    sentinel_answer& a = answers.emplace_back();
    a.sentinel = host_and_port(one.host, one.port);
    try {
      server_connection sentinel{one, login, std::chrono::seconds{1}};
      reply const r = sentinel.answer_to({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", from.master});
      if (r.items.size() == 2) {
        a.host = r.items[0].text;
        a.port = r.items[1].text;
      } else {
        a.error = from.master.empty() ? "it knows no master without a name" : "it knows no master " + from.master;
      }
    } catch (failure const& error) {
      a.error = error.what();
    }
  }
  return answers;
}

std::string url_of_master(connection const& all, std::string const& url) {
  std::vector<sentinel_answer> const answers = ask_sentinels(all, url);
  std::string said;
  bool const unknown = std::all_of(answers.begin(), answers.end(), [](auto const& a) { return a.error.starts_with("it knows no master"); });
  for (sentinel_answer const& a : answers) {
    std::string why = a.error;
    if (why.empty()) {
      std::string const master = url_of_server(url, a.host, a.port);
      why = "it names " + a.host + ':' + a.port + ", ";
      try {
        std::string const role = role_at(all, master);
        if (role == "master") return master;
        why += "whose role is " + role;
      } catch (failure const& error) {
        if (error.code != exit_code::unreachable) throw;  // the password, the certificate: no other will do better
        why += error.what();
      }
    }
    said += (said.empty() ? "Sentinel " : "; Sentinel ") + a.sentinel + ": " + why;
  }
  throw failure{unknown ? exit_code::wrong_config : exit_code::unreachable, said};
}

}  // namespace conch::cli
