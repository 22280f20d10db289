// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/checked.hpp"
#include "client/core.hpp"

#include <conch/guard.hpp>
#include <conch/hold.hpp>

#include <utility>

// Guarded writes: what a hold knows of its grant.
namespace conch {

std::string write_guard::grant() const {
  if (key.empty()) return {};
  std::string text = id + ' ' + std::to_string(fence / engine::hand_offs_per_grant);
  if (least_share != 0) text += ' ' + std::to_string(least_share);
  return text;
}

bool write_guard::owns(std::string_view value) const {
  if (key.empty() || least_share != 0) return false;
  return value.starts_with(grant() + ' ');
}

write_guard detail::client_core::guard_of(hold_node const& n) {
  std::string name;
  write_guard g;
  if (!is_here()) return g;
  {
    std::lock_guard const guard{mutex_};
    if (gone_ || n.phase != engine::acquisition_phase::holding || n.lock == nullptr) return g;
    g.id = id_ + '.' + engine::to_text(deployment_.backend->grant_of(*n.lock->place));
    g.fence = n.fence;
    name = n.lock->name;
    if (n.permit) g.least_share = n.permit.kind == engine::permit_kind::shared ? n.permit.weight : 1;
  }
  auto key = target_->guard_key(settings_, name);
  if (!key) {
    detail::refuse(errc::not_supported,
                   "hold::guard(): no script can check the owner of a lock over several servers, in memory, in "
                   "PostgreSQL or in ZooKeeper; send hold::fence() "
                   "with the write");
  }
  g.key = std::move(*key);
  return g;
}

write_guard hold::guard() const { return node_ ? node_->core->guard_of(*node_) : write_guard{}; }

}  // namespace conch
