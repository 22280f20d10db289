// A lock that ZooKeeper keeps, by conch and by Curator, each in processes of its own. Hand-over, 100 waiters drained,
// fairness, what each asks the servers for, and what each believes while the server that its client is connected to is
// cut off.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "peers/player.hpp"
#include "support/report.hpp"
#include "support/request_counter.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

namespace {

using namespace conch::bench;
using namespace std::chrono_literals;
using conch::test::tcp_proxy;
using conch::test::zookeeper_ensemble;

constexpr char const* figure = "zookeeper-peers";
constexpr std::chrono::microseconds no_body{0};

class suite {
 public:
  suite(options const& chosen, std::vector<peer> const& all) : chosen_{chosen}, peers_{all}, out_{chosen, true} {}

  void hand_over(std::vector<std::uint16_t> const& ports, std::string const& where) {
    std::vector<players> set;
    for (auto const& p : peers_) {
      set.emplace_back();
      for (std::size_t i = 0; i < 2; ++i) set.back().push_back(begin(p, "hand-off", ports[i % ports.size()], 1));
    }
    std::vector<samples> p50(set.size()), p99(set.size());
    for (int i = 0; i <= chosen_.repetitions; ++i) {
      for (std::size_t k = 0; k < set.size(); ++k) {
        progress("hand-over, " + where + ": " + peers_[k].name);
        if (i == 0) {
          warm(warm_up_of(peers_[k]), [&] { return hand_overs(set[k], 2, 300).median(); });
          continue;
        }
        samples const us = hand_overs(set[k], chosen_.seconds * 4, 5'000);
        p50[k].add(us.quantile(0.5));
        p99[k].add(us.quantile(0.99));
      }
    }
    add("hand-over, p50, " + where, p50, "us");
    add("hand-over, p99, " + where, p99, "us");
  }

  /// By two processes in turns, seen from a counter in front of the server.
  void requests_of_hand_overs(std::uint16_t server) {
    std::vector<samples> lists, all;
    for (auto const& p : peers_) {
      progress("requests of a hand-over: " + p.name);
      request_counter counter{server};
      players both;
      for (std::size_t i = 0; i < 2; ++i) both.push_back(begin(p, "hand-off", counter.port(), 1));
      auto const before = counter.count();
      auto const count = static_cast<double>(hand_overs(both, 3, 300).size());
      auto const seen = counter.count().since(before);
      lists.emplace_back().add(static_cast<double>(seen.lists) / count);
      all.emplace_back().add(static_cast<double>(seen.all() - seen.pings - seen.writes) / count);
    }
    add("lists a grant, 2 processes", lists, "lists");
    add("requests a grant, without heartbeats, 2 processes", all, "requests");
  }

  /// 100 clients ask one after the other, with a pause between, and each gives the lock back as soon as it has it.
  void drain(std::uint16_t server, std::size_t clients) {
    std::string const name = std::to_string(clients) + " waiting clients";
    std::vector<samples> took(peers_.size()), out_of_order(peers_.size()), lists(peers_.size()), all(peers_.size());
    for (bool const counted : {false, true}) {
      auto const counter = counted ? std::make_unique<request_counter>(server) : nullptr;
      std::vector<std::unique_ptr<player>> set;
      for (auto const& p : peers_) set.push_back(begin(p, "order", counted ? counter->port() : server, clients));
      for (int i = 0; i <= (counted ? 1 : chosen_.repetitions); ++i) {
        for (std::size_t k = 0; k < set.size(); ++k) {
          progress("drain: " + peers_[k].name);
          auto const before = counted ? counter->count() : requests{};
          set[k]->tell("arm");
          set[k]->expect("armed");
          std::this_thread::sleep_for(1s);  // until the last one is queued
          set[k]->tell("drain");
          std::istringstream words{set[k]->expect("drained")};
          double us = 0;
          words >> us;
          std::vector<std::size_t> order;
          for (std::size_t who = 0; words >> who;) order.push_back(who);
          if (i == 0) continue;  // warms up
          if (!counted) {
            took[k].add(us / 1e3);
            out_of_order[k].add(static_cast<double>(inversions(order)));
            continue;
          }
          auto const seen = counter->count().since(before);
          lists[k].add(static_cast<double>(seen.lists) / static_cast<double>(clients + 1));
          all[k].add(static_cast<double>(seen.all() - seen.pings - seen.writes) / static_cast<double>(clients + 1));
        }
      }
    }
    add("drain: time, " + name, took, "ms");
    add("drain: pairs that had the lock in another order than they asked in, " + name, out_of_order, "pairs");
    add("lists a grant, " + name, lists, "lists");
    add("requests a grant, without heartbeats, " + name, all, "requests");
  }

  /// `each`: conch, too, asks the server for every hold.
  void contended(std::uint16_t server, std::size_t processes, std::size_t tasks, peer const& each) {
    std::string const name = std::to_string(processes) + " processes x " + std::to_string(tasks) + " waiters";
    std::vector<peer> all = peers_;
    all.insert(all.begin() + 1, each);
    std::vector<players> set;
    for (auto const& p : all) set.push_back(start(p, "contended", server, processes, tasks));
    std::vector<samples> rate(set.size()), p50(set.size()), p99(set.size()), longest(set.size()), jain(set.size());
    double const seconds = chosen_.seconds * 5;
    for (int i = 0; i <= chosen_.repetitions; ++i) {
      for (std::size_t k = 0; k < set.size(); ++k) {
        progress("contended: " + all[k].name);
        if (i == 0) {
          warm(warm_up_of(all[k]), [&] { return go(set[k], 2, no_body, tasks).total(); });
          continue;
        }
        sample const s = go(set[k], seconds, no_body, tasks);
        rate[k].add(s.total() / seconds);
        p50[k].add(s.waits_ms.quantile(0.5));
        p99[k].add(s.waits_ms.quantile(0.99));
        longest[k].add(s.waits_ms.quantile(1));
        jain[k].add(s.jain());
      }
    }
    add(all, "holds, " + name, rate, "holds/s");
    add(all, "wait, p50, " + name, p50, "ms");
    add(all, "wait, p99, " + name, p99, "ms");
    add(all, "wait, longest, " + name, longest, "ms");
    add(all, "Jain's index of the waiters, " + name, jain, "1");
  }

  /// One process holds the lock through a follower, the next one waits at the leader. Then the follower loses its
  /// leader.
  void cut_off() {
    conch::test::zookeeper_options o;
    o.servers = 3;
    o.proxies = true;
    o.tick = 500ms;
    o.shortest_session = 1s;
    o.sync_limit = 20;
    zookeeper_ensemble ensemble{o};
    std::vector<samples> granted(peers_.size()), told(peers_.size()), believed(peers_.size());
    for (int i = 0; i < chosen_.repetitions; ++i) {
      for (std::size_t k = 0; k < peers_.size(); ++k) {
        progress("cut off: " + peers_[k].name);
        ensemble.wait_until_serving();
        std::size_t const leader = ensemble.leader(), follower = ensemble.followers().front();
        auto const holder = begin(peers_[k], "cut", ensemble.port(follower), 1);
        auto const next = begin(peers_[k], "cut", ensemble.port(leader), 1);
        holder->tell("acquire");
        holder->expect("took");
        next->tell("wait");
        // until it is queued; longer than a session, so that the first deadline is not an advantage
        std::this_thread::sleep_for(5s);
        tcp_proxy& link = ensemble.between(follower, leader);
        tcp_proxy::behaviour nothing;
        nothing.stalled = true;
        link.set(tcp_proxy::towards::server, nothing);
        link.set(tcp_proxy::towards::client, nothing);
        auto const cut = clock_type::now().time_since_epoch().count();
        std::int64_t const took = std::stoll(next->expect("took"));
        holder->tell("believes");
        // It may have been told already, and it is told once.
        std::optional<std::int64_t> lost;
        std::string answer = holder->line();
        if (answer.starts_with("lost ")) {
          lost = std::stoll(answer.substr(5));
          answer = holder->line();
        }
        believed[k].add(answer == "believes 1" ? 1 : 0);
        if (!lost) lost = std::stoll(holder->expect("lost"));
        granted[k].add(static_cast<double>(took - cut) / 1e9);
        told[k].add(static_cast<double>(*lost - took) / 1e9);
        link.heal();
        link.reset();
      }
    }
    add("cut off: the next one has the lock after", granted, "s");
    add("cut off: the holder is told after the next one has it (below 0: before)", told, "s");
    std::vector<samples> share;
    for (auto const& b : believed) share.emplace_back().add(b.mean());
    add("cut off: share of the cuts in which the holder took the lock for its own when the next one had it", share,
        "1");
  }

 private:
  static std::unique_ptr<player> begin(peer const& of, std::string const& workload, std::uint16_t port,
                                       std::size_t tasks) {
    auto one = std::make_unique<player>(of, workload, port, tasks);
    one->expect("ready");
    return one;
  }

  samples hand_overs(players& both, double seconds, int keep) {
    player* owner = both[0].get();
    player* other = both[1].get();
    samples us;
    owner->tell("acquire");
    owner->expect("took");
    auto const until = clock_type::now() + std::chrono::duration<double>(seconds);
    std::uniform_int_distribution<int> keep_us{keep, 3 * keep};
    do {
      other->tell("wait");
      std::this_thread::sleep_for(std::chrono::microseconds{keep_us(random_)});
      owner->tell("release");
      auto const released = std::stoll(owner->expect("released"));
      auto const took = std::stoll(other->expect("took"));
      us.add(static_cast<double>(took - released) / 1e3);
      std::swap(owner, other);
    } while (clock_type::now() < until);
    owner->tell("release");
    owner->expect("released");
    return us;
  }

  static std::size_t inversions(std::vector<std::size_t> const& order) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t k = i + 1; k < order.size(); ++k) count += order[i] > order[k];
    }
    return count;
  }

  void add(std::string const& name, std::vector<samples> const& values, std::string const& unit) {
    add(peers_, name, values, unit);
  }
  void add(std::vector<peer> const& of, std::string const& name, std::vector<samples> const& values,
           std::string const& unit) {
    for (std::size_t k = 0; k < values.size(); ++k) out_.of(of[k].name).add(figure, name, values[k], unit);
  }

  options const& chosen_;
  std::vector<peer> const& peers_;
  report out_;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) try {
  char const* const list = std::getenv("CONCH_BENCH_PEERS");
  options const chosen =
      parse_options(argc, argv,
                    "zookeeper-peers: conch over ZooKeeper and the libraries that the file $CONCH_BENCH_PEERS\n"
                    "names, one a line: name, program and its arguments, with tabs between.");
  std::signal(SIGPIPE, SIG_IGN);
  std::string const own = std::string{argv[0]}.substr(0, std::string{argv[0]}.rfind('/') + 1) + "bench_peer_conch";
  std::vector<peer> peers{{"conch", {own, "zookeeper"}}};
  if (list != nullptr) {
    for (auto& p : read_peers(list)) peers.push_back(std::move(p));
  }
  suite all{chosen, peers};
  {
    zookeeper_ensemble one;
    all.hand_over({one.port(0)}, "1 server");
    all.requests_of_hand_overs(one.port(0));
    all.drain(one.port(0), 100);
    all.contended(one.port(0), 4, 25, {"conch, local_slice 0", {own, "zookeeper-each"}});
  }
  {
    zookeeper_ensemble three{{.servers = 3}};
    auto const followers = three.followers();
    all.hand_over({three.port(followers.at(0)), three.port(followers.at(1))}, "3 servers, at followers");
  }
  all.cut_off();
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_zookeeper_peers: %s\n", error.what());
  return 1;
}
