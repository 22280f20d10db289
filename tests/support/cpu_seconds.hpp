#pragma once

#include <time.h>

namespace conch::test {

/// The processor time of this thread while `f` runs, in seconds. What other programs do meanwhile does not count.
template <class F>
double cpu_seconds(F const& f) {
  auto const used = [] {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
  };
  double const before = used();
  f();
  return used() - before;
}

}  // namespace conch::test
