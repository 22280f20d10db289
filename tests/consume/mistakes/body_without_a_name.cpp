// says: give the body a name
#include <conch/conch.hpp>

auto f(conch::mutex& m) {
  return conch::with_lock(m, [](conch::hold&) -> boost::asio::awaitable<void> { co_return; });
}
