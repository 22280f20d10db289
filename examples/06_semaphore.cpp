// A semaphore: at most three at a time, however many processes ask; a backup takes all three.
//
//   example_06_semaphore [URL]        default: $CONCH_URL (the place for a password), else memory://

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
  std::uint32_t most = 0;
};

asio::awaitable<void> query(conch::semaphore connections, std::uint32_t how_many, database& at) {
  conch::hold permit = co_await connections.async_acquire(how_many);
  at.in_use += how_many;
  at.most = std::max(at.most, at.in_use);
  asio::steady_timer work{co_await asio::this_coro::executor, 2ms};
  co_await work.async_wait(asio::use_awaitable);
  at.in_use -= how_many;
  co_await permit.async_release();  // or leave it to the destructor
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::semaphore const connections{client, "example:connections", 3};

  database orders;
  constexpr int tasks = 20;
  int ended = 0;
  int failures = 0;
  auto leave = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++ended == tasks) {
      client.async_close(1s, [](conch::error_code) {});
    }
  };
  for (int task = 0; task < tasks; ++task) {
    // Every tenth wants all of them at once, and is not overtaken for ever by those that want one.
    asio::co_spawn(ctx, query(connections, task % 10 == 0 ? 3 : 1, orders), leave);
  }
  ctx.run();

  std::cout << ended << " tasks, at most " << orders.most << " connections at a time\n";
  return failures == 0 && orders.most == 3 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
