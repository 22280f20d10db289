// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/votes.hpp"

#include <optional>

namespace conch::protocol {

void votes::ask(server_place& p, vote_terms const& terms, bool wait, milliseconds lease, time_point now) {
  p.vote.terms = terms;
  p.vote.seen = {};
  p.vote.accepted = p.vote.refused_by = 0;
  asks_.ask(p, wait, lease, now);
}

void votes::hold(server_place& p, vote_terms const& terms, milliseconds lease) noexcept {
  p.vote.terms = terms;
  p.lease = lease;
}

void votes::renew(std::span<server_place* const> all, time_point now) {
  if (on_.link.connected()) renews_.send(all, {}, now);
}

void votes::give_back(server_place& p, vote_terms const& terms, receipt* r, time_point now) {
  p.vote.terms = terms;
  if (p.state == place_state::owned) asks_.release(p, std::nullopt, r, now);
  else asks_.give_up(p, r, now);
}

}  // namespace conch::protocol
