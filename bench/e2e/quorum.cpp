// F8: how long it takes to acquire a lock over five servers that nobody else wants, with all of them well, one stopped, one
// killed. The floor writes the same script to five sockets and waits for three.
#include <conch/conch.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "support/raw.hpp"
#include "support/redis_server.hpp"
#include "support/report.hpp"

namespace {

using namespace conch::bench;
namespace asio = boost::asio;

constexpr std::size_t servers = 5, needed = 3, rounds = 500;
using five = std::array<std::unique_ptr<conch::test::redis_server>, servers>;

double us_since(steady::time_point begin) { return std::chrono::duration<double, std::micro>(steady::now() - begin).count(); }

asio::awaitable<void> cycles(conch::mutex& lock, samples& latency, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto const begin = steady::now();
    conch::hold h = co_await lock.async_acquire();
    latency.add(us_since(begin));
    co_await h.async_release();
  }
}

struct library {
  explicit library(five const& all) : client{context.get_executor(), settings(all)}, lock{client, "bench:quorum"} {
    samples warm_up;
    run(warm_up, 50);
  }

  static conch::config settings(five const& all) {
    conch::config c;
    for (auto const& s : all) c.servers.push_back("unix://" + s->socket_path());
    return c;
  }

  void run(samples& latency, std::size_t count = rounds) {
    bool done = false;
    asio::co_spawn(context, cycles(lock, latency, count), [&](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
      done = true;
    });
    context.restart();
    while (!done) context.run_one();
  }

  asio::io_context context{1};
  conch::client client;
  conch::mutex lock;
};

/// To the servers that are there.
struct floor_of {
  explicit floor_of(five const& all) : pair{conch_lane("bench:quorum-floor", 1)} {
    for (auto const& s : all) {
      to.push_back(std::make_unique<raw_connection>("unix://" + s->socket_path()));
      load_scripts(*to.back());
    }
  }

  void run(samples& latency) {
    for (std::size_t i = 0; i < rounds; ++i) {
      auto const begin = steady::now();
      for (auto const& one : to) one->send(pair.acquire);
      for (std::size_t n = 0; n < needed; ++n) to[n]->await(1);
      latency.add(us_since(begin));
      for (std::size_t n = needed; n < to.size(); ++n) to[n]->await(1);
      for (auto const& one : to) one->send(pair.release);
      for (auto const& one : to) one->await(1);
    }
  }

  lane pair;
  std::vector<std::unique_ptr<raw_connection>> to;
};

void measure(report& out, options const& chosen, library& lib, floor_of& floor, std::string const& name) {
  progress("F8 " + name);
  samples p50, p99, floor_p50, floor_p99;
  for (int i = 0; i < chosen.repetitions; ++i) {
    samples ours, theirs;
    lib.run(ours);
    floor.run(theirs);
    p50.add(ours.median());
    p99.add(ours.quantile(0.99));
    floor_p50.add(theirs.median());
    floor_p99.add(theirs.quantile(0.99));
  }
  out.add("F8", "acquire over five servers, p50, " + name, p50, "us", &floor_p50);
  out.add("F8", "acquire over five servers, p99, " + name, p99, "us", &floor_p99);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen = parse_options(argc, argv, "F8: acquire latency over five servers against raw sockets.");
  if (!chosen.wants("F8")) return 0;
  five all;
  for (auto& s : all) s = std::make_unique<conch::test::redis_server>();
  report out{chosen};
  library lib{all};
  floor_of floor{all};
  measure(out, chosen, lib, floor, "all well");
  floor.to.pop_back();
  all.back()->stop();
  measure(out, chosen, lib, floor, "one stopped");
  all.back()->cont();
  all.back()->kill();
  measure(out, chosen, lib, floor, "one killed");
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_quorum: %s\n", error.what());
  return 1;
}
