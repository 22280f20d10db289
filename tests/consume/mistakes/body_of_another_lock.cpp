// says: for a multi_lock with a multi_hold&
#include <conch/conch.hpp>

boost::asio::awaitable<void> f(conch::multi_lock& all) {
  auto body = [](conch::hold&) -> boost::asio::awaitable<void> { co_return; };
  co_await conch::with_lock(all, body);
}
