// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/votes.hpp"

#include <optional>

namespace conch::protocol {

void votes::ask(place& s, vote_terms const& terms, bool wait, milliseconds lease, time_point now) {
  s.vote.terms = terms;
  s.vote.seen = {};
  s.vote.accepted = s.vote.refused_by = 0;
  asks_.ask(s, wait, lease, now);
}

void votes::hold(place& s, vote_terms const& terms, milliseconds lease) noexcept {
  s.vote.terms = terms;
  s.lease = lease;
}

void votes::renew(std::span<place* const> all, time_point now) {
  if (on_.link.connected()) renews_.send(all, {}, now);
}

void votes::give_back(place& s, vote_terms const& terms, receipt* r, time_point now) {
  s.vote.terms = terms;
  if (s.at == place::state::owned) asks_.release(s, std::nullopt, r, now);
  else asks_.give_up(s, r, now);
}

}  // namespace conch::protocol
