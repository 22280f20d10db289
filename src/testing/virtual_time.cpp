// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "testing/virtual_time.hpp"

#include <conch/clock.hpp>

#include <dlfcn.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>

namespace conch::testing {

namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t monotonic_at_beginning = 3600 * second;  // timers in the past are positive times, too
constexpr std::int64_t realtime_at_beginning =
    1'767'225'600 * second;  // 2026: the rules take a clock before 2020 for a wrong one

constinit thread_local virtual_time* active = nullptr;

/// A timer of the kernel, which the world uses as a flag that can be waited for. False: the descriptor is not a timer
/// any more.
bool set_kernel_timer(int fd, bool due) {
  itimerspec when{};
  when.it_value.tv_nsec = due ? 1 : 0;
  return ::syscall(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, &when, nullptr) == 0;
}

int system_clock_gettime(clockid_t clock, timespec* t) noexcept {
  using function = int (*)(clockid_t, timespec*);
  // The one behind this program, which needs no system call.
  static auto const next = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return next != nullptr ? next(clock, t) : static_cast<int>(::syscall(SYS_clock_gettime, clock, t));
}

}  // namespace

virtual_time* virtual_time::of_this_thread() noexcept { return active; }

virtual_time::virtual_time(std::uint64_t seed) : random_{seed} {
  if (active != nullptr) throw std::logic_error{"a thread has one conch::testing::world at a time"};
  active = this;
  auto const asio = std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
  if (asio == monotonic_at_beginning && clock::now().time_since_epoch().count() == monotonic_at_beginning) return;
  active = nullptr;
  throw std::logic_error{
      "the clocks of this program are not those of conch::testing: link conch::testing to the program itself, not to a "
      "shared library, and "
      "without --exclude-libs"};
}

virtual_time::~virtual_time() { active = nullptr; }

bool virtual_time::shows(clockid_t which, timespec& t) const noexcept {
  bool const is_real = which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE;
  bool const is_monotonic = which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_RAW ||
                            which == CLOCK_MONOTONIC_COARSE || which == CLOCK_BOOTTIME;
  if (!is_real && !is_monotonic) return false;  // of processors
  std::int64_t const shown = now_ + (is_real ? realtime_at_beginning : monotonic_at_beginning);
  t = {static_cast<std::time_t>(shown / second), static_cast<long>(shown % second)};
  return true;
}

void virtual_time::forget_timer(int fd) {
  std::erase_if(timers_, [fd](timer const& one) { return one.fd == fd; });
}

void virtual_time::set_timer(int fd, std::int64_t value, bool is_absolute) {
  forget_timer(fd);
  set_kernel_timer(fd, false);
  if (value != 0) timers_.push_back({fd, is_absolute ? value - monotonic_at_beginning : now_ + value});
}

std::int64_t virtual_time::next_timer() const noexcept {
  std::int64_t next = never;
  for (timer const& one : timers_) next = std::min(next, one.at);
  return next;
}

void virtual_time::fire_due() {
  std::vector<timer> due;
  std::erase_if(timers_, [&](timer const& one) {
    if (one.at > now_) return false;
    due.push_back(one);
    return true;
  });
  std::stable_sort(due.begin(), due.end(), [](timer const& a, timer const& b) { return a.at < b.at; });
  for (timer const& one : due) {
    if (!set_kernel_timer(one.fd, true)) continue;  // closed meanwhile
    // It goes off within microseconds: to sleep meanwhile would cost more, on a busy machine much more.
    pollfd readable{one.fd, POLLIN, 0};
    while (::poll(&readable, 1, 0) == 0 || (readable.revents & POLLIN) == 0) continue;
  }
}

}  // namespace conch::testing

// ---- what the program has instead of the system's ------------------------------------------------------------------

extern "C" {

CONCH_API int clock_gettime(clockid_t which, timespec* t) noexcept {
  using namespace conch::testing;
  if (active != nullptr && active->shows(which, *t)) return 0;
  return system_clock_gettime(which, t);
}

CONCH_API int timerfd_create(clockid_t which, int flags) noexcept {
  using namespace conch::testing;
  int const fd = static_cast<int>(::syscall(SYS_timerfd_create, which, flags));
  if (active != nullptr && fd >= 0) active->forget_timer(fd);  // of one with the same number, that was closed
  return fd;
}

CONCH_API int timerfd_settime(int fd, int flags, itimerspec const* to, itimerspec* old) noexcept {
  using namespace conch::testing;
  if (active == nullptr) return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, to, old));
  active->set_timer(fd, to->it_value.tv_sec * second + to->it_value.tv_nsec, (flags & TFD_TIMER_ABSTIME) != 0);
  if (old != nullptr) *old = {};
  return 0;
}

CONCH_API int getentropy(void* to, std::size_t count) {
  using namespace conch::testing;
  if (active == nullptr)
    return ::syscall(SYS_getrandom, to, count, 0) == static_cast<long>(count) ? 0
                                                                              : -1;  // at most 256 bytes: all or none
  std::generate_n(static_cast<unsigned char*>(to), count,
                  [] { return static_cast<unsigned char>(active->next_number()); });
  return 0;
}
}

#if defined(__GLIBCXX__)
/// Weak: with a static libstdc++ its own is there, too. (Then the ids of clients differ from run to run.)
[[gnu::weak, gnu::visibility("default")]] std::random_device::result_type std::random_device::_M_getval() {
  result_type number = 0;
  if (::getentropy(&number, sizeof number) != 0)
    throw std::runtime_error{"the operating system gives no random numbers"};
  return number;
}
#endif
