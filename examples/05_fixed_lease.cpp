// A fixed lease: the lock ends when its time is over, whatever its holder does. The fence tells the
// holder of then from the holder of now.
//
//   example_05_fixed_lease [URL]        default: $CONCH_URL (the place for a password), else memory://

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/with_lock.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// What the lock guards. Remembers the greatest fence: who comes late changes nothing.
struct ledger {
  std::int64_t greatest = 0;

  bool write(std::int64_t fence) {
    if (fence < greatest) {
      return false;
    }
    greatest = fence;
    return true;
  }
};

asio::awaitable<bool> work(conch::client& one, conch::client& two) {
  conch::mutex slow{one, "example:ledger", {.lease = 600ms, .renew = false}};
  conch::mutex next{two, "example:ledger"};
  ledger book;

  conch::hold old_hold = co_await slow.async_acquire();
  std::int64_t const old_fence = old_hold.fence();  // the hold still tells it when it is lost
  bool const first = book.write(old_fence);
  std::cout << "written with fence " << old_fence << ": " << (first ? "yes" : "no") << '\n';

  // ... and now it takes too long. The loss is told before anybody else can be granted the lock.
  auto loss = co_await old_hold.async_lost(asio::as_tuple(asio::use_awaitable));
  bool const told = std::get<0>(loss) == conch::errc::lost && !old_hold.valid();
  std::cout << "the lease is over: " << std::get<0>(loss).message() << '\n';

  conch::hold new_hold = co_await next.async_acquire();
  bool const second = book.write(new_hold.fence());
  bool const late = book.write(old_fence);
  std::cout << "written with fence " << new_hold.fence() << ": " << (second ? "yes" : "no") << '\n'
            << "written with fence " << old_fence << ": " << (late ? "yes" : "no, too old") << '\n';

  bool const was_held = co_await old_hold.async_release();  // harmless, and it says so
  co_return (first && told && second && !late && !was_held && new_hold.valid());
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";
  asio::io_context ctx;
  // A lease this short wants these shorter, too.
  conch::client one{ctx.get_executor(), {.url = url, .claim = 500ms, .command_timeout = 200ms}};
  conch::client two{ctx.get_executor(), url};
  bool seen = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) {
      std::rethrow_exception(failure);
    }
    seen = as_expected;
    one.async_close(1s, [](conch::error_code) {});
    two.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, work(one, two), finish);
  ctx.run();
  return seen ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
