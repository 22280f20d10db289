// A semaphore: at most three connections at a time over all processes. Every tenth task is a backup that takes all
// three.
//
//   example_06_semaphore [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/semaphore.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct database {
  std::uint32_t in_use = 0;
  std::uint32_t peak = 0;
};

asio::awaitable<void> query(conch::semaphore connections, std::uint32_t how_many, database& db) {
  conch::hold permit = co_await connections.async_acquire(how_many);
  db.in_use += how_many;
  db.peak = std::max(db.peak, db.in_use);
  asio::steady_timer work{co_await asio::this_coro::executor, 2ms};
  co_await work.async_wait(asio::use_awaitable);
  db.in_use -= how_many;
  co_await permit.async_release();  // optional: the destructor does it, too
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::semaphore const connections{client, "example:connections", 3};

  database orders;
  constexpr int tasks = 20;
  int finished = 0;
  int failures = 0;
  auto on_done = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++finished == tasks) {
      client.async_close(1s, [](conch::error_code) {});
    }
  };
  for (int task = 0; task < tasks; ++task) {
    // The queue is fair: tasks that need one permit do not starve a backup that needs all three.
    asio::co_spawn(ctx, query(connections, task % 10 == 0 ? 3 : 1, orders), on_done);
  }
  ctx.run();

  std::cout << finished << " tasks, at most " << orders.peak << " connections at a time\n";
  return failures == 0 && orders.peak == 3 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
