// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/stats.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace conch {

/// Figures of the locks for which was waited longest, in bounded memory: the algorithm "space saving" (Metwally,
/// Agrawal, El Abbadi, 2005) over times. A new name takes the place of the one with the least rank when there is no
/// room, and takes over its rank, so that a name of much weight gets in. So a rank may be too great, by at most the
/// least rank; the figures of a name are only its own.
class top_names {
 public:
  /// Reports `shown` names, and keeps four times as many. 0: nothing is to be counted.
  explicit top_names(std::size_t shown) : shown_{shown} {}

  bool counts() const noexcept { return shown_ != 0; }

  void waited(std::string_view name, duration how_long, bool granted);
  void held(std::string_view name, duration how_long, bool lost);

  /// The greatest ranks first.
  std::vector<lock_statistics> report() const;

 private:
  static constexpr std::size_t kept_for_each = 4;

  std::size_t row_of(std::string_view name);

  std::size_t const shown_;
  std::vector<lock_statistics> rows_;
  std::vector<duration> ranks_;  // of the same row: the times that were waited, and the rank that it began with
  std::unordered_map<std::string, std::size_t> row_numbers_;
};

}  // namespace conch
