#include "counts/still_world.hpp"

#include "counts/shared_clock.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

namespace conch::bench {

namespace {

constexpr std::int64_t second = 1'000'000'000, each_look = 1'000;

std::int64_t& now() {
  static std::int64_t& shared = []() -> std::int64_t& {
    std::int64_t& clock = *shared_clock();
    clock = 1'704'067'200 * second;  // 2024: the scripts take a clock before 2020 for a wrong one
    return clock;
  }();
  return shared;
}

/// When each timer is due.
std::map<int, std::int64_t>& timers() {
  static std::map<int, std::int64_t> all;
  return all;
}

std::int64_t next_due() {
  auto const earlier = [](auto const& a, auto const& b) { return a.second < b.second; };
  return std::min_element(timers().begin(), timers().end(), earlier)->second;
}

void set_kernel_timer(int fd, bool due) {
  itimerspec when{};
  when.it_value.tv_nsec = due ? 1 : 0;
  ::syscall(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, &when, nullptr);  // its descriptor may be closed by now
}

void fire_due() {
  std::erase_if(timers(), [](auto const& one) {
    if (one.second > now()) return false;
    set_kernel_timer(one.first, true);
    return true;
  });
}

/// The same numbers in each run (splitmix64).
std::uint64_t next_number() {
  static std::uint64_t state = 46;
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void still_world::await(pid_t server) {
  int const fd = ::open(("/proc/" + std::to_string(server) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error{"cannot see what process " + std::to_string(server) + " does: no /proc"};
  servers_.push_back(fd);
}

bool still_world::step() {
  conch_counts_await(servers_.data(), servers_.size());
  if (!timers().empty() && next_due() <= now()) fire_due();
  return context_.poll_one() != 0;
}

void still_world::run_until(std::function<bool()> const& done) {
  while (!done()) {
    if (step()) continue;
    if (timers().empty()) throw std::runtime_error{"nothing more happens"};
    now() = std::max(now(), next_due());
  }
}

void still_world::run_until_idle() {
  while (step()) continue;
}

}  // namespace conch::bench

extern "C" {

[[gnu::noinline]] void conch_counts_mark() { asm volatile(""); }

/// A server that has something to read is awake from the moment of the write on, and asleep when it has answered.
[[gnu::noinline]] void conch_counts_await(int const* servers, std::size_t count) {
  for (bool all = false; !all;) {
    all = true;
    for (std::size_t i = 0; i < count && all; ++i) {
      char text[256] = {};
      // PID (NAME) STATE ...
      bool const is_there = ::pread(servers[i], text, sizeof text - 1, 0) > 0;
      char const* const end_of_name = std::strrchr(text, ')');
      char const state = end_of_name != nullptr && end_of_name[1] == ' ' ? end_of_name[2] : 'Z';
      if (!is_there || state == 'Z') throw std::runtime_error{"a server has ended"};
      all = state == 'S';
    }
    if (!all) ::usleep(50);
  }
}

int clock_gettime(clockid_t, timespec* t) noexcept {
  using namespace conch::bench;
  std::int64_t const seen = now() += each_look;
  *t = {static_cast<std::time_t>(seen / second), static_cast<long>(seen % second)};
  return 0;
}

int timerfd_settime(int fd, int flags, itimerspec const* to, itimerspec*) noexcept {
  using namespace conch::bench;
  std::int64_t const at = to->it_value.tv_sec * second + to->it_value.tv_nsec;
  set_kernel_timer(fd, false);
  if (at == 0) {
    timers().erase(fd);
  } else {
    timers()[fd] = (flags & TFD_TIMER_ABSTIME) != 0 ? at : now() + at;
  }
  return 0;
}

int getentropy(void* to, std::size_t count) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<unsigned char>(conch::bench::next_number());
  return 0;
}
}

std::random_device::result_type std::random_device::_M_getval() {
  return static_cast<result_type>(conch::bench::next_number());
}
