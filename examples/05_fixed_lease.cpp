// A fixed lease: the lock expires 600 ms after the grant, whatever its holder does. The fence tells a late holder from
// the current one.
//
//   example_05_fixed_lease [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

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

// The guarded resource. It remembers the greatest fence that it has seen and refuses writes with a smaller one.
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
  std::int64_t const old_fence = old_hold.fence();
  bool const first = book.write(old_fence);
  std::cout << "written with fence " << old_fence << ": " << (first ? "yes" : "no") << '\n';

  // The holder is too slow. It learns of the loss before another client can get the lock.
  auto loss = co_await old_hold.async_lost(asio::as_tuple(asio::use_awaitable));
  bool const reported = std::get<0>(loss) == conch::errc::lost && !old_hold.valid();
  std::cout << "the lease expired: " << std::get<0>(loss).message() << '\n';

  conch::hold new_hold = co_await next.async_acquire();
  bool const second = book.write(new_hold.fence());
  bool const too_late = book.write(old_fence);
  std::cout << "written with fence " << new_hold.fence() << ": " << (second ? "yes" : "no") << '\n'
            << "written with fence " << old_fence << ": " << (too_late ? "yes" : "no, too old") << '\n';

  bool const was_held = co_await old_hold.async_release();  // harmless: returns false
  co_return (first && reported && second && !too_late && !was_held && new_hold.valid());
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  asio::io_context ctx;
  // The defaults of claim and command_timeout are too long for this lease.
  conch::client one{ctx.get_executor(), {.url = url, .claim = 500ms, .command_timeout = 200ms}};
  conch::client two{ctx.get_executor(), url};
  bool ok = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) {
      std::rethrow_exception(failure);
    }
    ok = as_expected;
    one.async_close(1s, [](conch::error_code) {});
    two.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, work(one, two), finish);
  ctx.run();
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
