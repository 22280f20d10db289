// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/named_lock.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch::cli {

/// What `conch watch` shows, without I/O and clock.
class watch_view {
 public:
  using statuses = std::vector<std::pair<std::string, lock_status>>;

  /// A change of one lock since the look before.
  struct change {
    std::string name;
    lock_status now;  // free where it is gone
  };

  /// What was seen at `now`. Result: what is different: other holders, or another number of waiters.
  std::vector<change> look(statuses seen, time_point now);

  /// Lines for a screen of that size, with a heading: the locks with most waiters first. `at`: to show how long they
  /// have been held.
  std::vector<std::string> screen(std::size_t rows, std::size_t columns,
                                  std::chrono::system_clock::time_point when) const;

  /// New grants per second between the last two samples. If several come between two samples only one is seen: it is a
  /// lower bound.
  double grants_per_second() const noexcept { return rate_; }

 private:
  struct one {
    lock_status status;
    std::set<std::int64_t> fences;
  };

  std::map<std::string, one> locks_;
  std::map<std::string, double> rates_;
  time_point last_{};
  double rate_ = 0;
};

}  // namespace conch::cli
