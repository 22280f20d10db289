// A lock on the master that the Sentinels name. After a failover, the client continues with the new master.
//
//   example_19_sentinel [URL]        default: $CONCH_URL, else memory://
//
// For example redis-sentinel://10.0.0.1,10.0.0.2,10.0.0.3?sentinelMasterId=mymaster. A user and password in the URL
// (before '@') are for the Redis servers; $CONCH_SENTINEL_PASSWORD is for the Sentinels.

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
  // longer than a failover: down-after-milliseconds of the Sentinels, and a second or two
  settings.offline_timeout = 30s;
  settings.log = conch::log_to_stderr();  // logs each new master
  return settings;
}

asio::awaitable<void> work(conch::client& client) {
  conch::mutex invoices{client, "example:invoices"};
  conch::hold mine = co_await invoices.async_acquire();
  // A failover can lose the lock. Then this hold becomes invalid as soon as the client has connected to the new master,
  // and the next holder gets a greater token, so the store of the invoices can refuse a smaller one.
  std::cout << "writes an invoice with token " << mine.fence() << '\n';
  bool const was_held = co_await mine.async_release();
  std::cout << (was_held ? "held the lock to the end" : "lost the lock")
            << "; failovers seen: " << client.stats().master_switches << '\n';
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  conch::config settings = settings_for(url);
  if (!settings.url.starts_with("redis-sentinel://") && !settings.url.starts_with("rediss-sentinel://")) {
    settings.sentinel_password.clear();  // conch refuses a setting that does not fit the URL
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
