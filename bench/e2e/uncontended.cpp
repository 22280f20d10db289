// F1: cycles per second of locks nobody else wants; F1-tls: the same over TLS. F2: what a cycle costs the server. F3:
// how long one takes.
#include <conch/conch.hpp>

#if CONCH_TLS
#include <boost/asio/ssl.hpp>
#endif
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gathering.hpp"
#include "support/certificates.hpp"
#include "support/raw.hpp"
#include "support/redis_probe.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;

/// One client with its event loop, and its locks.
struct library {
  library(std::string url, bool single_threaded, std::size_t count)
      : client{context.get_executor(), settings_for(std::move(url), single_threaded)},
        locks{make_locks(client, count, "bench:")} {
    run(locks.size(), 1e-3);  // connects
  }

  double run(std::size_t coroutines, double seconds) {
    return workers.run(coroutines, in_seconds(seconds),
                       [&](std::size_t i) { return uncontended_cycles(workers, locks[i]); });
  }

  asio::io_context context{1};
  crew workers{context};
  conch::client client;
  std::vector<conch::mutex> locks;
};

std::vector<lane> raw_lanes(std::size_t count) {
  std::vector<lane> lanes;
  for (std::size_t i = 0; i < count; ++i) lanes.push_back(conch_lane("bench:" + std::to_string(i), i + 1));
  return lanes;
}

double run_raw(raw_connection& to, std::vector<lane> const& lanes, double seconds) {
  auto const begin = steady::now();
  auto const cycles = run_lanes(to, lanes, in_seconds(seconds));
  return static_cast<double>(cycles) / seconds_since(begin);
}

/// Cycles per second, and the share of the time in which the server had nothing to do.
struct throughput_seen {
  samples cycles, idle;

  template <class Run>
  void add(server& at, Run run) {
    double const cpu = at.cpu_us();
    auto const begin = steady::now();
    cycles.add(run());
    idle.add(std::max(0.0, 1 - (at.cpu_us() - cpu) / (seconds_since(begin) * 1e6)));
  }
};

void throughput(report& out, options const& chosen, server& redis, std::string const& url, std::string const& way) {
  raw_connection raw{url};
  conch::test::redis_probe probe{url};
  for (bool const single_threaded : {false, true}) {
    library lib{url, single_threaded, 1000};
    for (std::size_t const coroutines : {1u, 10u, 100u, 1000u}) {
      std::string const name =
          std::to_string(coroutines) + " coroutines, " + way + (single_threaded ? ", single_threaded" : "");
      progress("F1 " + name);
      auto const lanes = raw_lanes(coroutines);
      std::vector<lane> shortest;
      for (std::size_t i = 0; i < coroutines; ++i)
        shortest.push_back(least_lane(probe, "{bench:least:" + std::to_string(i) + "}"));
      throughput_seen ours, floor, least;
      for (int i = 0; i < chosen.repetitions; ++i) {
        ours.add(redis, [&] { return lib.run(coroutines, chosen.seconds); });
        floor.add(redis, [&] { return run_raw(raw, lanes, chosen.seconds); });
        least.add(redis, [&] { return run_raw(raw, shortest, chosen.seconds); });
      }
      out.add("F1", name, ours.cycles, "cycles/s", own_scripts, floor.cycles);
      out.add("F1", name, ours.cycles, "cycles/s", least_scripts, least.cycles);
      out.add("F1", "the server's idle share, " + name, ours.idle, "of the time", own_scripts, floor.idle);
    }
  }
}

/// The cheapest exchange that is safe at all: SET NX PX, and a delete that compares.
lane set_and_delete(conch::test::redis_probe& probe, std::string const& name) {
  std::string const sha =
      probe.command({"SCRIPT", "LOAD",
                     "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"});
  std::string const owner = "00000000000000000000000000000bec.1";
  return {command({"SET", name, owner, "NX", "PX", "30000"}), command({"EVALSHA", sha, "1", name, owner})};
}

/// The same two, but each a script. What is between this and the floor is Redis' price of a script.
lane set_and_delete_as_scripts(conch::test::redis_probe& probe, std::string const& name) {
  return scripts_lane(probe, name, "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
                      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0");
}

constexpr std::size_t most_gathered = conch::protocol::gathering::most;
static_assert(most_gathered == 16, "the words below say so");
constexpr std::string_view least_gathered_scripts = "the least with a line and a fence, 16 locks a script";

/// As many locks in each script as conch puts there at most. None, if there are fewer.
std::vector<lane> gathered_lanes(conch::test::redis_probe& probe, std::size_t count) {
  std::vector<lane> lanes;
  for (std::size_t i = 0; i + most_gathered <= count; i += most_gathered) {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < most_gathered; ++k) names.push_back("bench:least-gathered:" + std::to_string(i + k));
    lanes.push_back(least_lane(probe, names));
  }
  return lanes;
}

constexpr std::string_view cheapest_pair = "SET NX PX and a comparing delete";

void server_cost(report& out, options const& chosen, server& redis) {
  for (std::size_t const coroutines : {1u, 1000u}) {
    library lib{redis.unix_url(), true, coroutines};
    raw_connection raw{redis.unix_url()};
    std::vector<lane> cheapest, as_scripts, least;
    for (std::size_t i = 0; i < coroutines; ++i) {
      cheapest.push_back(set_and_delete(redis.probe(), "bench:plain:" + std::to_string(i)));
      as_scripts.push_back(set_and_delete_as_scripts(redis.probe(), "{bench:scripted:" + std::to_string(i) + "}"));
      least.push_back(least_lane(redis.probe(), "{bench:least:" + std::to_string(i) + "}"));
    }
    std::vector<lane> const same = raw_lanes(coroutines), least_gathered = gathered_lanes(redis.probe(), coroutines);
    std::string const name = std::to_string(coroutines) + " coroutines, unix";
    progress("F2 " + name);

    struct cost {
      samples cpu, commands;
    } ours, scripts, scripted_floor, limit, gathered_limit, floor;
    auto const measure = [&](cost& into, bool plain_set, auto&& run) {
      redis.reset_stats();
      double const before = redis.cpu_us();
      double const cycles = static_cast<double>(run());
      double const cpu = redis.cpu_us() - before;
      auto commands = redis.commands();
      into.cpu.add(cpu / cycles);
      // What a script calls is part of its own time.
      into.commands.add((commands["evalsha"].us + (plain_set ? commands["set"].us : 0)) / cycles);
    };
    for (int i = 0; i < chosen.repetitions; ++i) {
      measure(ours, false, [&] {
        lib.run(coroutines, chosen.seconds);
        return lib.workers.done();
      });
      measure(scripts, false, [&] { return run_lanes(raw, same, in_seconds(chosen.seconds)); });
      measure(scripted_floor, false, [&] { return run_lanes(raw, as_scripts, in_seconds(chosen.seconds)); });
      measure(limit, false, [&] { return run_lanes(raw, least, in_seconds(chosen.seconds)); });
      if (!least_gathered.empty()) {
        measure(gathered_limit, false,
                [&] { return most_gathered * run_lanes(raw, least_gathered, in_seconds(chosen.seconds)); });
      }
      measure(floor, true, [&] { return run_lanes(raw, cheapest, in_seconds(chosen.seconds)); });
    }
    out.add("F2", "server CPU, " + name, ours.cpu, "us/cycle", cheapest_pair, floor.cpu);
    out.add("F2", "server CPU, " + name, ours.cpu, "us/cycle", least_scripts, limit.cpu);
    out.add("F2", "server CPU, " + name, ours.cpu, "us/cycle", own_scripts, scripts.cpu);
    out.add("F2", "server CPU of the same scripts sent raw, " + name, scripts.cpu, "us/cycle", cheapest_pair,
            floor.cpu);
    out.add("F2", "server CPU of SET NX PX and a comparing delete as two scripts, " + name, scripted_floor.cpu,
            "us/cycle", cheapest_pair, floor.cpu);
    out.add("F2", "server CPU of the least with a line and a fence, " + name, limit.cpu, "us/cycle", cheapest_pair,
            floor.cpu);
    if (!least_gathered.empty()) {
      out.add("F2", "server CPU, " + name, ours.cpu, "us/cycle", least_gathered_scripts, gathered_limit.cpu);
      out.add("F2", "server CPU of the least with a line and a fence, 16 locks a script, " + name, gathered_limit.cpu,
              "us/cycle", cheapest_pair, floor.cpu);
    }
    out.add("F2", "commands alone (commandstats), " + name, ours.commands, "us/cycle", cheapest_pair, floor.commands);
  }
}

/// For how long single scripts keep the server from other clients, in µs.
struct script_lengths {
  samples p50, p99, longest;

  template <class Run>
  void add(server& at, Run run) {
    at.reset_stats();
    run();
    auto const seen = at.scripts();
    p50.add(seen.p50);
    p99.add(seen.p99);
    longest.add(seen.longest);
  }
};

/// Scripts of one lock, of many free locks, and of many of which each is passed on to a waiter.
void script_length(report& out, options const& chosen, server& redis) {
  constexpr std::size_t coroutines = 1000;
  progress("F2 the time of a script");
  library lib{redis.unix_url(), true, coroutines}, other{redis.unix_url(), true, coroutines};
  raw_connection raw{redis.unix_url()};
  std::vector<lane> const same = raw_lanes(coroutines);
  script_lengths ours, contended, floor;
  for (int i = 0; i < chosen.repetitions; ++i) {
    ours.add(redis, [&] { lib.run(coroutines, chosen.seconds); });
    contended.add(redis, [&] {
      auto beside = std::async(std::launch::async, [&] { other.run(coroutines, chosen.seconds); });
      lib.run(coroutines, chosen.seconds);
      beside.get();
    });
    floor.add(redis, [&] { run_lanes(raw, same, in_seconds(chosen.seconds)); });
  }
  auto const rows = [&](std::string const& name, script_lengths const& seen) {
    out.add("F2", "time of a script, " + name + ", p50", seen.p50, "us", own_scripts, floor.p50);
    out.add("F2", "time of a script, " + name + ", p99", seen.p99, "us", own_scripts, floor.p99);
    out.add("F2", "time of a script, " + name + ", longest", seen.longest, "us", own_scripts, floor.longest);
  };
  rows("1000 free locks", ours);
  rows("2 clients after 1000 locks", contended);
}

asio::awaitable<void> timed_cycles(crew& with, conch::mutex& lock, std::vector<double>& took) {
  do {
    auto const begin = steady::now();
    conch::hold h = co_await lock.async_acquire();
    co_await h.async_release();
    took.push_back(seconds_since(begin) * 1e6);
    with.count();
  } while (with.working());
}

double quantile(std::vector<double>& values, double share) {
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void latency(report& out, options const& chosen, std::string const& url, std::string const& way) {
  library lib{url, true, 1};
  raw_connection raw{url}, by_epoll{url, raw_connection::waits::by_epoll};
  conch::test::redis_probe probe{url};
  lane const one = conch_lane("bench:0", 1), shortest = least_lane(probe, "{bench:least:0}");
  struct latencies {
    samples p50, p99;
  } ours, limit, least, floor;
  progress("F3 " + way);
  auto const exchanges = [&](raw_connection& with, lane const& says, latencies& into) {
    std::vector<double> took;
    for (auto const until = steady::now() + in_seconds(chosen.seconds); steady::now() < until;) {
      auto const begin = steady::now();
      with.exchange(says.acquire);
      with.exchange(says.release);
      took.push_back(seconds_since(begin) * 1e6);
    }
    into.p50.add(quantile(took, 0.5));
    into.p99.add(quantile(took, 0.99));
  };
  for (int i = 0; i < chosen.repetitions; ++i) {
    std::vector<double> took;
    lib.workers.run(1, in_seconds(chosen.seconds),
                    [&](std::size_t) { return timed_cycles(lib.workers, lib.locks[0], took); });
    ours.p50.add(quantile(took, 0.5));
    ours.p99.add(quantile(took, 0.99));
    exchanges(by_epoll, one, limit);
    exchanges(raw, shortest, least);
    exchanges(raw, one, floor);
  }
  out.add("F3", "one cycle, p50, " + way, ours.p50, "us", own_scripts, floor.p50);
  out.add("F3", "one cycle, p50, " + way, ours.p50, "us", least_scripts, least.p50);
  out.add("F3", "one cycle, p99, " + way, ours.p99, "us", own_scripts, floor.p99);
  out.add("F3", "one cycle of the floor waiting by epoll, p50, " + way, limit.p50, "us", "waiting in recv", floor.p50);
}

/// CPU time of this process, in us.
double own_cpu_us() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
}

#if CONCH_TLS
/// One acquire and one release after the other, written and read by blocking calls: what OpenSSL and the server make of
/// TLS alone.
template <class Stream>
double bare_cycles(Stream& to, double seconds) {
  lane const one = conch_lane("bench:0", 1);
  std::array<char, 4096> reply{};
  std::uint64_t done = 0;
  auto const begin = steady::now();
  for (auto const until = begin + in_seconds(seconds); steady::now() < until; ++done) {
    for (std::string const* const request : {&one.acquire, &one.release}) {
      asio::write(to, asio::buffer(*request));
      if (to.read_some(asio::buffer(reply)) == 0 || reply[0] == '-') throw std::runtime_error{"a script has failed"};
    }
  }
  return static_cast<double>(done) / seconds_since(begin);
}

asio::ip::tcp::socket connected_to(asio::io_context& on, std::string const& url) {
  asio::ip::tcp::socket s{on};
  auto const port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  s.connect({asio::ip::address_v4::loopback(), port});
  s.set_option(asio::ip::tcp::no_delay{true});
  return s;
}

void bare_tls(report& out, options const& chosen, std::string const& secure, std::string const& plain) {
  progress("F1-tls bare");
  asio::io_context context;
  asio::ssl::context any{asio::ssl::context::tls_client};
  asio::ssl::stream<asio::ip::tcp::socket> with{connected_to(context, secure), any};
  with.handshake(asio::ssl::stream_base::client);
  asio::ip::tcp::socket without = connected_to(context, plain);
  auto const [cycles, floor] = interleave(
      chosen.repetitions, [&] { return bare_cycles(with, chosen.seconds); },
      [&] { return bare_cycles(without, chosen.seconds); });
  out.add("F1-tls", "the same scripts by blocking calls, TLS", cycles, "cycles/s", "without TLS", floor);
}

/// The floor is the library without TLS, at a server of its own.
void over_tls(report& out, options const& chosen, server& plain) {
  conch::test::certificates files;
  files.authority("ca");
  files.signed_by("ca", "server", "IP:127.0.0.1");
  server secure{{.tls = true,
                 .arguments = {"--tls-cert-file", files.certificate("server"), "--tls-key-file", files.key("server"),
                               "--tls-auth-clients", "no"}}};
  raw_connection setup{secure.unix_url()};
  load_scripts(setup);
  bare_tls(out, chosen, secure.tcp_url(), plain.tcp_url());
  std::string const url = secure.tcp_url() + "?cacert=" + files.certificate("ca");
  struct seen {
    samples cycles, client_cpu, server_cpu;
  };
  for (bool const single_threaded : {false, true}) {
    library with{url, single_threaded, 1000}, without{plain.tcp_url(), single_threaded, 1000};
    for (std::size_t const coroutines : {1u, 10u, 100u, 1000u}) {
      std::string const name =
          std::to_string(coroutines) + " coroutines, TLS" + (single_threaded ? ", single_threaded" : "");
      progress("F1-tls " + name);
      seen ours, floor;
      auto const measure = [&](library& lib, server& at, seen& into) {
        double const own = own_cpu_us(), servers = at.cpu_us();
        into.cycles.add(lib.run(coroutines, chosen.seconds));
        auto const cycles = static_cast<double>(lib.workers.done());
        into.client_cpu.add((own_cpu_us() - own) / cycles);
        into.server_cpu.add((at.cpu_us() - servers) / cycles);
      };
      for (int i = 0; i < chosen.repetitions; ++i) {
        measure(with, secure, ours);
        measure(without, plain, floor);
      }
      out.add("F1-tls", name, ours.cycles, "cycles/s", "without TLS", floor.cycles);
      out.add("F1-tls", "CPU of the client, " + name, ours.client_cpu, "us/cycle", "without TLS", floor.client_cpu);
      out.add("F1-tls", "CPU of the server, " + name, ours.server_cpu, "us/cycle", "without TLS", floor.server_cpu);
    }
  }
}
#else
void over_tls(report&, options const&, server&) { throw std::runtime_error{"conch was built without TLS"}; }
#endif

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv,
                    "F1: uncontended cycles/s against the same scripts over a raw socket.\n"
                    "F1-tls: F1 over TLS against F1 without, both over TCP. Only if it is asked for.\n"
                    "F2: server CPU of a cycle against SET NX PX and a comparing delete.\n"
                    "F3: latency of one cycle against two raw round trips.");
  server redis;
  raw_connection setup{redis.unix_url()};
  load_scripts(setup);
  report out{chosen};
  if (chosen.wants("F1")) {
    throughput(out, chosen, redis, redis.unix_url(), "unix");
    throughput(out, chosen, redis, redis.tcp_url(), "tcp");
  }
  if (!chosen.figures.empty() && chosen.wants("F1-tls")) over_tls(out, chosen, redis);
  if (chosen.wants("F2")) {
    server_cost(out, chosen, redis);
    script_length(out, chosen, redis);
  }
  if (chosen.wants("F3")) {
    latency(out, chosen, redis.unix_url(), "unix");
    latency(out, chosen, redis.tcp_url(), "tcp");
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_uncontended: %s\n", error.what());
  return 1;
}
