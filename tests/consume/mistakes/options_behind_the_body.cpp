// says: the options come before the body
#include <conch/conch.hpp>

auto f(conch::mutex& m) {
  auto body = [](conch::hold&) -> boost::asio::awaitable<void> { co_return; };
  return conch::with_lock(m, body, {.wait = std::chrono::seconds{2}});
}
