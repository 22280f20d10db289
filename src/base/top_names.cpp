// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/top_names.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace conch {

std::size_t top_names::row_of(std::string_view name) {
  std::string key{name};
  if (auto const known = row_numbers_.find(key); known != row_numbers_.end()) return known->second;
  std::size_t row = rows_.size();
  if (row < kept_for_each * shown_) {
    rows_.emplace_back();
    ranks_.push_back(duration::zero());
  } else {
    row = static_cast<std::size_t>(std::min_element(ranks_.begin(), ranks_.end()) - ranks_.begin());
    row_numbers_.erase(rows_[row].name);
    rows_[row] = {};
  }
  rows_[row].name = key;
  row_numbers_.emplace(std::move(key), row);
  return row;
}

void top_names::waited(std::string_view name, duration how_long, bool granted) {
  std::size_t const row = row_of(name);
  ++(granted ? rows_[row].grants : rows_[row].refusals);
  rows_[row].wait += how_long;
  ranks_[row] += how_long;
}

/// A hold makes no room for its name: a name that was pushed out since its wait is not let in again by it.
void top_names::held(std::string_view name, duration how_long, bool lost) {
  auto const known = row_numbers_.find(std::string{name});
  if (known == row_numbers_.end()) return;
  lock_statistics& row = rows_[known->second];
  row.hold += how_long;
  if (lost) ++row.losses;
}

std::vector<lock_statistics> top_names::report() const {
  std::vector<std::size_t> order(rows_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto const end = order.begin() + static_cast<std::ptrdiff_t>(std::min(shown_, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(ranks_[b], rows_[a].name) < std::tie(ranks_[a], rows_[b].name);
  });
  std::vector<lock_statistics> top;
  for (auto it = order.begin(); it != end; ++it) top.push_back(rows_[*it]);
  return top;
}

}  // namespace conch
