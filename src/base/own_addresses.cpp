// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/own_addresses.hpp"

#include <algorithm>
#include <cstddef>

namespace conch {

namespace {

constexpr std::size_t most = 64;

}  // namespace

void own_addresses::connected(std::string_view run, std::string_view address) {
  if (run.empty() || run != run_ || all_.size() == most) all_.clear();
  run_ = run;
  if (std::find(all_.begin(), all_.end(), address) == all_.end()) all_.emplace_back(address);
}

bool own_addresses::are_elsewhere(std::vector<std::string> const& found) const {
  return !found.empty() && !all_.empty() &&
         std::find_first_of(found.begin(), found.end(), all_.begin(), all_.end()) == found.end();
}

}  // namespace conch
