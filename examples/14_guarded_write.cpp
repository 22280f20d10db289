// A guarded write: the resource and the lock are on one Redis server, which checks the owner and writes in one step. So
// a holder that has lost the lock changes nothing, even if it does not know of the loss.
//
//   example_14_guarded_write [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://
//
// The writes use a connection of the program, not conch's. This one is minimal; use your own Redis client.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <conch/guard.hpp>
#include <conch/mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct redis {
  asio::ip::tcp::iostream stream;

  // Returns the first line of the answer: +OK, -NOTOWNER ...
  std::string send(std::vector<std::string> const& words) {
    stream << '*' << words.size() << "\r\n";
    for (std::string const& word : words) {
      stream << '$' << word.size() << "\r\n" << word << "\r\n";
    }
    stream.flush();
    std::string answer;
    std::getline(stream, answer);
    return answer;
  }
};

asio::awaitable<bool> work(conch::client& one, conch::client& two, redis& store) {
  conch::mutex lock{one, "example:stock"};
  conch::mutex same_lock{two, "example:stock"};
  std::string const stock = "stock:{example:stock}";  // {...}: a Cluster needs both keys in one slot

  conch::hold slow = co_await lock.async_acquire();
  conch::write_guard const guard = slow.guard();
  std::string const first = store.send(conch::guarded_set(guard, stock, "10"));
  std::cout << "written under the lock: " << first << '\n';

  // The first holder hangs, and an operator takes the lock away. The second client gets it.
  co_await same_lock.async_force_release();
  conch::hold next = co_await same_lock.async_acquire();
  std::string const second = store.send(conch::guarded_set(next.guard(), stock, "9"));
  std::cout << "written by the next holder: " << second << '\n';

  std::string const late = store.send(conch::guarded_set(guard, stock, "11"));
  std::cout << "written too late: " << late << '\n';

  // For more than one command, begin a script with the prelude. It does both commands or none.
  std::string const script = std::string{conch::guard_prelude()} + R"(
    if not conch_is_owner(KEYS[1], ARGV[1]) then return redis.error_reply('TOOLATE') end
    redis.call('INCRBY', KEYS[2], -ARGV[2])
    return redis.call('INCRBY', KEYS[3], ARGV[2]))";
  conch::write_guard const g = next.guard();
  std::string const moved = store.send({"EVAL", script, "3", g.key, stock, "sold:{example:stock}", g.grant(), "2"});
  std::cout << "sold, by a script: " << moved << '\n';
  co_return first.starts_with("+OK") && second.starts_with("+OK") && late.starts_with("-NOTOWNER") &&
      moved.starts_with(":2");
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  std::string const scheme = "redis://";
  auto const colon = url.rfind(':');
  if (!url.starts_with(scheme) || colon < scheme.size() || url.find('@') != url.npos) {
    std::cout << "nothing to do: a guarded write needs redis://HOST:PORT\n";
    return 0;
  }
  redis store{asio::ip::tcp::iostream{url.substr(scheme.size(), colon - scheme.size()),
                                      url.substr(colon + 1, url.find('/', colon) - colon - 1)}};
  store.send({"DEL", "stock:{example:stock}", "sold:{example:stock}"});

  asio::io_context ctx;
  conch::client one{ctx.get_executor(), url};
  conch::client two{ctx.get_executor(), url};
  bool ok = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    ok = failure == nullptr && as_expected;
    one.async_close(1s, [](conch::error_code) {});
    two.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, work(one, two, store), finish);
  ctx.run();
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
