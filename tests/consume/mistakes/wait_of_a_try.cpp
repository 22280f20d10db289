// says: a try does not wait
#include <conch/conch.hpp>

auto f(conch::semaphore& s) { return s.async_try_acquire(std::chrono::seconds{2}); }
