// Takes away what differs from one run to the next: the time, the random numbers, and which answers have arrived when
// the client looks. Replaces clock_gettime, timerfd_settime, getentropy and std::random_device in the program that
// links it.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>

#include <functional>
#include <vector>

namespace conch::bench {

/// Runs handlers one by one. Before each it waits until all servers sleep, so that a handler always finds the same
/// answers. The clock moves by 1 µs with each reading, and to the next timer when there is nothing else to do.
class still_world {
 public:
  explicit still_world(boost::asio::io_context& on) : context_{on} {}

  /// Adds a process to wait for. It must outlive this.
  void await(pid_t server);

  /// Throws if nothing is left to do and no timer is armed.
  void run_until(std::function<bool()> const& done);

  /// Until only time would change anything.
  void run_until_idle();

 private:
  bool step();

  boost::asio::io_context& context_;
  std::vector<int> servers_;  // their /proc/PID/stat
};

}  // namespace conch::bench

extern "C" {

/// Callgrind writes down here what it has counted since the last call (--dump-before).
void conch_counts_mark();

/// Returns when all servers sleep. Not counted (--toggle-collect).
void conch_counts_await(int const* servers, std::size_t count);
}
