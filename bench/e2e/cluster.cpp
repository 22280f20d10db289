// cluster: what a Redis Cluster of one, two and three masters gives, and what it costs, beside one server in the same
// run.
#include <conch/conch.hpp>
#include <conch/striped_mutex.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/cluster_set.hpp"
#include "support/processes.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using conch::test::cluster_set;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The masters of a Cluster, or one server; what the processes have used so far.
class servers {
 public:
  explicit servers(server& one) : url{one.tcp_url()} { probes_.push_back(&one.probe()); }
  explicit servers(cluster_set& all) : url{all.url()} {
    for (std::size_t i = 0; i < all.size(); ++i) probes_.push_back(&own_.emplace_back(all.node(i)));
  }
  servers(servers const&) = delete;
  servers& operator=(servers const&) = delete;

  std::size_t count() const noexcept { return probes_.size(); }
  double cpu_us() const {
    double all = 0;
    for (conch::test::redis_probe* const one : probes_) all += conch::bench::cpu_us(*one);
    return all;
  }

  std::vector<double> cpu_us_of_each() const {
    std::vector<double> each;
    for (conch::test::redis_probe* const one : probes_) each.push_back(conch::bench::cpu_us(*one));
    return each;
  }

  std::string const url;

 private:
  std::deque<conch::test::redis_probe> own_;
  std::vector<conch::test::redis_probe*> probes_;
};

struct cycle_cost {
  samples cycles, server_us, scripts, pushes;
};

/// Cycles of a thousand locks that nobody else wants.
void uncontended(options const& chosen, servers const& at, conch::client& client, crew& workers,
                 std::vector<conch::mutex>& locks, cycle_cost& into) {
  auto const before = client.stats();
  double const cpu = at.cpu_us();
  into.cycles.add(workers.run(locks.size(), in_seconds(chosen.seconds),
                              [&](std::size_t i) { return uncontended_cycles(workers, locks[i]); }));
  auto const done = static_cast<double>(workers.done());
  auto const after = client.stats();
  into.server_us.add((at.cpu_us() - cpu) / done);
  into.scripts.add(static_cast<double>(after.scripts - before.scripts) / done);
  into.pushes.add(static_cast<double>(after.pushes - before.pushes) / done);
}

void throughput(report& out, options const& chosen, server& redis) {
  for (std::size_t const masters : {1u, 2u, 3u}) {
    std::string const name = "1000 coroutines, " + std::to_string(masters) + (masters == 1 ? " master" : " masters");
    progress("cluster " + name);
    cluster_set set{{.masters = masters}};
    servers const in_cluster{set}, alone{redis};
    asio::io_context context{1};
    crew workers{context};
    conch::client ours{context.get_executor(), settings_for(in_cluster.url, true)},
        floor{context.get_executor(), settings_for(alone.url, true)};
    std::vector<conch::mutex> our_locks = make_locks(ours, 1000, "bench:cluster:"),
                              floor_locks = make_locks(floor, 1000, "bench:cluster:");
    for (auto* locks : {&our_locks, &floor_locks}) {  // connects, and loads the scripts
      workers.run(locks->size(), milliseconds{100},
                  [&](std::size_t i) { return uncontended_cycles(workers, (*locks)[i]); });
    }
    cycle_cost of_ours, of_floor;
    for (int i = 0; i < chosen.repetitions; ++i) {
      uncontended(chosen, in_cluster, ours, workers, our_locks, of_ours);
      uncontended(chosen, alone, floor, workers, floor_locks, of_floor);
    }
    out.add("cluster", name, of_ours.cycles, "cycles/s", "one server", of_floor.cycles);
    out.add("cluster", "CPU of all servers, " + name, of_ours.server_us, "us/cycle", "one server", of_floor.server_us);
    out.add("cluster", "scripts a cycle, " + name, of_ours.scripts, "scripts", "one server", of_floor.scripts);
  }
}

asio::awaitable<void> segment_cycles(crew& with, conch::striped_mutex lock) {
  while (with.working()) {
    conch::hold h = co_await lock.async_acquire_any();
    co_await h.async_release();
    with.count();
  }
}

struct segment_cost {
  samples cycles, all_us, busiest_us;
};

/// 60 segments, as one lock or as three, which are at three masters where there are as many.
void segments_of(options const& chosen, cluster_set& set, servers const& at, std::size_t names, segment_cost& into) {
  constexpr std::size_t count = 60;
  asio::io_context context{1};
  crew workers{context};
  conch::client client{context.get_executor(), settings_for(at.url, true)};
  std::vector<conch::striped_mutex> locks;
  for (std::size_t i = 0; i < names; ++i) {
    std::string const name = set.name_at(i % set.size(), static_cast<unsigned>(names * 10 + i));
    locks.emplace_back(client, name, static_cast<std::uint32_t>(count / names));
  }
  auto const run = [&](std::chrono::nanoseconds how_long) {
    return workers.run(count, how_long, [&](std::size_t i) { return segment_cycles(workers, locks[i % names]); });
  };
  run(milliseconds{100});
  auto const before = at.cpu_us_of_each();
  into.cycles.add(run(in_seconds(chosen.seconds)));
  auto const after = at.cpu_us_of_each();
  auto const done = static_cast<double>(workers.done());
  double all = 0, busiest = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    all += after[i] - before[i];
    busiest = std::max(busiest, after[i] - before[i]);
  }
  into.all_us.add(all / done);
  into.busiest_us.add(busiest / done);
}

void segments(report& out, options const& chosen) {
  for (std::size_t const masters : {1u, 3u}) {
    std::string const name =
        "60 segments in three locks, " + std::to_string(masters) + (masters == 1 ? " master" : " masters");
    progress("cluster " + name);
    cluster_set set{{.masters = masters}};
    servers const at{set};
    segment_cost three, one;
    for (int i = 0; i < chosen.repetitions; ++i) {
      segments_of(chosen, set, at, 3, three);
      segments_of(chosen, set, at, 1, one);
    }
    out.add("cluster", name, three.cycles, "cycles/s", "as one lock", one.cycles);
    out.add("cluster", "CPU of all servers, " + name, three.all_us, "us/cycle", "as one lock", one.all_us);
    out.add("cluster", "CPU of the busiest server, " + name, three.busiest_us, "us/cycle", "as one lock",
            one.busiest_us);
  }
}

struct turn {
  std::optional<steady::time_point> released;
  std::vector<double> took;
};

/// One of two, each of which waits while the other has the lock.
asio::awaitable<void> take_turns(crew& with, conch::mutex lock, turn& of_both) {
  while (with.working()) {
    conch::hold h = co_await lock.async_acquire();
    if (of_both.released) of_both.took.push_back(seconds_since(*of_both.released) * 1e6);
    of_both.released = steady::now();
    co_await h.async_release();
    with.count();
  }
}

struct hand_overs {
  samples p50, p99, scripts, pushes;
};

/// Two clients hand one lock to and fro.
void hand_over(options const& chosen, std::string const& url, std::string const& name, hand_overs& into) {
  asio::io_context context{1};
  crew workers{context};
  conch::client one{context.get_executor(), settings_for(url, true)},
      other{context.get_executor(), settings_for(url, true)};
  turn of_both;
  auto const run = [&](std::chrono::nanoseconds how_long) {
    of_both = {};
    workers.run(2, how_long, [&](std::size_t i) {
      return take_turns(workers, conch::mutex{i == 0 ? one : other, name}, of_both);
    });
  };
  run(milliseconds{100});
  auto const sum = [&](auto field) { return static_cast<double>(one.stats().*field + other.stats().*field); };
  double const scripts = sum(&conch::statistics::scripts), pushes = sum(&conch::statistics::pushes);
  run(in_seconds(chosen.seconds));
  if (of_both.took.size() < 10) throw std::runtime_error{"too few hand-overs"};
  std::sort(of_both.took.begin(), of_both.took.end());
  into.p50.add(of_both.took[of_both.took.size() / 2]);
  into.p99.add(of_both.took[of_both.took.size() * 99 / 100]);
  into.scripts.add((sum(&conch::statistics::scripts) - scripts) / static_cast<double>(workers.done()));
  into.pushes.add((sum(&conch::statistics::pushes) - pushes) / static_cast<double>(workers.done()));
}

void latency(report& out, options const& chosen, server& redis) {
  progress("cluster hand-over");
  cluster_set set;
  hand_overs ours, floor;
  for (int i = 0; i < chosen.repetitions; ++i) {
    hand_over(chosen, set.url(), "bench:cluster:handed", ours);
    hand_over(chosen, redis.tcp_url(), "bench:cluster:handed", floor);
  }
  out.add("cluster", "hand-over, p50", ours.p50, "us", "one server", floor.p50);
  out.add("cluster", "hand-over, p99", ours.p99, "us", "one server", floor.p99);
  out.add("cluster", "scripts a hand-over: a release, an acquire that waits", ours.scripts, "scripts", "one server",
          floor.scripts);
  out.add("cluster", "pushes a hand-over", ours.pushes, "pushes", "one server", floor.pushes);
}

struct renewal_cost {
  samples client_us, server_us, locks_a_script;
};

renewal_cost keep_many(options const& chosen, servers const& at, std::size_t count) {
  asio::io_context context{1};
  conch::config settings = settings_for(at.url, true);
  constexpr seconds often{2};  // instead of every 10 s, so that a run is short; scaled below
  settings.renew_every = often;
  conch::client client{context.get_executor(), settings};
  std::vector<conch::hold> const holds = acquire_many(context, client, count, "bench:kept:");
  context.run_for(often + milliseconds{300});

  renewal_cost cost;
  for (int i = 0; i < std::min(chosen.repetitions, 3); ++i) {
    auto const before = client.stats();
    double const mine = own_cpu_us(), theirs = at.cpu_us();
    context.run_for(often);
    auto const after = client.stats();
    auto const renewed = static_cast<double>(after.renewals - before.renewals);
    cost.client_us.add((own_cpu_us() - mine) / renewed);
    cost.server_us.add((at.cpu_us() - theirs) / renewed);
    cost.locks_a_script.add(renewed / static_cast<double>(after.renewal_scripts - before.renewal_scripts));
  }
  if (client.stats().losses != 0) throw std::runtime_error{"holds were lost"};
  return cost;
}

void renewals(report& out, options const& chosen, server& redis) {
  constexpr std::size_t count = 10'000;
  std::string const name = std::to_string(count) + " holds in random slots";
  progress("cluster " + name);
  cluster_set set;
  servers const in_cluster{set}, alone{redis};
  renewal_cost const ours = keep_many(chosen, in_cluster, count), floor = keep_many(chosen, alone, count);
  // µs a renewal, of which there are count in 10 s.
  constexpr double to_percent = static_cast<double>(count) / 10.0 / 1e6 * 100;
  out.add("cluster", "CPU of each of 3 servers, every 10 s, " + name,
          ours.server_us.median() * to_percent / static_cast<double>(in_cluster.count()), "% of a core");
  out.add("cluster", "server CPU a renewal, " + name, ours.server_us, "us", "one server", floor.server_us);
  out.add("cluster", "client CPU a renewal, " + name, ours.client_us, "us", "one server", floor.client_us);
  out.add("cluster", "locks a script, " + name, ours.locks_a_script, "locks", "one server", floor.locks_a_script);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen = parse_options(argc, argv,
                                       "cluster: cycles, segments, hand-overs and renewals in a Redis Cluster of one "
                                       "to three masters, against one server in\n"
                                       "the same run.");
  server redis;
  report out{chosen};
  throughput(out, chosen, redis);
  segments(out, chosen);
  latency(out, chosen, redis);
  renewals(out, chosen, redis);
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_cluster: %s\n", error.what());
  return 1;
}
