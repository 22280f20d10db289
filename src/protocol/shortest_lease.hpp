// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <algorithm>
#include <span>
#include <variant>

namespace conch::protocol {

/// The shortest lease that a command asks for, without the delay after a loss; max(): it asks for none. A lock may have
/// a lease of its own.
inline duration shortest_lease(command const& c, duration lock_delay) noexcept {
  duration shortest = duration::max();
  auto const of_all = [&](auto const& items) {
    for (auto const& one : items) shortest = std::min<duration>(shortest, one.lease);
  };
  if (auto const* const one = std::get_if<acquire_command>(&c)) return one->lease - lock_delay;
  if (auto const* const all = std::get_if<acquire_all_command>(&c)) of_all(all->items);
  else if (auto const* const renewals = std::get_if<renew_command>(&c)) of_all(renewals->items);
  else if (auto const* const votes = std::get_if<confirm_command>(&c)) of_all(votes->items);
  return shortest == duration::max() ? shortest : shortest - lock_delay;
}

}  // namespace conch::protocol
