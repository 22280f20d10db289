#pragma once

// A master and its replicas.

#include "integration/fixture.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace conch::test {

/// Waits until this many replicas acknowledge what is written. A new one does so for the first time after a second.
inline void wait_for_acknowledgements(redis_server& master, std::size_t replicas) {
  redis_probe probe{master, 10s};
  auto const end = steady::now() + 60s;
  do {
    if (steady::now() > end) throw std::runtime_error{"a replica does not acknowledge"};
    probe.command({"PUBLISH", "mark", "x"});
  } while (probe.integer({"WAIT", std::to_string(replicas), "2000"}) != static_cast<std::int64_t>(replicas));
}

class replicated_server {
 public:
  explicit replicated_server(std::size_t replicas, redis_server_options const& each = {.tcp = true})
      : master_{with(each, {})} {
    for (std::size_t i = 0; i < replicas; ++i) {
      replicas_.push_back(
          std::make_unique<redis_server>(with(each, {"--replicaof", "127.0.0.1 " + std::to_string(master_.port())})));
    }
    wait_for_replicas();
  }

  redis_server& master() { return master_; }
  redis_server& replica(std::size_t i) { return *replicas_[i]; }
  std::string url() const { return master_.url(); }

  /// Until each follows the master.
  void wait_for_replicas() {
    std::size_t const all = replicas_.size();
    wait(master_, [all](std::string const& info) { return count(info, "state=online") == all; });
    wait_for_acknowledgements(master_, all);
  }

  /// Cuts replication both ways; the clients' connections stay.
  void isolate() {
    for (auto const& one : replicas_) {
      redis_probe probe{*one, 10s};
      if (probe.command({"REPLICAOF", "127.0.0.1", "1"}) != "OK")
        throw std::runtime_error{"a replica stays with its master"};
    }
    wait(master_, [](std::string const& info) { return count(info, "state=online") == 0; });
  }

  void follow_again() {
    for (auto const& one : replicas_) {
      redis_probe probe{*one, 10s};
      probe.command({"REPLICAOF", "127.0.0.1", std::to_string(master_.port())});
    }
    wait_for_replicas();
  }

  template <class Seen>
  static void wait(redis_server& at, Seen const& seen) {
    redis_probe probe{at, 10s};
    auto const end = steady::now() + 60s;
    for (;;) {
      std::string const info = probe.command({"INFO", "replication"});
      if (seen(info)) return;
      if (steady::now() > end) throw std::runtime_error{"the replication is as it was: " + info};
      std::this_thread::sleep_for(5ms);
    }
  }

 private:
  static std::size_t count(std::string const& in, std::string const& what) {
    std::size_t n = 0;
    for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
    return n;
  }

  static redis_server_options with(redis_server_options o, std::vector<std::string> const& more) {
    o.arguments.insert(o.arguments.end(), {"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"});
    o.arguments.insert(o.arguments.end(), more.begin(), more.end());
    return o;
  }

  redis_server master_;
  std::vector<std::unique_ptr<redis_server>> replicas_;
};

inline config synced(std::string url, std::size_t replicas, std::chrono::milliseconds lease = 9s) {
  config c = quick(std::move(url), lease);
  c.sync_replicas = replicas;
  c.sync_timeout = 300ms;
  return c;
}

}  // namespace conch::test
