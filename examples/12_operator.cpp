// What an operator does: looks who has a lock and how many wait, and takes it from one who does not give it back. And a
// writer that becomes a reader: nobody else writes between the change and what is read of it.
//
//   example_12_operator [URL]        default: $CONCH_URL (the place for a password), else memory://

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/mutex.hpp>
#include <conch/shared_mutex.hpp>
#include <conch/with_lock.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct seen {
  bool body_cancelled = false;
  bool next_had_it = false;
  bool downgraded = false;
  bool read_beside = false;
};

// Hangs, and has the lock for as long as it does.
asio::awaitable<void> hang(conch::mutex lock, seen& s, std::function<void()> inside) {
  auto forever = [&](conch::hold&) -> asio::awaitable<void> {
    inside();
    asio::steady_timer timer{co_await asio::this_coro::executor, 1h};
    co_await timer.async_wait(asio::use_awaitable);
  };
  try {
    co_await conch::with_lock(lock, forever);
  } catch (boost::system::system_error const& error) {
    s.body_cancelled = error.code() == conch::errc::lost;
  }
}

asio::awaitable<void> wait_for_it(conch::mutex lock, seen& s) {
  conch::hold h = co_await lock.async_acquire();
  s.next_had_it = h.valid();
  co_await h.async_release();
}

asio::awaitable<void> look_after(conch::mutex lock) {
  conch::lock_status now;
  while (now.waiting == 0) {
    now = co_await lock.async_inspect();
    asio::steady_timer pause{co_await asio::this_coro::executor, 5ms};
    co_await pause.async_wait(asio::use_awaitable);
  }
  conch::lock_holder const whom = now.holders.at(0);
  std::cout << whom.client << " has it, with token " << whom.fence << "; " << now.waiting << " in line\n";
  std::uint32_t const from = co_await lock.async_force_release(whom);  // from nobody else, should it have gone on
  std::cout << "taken from " << from << '\n';
}

// Writes, and reads what it has written together with other readers.
asio::awaitable<void> publish(conch::shared_mutex mine, conch::shared_mutex others, seen& s) {
  conch::hold h = co_await mine.async_acquire();
  conch::hold none = co_await others.async_try_acquire_shared();
  co_await mine.async_downgrade(h);
  conch::hold reader = co_await others.async_acquire_shared();
  s.downgraded = !none && h.valid();
  s.read_beside = reader.valid();
  co_await reader.async_release();
  co_await h.async_release();
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client stuck{ctx.get_executor(), url};
  conch::client other{ctx.get_executor(), url};
  conch::client admin{ctx.get_executor(), url};

  seen s;
  int running = 4;
  int failures = 0;
  auto leave = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (--running != 0) return;
    for (conch::client* c : {&stuck, &other, &admin}) c->async_close(1s, [](conch::error_code) {});
  };
  auto wait = [&] { asio::co_spawn(ctx, wait_for_it(conch::mutex{other, "example:stuck"}, s), leave); };
  asio::co_spawn(ctx, hang(conch::mutex{stuck, "example:stuck"}, s, wait), leave);
  asio::co_spawn(ctx, look_after(conch::mutex{admin, "example:stuck"}), leave);
  asio::co_spawn(ctx, publish(conch::shared_mutex{stuck, "example:page"}, conch::shared_mutex{other, "example:page"}, s), leave);
  ctx.run();

  return failures == 0 && s.body_cancelled && s.next_had_it && s.downgraded && s.read_beside ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
