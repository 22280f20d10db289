// says: the time to wait is an option, as in async_acquire({.wait = 2s})
#include <conch/conch.hpp>

auto f(conch::mutex& m) { return m.async_acquire(std::chrono::seconds{2}); }
