#pragma once

// A master, its replicas and their Sentinels.

#include "integration/fixture.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

namespace conch::test {

struct sentinel_set_options {
  std::size_t replicas = 2;
  std::size_t sentinels = 3;
  /// A machine that is busy with something else must not look like a master that is down.
  std::chrono::milliseconds down_after = 3s;
};

class sentinel_set {
 public:
  explicit sentinel_set(sentinel_set_options const& o = {}) {
    servers_.push_back(std::make_unique<redis_server>(server_options({})));
    for (std::size_t i = 0; i < o.replicas; ++i) {
      servers_.push_back(std::make_unique<redis_server>(server_options({"--replicaof", "127.0.0.1 " + std::to_string(server(0).port())})));
    }
    for (std::size_t i = 1; i < servers_.size(); ++i) wait(server(i), {"INFO", "replication"}, {"master_link_status:up"});
    for (std::size_t i = 0; i < o.sentinels; ++i) {
      redis_server_options s;
      s.sentinel = {"sentinel monitor m 127.0.0.1 " + std::to_string(server(0).port()) + " " + std::to_string(o.sentinels / 2 + 1),
                    "sentinel down-after-milliseconds m " + std::to_string(o.down_after.count()), "sentinel failover-timeout m 10000",
                    "sentinel parallel-syncs m 9", "logfile \"\""};
      sentinels_.push_back(std::make_unique<redis_server>(s));
    }
    settle();
  }

  /// Of the Sentinels with these numbers; none: of all.
  std::string url(std::vector<std::size_t> of = {}) const {
    std::string hosts;
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
      if (!of.empty() && std::find(of.begin(), of.end(), i) == of.end()) continue;
      hosts += (hosts.empty() ? "" : ",") + std::string{"127.0.0.1:"} + std::to_string(sentinels_[i]->port());
    }
    return "redis-sentinel://" + hosts + "?sentinelMasterId=m";
  }

  redis_server& server(std::size_t i) { return *servers_[i]; }
  redis_server& sentinel(std::size_t i) { return *sentinels_[i]; }
  std::size_t sentinels() const { return sentinels_.size(); }

  /// By what this Sentinel says.
  std::size_t master(std::size_t by = 0) {
    redis_probe probe{sentinel(by), 10s};
    std::string const said = probe.command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"});
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (said == "[127.0.0.1, " + std::to_string(server(i).port()) + "]") return i;
    }
    throw std::runtime_error{"the master is " + said};
  }

  /// Asks a Sentinel for a failover, in which the old master lives on.
  void fail_over(std::size_t by = 0) {
    redis_probe probe{sentinel(by), 10s};
    auto const end = steady::now() + 60s;
    for (std::string said; said != "OK"; std::this_thread::sleep_for(20ms)) {
      said = probe.command({"SENTINEL", "FAILOVER", "m"});
      if (steady::now() > end) throw std::runtime_error{"no failover: " + said};
      if (said == "OK") return;
    }
  }

  /// Until all Sentinels know each other, and the same master with all its replicas.
  void settle() {
    std::string const replicas = "num-slaves, " + std::to_string(servers_.size() - 1);
    std::string const others = "num-other-sentinels, " + std::to_string(sentinels_.size() - 1);
    for (auto const& s : sentinels_) wait(*s, {"SENTINEL", "MASTER", "m"}, {"flags, master,", replicas, others});
    for (auto const& s : sentinels_) {
      auto const end = steady::now() + 60s;
      redis_probe probe{*s, 10s};
      for (;;) {
        std::string const all = probe.command({"SENTINEL", "REPLICAS", "m"});
        if (all.find("_down") == std::string::npos && all.find("disconnected") == std::string::npos &&
            all.find("master-link-status, err") == std::string::npos) {
          break;
        }
        if (steady::now() > end) throw std::runtime_error{"the replicas do not get ready: " + all};
        std::this_thread::sleep_for(20ms);
      }
    }
  }

  static redis_server_options server_options(std::vector<std::string> const& more) {
    redis_server_options o;
    o.tcp = true;
    o.arguments = {"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"};
    o.arguments.insert(o.arguments.end(), more.begin(), more.end());
    return o;
  }

  static void wait(redis_server& at, std::vector<std::string> const& question, std::vector<std::string> const& words) {
    redis_probe probe{at, 10s};
    auto const end = steady::now() + 60s;
    for (;;) {
      std::string const said = probe.command(question);
      bool const all = std::all_of(words.begin(), words.end(), [&](std::string const& w) { return said.find(w) != std::string::npos; });
      if (all) return;
      if (steady::now() > end) throw std::runtime_error{"never seen: " + words.front() + "; but: " + said};
      std::this_thread::sleep_for(10ms);
    }
  }

 private:
  std::vector<std::unique_ptr<redis_server>> servers_, sentinels_;
};

/// Listens to Sentinels, each with a thread of its own, for the first +switch-master of all.
class switch_watch {
 public:
  explicit switch_watch(sentinel_set& of, std::string const& name = "m") {
    for (std::size_t i = 0; i < of.sentinels(); ++i) {
      // Subscribed before this returns.
      auto probe = std::make_shared<redis_probe>(of.sentinel(i), 200ms);
      probe->command({"SUBSCRIBE", "+switch-master"});
      threads_.emplace_back([this, probe, name] {
        while (!ended_) {
          try {
            if (probe->read_message().find("+switch-master, " + name + " ") == std::string::npos) continue;
          } catch (std::runtime_error const&) {  // nothing came
            continue;
          }
          steady::duration none{};
          first_.compare_exchange_strong(none, steady::now().time_since_epoch());
          return;
        }
      });
    }
  }
  ~switch_watch() {
    ended_ = true;
    for (auto& t : threads_) t.join();
  }
  switch_watch(switch_watch const&) = delete;
  switch_watch& operator=(switch_watch const&) = delete;

  bool seen() const { return first_.load() != steady::duration{}; }
  steady::time_point first() const { return steady::time_point{first_.load()}; }

 private:
  std::vector<std::thread> threads_;
  std::atomic<steady::duration> first_{};
  std::atomic<bool> ended_ = false;
};

inline double ms(steady::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// How many connections of clients with this name the server has.
inline std::size_t connections(redis_server& at, std::string const& name) {
  redis_probe probe{at, 10s};
  std::string const all = probe.command({"CLIENT", "LIST"});
  std::size_t n = 0;
  for (auto found = all.find(" name=" + name + " "); found != std::string::npos; found = all.find(" name=" + name + " ", found + 1)) ++n;
  return n;
}

}  // namespace conch::test
