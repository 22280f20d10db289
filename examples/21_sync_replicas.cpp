// conch delivers a hold only after every replica has acknowledged it, so no failover can grant the lock a second time.
//
//   example_21_sync_replicas [URL]        default: $CONCH_URL, else memory://
//
// $CONCH_REPLICAS: the number of replicas that the server has; default: none.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/conch.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> work(conch::client& client) {
  conch::mutex payouts{client, "example:payouts"};
  // While a replica is down, no client gets the lock: better no payout today than two.
  auto result = co_await payouts.async_acquire({.wait = 5s}, asio::as_tuple(asio::use_awaitable));
  auto& [ec, mine] = result;
  if (ec == conch::errc::not_replicated) {
    std::cout << "no payout today: " << ec.message() << '\n';
    co_return;
  }
  if (ec) throw boost::system::system_error{ec};
  std::cout << "pays with token " << mine.fence() << "; acknowledged by " << client.settings().sync_replicas
            << " replicas\n";
  bool const was_held = co_await mine.async_release();
  std::cout << (was_held ? "held the lock to the end" : "lost the lock") << '\n';
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const replicas = std::getenv("CONCH_REPLICAS");
  conch::config settings;
  settings.url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  settings.sync_replicas = replicas != nullptr ? std::stoul(replicas) : 0;

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), settings};
  std::exception_ptr failure;
  asio::co_spawn(ctx, work(client), [&](std::exception_ptr error) {
    failure = error;
    client.async_close(1s, [](conch::error_code) {});
  });
  ctx.run();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return 0;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
