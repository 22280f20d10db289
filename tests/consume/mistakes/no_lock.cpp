// says: the first argument is a lock
#include <conch/conch.hpp>

auto f(conch::reentrant_mutex& m) {
  auto body = [](conch::reentrant_hold&) -> boost::asio::awaitable<void> { co_return; };
  return conch::with_lock(m, body);
}
