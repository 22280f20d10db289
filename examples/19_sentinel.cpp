// A lock at the master that Sentinels name. It goes on at the next master when that one dies.
//
//   example_19_sentinel [URL]        default: $CONCH_URL, else memory://
//
// For example redis-sentinel://10.0.0.1,10.0.0.2,10.0.0.3?sentinelMasterId=mymaster; user and password before the first '@' are the servers'.
// $CONCH_SENTINEL_PASSWORD is the Sentinels' password, if they have one.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/conch.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;

conch::config settings_for(std::string url) {
  conch::config settings;
  settings.url = std::move(url);
  if (char const* const password = std::getenv("CONCH_SENTINEL_PASSWORD")) {
    settings.sentinel_password = password;
  }
  settings.offline_timeout = 30s;         // longer than a failover takes: down-after-milliseconds of the Sentinels, and a second or two
  settings.log = conch::log_to_stderr();  // names each new master
  return settings;
}

asio::awaitable<void> work(conch::client& client) {
  conch::mutex invoices{client, "example:invoices"};
  conch::hold mine = co_await invoices.async_acquire();
  // A failover can lose the lock. Then this hold is told so as soon as the client has connected to the new master, and the next owner has a
  // greater token: whoever writes the invoice down refuses a smaller one.
  std::cout << "writes an invoice with token " << mine.fence() << '\n';
  bool const was_held = co_await mine.async_release();
  std::cout << (was_held ? "held it to the end" : "lost it meanwhile") << "; masters that came after another: " << client.stats().master_switches
            << '\n';
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";
  conch::config settings = settings_for(url);
  if (!settings.url.starts_with("redis-sentinel://") && !settings.url.starts_with("rediss-sentinel://")) {
    settings.sentinel_password.clear();  // a member that does not belong to the URL is refused
  }

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
