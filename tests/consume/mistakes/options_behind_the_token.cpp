// says: the options come before the completion token
#include <conch/conch.hpp>

auto f(conch::mutex& m) { return m.async_acquire(boost::asio::use_awaitable, {.wait = std::chrono::seconds{2}}); }
