// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/grant_ids.hpp"

#include "protocol/server_place.hpp"
#include "protocol/wire.hpp"

namespace conch::protocol {

/// Otherwise a client that may publish to our channel could grant us a lock that another client owns.
grant_id grant_ids::next() {
  ++last_;
  return {last_, nonces_.next()};
}

/// The clocks that tickets come from may be set back, but not by chance to the same microsecond at the same count.
grant_id grant_ids::next(server_place const& p) {
  if (p.vote.terms.ticket == 0) return next();
  ++last_;
  constexpr auto most = static_cast<std::uint64_t>(attempts_per_ticket);
  std::uint64_t const attempt = last_ % most;
  std::uint64_t const count = static_cast<std::uint64_t>(p.vote.terms.ticket) * most + attempt;
  return {count, nonces_.next()};
}

void grant_ids::enter(server_place& p) {
  BOOST_ASSERT_MSG(p.id.count != 0, "a place without an id");
  if (!p.permit && !p.adopts()) return;
  places_.emplace(p.id, &p);
  p.listed_in = this;
}

void grant_ids::forget(server_place& p) noexcept {
  auto const known = places_.find(p.id);
  if (known != places_.end() && known->second == &p) places_.erase(known);
}

server_place* grant_ids::place_of(grant_id id) const {
  auto const found = places_.find(id);
  return found == places_.end() ? nullptr : found->second;
}

}  // namespace conch::protocol
