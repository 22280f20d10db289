// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/cluster_masters.hpp"

#include "servers/redis/questions.hpp"
#include "servers/redis/topology/address_map.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace conch::redis {

namespace {

[[noreturn]] void not_usable(errc why, address const& node, std::string const& words) {
  throw boost::system::system_error{make_error_code(why, node.shown() + ": " + words)};
}

/// The server has answered CLUSTER with this error.
[[noreturn]] void refuse_answer(questions& node, reply const& error) {
  std::string_view const words = error.text();
  bool const is_unknown = words.find("unknown command") != std::string_view::npos;
  if (!is_unknown && words.find("cluster support disabled") == std::string_view::npos) node.refuse(error);
  if (is_unknown && node.ask({"ROLE"}).item(0) == "sentinel")
    not_usable(errc::not_supported, node.where(),
               "the server is a Sentinel; the URL of its master begins with redis-sentinel://");
  not_usable(errc::not_supported, node.where(), why_no_node({}, {}));
}

std::vector<cluster_master> ask_node(config const& settings, address const& where) {
  questions node{settings, where, questions::short_limit};
  reply const r = node.ask({"CLUSTER", "SLOTS"});
  if (r.is_error()) refuse_answer(node, r);
  auto const map = read_slots(r.nodes(), where);
  if (!map) not_usable(errc::protocol, where, "the answer to CLUSTER SLOTS is not a slot map");
  if (map->empty()) not_usable(errc::unreachable, where, "the node knows of no slots");
  std::vector<cluster_master> masters = masters_in(*map, where, settings);
  if (masters.size() > slot_map::most_masters)
    not_usable(errc::protocol, where,
               "the answer to CLUSTER SLOTS names more than " + std::to_string(slot_map::most_masters) + " masters");
  return masters;
}

}  // namespace

std::vector<cluster_master> masters_in(std::vector<named_slots> const& map, address const& asked,
                                       config const& settings) {
  std::vector<cluster_master> all;
  std::map<std::pair<std::string, std::uint16_t>, std::size_t> known;
  for (named_slots const& one : map) {
    auto const [found, is_new] = known.try_emplace({one.host, one.port}, all.size());
    if (is_new) {
      address where = asked;
      where.host = one.host;
      where.port = one.port;
      map_address(settings.address_map, where.host, where.port);
      all.push_back({std::move(where)});
    }
    all[found->second].slots += one.last - one.first + 1;
  }
  return all;
}

std::vector<cluster_master> ask_for_masters(config const& settings, cluster_url const& url) {
  std::string said;
  std::vector<error_code> whys;
  for (address const& seed : url.seeds) {
    try {
      return ask_node(settings, seed);
    } catch (boost::system::system_error const& error) {
      if (error.code() == errc::access_denied) throw;  // no other will do better
      whys.push_back(error.code());
      said += (said.empty() ? "" : "; ") + seed.shown() + ": " + reason_of(error.code(), seed);
    }
  }
  bool const all_alike =
      std::all_of(whys.begin(), whys.end(), [&](error_code const& one) { return one.value() == whys.front().value(); });
  throw boost::system::system_error{
      make_error_code(all_alike ? static_cast<errc>(whys.front().value()) : errc::unreachable, said)};
}

}  // namespace conch::redis
