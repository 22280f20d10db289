// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/lock_entries.hpp"

#include <string>
#include <utility>

namespace conch::engine {

lock_entries::~lock_entries() {
  singles_.splice_back(unseen_);
  while (!singles_.empty()) delete &singles_.pop_front();
}

lock_entry& lock_entries::get(std::string_view name) {
  if (lock_entry* const known = find(name)) return *known;
  if (spare_ && spare_.key() == name) return *named_.insert(std::move(spare_)).position->second;
  static permit const of_one_owner;
  auto made = std::make_unique<lock_entry>(std::string{name}, owner_, *on_.servers, of_one_owner, false);
  std::string_view const key = made->name;
  return *named_.emplace(key, std::move(made)).first->second;
}

lock_entry& lock_entries::make_single(std::string_view name, permit const& permit) {
  auto* const made = new lock_entry{std::string{name}, owner_, *on_.servers, permit, true};
  singles_.push_back(*made);
  return *made;
}

lock_entry* lock_entries::find(std::string_view name) {
  auto const found = named_.find(name);
  return found == named_.end() ? nullptr : found->second.get();
}

void lock_entries::retire(lock_entry& e) {
  place const& p = *e.place;
  if (e.holder != nullptr || !e.waiting.empty() || p.state != place_state::idle || p.references != 0) return;
  if (e.single) {
    delete &e;
  } else {
    e.watch.cancel();
    spare_ = named_.extract(e.name);
  }
}

}  // namespace conch::engine
