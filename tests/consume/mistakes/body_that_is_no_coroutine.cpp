// says: the body is a coroutine, which returns a boost::asio::awaitable
#include <conch/conch.hpp>

boost::asio::awaitable<void> f(conch::mutex& m) {
  auto body = [](conch::hold&) { return 1; };
  co_await conch::with_lock(m, body);
}
