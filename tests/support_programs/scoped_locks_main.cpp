// One of two processes that take the same two locks with std::scoped_lock, in opposite orders.
//
//   conch-scoped-locks URL FIRST SECOND SECONDS FILE
//
// FILE is what the locks guard: a counter, and the last fencing token of each lock. Under both locks the process reads
// it, checks that its tokens are greater, and writes it with the counter plus one. Two processes at a time would lose
// an addition, or show a token that is too small. In the end it writes one line: TIMES STALE_TOKENS INVALID_HOLDS
// LONGEST_WAIT_US BUSY_TRIES.

#include <conch/blocking.hpp>
#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>

namespace {

using steady = std::chrono::steady_clock;

struct record {
  std::int64_t count = 0, lesser = 0, greater = 0;  // the tokens of the lock with the lesser name, and of the other
};

record read_from(int file) {
  record r;
  if (::pread(file, &r, sizeof r, 0) < 0) std::abort();
  return r;
}

void write_to(int file, record const& r) {
  if (::pwrite(file, &r, sizeof r, 0) != sizeof r) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    conch::blocking::client client{argv[1]};
    conch::blocking::mutex first{client, argv[2]}, second{client, argv[3]};
    bool const first_is_lesser = first.name() < second.name();
    conch::blocking::mutex const& lesser = first_is_lesser ? first : second;
    conch::blocking::mutex const& greater = first_is_lesser ? second : first;
    int const file = ::open(argv[5], O_RDWR);
    if (file < 0) return 3;
    long times = 0, stale = 0, invalid = 0;
    steady::duration longest{};
    auto const end = steady::now() + std::chrono::seconds{std::atol(argv[4])};
    for (auto asked = steady::now(); asked < end; asked = steady::now()) {
      try {
        std::scoped_lock const both{first, second};
        longest = std::max(longest, steady::now() - asked);
        record const before = read_from(file);
        record const now{before.count + 1, lesser.fence(), greater.fence()};
        if (now.lesser <= before.lesser || now.greater <= before.greater) ++stale;
        write_to(file, now);
        if (!first.valid() || !second.valid()) ++invalid;
        ++times;
      } catch (boost::system::system_error const& e) {
        if (e.code() != conch::errc::unreachable) throw;  // a server on a busy machine may be silent for a moment
      }
    }
    std::printf("%ld %ld %ld %ld %llu\n", times, stale, invalid,
                static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(longest).count()),
                static_cast<unsigned long long>(client.stats().tries_busy));
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
