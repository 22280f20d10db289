// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/locks.hpp"

#include <string>
#include <utility>

namespace conch::quorum {

keeping::~keeping() {
  --b_.keepers;
  b_.in.retire(b_);
}

quorum_lock* locks::find(std::string_view name) {
  auto const found = locks_.find(name);
  return found == locks_.end() ? nullptr : found->second.get();
}

quorum_lock& locks::get(std::string_view name) {
  if (quorum_lock* const known = find(name)) return *known;
  auto made = std::make_unique<quorum_lock>(*this, events_, servers_, std::string{name});
  std::string_view const key = made->name;
  return *locks_.emplace(key, std::move(made)).first->second;
}

void locks::retire(quorum_lock& q) {
  if (q.keepers != 0 || q.phase != lock_phase::idle) return;
  for (auto const& v : q.votes) {
    if (v->place.state != engine::place_state::idle || v->place.references != 0) return;
  }
  locks_.erase(locks_.find(q.name));
}

}  // namespace conch::quorum
