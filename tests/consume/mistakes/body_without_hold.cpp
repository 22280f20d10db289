// says: the body is called with a hold of the lock
#include <conch/conch.hpp>

boost::asio::awaitable<void> f(conch::mutex& m) {
  auto body = [](int) -> boost::asio::awaitable<void> { co_return; };
  co_await conch::with_lock(m, body);
}
