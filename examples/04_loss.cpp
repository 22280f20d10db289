// What happens when a lock is lost: with_lock cancels its body and throws errc::lost.
//
//   example_04_loss [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <conch/with_lock.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// What an operator might do to a lock that seems stuck: `redis-cli DEL conch:{example:loss}`.
void delete_the_lock(std::string const& url) {
  std::string const scheme = "redis://";
  auto const colon = url.rfind(':');
  if (!url.starts_with(scheme) || colon < scheme.size() || url.find('@') != url.npos) {
    return;  // not a plain Redis: max_hold, below, ends the hold instead
  }
  auto const host = url.substr(scheme.size(), colon - scheme.size());
  asio::ip::tcp::iostream redis{host, url.substr(colon + 1, url.find('/', colon) - colon - 1)};
  redis << "DEL conch:{example:loss}\r\n" << std::flush;
  std::string answer;
  std::getline(redis, answer);
  std::cout << "the lock's key was deleted: " << answer << '\n';
}

asio::awaitable<bool> work(conch::client& client, std::string const& url) {
  // No hold of this lock lasts longer than 2 s, even if its holder is alive and renews it.
  conch::mutex lock{client, "example:loss", {.max_hold = 2s}};
  bool cancelled = false;
  auto body = [&](conch::hold& held) -> asio::awaitable<void> {
    std::cout << "granted with fence " << held.fence() << '\n';
    delete_the_lock(url);
    asio::steady_timer forever{co_await asio::this_coro::executor, 1h};
    auto result = co_await forever.async_wait(asio::as_tuple(asio::use_awaitable));
    cancelled = std::get<0>(result) == asio::error::operation_aborted && !held.valid();
    std::cout << "the body was cancelled: the hold is no longer valid\n";
  };
  bool reported = false;
  try {
    co_await conch::with_lock(lock, body);
  } catch (boost::system::system_error const& error) {
    // cppcheck-suppress incorrectLogicOperator ; one code equals both an error and a condition
    reported = error.code() == conch::errc::lost && error.code() == conch::condition::not_mine;
    std::cout << "with_lock threw: " << error.what() << '\n';
  }
  conch::hold next = co_await lock.async_acquire();  // a loss ends one hold; the lock can be acquired again
  co_return (cancelled && reported && next.valid());
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  asio::io_context ctx;
  conch::client client{ctx.get_executor(), {.url = url, .lease = 1s, .claim = 1s, .command_timeout = 300ms}};
  bool ok = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) {
      std::rethrow_exception(failure);
    }
    ok = as_expected;
    client.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, work(client, url), finish);
  ctx.run();
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
