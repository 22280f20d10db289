// F5: messages and wasted scripts while many waiting clients are drained. F12: commands on the wire while nothing
// happens.
#include <boost/asio/steady_timer.hpp>
#include <conch/conch.hpp>

#include <cstdio>
#include <deque>
#include <exception>
#include <string>

#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using std::chrono::milliseconds;

constexpr milliseconds claim{500};

void drain(report& out, server& redis, std::size_t count) {
  std::string const name = std::to_string(count) + " waiting clients";
  progress("F5 " + name);
  redis.probe().command({"FLUSHALL"});
  asio::io_context context{1};
  std::deque<conch::client> clients;
  std::deque<conch::mutex> locks;
  for (std::size_t i = 0; i <= count; ++i) {
    conch::config settings = settings_for(redis.unix_url(), true);
    settings.claim = claim;
    clients.emplace_back(context.get_executor(), settings);
    locks.emplace_back(clients.back(), "bench:drain");
  }
  conch::hold first;
  std::size_t served = 0, released = 0;
  locks[0].async_acquire([&](conch::error_code ec, conch::hold h) {
    if (ec) throw boost::system::system_error{ec};
    first = std::move(h);
  });
  while (!first) context.run_one();
  for (std::size_t i = 1; i <= count; ++i) {
    locks[i].async_acquire([&](conch::error_code ec, conch::hold h) {
      if (ec) throw boost::system::system_error{ec};
      ++served;
      h.async_release([&](conch::error_code, bool) { ++released; });
    });
  }
  auto const queue = [&] { return redis.probe().integer({"ZCARD", "conch:{bench:drain}:q"}); };
  while (queue() < static_cast<std::int64_t>(count)) context.run_for(milliseconds{5});
  context.run_for(milliseconds{20});
  redis.reset_stats();

  auto const begin = steady::now();
  first.async_release([&](conch::error_code, bool) { ++released; });
  while (released <= count) context.run_one();
  double const took = seconds_since(begin);
  auto during = redis.commands();
  context.run_for(claim + milliseconds{200});
  auto after = redis.commands();

  auto const per_hand_over = [&](std::uint64_t n) { return static_cast<double>(n) / static_cast<double>(count); };
  // count hand-overs and one last release, which passes nothing on.
  std::uint64_t const scripts = during["evalsha"].count + during["eval"].count;
  std::uint64_t const later = after["evalsha"].count + after["eval"].count - scripts;
  out.add("F5", "messages a hand-over, " + name, per_hand_over(2 * (scripts - 1) + during["publish"].count), "messages",
          "request, reply, push", 3.0);
  out.add("F5", "scripts without a hand-over while draining, " + name, static_cast<double>(scripts - count - 1),
          "scripts");
  out.add("F5", "scripts after the claim time (kicks), " + name, static_cast<double>(later), "scripts");
  out.add("F5", "time a hand-over, " + name, took * 1e6 / static_cast<double>(count), "us");
}

void idle(report& out, options const& chosen, server& redis, std::size_t count) {
  std::string const name = std::to_string(count) + " waiting coroutines";
  progress("F12 " + name);
  redis.probe().command({"FLUSHALL"});
  asio::io_context context{1};
  conch::client holder{context.get_executor(), settings_for(redis.unix_url(), true)};
  conch::client waiter{context.get_executor(), settings_for(redis.unix_url(), true)};
  conch::mutex held{holder, "bench:idle"}, wanted{waiter, "bench:idle"};
  conch::hold first;
  held.async_acquire([&](conch::error_code ec, conch::hold h) {
    if (ec) throw boost::system::system_error{ec};
    first = std::move(h);
  });
  while (!first) context.run_one();
  for (std::size_t i = 0; i < count; ++i) wanted.async_acquire([](conch::error_code, conch::hold) {});
  while (redis.probe().integer({"ZCARD", "conch:{bench:idle}:q"}) < 1) context.run_for(milliseconds{5});
  context.run_for(milliseconds{50});
  redis.reset_stats();
  context.run_for(in_seconds(chosen.seconds * 4));
  std::uint64_t commands = 0;
  for (auto const& [command, calls] : redis.commands()) {
    if (!command.starts_with("info") && !command.starts_with("config")) commands += calls.count;
  }
  out.add("F12", name, static_cast<double>(commands), "commands");
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv,
                    "F5: messages and wasted scripts while 10, 100, 1000 waiting clients are drained.\n"
                    "F12: commands on the wire while 10, 100, 10000 coroutines wait.");
  server redis;
  raw_connection setup{redis.unix_url()};
  load_scripts(setup);
  report out{chosen};
  if (chosen.wants("F5")) {
    for (std::size_t const count : {10u, 100u, 1000u}) drain(out, redis, count);
  }
  if (chosen.wants("F12")) {
    for (std::size_t const count : {10u, 100u, 10'000u}) idle(out, chosen, redis, count);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_wire: %s\n", error.what());
  return 1;
}
