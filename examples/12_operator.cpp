// An operator's view of a lock: who holds it, how many wait, and how to take it from a holder that hangs. Also: a
// writer becomes a reader, so that no other client writes before it has read its own change.
//
//   example_12_operator [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

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

struct results {
  bool body_cancelled = false;
  bool next_granted = false;
  bool downgraded = false;
  bool read_together = false;
};

// Hangs while it holds the lock.
asio::awaitable<void> hang(conch::mutex lock, results& r, std::function<void()> on_granted) {
  auto forever = [&](conch::hold&) -> asio::awaitable<void> {
    on_granted();
    asio::steady_timer timer{co_await asio::this_coro::executor, 1h};
    co_await timer.async_wait(asio::use_awaitable);
  };
  try {
    co_await conch::with_lock(lock, forever);
  } catch (boost::system::system_error const& error) {
    r.body_cancelled = error.code() == conch::errc::lost;
  }
}

asio::awaitable<void> wait_for_lock(conch::mutex lock, results& r) {
  conch::hold h = co_await lock.async_acquire();
  r.next_granted = h.valid();
  co_await h.async_release();
}

asio::awaitable<void> unblock(conch::mutex lock) {
  conch::lock_status now;
  while (now.waiting == 0) {
    now = co_await lock.async_inspect();
    asio::steady_timer pause{co_await asio::this_coro::executor, 5ms};
    co_await pause.async_wait(asio::use_awaitable);
  }
  conch::lock_holder const holder = now.holders.at(0);
  std::cout << holder.client << " holds the lock with token " << holder.fence << "; waiting: " << now.waiting << '\n';
  // does nothing if the lock has a new holder by now
  std::uint32_t const revoked = co_await lock.async_force_release(holder);
  std::cout << "holds taken away: " << revoked << '\n';
}

// Writes, then reads its change while other readers may read, too.
asio::awaitable<void> publish(conch::shared_mutex mine, conch::shared_mutex others, results& r) {
  conch::hold h = co_await mine.async_acquire();
  conch::hold too_early = co_await others.async_try_acquire_shared();
  co_await mine.async_downgrade(h);
  conch::hold reader = co_await others.async_acquire_shared();
  r.downgraded = !too_early && h.valid();
  r.read_together = reader.valid();
  co_await reader.async_release();
  co_await h.async_release();
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client stuck{ctx.get_executor(), url};
  conch::client other{ctx.get_executor(), url};
  conch::client admin{ctx.get_executor(), url};

  results r;
  int running = 4;
  int failures = 0;
  auto on_done = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (--running != 0) return;
    for (conch::client* c : {&stuck, &other, &admin}) c->async_close(1s, [](conch::error_code) {});
  };
  auto wait = [&] { asio::co_spawn(ctx, wait_for_lock(conch::mutex{other, "example:stuck"}, r), on_done); };
  asio::co_spawn(ctx, hang(conch::mutex{stuck, "example:stuck"}, r, wait), on_done);
  asio::co_spawn(ctx, unblock(conch::mutex{admin, "example:stuck"}), on_done);
  asio::co_spawn(
      ctx, publish(conch::shared_mutex{stuck, "example:page"}, conch::shared_mutex{other, "example:page"}, r), on_done);
  ctx.run();

  return failures == 0 && r.body_cancelled && r.next_granted && r.downgraded && r.read_together ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
