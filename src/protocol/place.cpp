// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/place.hpp"

#include "protocol/server/grant_ids.hpp"
#include "protocol/server/place_keeper.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

place::place(place_keeper& keeper, std::string_view lock_name, engine::permit const& share)
    : engine::place{lock_name, share}, of{&keeper}, check{this, [](void* self, time_point now) {
                                                            auto& s = *static_cast<place*>(self);
                                                            s.of->due(s, now);
                                                          }} {}

place::~place() {
  if (listed_in != nullptr) listed_in->forget(*this);
}

void place::look_later(time_point when) {
  bool const only_one = !permit || follow_up == time_point::max();  // a mutex that is passed on again has no other new owner
  if (only_one) {
    follow_up = when;
    return;
  }
  constexpr std::size_t most = 32;  // far more than a place can pass on within one claim
  if (when < follow_up) std::swap(when, follow_up);
  if (later_follow_ups.size() < most) later_follow_ups.insert(std::upper_bound(later_follow_ups.begin(), later_follow_ups.end(), when), when);
  else later_follow_ups.back() = std::max(later_follow_ups.back(), when);
}

void place::checked_until(time_point now) {
  while (follow_up <= now) {
    follow_up = later_follow_ups.empty() ? time_point::max() : later_follow_ups.front();
    if (!later_follow_ups.empty()) later_follow_ups.erase(later_follow_ups.begin());
  }
}

void place::nothing_to_check() noexcept {
  follow_up = time_point::max();
  later_follow_ups.clear();
}

}  // namespace conch::protocol
