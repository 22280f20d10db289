// The same work by conch and by other libraries, each in processes of its own, spoken to by the lines that
// bench/peers/README.md describes. F1 uncontended, F4 hand-off, F5 drain, F7 contended.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "peers/player.hpp"
#include "support/report.hpp"
#include "support/server.hpp"

namespace {

using namespace conch::bench;
class suite {
  struct running {
    peer of;
    players processes;
  };

 public:
  suite(options const& chosen, std::vector<peer> const& all) : chosen_{chosen}, peers_{all}, out_{chosen, true} {
    port_ = std::stoi(redis_.tcp_url().substr(redis_.tcp_url().rfind(':') + 1));
  }

  bool failed() const noexcept { return failed_; }

  void uncontended(std::size_t tasks) {
    auto set = start_all("uncontended", 1, tasks, true);
    std::string const name = std::to_string(tasks) + (tasks == 1 ? " task" : " tasks, distinct locks");
    struct results {
      samples rate, client, server;
    };
    std::map<std::string, results> of;
    double const seconds = chosen_.seconds;
    repeat("F1 " + name, set, [&](auto& one, bool counts) {
      double const client = one.processes[0]->cpu_us(), server = redis_.cpu_us();
      sample const s = go(one.processes, counts ? seconds : warm_up);
      if (!counts) return;
      double const cycles = s.total() + static_cast<double>(one.of.name == floor_ ? 0 : tasks);  // and each its last one
      auto& into = of[one.of.name];
      into.rate.add(s.total() / seconds);
      into.client.add((one.processes[0]->cpu_us() - client) / cycles);
      into.server.add((redis_.cpu_us() - server) / cycles);
    });
    auto const each = [&](std::string const& what, samples results::*which, char const* unit) {
      for (auto const& one : set) add("F1", what + ", " + name, one.of, of[one.of.name].*which, unit, of[floor_].*which);
    };
    each("uncontended", &results::rate, "cycles/s");
    each("client CPU of a cycle", &results::client, "us/cycle");
    each("server CPU of a cycle", &results::server, "us/cycle");
  }

  void contended(std::size_t processes, std::size_t tasks) {
    auto set = start_all("contended", processes, tasks, false);
    std::string const name = std::to_string(processes) + " processes x " + std::to_string(tasks) + " waiters";
    struct results {
      samples rate, p50, p99, longest, jain, gave_up;
    };
    std::map<std::string, results> of;
    double const seconds = chosen_.seconds * 2;
    repeat("F7 " + name, set, [&](auto& one, bool counts) {
      sample const s = go(one.processes, counts ? seconds : warm_up);
      if (!counts) return;
      auto& into = of[one.of.name];
      into.rate.add(s.total() / seconds);
      into.p50.add(s.waits_ms.quantile(0.5));
      into.p99.add(s.waits_ms.quantile(0.99));
      into.longest.add(s.waits_ms.quantile(1));
      into.jain.add(s.jain());
      into.gave_up.add(s.gave_up);
    });
    samples const none;
    auto const each = [&](std::string const& what, samples results::*which, char const* unit) {
      for (auto const& one : set) add("F7", what + ", " + name, one.of, of[one.of.name].*which, unit, none);
    };
    each("holds", &results::rate, "holds/s");
    each("wait, p50", &results::p50, "ms");
    each("wait, p99", &results::p99, "ms");
    each("wait, longest", &results::longest, "ms");
    each("Jain's index of the waiters", &results::jain, "1");
    each("acquires that gave up", &results::gave_up, "acquires");
  }

  void hand_off() {
    auto set = start_all("hand-off", 2, 1, true);
    std::map<std::string, samples> p50, p99, every;
    repeat("F4 hand-off", set, [&](auto& one, bool counts) {
      samples const us = hand_offs(one.processes, counts);
      if (!counts) return;
      p50[one.of.name].add(us.quantile(0.5));
      p99[one.of.name].add(us.quantile(0.99));
      every[one.of.name].add(us);
    });
    for (auto const& one : set) add("F4", "hand-off, p50", one.of, p50[one.of.name], "us", p50[floor_]);
    for (auto const& one : set) add("F4", "hand-off, p99", one.of, p99[one.of.name], "us", p99[floor_]);
    for (auto const& one : set) {
      if (one.of.name == floor_ || every[one.of.name].empty()) continue;
      out_.of(one.of.name).distribution("F4", "all hand-offs", every[one.of.name], "us", &every[floor_]);
    }
  }

  /// Every time with new processes: some idle clients ping every second, and here every command counts.
  void drain(std::size_t clients) {
    std::string const name = std::to_string(clients) + " waiting clients";
    struct results {
      samples commands, took, cpu, waiting;
    };
    std::map<std::string, results> of;
    std::vector<running> set;
    for (auto const& p : peers_) {
      if (p.name != floor_ && p.name != local_) set.push_back({p, {}});
    }
    repeat("F5 " + name, set, [&](auto& one, bool counts) {
      if (!counts) return;
      auto const processes = start(one.of, "drain", port_, 1, clients);
      auto& process = *processes[0];
      for (bool const warm : {false, true}) {
        process.tell("arm");
        process.expect("armed");
        std::this_thread::sleep_for(milliseconds{1500});  // until all stand in line
        constexpr milliseconds watch{1000};
        redis_.reset_stats();
        if (warm) std::this_thread::sleep_for(watch);
        double const idle = count_commands();
        redis_.reset_stats();
        double const cpu = redis_.cpu_us();
        process.tell("drain");
        double const us = std::stod(process.expect("drained"));
        double const during = count_commands(), cpu_after = redis_.cpu_us();
        if (!warm) continue;
        auto& into = of[one.of.name];
        into.waiting.add(idle / std::chrono::duration<double>(watch).count());
        into.commands.add(during);
        into.took.add(us / 1e3);
        into.cpu.add((cpu_after - cpu) / 1e3);
      }
    });
    samples const none;
    auto const each = [&](std::string const& what, samples results::*which, char const* unit) {
      for (auto const& one : set) add("F5", what + ", " + name, one.of, of[one.of.name].*which, unit, none);
    };
    each("drain: commands, those of scripts too", &results::commands, "commands");
    each("drain: time", &results::took, "ms");
    each("drain: server CPU", &results::cpu, "ms");
    each("before it: commands while waiting", &results::waiting, "commands/s");
  }

 private:
  std::vector<running> start_all(std::string const& workload, std::size_t processes, std::size_t tasks, bool with_floor) {
    progress("starting: " + workload);
    std::vector<running> all;
    for (auto const& p : peers_) {
      if (p.name == floor_ ? !with_floor : p.name == local_ && workload != "contended") continue;
      try {
        all.push_back({p, start(p, workload, port_, processes, tasks)});
      } catch (std::exception const& error) {
        give_up(p, error);
      }
    }
    return all;
  }

  /// Once each to warm up, then A B C A B C …
  template <class F>
  void repeat(std::string const& what, std::vector<running>& all, F measure) {
    for (int i = 0; i <= chosen_.repetitions; ++i) {
      for (auto at = all.begin(); at != all.end();) {
        progress(what + ": " + at->of.name + ", " + (i == 0 ? "warming up" : std::to_string(i)));
        try {
          measure(*at, i != 0);
          ++at;
        } catch (no_answer const& error) {
          // Not ours to mend: a waiter that is never woken. It is a result.
          if (at->of.name == floor_) give_up(at->of, error);
          samples one;
          one.add(1);
          add(what.substr(0, what.find(' ')), "a task had no answer within " + std::to_string(patience.count()) + " s, " + what, at->of, one, "runs",
              {});
          at = all.erase(at);
        } catch (std::exception const& error) {
          give_up(at->of, error);
          at = all.erase(at);
        }
      }
    }
  }

  void give_up(peer const& p, std::exception const& error) {
    progress("");
    std::fprintf(stderr, "bench_peers: %s: %s\n", p.name.c_str(), error.what());
    failed_ = true;
  }

  samples hand_offs(players& both, bool counts) {
    player* owner = both[0].get();
    player* other = both[1].get();
    samples us;
    owner->tell("acquire");
    owner->expect("took");
    auto const until = clock_type::now() + std::chrono::duration<double>(counts ? chosen_.seconds * 4 : warm_up);
    // No pace that a poller could fall in step with; many rounds for a compiler that watches the program first.
    std::uniform_int_distribution<int> keep_us{counts ? 5'000 : 300, counts ? 15'000 : 300};
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

  double count_commands() {
    double sum = 0;
    for (auto const& [name, calls] : redis_.commands()) {
      if (!name.starts_with("info") && !name.starts_with("config")) sum += static_cast<double>(calls.count);
    }
    return sum;
  }

  void add(std::string const& figure, std::string const& name, peer const& of, samples const& value, std::string const& unit, samples const& floor) {
    if (value.empty() || of.name == floor_) return;
    out_.of(of.name).add(figure, name, value, unit, floor.empty() ? nullptr : &floor);
  }

  static constexpr char const* floor_ = "floor";
  static constexpr char const* local_ = "conch, local_slice 0";

  options const& chosen_;
  std::vector<peer> const& peers_;
  server redis_;
  report out_;
  int port_ = 0;
  bool failed_ = false;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) try {
  char const* const list = std::getenv("CONCH_BENCH_PEERS");
  options const chosen = parse_options(argc, argv,
                                       "F1, F4, F5, F7 for conch and for the libraries that the file $CONCH_BENCH_PEERS\n"
                                       "names, one a line: name, program and its arguments, with tabs between.");
  std::signal(SIGPIPE, SIG_IGN);
  std::string const own = std::string{argv[0]}.substr(0, std::string{argv[0]}.rfind('/') + 1) + "bench_peer_conch";
  std::vector<peer> peers{{"floor", {own, "raw"}}, {"conch", {own, "conch"}}, {"conch, local_slice 0", {own, "conch-each"}}};
  if (list != nullptr) {
    for (auto& p : read_peers(list)) peers.push_back(std::move(p));
  }
  suite all{chosen, peers};
  if (chosen.wants("F1")) {
    for (std::size_t const tasks : {1u, 10u, 100u, 1000u}) all.uncontended(tasks);
  }
  if (chosen.wants("F4")) all.hand_off();
  if (chosen.wants("F5")) {
    for (std::size_t const clients : {10u, 30u, 100u}) all.drain(clients);
  }
  if (chosen.wants("F7")) all.contended(4, 25);
  return all.failed() ? 1 : 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_peers: %s\n", error.what());
  return 1;
}
