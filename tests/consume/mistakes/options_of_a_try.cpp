// says: a try does not wait and has no options
#include <conch/conch.hpp>

auto f(conch::mutex& m) { return m.async_try_acquire({.wait = std::chrono::seconds{2}}); }
