// says: the time to wait is an option, as in with_lock(m, {.wait = 2s}, body)
#include <conch/conch.hpp>

auto f(conch::mutex& m) {
  auto body = [](conch::hold&) -> boost::asio::awaitable<void> { co_return; };
  return conch::with_lock(m, std::chrono::seconds{2}, body);
}
