// says nothing: what the others have in common compiles.
#include <conch/blocking.hpp>
#include <conch/conch.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <string_view>

boost::asio::awaitable<int> f(conch::mutex& m, conch::multi_lock& all, conch::reentrant_mutex& again,
                              conch::owner const& me, conch::semaphore& s) {
  auto body = [](conch::hold&) -> boost::asio::awaitable<int> { co_return 1; };
  auto of_all = [](conch::multi_hold&) -> boost::asio::awaitable<void> { co_return; };
  auto of_level = [](conch::reentrant_hold&) -> boost::asio::awaitable<void> { co_return; };
  auto mine = again.for_owner(me);
  co_await conch::with_lock(all, of_all);
  co_await conch::with_lock(mine, of_level);
  conch::acquire_options const briefly{.wait = std::chrono::seconds{2}};
  co_await conch::with_lock(m, briefly, body);
  conch::hold const three = co_await s.async_acquire(3, briefly, boost::asio::use_awaitable);
  conch::reentrant_hold const level = co_await again.async_acquire(me, briefly);
  conch::hold const tried = co_await s.async_try_acquire(3);
  co_return co_await conch::with_lock(m, {.wait = std::chrono::seconds{2}}, body);
}

// Braces are a config.
void g(boost::asio::io_context& ctx, boost::asio::thread_pool& pool, std::string const& url, std::string_view part) {
  conch::client of_braces{ctx.get_executor(), {.url = "memory://"}}, of_context{ctx, {.url = "memory://"}},
      of_text{ctx, url};
  conch::client of_pool{pool, "memory://"}, of_part{ctx.get_executor(), part}, of_defaults{ctx.get_executor(), {}};
  conch::blocking::client blocking{{.url = "memory://"}}, by_url{url}, by_text{"memory://"}, by_config{conch::config{}};
}
