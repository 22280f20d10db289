// A flash sale: several processes sell the same stock, first under one lock, then under a lock in segments.
// Shows a progress bar, both rates, and a check that nothing was sold twice or lost.
//
//   CONCH_URL=redis://127.0.0.1:6379 conch-flash-sale [--items 1000] [--order-ms 20] [--segments 20] ...

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/program_options.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "redis_values.hpp"
#include "sale.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using flash_sale::settings;
using flash_sale::stock_report;
using flash_sale::tally;
using steady = std::chrono::steady_clock;

namespace {

constexpr auto store_limit = 10s;

/// Runs one coroutine to its end.
template <class T>
T run(asio::io_context& ctx, asio::awaitable<T> what) {
  auto done = asio::co_spawn(ctx, std::move(what), asio::use_future);
  ctx.restart();
  ctx.run();
  return done.get();
}

/// Runs the buyers of one process until everything is sold, then writes its tally as a line to `out`.
int sell_all(settings const& s, int number, int out) try {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  asio::io_context ctx;
  http_counter::redis_values values{ctx, http_counter::parse_address(s.url), store_limit};
  conch::client client{ctx.get_executor(), s.url};
  tally t{s};
  int running = s.buyers;
  auto on_done = [&](std::exception_ptr const&) {
    if (--running == 0) client.async_close(1s, [](conch::error_code) {});
  };
  for (int i = 0; i < s.buyers; ++i) {
    asio::co_spawn(ctx, flash_sale::buy(s, client, values, number * s.buyers + i, t), on_done);
  }
  ctx.run();
  ::dprintf(out, "%d %d %d %d %d %d\n", t.orders, t.sold, t.moved_on, t.unsure, t.failed, t.mistakes);
  return 0;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

void draw(settings const& s, stock_report const& r, steady::time_point began, bool last = false) {
  if (!last && ::isatty(STDOUT_FILENO) == 0) return;
  constexpr int width = 40;
  int const sold = s.items - r.left;
  int const full = sold * width / s.items;
  double const seconds = std::chrono::duration<double>(steady::now() - began).count();
  std::printf("\r  [%s%s] %d of %d sold, %.1f s ", std::string(static_cast<std::size_t>(full), '#').c_str(),
              std::string(static_cast<std::size_t>(width - full), '.').c_str(), sold, s.items, seconds);
  std::fflush(stdout);
}

/// Runs one sale. Returns false if something was sold twice or lost, or a stock fell below zero.
bool sale(settings const& s, int processes) {
  std::cout << (s.segments == 1 ? "one lock" : std::to_string(s.segments) + " segments") << ", " << processes
            << " processes with " << s.buyers << " buyers each, " << s.order.count() << " ms per order\n";
  int to_parent[2];
  if (::pipe(to_parent) != 0) throw std::runtime_error{"pipe"};
  {
    asio::io_context ctx;
    http_counter::redis_values values{ctx, http_counter::parse_address(s.url), store_limit};
    run(ctx, flash_sale::clear(s, values));
    run(ctx, flash_sale::stock_up(s, values));
  }
  std::fflush(stdout);
  auto const began = steady::now();
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    pid_t const pid = ::fork();
    if (pid == 0) {
      ::close(to_parent[0]);
      ::_exit(sell_all(s, i, to_parent[1]));
    }
    children.push_back(pid);
  }
  ::close(to_parent[1]);

  asio::io_context ctx;
  http_counter::redis_values values{ctx, http_counter::parse_address(s.url), store_limit};
  stock_report r;
  auto sold_out = began;
  double items_a_second = 0;  // until a quarter of the stock was left
  int ended = 0;
  bool ok = true;
  while (ended < processes) {
    r = run(ctx, flash_sale::count(s, values));
    if (r.left > 0) sold_out = steady::now();
    if (r.left >= s.items / 4)
      items_a_second = (s.items - r.left) / std::chrono::duration<double>(steady::now() - began).count();
    draw(s, r, began);
    ::usleep(r.left > s.items / 20 ? 50'000 : 5'000);
    for (pid_t& pid : children) {
      int status = 0;
      if (pid != 0 && ::waitpid(pid, &status, WNOHANG) == pid) {
        ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        pid = 0;
        ++ended;
      }
    }
  }
  r = run(ctx, flash_sale::count(s, values));
  draw(s, r, began, true);

  tally all{s};
  std::FILE* const lines = ::fdopen(to_parent[0], "r");
  tally one{s};
  while (std::fscanf(lines, "%d %d %d %d %d %d", &one.orders, &one.sold, &one.moved_on, &one.unsure, &one.failed,
                     &one.mistakes) == 6) {
    all.orders += one.orders;
    all.sold += one.sold;
    all.moved_on += one.moved_on;
    all.unsure += one.unsure;
    all.failed += one.failed;
    all.mistakes += one.mistakes;
  }
  std::fclose(lines);
  run(ctx, flash_sale::clear(s, values));

  double const seconds = std::chrono::duration<double>(sold_out - began).count();
  double const while_plenty = all.sold == 0 ? 0 : items_a_second * all.orders / all.sold;
  std::printf(
      "\n  %d orders in %.2f s: %.0f per second (%.0f until a quarter of the stock was left); %d times a segment had "
      "too little\n",
      all.orders, seconds, all.orders / seconds, while_plenty, all.moved_on);
  bool const good = ok && flash_sale::adds_up(s, r, all.sold, all.unsure) && all.mistakes == 0;
  if (all.failed != 0)
    std::printf("  %d orders failed; of %d items it is not known whether these were sold\n", all.failed, all.unsure);
  std::printf("  %d of %d are gone from the stock; the buyers have %d; %s\n", s.items - r.left, s.items, all.sold,
              good ? "nothing sold twice, nothing lost, never below zero" : "THIS DOES NOT ADD UP");
  return good;
}

}  // namespace

int main(int argc, char** argv) try {
  namespace po = boost::program_options;
  settings s;
  std::string url;
  int order_ms = 20;
  int processes = 4;
  std::string which = "both";
  po::options_description known{"conch-flash-sale: sells the same stock under one lock, then under a lock in segments"};
  auto add = known.add_options();
  add("help", "print this");
  add("url", po::value(&url),
      "the Redis server for the locks and the stock; default: $CONCH_URL (use it if the URL has a password)");
  add("name", po::value(&s.name), "name of the lock; all keys begin with it");
  add("items", po::value(&s.items), "number of items to sell");
  add("order-ms", po::value(&order_ms), "how long an order takes");
  add("segments", po::value(&s.segments), "number of segments of the split lock");
  add("processes", po::value(&processes), "number of processes");
  add("buyers", po::value(&s.buyers), "buyers per process");
  add("only", po::value(&which), "one | segments: run only this sale");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, known), given);
  po::notify(given);
  if (given.contains("help")) {
    std::cout << known;
    return 0;
  }
  if (url.find('@') != url.npos) {
    std::cerr << "conch-flash-sale: --url: set a URL with a password in the environment as CONCH_URL; all users of the "
                 "machine can read arguments\n";
    return 2;
  }
  if (char const* const env_url = std::getenv("CONCH_URL"); !given.contains("url") && env_url != nullptr)
    s.url = env_url;
  if (given.contains("url")) s.url = url;
  if (s.url.empty()) {  // of a script whose variable is not set: another server would be a surprise
    std::cerr << "conch-flash-sale: " << (given.contains("url") ? "--url" : "CONCH_URL") << " is empty\n";
    return 2;
  }
  if (s.items < 1 || order_ms < 1 || s.segments < 2 || processes < 1 || s.buyers < 1 || s.url.starts_with("memory:")) {
    std::cerr << "conch-flash-sale: needs at least 2 segments, 1 of everything else, and a Redis server (processes "
                 "cannot share memory://)\n";
    return 2;
  }
  s.order = std::chrono::milliseconds{order_ms};
  settings one = s;
  one.segments = 1;
  one.name += ":one";
  bool ok = true;
  if (which != "segments") ok = sale(one, processes) && ok;
  if (which != "one") ok = sale(s, processes) && ok;
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << "conch-flash-sale: " << error.what() << '\n';
  return 2;
}
