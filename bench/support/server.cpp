#include "support/server.hpp"

#include <cstdlib>
#include <sstream>
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

std::map<std::string, server::calls> server::commands() {
  std::istringstream info{probe_.command({"INFO", "commandstats"})};
  std::map<std::string, calls> result;
  for (std::string line; std::getline(info, line);) {
    auto const colon = line.find(':');
    if (!line.starts_with("cmdstat_") || colon == line.npos) continue;
    auto const value = [&](char const* key) {
      auto const at = line.find(key, colon);
      return at == line.npos ? 0.0 : std::strtod(line.c_str() + at + std::string{key}.size(), nullptr);
    };
    result[line.substr(8, colon - 8)] = {static_cast<std::uint64_t>(value(":calls=")), value(",usec=")};
  }
  return result;
}

}  // namespace conch::bench
