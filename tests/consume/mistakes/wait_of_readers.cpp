// says: the time to wait is an option, as in async_acquire_shared({.wait = 2s})
#include <conch/conch.hpp>

auto f(conch::shared_mutex& m) { return m.async_acquire_shared(std::chrono::seconds{2}); }
