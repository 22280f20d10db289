// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/clock.hpp>

#include <ctime>

namespace conch {

clock::time_point clock::now() noexcept {
#if defined(CLOCK_BOOTTIME)
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return time_point{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
#else
  return time_point{std::chrono::duration_cast<duration>(std::chrono::steady_clock::now().time_since_epoch())};
#endif
}

}  // namespace conch
