// Holders that are asked to let go: they are told if they listen, and only if a client asks.
#include "sim/judges/observer.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <limits>

namespace conch::sim {

namespace {

using phase = engine::acquisition_phase;

}  // namespace

/// A script has asked these owners; or perhaps has, when it failed.
void observer::requested(owner_fences const& owners, bool surely) {
  constexpr nanos perhaps = std::numeric_limits<nanos>::max();
  for (auto const& [id, fence] : owners) {
    request_seen& known = requests_.try_emplace(id, request_seen{perhaps, fence}).first->second;
    if (surely) known = {world_.now(), fence};
  }
}

void observer::told_of_request(sim_acquisition& a) {
  ++requests_told_;
  std::string const who = holder_words(a) + " was told that another client asks for it";
  if (std::exchange(a.told_of_request, true)) throw violation{11, who + " twice"};
  if (a.told) throw violation{11, who + " after its loss"};
  // then a request may be of an earlier owner
  bool const fences_repeat = plan_.has(fault_plan::kind::spoil_fence, a.lock_number);
  if (!requests_.contains(owner_id(a)) && !fences_repeat) throw violation{11, who + ", which none does"};
  heard_.insert(owner_id(a));
}

/// Once a holder knows of it, the grant is not handed on in memory: the asker is in another process, or queued as well.
void observer::not_handed_on_though_asked(sim_acquisition const& a) const {
  if (heard_.contains(owner_id(a)))
    throw violation{5, holder_words(a) + " was handed it in memory, though another client had asked for it"};
}

/// A listener receives a request as soon as the network allows; on a new connection too, if the server still knows it.
void observer::heard_of_requests(sim_acquisition const& a) const {
  if (a.listens_since < 0 || a.told_of_request || a.phase != phase::holding) return;
  auto const asked = requests_.find(owner_id(a));
  if (asked == requests_.end() || asked->second.at > world_.now()) return;
  if (asked->second.fence != a.fence / engine::hand_offs_per_grant) return;
  if (plan_.has({fault_plan::kind::deny})) return;  // it may be connected and receive nothing
  sim_client const& c = *a.client;
  auto const well = well_since(c, a.lock_number);
  if (!well) return;
  if (*well > asked->second.at && !knows_request(a)) return;
  nanos const since = std::max({*well, asked->second.at, a.listens_since, a.granted_at});
  nanos const needed = 10 * (plan_.latency + plan_.jitter + plan_.timer_lateness) + 5 * millisecond;
  if (world_.now() - since > needed) {
    throw violation{4, holder_words(a) + " was asked for it " + std::to_string((world_.now() - since) / millisecond) +
                           " ms ago, and was not told"};
  }
}

bool observer::knows_request(sim_acquisition const& a) const {
  std::string const key = keys_[static_cast<std::size_t>(a.lock_number)] + ":r";
  value const requests = world_.keys_of(a.lock_number).with(key).peek(key);
  std::string const fence = std::to_string(a.fence / engine::hand_offs_per_grant);
  for (std::size_t i = 0; i + 1 < requests.items.size(); i += 2) {
    if (requests.items[i].text == fence) return true;
  }
  return false;
}

}  // namespace conch::sim
