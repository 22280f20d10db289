#include "support/sentinel_set.hpp"

#include "support/patience.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

}  // namespace

sentinel_set::sentinel_set(sentinel_set_options const& o) {
  for (std::size_t i = 0; i <= o.replicas; ++i) {
    redis_server_options s = server_options({});
    // The append-only file is written before an answer goes out, so what was acknowledged outlives SIGKILL.
    if (o.appendonly)
      s.arguments.insert(s.arguments.end(), {"--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"});
    s.appendonly = o.appendonly;
    servers_.push_back(std::make_unique<redis_server>(s));
    // By a command: started again it would follow the master of the first hour.
    if (i > 0) redis_probe{server(i)}.command({"REPLICAOF", "127.0.0.1", std::to_string(server(0).port())});
  }
  for (std::size_t i = 1; i < servers_.size(); ++i)
    wait_for_answer(server(i), {"INFO", "replication"}, {"master_link_status:up"});
  for (std::size_t i = 0; i < o.sentinels; ++i) {
    redis_server_options s;
    s.sentinel = {
        "sentinel monitor m 127.0.0.1 " + std::to_string(server(0).port()) + " " + std::to_string(o.sentinels / 2 + 1),
        "sentinel down-after-milliseconds m " + std::to_string(o.down_after.count()),
        "sentinel failover-timeout m " + std::to_string(o.failover_timeout.count()), "sentinel parallel-syncs m 9",
        "logfile \"\""};
    sentinels_.push_back(std::make_unique<redis_server>(s));
  }
  settle();
}

std::string sentinel_set::url(std::vector<std::size_t> const& of) const {
  std::string hosts;
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    if (!of.empty() && std::find(of.begin(), of.end(), i) == of.end()) continue;
    hosts += (hosts.empty() ? "" : ",") + std::string{"127.0.0.1:"} + std::to_string(sentinels_[i]->port());
  }
  return "redis-sentinel://" + hosts + "?sentinelMasterId=m";
}

std::size_t sentinel_set::master(std::size_t by, std::chrono::milliseconds within) {
  redis_probe probe{sentinel(by), within};
  std::string const said = probe.command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"});
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (said == "[127.0.0.1, " + std::to_string(server(i).port()) + "]") return i;
  }
  throw std::runtime_error{"the master is " + said};
}

void sentinel_set::fail_over(std::size_t by) {
  redis_probe probe{sentinel(by), 10s};
  auto const end = steady::now() + patience;
  for (std::string said; said != "OK"; std::this_thread::sleep_for(20ms)) {
    said = probe.command({"SENTINEL", "FAILOVER", "m"});
    if (said == "OK") return;
    if (steady::now() > end) throw std::runtime_error{"no failover: " + said};
  }
}

void sentinel_set::wait_until_replaced(std::size_t old_master) {
  auto const end = steady::now() + patience;
  auto const is_replaced = [&] {
    for (std::size_t i = 0; i < sentinels(); ++i) {
      if (master(i) == old_master) return false;
    }
    try {
      redis_probe probe{server(old_master), 10s};
      return probe.command({"ROLE"}).find("slave") != std::string::npos;
    } catch (std::runtime_error const&) {  // the Sentinel that makes it a replica ends its connections
      return false;
    }
  };
  while (!is_replaced()) {
    if (steady::now() > end) throw std::runtime_error{"the old master is still one"};
    std::this_thread::sleep_for(20ms);
  }
}

void sentinel_set::settle() {
  std::string const replicas = "num-slaves, " + std::to_string(servers_.size() - 1);
  std::string const others = "num-other-sentinels, " + std::to_string(sentinels_.size() - 1);
  for (auto const& s : sentinels_)
    wait_for_answer(*s, {"SENTINEL", "MASTER", "m"}, {"flags, master,", replicas, others});
  for (auto const& s : sentinels_) {
    auto const end = steady::now() + patience;
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

redis_server_options sentinel_set::server_options(std::vector<std::string> const& more) {
  redis_server_options o;
  o.tcp = true;
  o.arguments = {"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"};
  o.arguments.insert(o.arguments.end(), more.begin(), more.end());
  return o;
}

}  // namespace conch::test
