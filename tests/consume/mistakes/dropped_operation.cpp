// says: nodiscard
#include <conch/conch.hpp>

boost::asio::awaitable<void> f(conch::mutex& m) {
  m.async_acquire();
  co_return;
}
