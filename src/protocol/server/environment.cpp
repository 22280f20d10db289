// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/environment.hpp"

#include <algorithm>

namespace conch::protocol {

milliseconds claim_of(config const& settings, milliseconds lease) {
  bool const known = lease > milliseconds{};  // not of a place that was made to give back a stray grant
  return known ? std::min(whole_ms(settings.claim), lease) : whole_ms(settings.claim);
}

milliseconds kept_at_server(config const& settings, milliseconds lease) {
  return lease + whole_ms(settings.lock_delay);
}

milliseconds kept_from_grant(config const& settings, place const& p) {
  return std::max(kept_at_server(settings, p.lease), p.at_least);
}

milliseconds retention_of(config const& settings, duration lease) {
  return whole_ms(settings.fence_retention + lease + settings.lock_delay);
}

duration sleep_for(config const& settings, milliseconds reported) {
  return std::clamp<duration>(reported, milliseconds{20}, std::max<duration>(10 * settings.claim, milliseconds{20})) +
         milliseconds{5};
}

duration pauses::jitter(duration up_to) {
  auto const range = static_cast<std::uint64_t>(std::max<duration::rep>(up_to.count(), 1));
  return duration{static_cast<duration::rep>(random_.next() % range)};
}

}  // namespace conch::protocol
