// One clock for several processes: nanoseconds in the file $CONCH_COUNTS_CLOCK.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace conch::bench {

/// Only bench_counts moves it. Ends the process if the file cannot be opened.
/// Allocates nothing: an allocator may read the clock.
inline std::int64_t* shared_clock() {
  char const* const file = std::getenv("CONCH_COUNTS_CLOCK");
  int const fd = file == nullptr ? -1 : ::open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* const at = fd < 0 || ::ftruncate(fd, sizeof(std::int64_t)) != 0
                       ? MAP_FAILED
                       : ::mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) std::abort();
  ::close(fd);
  return static_cast<std::int64_t*>(at);
}

}  // namespace conch::bench
