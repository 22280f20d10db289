// says: a reentrant lock is acquired for an owner
#include <conch/conch.hpp>

auto f(conch::reentrant_mutex& m) { return m.async_acquire({.wait = std::chrono::seconds{2}}); }
