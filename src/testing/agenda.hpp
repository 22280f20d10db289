// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace conch::testing {

/// What happens outside of the processes: in the network, and in servers. In the order of time, then of entry.
class agenda {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  void add(std::int64_t at, std::function<void()> f) { entries_.emplace(at, std::move(f)); }
  std::int64_t next() const noexcept { return entries_.empty() ? never : entries_.begin()->first; }
  /// Calls what is due.
  void run_until(std::int64_t now) {
    while (!entries_.empty() && entries_.begin()->first <= now) {
      auto const entry = entries_.extract(entries_.begin());
      entry.mapped()();
    }
  }

 private:
  std::multimap<std::int64_t, std::function<void()>> entries_;  // equal keys stay in the order of entry
};

}  // namespace conch::testing
