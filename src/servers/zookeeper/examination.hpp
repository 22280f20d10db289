// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"
#include "servers/zookeeper/messages.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

// What the answers of an ensemble mean for locks. No I/O.
namespace conch::zookeeper {

/// What one server answered to `srvr`.
struct server_word {
  std::string server;   // its URL
  std::string version;  // "3.8.0"; empty: not reported
  std::string mode;     // "leader", "follower", "standalone"
  std::string trouble;  // why it was not reported, printable
};
server_word read_word(std::string server, std::string_view text);

servers::finding judge_ensemble(std::vector<server_word> const& all);
servers::finding judge_version(std::vector<server_word> const& all);

struct session_facts {
  std::chrono::milliseconds asked{}, given{}, least{}, lease{};
};
servers::finding judge_session(session_facts const& f);

/// The root of the locks, or what a server answers instead of its rights.
struct root_facts {
  std::string path;
  status what = status::ok;
  std::vector<right> rights;
  std::string user;  // of this client; empty: it has none
};
servers::finding judge_root(root_facts const& f);

}  // namespace conch::zookeeper
