// The same work by conch and by other libraries, each in processes of its own, spoken to by the lines that
// bench/peers/README.md describes. F1 uncontended, F4 hand-off, F5 waiting and drain, F7 contended.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "peers/player.hpp"
#include "support/report.hpp"
#include "support/server.hpp"

namespace {

using namespace conch::bench;
using std::chrono::microseconds;

constexpr std::string_view the_ideal = "the ideal: the lock is never free";
constexpr std::string_view no_waiting = "the ideal: nothing but the body takes time";

constexpr milliseconds settling{1500};  // until all are queued

std::string shown(microseconds body) {
  return body.count() == 0 ? "empty body" : "body of " + std::to_string(body.count()) + " us";
}

class suite {
  struct running {
    peer of;
    players processes;
    bool fresh = true;  // has not warmed up for the first time
  };

 public:
  suite(options const& chosen, std::vector<peer> const& all) : chosen_{chosen}, peers_{all}, out_{chosen, true} {
    port_ = std::stoi(redis_.tcp_url().substr(redis_.tcp_url().rfind(':') + 1));
  }

  bool failed() const noexcept { return failed_; }

  /// The same processes at all sizes, the smallest first.
  void uncontended() {
    auto set = start_all("uncontended", 1, 1000, true);
    for (std::size_t const tasks : {1u, 10u, 100u, 1000u}) uncontended(set, tasks);
    std::erase_if(set, [](running const& one) { return is_floor(one.of); });
    for (std::size_t const tasks : {1u, 10u, 100u}) uncontended_with_body(set, tasks);
  }

  void contended(std::size_t processes, std::size_t tasks) {
    auto set = start_all("contended", processes, tasks, false);
    for (microseconds const body : {microseconds{0}, microseconds{100}, microseconds{1000}})
      contended(set, processes, tasks, body);
  }

  void hand_off() {
    auto set = start_all("hand-off", 2, 1, true);
    std::erase_if(set, [](running const& one) { return one.of.name == least_; });
    std::map<std::string, samples> p50, p99, every;
    repeat(
        "F4 hand-off", set,
        [&](auto& one) { return hand_offs(one.processes, sample_of_warming(2), 300, 300).median(); },
        [&](auto& one) {
          // No pace that a poller could fall in step with.
          samples const us = hand_offs(one.processes, chosen_.seconds * 25, 5'000, 15'000);
          p50[one.of.name].add(us.quantile(0.5));
          p99[one.of.name].add(us.quantile(0.99));
          every[one.of.name].add(us);
        });
    for (auto const& one : set) add("F4", "hand-off, p50", one.of, p50[one.of.name], "us", own_scripts, p50[floor_]);
    for (auto const& one : set) add("F4", "hand-off, p99", one.of, p99[one.of.name], "us", own_scripts, p99[floor_]);
    for (auto const& one : set) {
      if (is_floor(one.of) || every[one.of.name].empty()) continue;
      out_.of(one.of.name).distribution("F4", "all hand-offs", every[one.of.name], "us", &every[floor_]);
    }
  }

  /// Every time with new processes: some idle clients ping every second, and here every command counts.
  void drain(std::size_t clients, double watch) {
    std::string const name = std::to_string(clients) + " waiting clients";
    struct results {
      samples commands, took, first, cpu, waiting, waiting_server, waiting_client;
    };
    std::map<std::string, results> of;
    std::vector<running> set;
    for (auto const& p : peers_) {
      if (!is_floor(p) && is_for(p, "drain")) set.push_back({p, {}});
    }
    auto const measure = [&](running& one) {
      auto const processes = start(one.of, "drain", port_, 1, clients);
      auto& process = *processes[0];
      int const rounds = one.of.on_jvm() ? 5 : 2;  // all but the last one warm up
      for (int round = 1; round <= rounds; ++round) {
        process.tell("arm");
        process.expect("armed");
        std::this_thread::sleep_for(settling);
        bool const counts = round == rounds;
        redis_.reset_stats();
        double const client_before = process.cpu_us(), server_before = redis_.cpu_us();
        if (counts) std::this_thread::sleep_for(std::chrono::duration<double>(watch));
        double const client_after = process.cpu_us(), server_after = redis_.cpu_us();
        double const idle = count_commands();
        redis_.reset_stats();
        double const cpu = redis_.cpu_us();
        process.tell("drain");
        std::istringstream words{process.expect("drained")};
        double us = 0, first_us = 0;
        words >> us >> first_us;
        double const during = count_commands(), cpu_after = redis_.cpu_us();
        if (!counts) continue;
        auto& into = of[one.of.name];
        into.waiting.add(idle / watch);
        into.waiting_server.add((server_after - server_before) / watch / 1e4);
        into.waiting_client.add((client_after - client_before) / watch / 1e4);
        into.commands.add(during);
        into.took.add(us / 1e3);
        into.first.add(first_us / 1e3);
        into.cpu.add((cpu_after - cpu) / 1e3);
      }
    };
    repeat("F5 " + name, set, {}, measure);
    auto const each = [&](std::string const& what, samples results::*which, char const* unit) {
      for (auto const& one : set) add("F5", what + ", " + name, one.of, of[one.of.name].*which, unit);
    };
    each("before it: commands while waiting", &results::waiting, "commands/s");
    each("before it: server CPU while waiting", &results::waiting_server, "% of a core");
    each("before it: CPU of all clients while waiting", &results::waiting_client, "% of a core");
    each("drain: the first one has the lock after", &results::first, "ms");
    each("drain: commands, those of scripts too", &results::commands, "commands");
    each("drain: time", &results::took, "ms");
    each("drain: server CPU", &results::cpu, "ms");
  }

  /// For so many clients that a drain would take some libraries minutes. `watch` is two leases: idle connections ping,
  /// and clients that wait look whether the holder is dead, so seldom that the shorter time of `drain` ends before they
  /// begin.
  void wait_in_line(std::size_t clients, double watch) {
    std::string const name = std::to_string(clients) + " waiting clients";
    std::map<std::string, samples> waiting;
    std::vector<running> set;
    for (auto const& p : peers_) {
      if (!is_floor(p) && is_for(p, "drain")) set.push_back({p, {}});
    }
    auto const measure = [&](running& one) {
      auto const processes = start(one.of, "drain", port_, 1, clients);
      processes[0]->tell("arm");
      processes[0]->expect("armed");
      std::this_thread::sleep_for(settling);
      redis_.reset_stats();
      std::this_thread::sleep_for(std::chrono::duration<double>(watch));
      waiting[one.of.name].add(count_commands() / watch);
    };
    repeat("F5 " + name, set, {}, measure);
    for (auto const& one : set)
      add("F5", "commands while waiting for two leases, " + name, one.of, waiting[one.of.name], "commands/s");
  }

 private:
  void uncontended(std::vector<running>& set, std::size_t tasks) {
    std::string const name = std::to_string(tasks) + (tasks == 1 ? " task" : " tasks, distinct locks");
    struct results {
      samples rate, client, server;
    };
    std::map<std::string, results> of;
    double const seconds = chosen_.seconds;
    repeat(
        "F1 " + name, set,
        [&](auto& one) { return go(one.processes, sample_of_warming(1), microseconds{0}, tasks).total(); },
        [&](auto& one) {
          double const client = one.processes[0]->cpu_us(), server = redis_.cpu_us();
          sample const s = go(one.processes, seconds, microseconds{0}, tasks);
          double const cycles = s.total() + static_cast<double>(is_floor(one.of) ? 0 : tasks);  // and each its last one
          auto& into = of[one.of.name];
          into.rate.add(s.total() / seconds);
          into.client.add((one.processes[0]->cpu_us() - client) / cycles);
          into.server.add((redis_.cpu_us() - server) / cycles);
        },
        tasks == 1 ? 7 : 1);
    auto const each = [&](std::string const& what, samples results::*which, char const* unit) {
      for (auto const& one : set) {
        add("F1", what + ", " + name, one.of, of[one.of.name].*which, unit, own_scripts, of[floor_].*which);
      }
    };
    each("uncontended", &results::rate, "cycles/s");
    each("client CPU of a cycle", &results::client, "us/cycle");
    each("server CPU of a cycle", &results::server, "us/cycle");
  }

  void uncontended_with_body(std::vector<running>& set, std::size_t tasks) {
    constexpr microseconds body{1000};
    std::string const name =
        std::to_string(tasks) + (tasks == 1 ? " task" : " tasks, distinct locks") + ", " + shown(body);
    std::map<std::string, samples> rate;
    double const seconds = chosen_.seconds * 2.5;
    repeat(
        "F1 " + name, set, [&](auto& one) { return go(one.processes, sample_of_warming(1), body, tasks).total(); },
        [&](auto& one) { rate[one.of.name].add(go(one.processes, seconds, body, tasks).total() / seconds); });
    samples ideal;
    ideal.add(1e6 / static_cast<double>(body.count()) * static_cast<double>(tasks));
    for (auto const& one : set) add("F1", "cycles, " + name, one.of, rate[one.of.name], "cycles/s", no_waiting, ideal);
  }

  void contended(std::vector<running>& set, std::size_t processes, std::size_t tasks, microseconds body) {
    std::string const name =
        std::to_string(processes) + " processes x " + std::to_string(tasks) + " waiters, " + shown(body);
    struct results {
      samples rate, held, p50, p99, longest, jain, gave_up;
    };
    std::map<std::string, results> of;
    double const seconds = chosen_.seconds * 12.5;
    repeat(
        "F7 " + name, set, [&](auto& one) { return go(one.processes, sample_of_warming(1), body, tasks).total(); },
        [&](auto& one) {
          sample const s = go(one.processes, seconds, body, tasks);
          auto& into = of[one.of.name];
          into.rate.add(s.total() / seconds);
          into.held.add(s.held_us / seconds / 1e6);
          into.p50.add(s.waits_ms.quantile(0.5));
          into.p99.add(s.waits_ms.quantile(0.99));
          into.longest.add(s.waits_ms.quantile(1));
          into.jain.add(s.jain());
          into.gave_up.add(s.gave_up);
        });
    samples ideal_share, ideal_rate;
    if (body.count() > 0) {
      ideal_share.add(1);
      ideal_rate.add(1e6 / static_cast<double>(body.count()));
    }
    auto const each = [&](std::string const& what, samples results::*which, char const* unit,
                          samples const& ideal = {}) {
      for (auto const& one : set) add("F7", what + ", " + name, one.of, of[one.of.name].*which, unit, the_ideal, ideal);
    };
    each("holds", &results::rate, "holds/s", ideal_rate);
    if (body.count() > 0)
      each("goodput: share of the time in which the lock is held", &results::held, "1", ideal_share);
    each("wait, p50", &results::p50, "ms");
    each("wait, p99", &results::p99, "ms");
    each("wait, longest", &results::longest, "ms");
    each("Jain's index of the waiters", &results::jain, "1");
    each("acquires that gave up", &results::gave_up, "acquires");
  }

  std::vector<running> start_all(std::string const& workload, std::size_t processes, std::size_t tasks,
                                 bool with_floor) {
    std::vector<running> all;
    for (auto const& p : peers_) {
      if (is_floor(p) ? !with_floor : !is_for(p, workload)) continue;
      progress("starting: " + workload + ", " + p.name);
      try {
        all.push_back({p, start(p, workload, port_, processes, tasks)});
      } catch (std::exception const& error) {
        give_up(p, error);
      }
    }
    return all;
  }

  double sample_of_warming(double seconds) const { return seconds * scale(); }
  /// The factor between the times below and those that --seconds asks for.
  double scale() const { return chosen_.seconds / 0.4; }

  /// Each warms up first, until two samples agree, the longer the first time; then A B C A B C … `as_often`: with one
  /// task the samples differ by a third, by where the kernel puts two processes that wake each other, so there it takes
  /// more of them.
  void repeat(std::string const& what, std::vector<running>& all, std::function<double(running&)> const& warming_sample,
              std::function<void(running&)> const& measure, int as_often = 1) {
    for (int i = warming_sample ? 0 : 1; i <= as_often * chosen_.repetitions; ++i) {
      for (auto at = all.begin(); at != all.end();) {
        progress(what + ": " + at->of.name + ", " + (i == 0 ? "warming up" : std::to_string(i)));
        try {
          if (i == 0) {
            warming const w = at->fresh ? warm_up_of(at->of) : warming{0, 8};
            at->fresh = false;
            warm({w.least * scale(), w.most * scale()}, [&] { return warming_sample(*at); });
          } else {
            measure(*at);
          }
          ++at;
        } catch (no_answer const& error) {
          // Not ours to mend: a waiter that is never woken. It is a result.
          if (is_floor(at->of)) give_up(at->of, error);
          samples one;
          one.add(1);
          add(what.substr(0, what.find(' ')),
              "a task had no answer within " + std::to_string(patience.count()) + " s, " + what, at->of, one, "runs");
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

  samples hand_offs(players& both, double seconds, int shortest_us, int longest_us) {
    player* owner = both[0].get();
    player* other = both[1].get();
    samples us;
    owner->tell("acquire");
    owner->expect("took");
    auto const until = clock_type::now() + std::chrono::duration<double>(seconds);
    std::uniform_int_distribution<int> keep_us{shortest_us, longest_us};
    do {
      other->tell("wait");
      std::this_thread::sleep_for(microseconds{keep_us(random_)});
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

  /// Nothing of what was not measured, nor of the floor, whose figures are beside the others.
  void add(std::string const& figure, std::string const& name, peer const& of, samples const& value,
           std::string const& unit, std::string_view what = {}, samples const& floor = {}) {
    if (value.empty() || of.name == floor_) return;
    if (floor.empty()) {
      out_.of(of.name).add(figure, name, value, unit);
    } else {
      out_.of(of.name).add(figure, name, value, unit, what, floor);
    }
  }

  static bool is_floor(peer const& p) { return p.name == floor_ || p.name == least_; }

  /// Some ways to use conch make a difference in one workload only.
  static bool is_for(peer const& p, std::string_view workload) {
    if (p.name == local_) return workload == "contended";
    if (p.name == looks_) return workload == "uncontended";
    return true;
  }

  options const& chosen_;
  std::vector<peer> const& peers_;
  server redis_;
  report out_;
  int port_ = 0;
  bool failed_ = false;
  std::mt19937 random_{1};

 public:
  static constexpr char const* floor_ = "floor";
  static constexpr char const* least_ = "the least with a line and a fence, raw";
  static constexpr char const* local_ = "conch, local_slice 0";
  static constexpr char const* looks_ = "conch, its loop looks for 100 us before it sleeps";
};

}  // namespace

int main(int argc, char** argv) try {
  char const* const list = std::getenv("CONCH_BENCH_PEERS");
  options const chosen =
      parse_options(argc, argv,
                    "F1, F4, F5, F7 for conch and for the libraries that the file $CONCH_BENCH_PEERS\n"
                    "names, one a line: name, program and its arguments, with tabs between.\n"
                    "$CONCH_BENCH_PEER: only those whose names have this in it, and conch.");
  std::signal(SIGPIPE, SIG_IGN);
  std::string const own = std::string{argv[0]}.substr(0, std::string{argv[0]}.rfind('/') + 1) + "bench_peer_conch";
  std::vector<peer> peers{{suite::floor_, {own, "raw"}},
                          {suite::least_, {own, "raw-least"}},
                          {"conch", {own, "conch"}},
                          {suite::local_, {own, "conch-each"}},
                          {suite::looks_, {own, "conch-looks"}}};
  char const* const only = std::getenv("CONCH_BENCH_PEER");
  if (list != nullptr) {
    for (auto& p : read_peers(list)) {
      if (only == nullptr || p.name.find(only) != p.name.npos) peers.push_back(std::move(p));
    }
  }
  suite all{chosen, peers};
  if (chosen.wants("F1")) all.uncontended();
  if (chosen.wants("F4")) all.hand_off();
  if (chosen.wants("F5")) {
    for (std::size_t const clients : {10u, 30u}) all.drain(clients, chosen.seconds * 2.5);
    all.drain(100, chosen.seconds * 25);
    all.wait_in_line(1000, chosen.seconds * 150);
  }
  if (chosen.wants("F7")) all.contended(4, 25);
  return all.failed() ? 1 : 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_peers: %s\n", error.what());
  return 1;
}
