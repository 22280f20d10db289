// says: the time to wait is an option, as in async_acquire({.wait = 2s})
#include <conch/conch.hpp>

auto f(conch::multi_lock& all) { return all.async_acquire(std::chrono::seconds{2}); }
