// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/identity.hpp"
#include "client/checked.hpp"
#include "client/completion.hpp"
#include "client/core.hpp"

#include <conch/reentrant_mutex.hpp>

#include <boost/system/system_error.hpp>

#include <map>
#include <mutex>
#include <utility>

// An owner knows its holds in this process, so that a nested acquire finds them.
namespace conch {

namespace detail {

using level_key = std::pair<client_core const*, std::string>;

struct owner_state {
  std::string const id;
  std::mutex mutex;
  std::map<level_key, shared_hold_ptr> levels;
};

struct shared_hold {
  owner_ptr const by;
  level_key const key;
  hold held;
  std::uint32_t depth = 1;  // with the owner locked
};

namespace {

level_key key_of(settings_ptr const& lock) { return {lock->core.get(), lock->name}; }

std::string in_hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (char const c : bytes) {
    auto const byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4u];
    text += digits[byte & 15u];
  }
  return text;
}

}  // namespace

shared_hold_ptr level_of(owner_ptr const& who, settings_ptr const& lock) {
  std::lock_guard const guard{who->mutex};
  auto const found = who->levels.find(key_of(lock));
  return found == who->levels.end() ? nullptr : found->second;
}

/// One more level, or null if `who` has no valid hold. The levels of a lost hold end by themselves.
shared_hold_ptr enter_again(owner_ptr const& who, settings_ptr const& lock) {
  std::lock_guard const guard{who->mutex};
  auto const found = who->levels.find(key_of(lock));
  if (found == who->levels.end() || !found->second->held.valid()) return nullptr;
  ++found->second->depth;
  return found->second;
}

/// The first level of a new hold. If two coroutines of one owner were granted holds at the same time, nested levels use the younger one.
shared_hold_ptr enter_first(owner_ptr const& who, settings_ptr const& lock, hold h) {
  auto const level = std::make_shared<shared_hold>(shared_hold{who, key_of(lock), std::move(h)});
  std::lock_guard const guard{who->mutex};
  who->levels.insert_or_assign(level->key, level);
  return level;
}

hold leave_level(shared_hold_ptr const& level) noexcept {
  owner_state& state = *level->by;
  std::lock_guard const guard{state.mutex};
  if (--level->depth != 0) return {};
  auto const known = state.levels.find(level->key);
  if (known != state.levels.end() && known->second == level) state.levels.erase(known);
  return std::move(level->held);
}

hold const& hold_of_level(shared_hold const& level) noexcept { return level.held; }

std::uint32_t depth_of_level(shared_hold const& level) noexcept {
  std::lock_guard const guard{level.by->mutex};
  return level.depth;
}

asio::any_io_executor executor_of(shared_hold const* level) noexcept { return executor_of(level != nullptr ? level->held.node().get() : nullptr); }

void start_level_release(shared_hold_ptr level, release_handler handler) {
  if (!level) {
    start_release(node_ref{}, std::move(handler));
    return;
  }
  node_ref node = level->held.node();
  bool const valid = level->held.valid();
  hold const last = leave_level(level);
  if (last) {
    start_release(std::move(node), std::move(handler));
    return;
  }
  post_at_once(node->core->executor(), std::move(handler), error_code{}, valid);
}

permit_request request_of(owner_ptr const& who) { return {'e', most_permits, 1, in_hex(who->id)}; }

}  // namespace detail

owner::owner() : owner{detail::new_client_id()} {}

owner::owner(std::string id) {
  if (id.empty() || id.size() > 64) {
    throw boost::system::system_error{make_error_code(errc::invalid_name, "an owner's id must have 1 to 64 bytes")};
  }
  state_ = std::make_shared<detail::owner_state>(std::move(id));
}

std::string const& owner::id() const noexcept { return state_->id; }

reentrant_mutex::reentrant_mutex(client& through, std::string name, lock_options options)
    : named_lock{detail::checked_lock(through.core(), std::move(name), options, lock_status::kind_of_lock::reentrant_mutex, detail::most_permits)} {}

bool reentrant_mutex::held_by(owner const& who) const {
  auto const level = detail::level_of(who.state(), lock_);
  return level && detail::hold_of_level(*level).valid();
}

}  // namespace conch
