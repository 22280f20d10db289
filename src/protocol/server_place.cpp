// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server_place.hpp"

#include "protocol/server/grant_ids.hpp"
#include "protocol/server/place_keeper.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

server_place::server_place(place_keeper& keeper, std::string_view lock_name, engine::permit const& share)
    : engine::place{lock_name, share},
      of{&keeper},
      check{this, [](server_place& p, time_point now) { p.of->due(p, now); }} {}

server_place::~server_place() {
  if (listed_in != nullptr) listed_in->forget(*this);
}

void successor::look_later(time_point when, bool of_permit) {
  if (!of_permit || !any()) {  // a mutex that is passed on again has no other new owner
    next_ = when;
    return;
  }
  constexpr std::size_t most = 32;  // far more than a place can pass on within one claim
  if (when < next_) std::swap(when, next_);
  if (later_.size() < most) later_.insert(std::upper_bound(later_.begin(), later_.end(), when), when);
  else later_.back() = std::max(later_.back(), when);
}

void successor::checked_until(time_point now) {
  while (next_ <= now) {
    next_ = later_.empty() ? time_point::max() : later_.front();
    if (!later_.empty()) later_.erase(later_.begin());
  }
}

void successor::nothing_to_check() noexcept {
  next_ = time_point::max();
  later_.clear();
}

}  // namespace conch::protocol
