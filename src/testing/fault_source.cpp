// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "testing/fault_source.hpp"

#include <array>

namespace conch::testing {

fault_source::fault_source(std::optional<faults> const& drawn, dice below) : below_{std::move(below)} {
  if (!drawn) return;
  std::pair<bool, kind> const all[] = {{drawn->pauses, kind::pause},
                                       {drawn->cuts, kind::cut},
                                       {drawn->restarts, kind::restart},
                                       {drawn->losses, kind::loss},
                                       {drawn->data_losses, kind::data_loss}};
  for (auto const& [is_drawn, which] : all) {
    if (is_drawn) kinds_.push_back(which);
  }
  has_pauses_ = drawn->pauses;
  if (kinds_.empty()) return;
  // Some worlds have none. In others they come early or late: a body has ten handlers or ten thousand.
  left_ = below_(5);
  one_in_ = std::uint64_t{8} << (2 * below_(5));
}

std::optional<fault_source::kind> fault_source::after_handler() {
  if (left_ == 0 || below_(one_in_) != 0) return std::nullopt;
  --left_;
  return kinds_[below_(kinds_.size())];
}

bool fault_source::before_access() {
  if (!has_pauses_ || left_ == 0 || below_(4) != 0) return false;
  --left_;
  return true;
}

/// Around what matters: round trips, claims (3 s), leases (30 s).
duration fault_source::length() {
  constexpr std::array<int, 6> lengths{5, 50, 500, 5'000, 32'000, 40'000};
  return std::chrono::milliseconds{lengths[below_(lengths.size())]};
}

}  // namespace conch::testing
