// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/server.hpp"

#include "base/introduction.hpp"
#include "engine/backend.hpp"
#include "servers/simulated/link.hpp"

#include <algorithm>

namespace conch::simulated {

namespace {

/// Whom the server names when the world itself asks it.
constexpr std::string_view no_client = "00000000000000000000000000000000";

/// How long the next owner has to renew, as config::claim is by default.
constexpr std::chrono::milliseconds claim{3'000};

}  // namespace

memory::store& server::store(std::string const& name) {
  auto& found = stores_[name];
  if (!found) found = std::make_unique<memory::store>();
  return *found;
}

void server::granted(std::string_view lock, engine::permit_kind kind, std::int64_t fence) {
  bool const has_one_owner = kind == engine::permit_kind::none || kind == engine::permit_kind::reentrant;
  if (has_one_owner && !voted_on_.contains(lock)) world_.granted(lock, fence * engine::hand_offs_per_grant);
}

void server::restart(bool keeps_data) {
  world_.note(name_, keeps_data ? "restarts with its data" : "restarts without its data");
  is_up_ = false;
  for (link* const l : links_) l->broken("the server restarts");
  if (!keeps_data) {
    stores_.clear();
    locks_.clear();
    nodes_.lose_data();
  }
  ++runs_;
  duration const down = std::chrono::milliseconds{10 + world_.below(491)};
  world_.later(down, [this, run = runs_] {
    if (run != runs_) return;
    is_up_ = true;
    started_us_ = world_.clock_us();
    nodes_.touch_all();
    world_.note(name_, "is up again");
  });
}

void server::cut(std::string_view client) {
  for (link* const l : links_) {
    if (l->client_id() == client) l->broken("connection reset");
  }
}

std::string server::force(std::int64_t token) {
  std::int64_t const fence = token / engine::hand_offs_per_grant;
  for (auto const& [in, name] : locks_) {
    protocol::force_command const c{
        .name = name, .claim = claim, .retention = std::chrono::minutes{10}, .fence = fence};
    if (store(in).carry_out(c, no_client, world_.clock_us()).count > 0) return name;
  }
  for (ensemble::place const& one : nodes_.places()) {
    if (!one.is_granted || one.fence != fence) continue;
    nodes_.remove(one.path);
    return one.lock;
  }
  return {};
}

std::vector<server::grant> server::grants() {
  std::vector<grant> all;
  for (auto const& [in, name] : locks_) {
    auto const report = store(in).carry_out(protocol::inspect_command{.name = name}, no_client, world_.clock_us());
    for (auto const& owner : report.owners)
      all.push_back({name, detail::id_of(owner.client), owner.fence * engine::hand_offs_per_grant, report.waiting});
    if (report.owners.empty() && report.waiting > 0) all.push_back({name, "", 0, report.waiting});
  }
  auto const places = nodes_.places();
  for (ensemble::place const& one : places) {
    if (!one.is_granted) continue;
    auto const waiting = std::count_if(places.begin(), places.end(),
                                       [&](auto const& other) { return other.lock == one.lock && !other.is_granted; });
    all.push_back({one.lock, one.client, one.fence * engine::hand_offs_per_grant, static_cast<std::uint64_t>(waiting)});
  }
  return all;
}

bool server::holds(std::int64_t token) {
  auto const all = grants();
  return std::any_of(all.begin(), all.end(), [of = token / engine::hand_offs_per_grant](grant const& g) {
    return g.token / engine::hand_offs_per_grant == of;
  });
}

bool server::exists(std::string_view client) const {
  return std::any_of(links_.begin(), links_.end(), [&](link const* l) { return l->client_id() == client; });
}

std::string server::name_of(std::string_view client) const {
  auto const found =
      std::find_if(links_.begin(), links_.end(), [&](link const* l) { return l->client_id() == client; });
  return found == links_.end() ? "a client that is gone" : (*found)->who();
}

}  // namespace conch::simulated
