// The private redis-server of a benchmark, seen with a clock and a counter in hand.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "support/redis_server.hpp"

namespace conch::bench {

/// CPU time of that server's process, in µs.
double cpu_us(test::redis_probe& at);

class server {
 public:
  explicit server(test::redis_server_options more = {.tcp = true});

  std::string unix_url() const { return "unix://" + redis_.socket_path(); }
  std::string tcp_url() const { return redis_.url(); }
  test::redis_probe& probe() { return probe_; }

  double cpu_us() { return bench::cpu_us(probe_); }

  struct calls {
    std::uint64_t count = 0;
    double us = 0;  // those of a script include what it called
  };
  /// Since the start or reset_stats().
  std::map<std::string, calls> commands();
  /// For how long single scripts kept the server from other clients, in µs, since the start or reset_stats().
  struct script_times {
    double p50 = 0, p99 = 0, longest = 0;
  };
  script_times scripts();
  void reset_stats() { probe_.command({"CONFIG", "RESETSTAT"}); }

 private:
  test::redis_server redis_;
  test::redis_probe probe_;
};

}  // namespace conch::bench
