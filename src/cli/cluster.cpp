// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/cluster.hpp"

#include "cli/exit_code.hpp"
#include "cli/server_address.hpp"
#include "cli/server_connection.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

namespace conch::cli {

namespace {

[[noreturn]] void no_sense() { throw failure{exit_code::refused, "invalid answer to CLUSTER SLOTS"}; }

}  // namespace

bool names_cluster(std::string_view url) noexcept { return url.substr(0, url.find("://")).ends_with("-cluster"); }

std::string cluster_master::address() const { return host_and_port(host, port); }

std::vector<cluster_master> read_masters(reply const& slots, std::string_view asked) {
  if (slots.what != reply::kind::array) no_sense();
  constexpr std::size_t most = 16384;  // slots
  if (slots.items.size() > most) no_sense();
  std::vector<cluster_master> all;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (reply const& range : slots.items) {
    if (range.items.size() < 3 || range.items[2].items.size() < 2) no_sense();
    reply const& master = range.items[2];
    std::string host = master.items[0].text;
    if (host.empty() || host == "?") host = asked;
    std::string const port = std::to_string(master.items[1].number);
    std::int64_t const first = range.items[0].number, last = range.items[1].number;
    if (first < 0 || last < first || last >= static_cast<std::int64_t>(most)) no_sense();
    auto const [found, is_new] = known.try_emplace({host, port}, all.size());
    if (is_new) all.push_back({.host = host, .port = port});
    all[found->second].slots += static_cast<std::size_t>(last - first + 1);
  }
  return all;
}

std::vector<cluster_master> masters_of_cluster(connection const& all, std::string const& url) {
  std::string said;
  for (auto const [host, port] : hosts_of(url, "6379")) {
    std::string const name = host_and_port(host, port);
    try {
      server_connection node{all, url_of_server(url, host, port), std::chrono::seconds{1}};
      std::vector<cluster_master> masters = read_masters(node.answer_to({"CLUSTER", "SLOTS"}), node.address().host);
      if (!masters.empty()) return masters;
      said += (said.empty() ? "" : "; ") + name + ": it knows of no slots";
    } catch (failure const& error) {
      if (error.code == exit_code::access_denied) throw;  // no other will do better
      said += (said.empty() ? "" : "; ") + name + ": " + error.what();
    }
  }
  throw failure{exit_code::unreachable, said};
}

std::vector<std::string> servers_behind(connection const& all, std::string const& url) {
  if (!names_cluster(url)) return {url};
  std::vector<std::string> urls;
  for (cluster_master const& one : masters_of_cluster(all, url)) urls.push_back(url_of_server(url, one.host, one.port));
  return urls;
}

}  // namespace conch::cli
