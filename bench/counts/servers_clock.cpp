// Loaded into redis-server (LD_PRELOAD): gives it the clock of bench_counts, and random numbers from a file.
// So the times in its keys and the order of its tables are the same in each run.
#include "counts/shared_clock.hpp"

#include <dlfcn.h>
#include <sys/time.h>

#include <cstdio>
#include <cstring>
#include <ctime>

namespace {

constexpr std::int64_t second = 1'000'000'000;

std::int64_t now() {
  static std::int64_t const* const shared = conch::bench::shared_clock();
  return *shared;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t, timespec* t) noexcept {
  *t = {static_cast<std::time_t>(now() / second), static_cast<long>(now() % second)};
  return 0;
}

int gettimeofday(timeval* t, void*) noexcept {
  *t = {static_cast<std::time_t>(now() / second), static_cast<suseconds_t>(now() % second / 1000)};
  return 0;
}

std::FILE* fopen64(char const* path, char const* how) {
  char const* const seed = std::getenv("CONCH_COUNTS_SEED");
  auto* const real = reinterpret_cast<std::FILE* (*)(char const*, char const*)>(::dlsym(RTLD_NEXT, "fopen64"));
  return real(seed != nullptr && std::strcmp(path, "/dev/urandom") == 0 ? seed : path, how);
}

std::FILE* fopen(char const* path, char const* how) { return fopen64(path, how); }

std::time_t time(std::time_t* t) noexcept {
  auto const seconds = static_cast<std::time_t>(now() / second);
  if (t != nullptr) *t = seconds;
  return seconds;
}
}
