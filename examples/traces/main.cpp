// Writes a span for each wait and each hold of a lock, as OTLP/JSON lines on standard output (otlp_spans.hpp). Start it
// twice and compare both outputs.
//
//   conch-traces SERVICE [TIMES]        the server: $CONCH_URL, else redis://127.0.0.1:6379
//
// Acquires the lock "example:traced" TIMES times (default: 5) and holds it for 50 ms each time.

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <conch/mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "otlp_spans.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

asio::awaitable<void> work(conch::client& client, int times) {
  conch::mutex lock{client, "example:traced"};
  asio::steady_timer timer{client.get_executor()};
  for (int i = 0; i < times; ++i) {
    conch::hold held = co_await lock.async_acquire(asio::use_awaitable);
    timer.expires_after(50ms);
    co_await timer.async_wait(asio::use_awaitable);
    co_await held.async_release(asio::use_awaitable);
  }
  co_await client.async_close(1s, asio::use_awaitable);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: conch-traces SERVICE [TIMES]\n";
    return 2;
  }
  int const times = argc == 3 ? std::stoi(argv[2]) : 5;
  conch::config settings;
  if (char const* const url = std::getenv("CONCH_URL")) settings.url = url;
  settings.local_slice = 0ms;  // each release hands the lock to the other process if it waits
  settings.observer = std::make_shared<traces::otlp_spans>(std::cout, argv[1], std::to_string(::getpid()));

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), settings};
  std::exception_ptr failure;
  asio::co_spawn(ctx, work(client, times), [&](std::exception_ptr e) { failure = e; });
  ctx.run();
  if (failure) std::rethrow_exception(failure);
  return 0;
} catch (std::exception const& e) {
  std::cerr << "conch-traces: " << e.what() << '\n';
  return 1;
}
