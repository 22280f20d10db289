// says: the time to wait is an option, as in async_acquire(me, {.wait = 2s})
#include <conch/conch.hpp>

auto f(conch::reentrant_mutex& m, conch::owner const& me) { return m.async_acquire(me, std::chrono::seconds{2}); }
