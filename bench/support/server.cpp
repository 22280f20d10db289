#include "support/server.hpp"

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace conch::bench {

namespace {

test::redis_server_options with_many_clients(test::redis_server_options o) {
  o.arguments.insert(o.arguments.end(), {"--maxclients", "12000"});
  return o;
}

}  // namespace

server::server(test::redis_server_options more) : redis_{with_many_clients(std::move(more))}, probe_{redis_} {}

double cpu_us(test::redis_probe& at) {
  std::istringstream info{at.command({"INFO", "cpu"})};
  double seconds = 0;
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("used_cpu_sys:") || line.starts_with("used_cpu_user:")) {
      seconds += std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    }
  }
  return seconds * 1e6;
}

namespace {

/// The value of the key in INFO; 0 without it.
double value_in(std::string const& line, std::string_view key, std::size_t from) {
  auto const at = line.find(key, from);
  return at == line.npos ? 0.0 : std::strtod(line.c_str() + at + key.size(), nullptr);
}

}  // namespace

server::script_times server::scripts() {
  probe_.command({"CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 100"});
  std::istringstream info{probe_.command({"INFO", "latencystats"})};
  for (std::string line; std::getline(info, line);) {
    auto const colon = line.find(':');
    if (!line.starts_with("latency_percentiles_usec_evalsha:")) continue;
    return {value_in(line, "p50=", colon), value_in(line, "p99=", colon), value_in(line, "p100=", colon)};
  }
  throw std::runtime_error{"the server does not tell how long its scripts took"};
}

std::map<std::string, server::calls> server::commands() {
  std::istringstream info{probe_.command({"INFO", "commandstats"})};
  std::map<std::string, calls> result;
  for (std::string line; std::getline(info, line);) {
    auto const colon = line.find(':');
    if (!line.starts_with("cmdstat_") || colon == line.npos) continue;
    result[line.substr(8, colon - 8)] = {static_cast<std::uint64_t>(value_in(line, ":calls=", colon)),
                                         value_in(line, ",usec=", colon)};
  }
  return result;
}

}  // namespace conch::bench
