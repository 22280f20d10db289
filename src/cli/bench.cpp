// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/commands.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/measure.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"
#include "servers/probe.hpp"
#include "servers/urls.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace conch::cli {

namespace {

/// From the first server that answers: some of several may be away.
std::vector<duration> ping(connection const& servers, duration time) {
  for (std::size_t i = 0;; ++i) {
    std::string const& url = servers.servers[i];
    bool const is_last = i + 1 == servers.servers.size();
    try {
      auto const server = conch::servers::open_probe(servers.at(url));
      std::vector<duration> all;
      for (time_point const end = clock::now() + time; all.empty() || clock::now() < end;)
        all.push_back(server->round_trip());
      return all;
    } catch (boost::system::system_error const&) {
      if (is_last) throw;
    }
  }
}

double in_us(duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

boost::json::object percentiles(std::vector<duration> const& all) {
  boost::json::object o;
  o["count"] = all.size();
  o["p50_ns"] = quantile(all, 0.5).count();
  o["p99_ns"] = quantile(all, 0.99).count();
  return o;
}

void print_line(char const* what, std::vector<duration> const& all, std::string const& more) {
  std::string const words = more.empty() ? more : "  " + more;
  char line[400];
  std::snprintf(line, sizeof line, "%-17s  p50 %-8s  p99 %s%s\n", what, readable(quantile(all, 0.5)).c_str(),
                readable(quantile(all, 0.99)).c_str(), words.c_str());
  print(line);
}

std::string one_digit(double d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", d);
  return text;
}

/// How long these take, as a multiple of a round trip. With replicas: a confirmation of its own, and what the replicas
/// need.
std::string in_trips(std::vector<duration> const& all, std::vector<duration> const& trips, int minimum,
                     std::size_t replicas) {
  std::string const more = replicas == 0 ? ""
                                         : " and the acknowledgement of " + std::to_string(replicas) +
                                               (replicas == 1 ? " replica" : " replicas");
  return one_digit(in_us(quantile(all, 0.5)) / in_us(quantile(trips, 0.5))) + " times the round trip (minimum " +
         std::to_string(minimum) + more + ')';
}

}  // namespace

int bench(arguments const& given, connection const& servers) {
  duration const time = given.time;
  // first: the library knows most of what is wrong with a server
  std::vector<duration> const cycles = measure_cycles(servers, time);
  std::vector<duration> const trips = ping(servers, time);
  std::vector<duration> const hand_overs = measure_hand_overs(servers, time, 5);
  duration sum{};
  for (duration const one : cycles) sum += one;
  double const per_second = static_cast<double>(cycles.size()) / std::chrono::duration<double>(sum).count();
  std::size_t const replicas = servers.settings.sync_replicas;
  if (given.json) {
    boost::json::object o;
    o["server"] = conch::servers::without_login(servers.settings.url);
    if (replicas != 0) o["sync_replicas"] = replicas;
    o["round_trip"] = percentiles(trips);
    o["cycle"] = percentiles(cycles);
    o["cycles_per_second"] = static_cast<std::int64_t>(per_second);
    o["hand_over"] = percentiles(hand_overs);
    print(one_line(o));
    return exit_code::done;
  }
  print(conch::servers::without_login(servers.settings.url) + ", one client, each part for " + readable(time) + '\n');
  print_line("round trip", trips, "");
  print_line("acquire + release", cycles,
             one_digit(per_second) + " cycles/s, " + in_trips(cycles, trips, replicas == 0 ? 2 : 3, replicas));
  print_line("hand-over", hand_overs, in_trips(hand_overs, trips, replicas == 0 ? 1 : 2, replicas));
  return exit_code::done;
}

}  // namespace conch::cli
