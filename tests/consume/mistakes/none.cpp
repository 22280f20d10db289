// says nothing: what the others have in common compiles.
#include <conch/conch.hpp>

boost::asio::awaitable<int> f(conch::mutex& m, conch::multi_lock& all, conch::reentrant_mutex& again, conch::owner const& me) {
  auto body = [](conch::hold&) -> boost::asio::awaitable<int> { co_return 1; };
  auto of_all = [](conch::multi_hold&) -> boost::asio::awaitable<void> { co_return; };
  auto of_level = [](conch::reentrant_hold&) -> boost::asio::awaitable<void> { co_return; };
  auto mine = again.for_owner(me);
  co_await conch::with_lock(all, of_all);
  co_await conch::with_lock(mine, of_level);
  co_return co_await conch::with_lock(m, {.wait = std::chrono::seconds{2}}, body);
}
