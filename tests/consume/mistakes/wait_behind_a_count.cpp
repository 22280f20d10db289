// says: the time to wait is an option, as in async_acquire({.wait = 2s})
#include <conch/conch.hpp>

auto f(conch::semaphore& s) { return s.async_acquire(3, std::chrono::seconds{2}, boost::asio::use_awaitable); }
