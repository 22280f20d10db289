// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/wait_walk.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace conch::engine {

namespace {

constexpr std::size_t longest_chain = 100;
/// After so many circles that differ each time the walk gives up: a deadlock stays as it is.
constexpr int most_circles = 4;

}  // namespace

bool wait_link::is_still(wait_link const& other) const {
  return lock == other.lock && holder.fence == other.holder.fence && client == other.client && task == other.task &&
         since_us == other.since_us;
}

void wait_walk::end(ending how) {
  how_ = how;
  next_.reset();
}

/// Why the task of the last link does not wait for the holder of this lock. None: it does.
std::optional<wait_walk::ending> wait_walk::why_not(lock_report const& r) {
  auto const is_mine = [this](auto const& one) { return detail::id_of(one.client) == waits_as_; };
  links_.back().since_us = 0;
  // A wait for a mutex that its own client holds is not in the queue: the client hands it on itself.
  if (r.kind == permit_kind::none && std::any_of(r.owners.begin(), r.owners.end(), is_mine)) return std::nullopt;
  auto const w = std::find_if(r.waiters.begin(), r.waiters.end(), is_mine);
  if (w == r.waiters.end()) return r.waiting > r.waiters.size() ? ending::unknown : ending::works;
  // Else it waits for another waiter before it in the queue, which may be dead.
  // An owner of a reentrant_mutex takes one of its permits, and keeps all other owners out.
  bool const has_room = r.kind != permit_kind::none && r.kind != permit_kind::reentrant;
  if (has_room && r.taken + w->permits <= r.limit) return ending::unknown;
  links_.back().since_us = w->since_us;
  return std::nullopt;
}

void wait_walk::answer(lock_report const& r) {
  std::string lock = std::move(next_->name);
  if (auto const gone = links_.empty() ? std::nullopt : why_not(r)) return end(*gone);
  if (r.held == 0) return end(ending::free);
  if (r.held > 1 || r.owners.size() != 1) {
    links_.push_back({.lock = std::move(lock)});
    return end(ending::several);
  }
  lock_report::owner const& holder = r.owners.front();
  auto const same = std::find_if(links_.begin(), links_.end(), [&](wait_link const& one) {
    return one.lock == lock && one.holder.fence == holder.fence;
  });
  if (same != links_.end()) return close_circle(static_cast<std::size_t>(same - links_.begin()));
  if (links_.size() == longest_chain) return end(ending::unknown);
  links_.push_back({.lock = std::move(lock), .holder = holder, .client = detail::id_of(holder.client)});
  next_ = question{question::of::client, links_.back().client};
}

void wait_walk::answer(introduction const& i) {
  wait_link& last = links_.back();
  if (next_->what == question::of::client) {
    last.label = i.label;
    auto const use = std::find_if(i.uses.begin(), i.uses.end(), [&](introduction::use const& one) {
      return one.lock == last.lock && one.fence == last.holder.fence;
    });
    if (use == i.uses.end()) return end(ending::unknown);
    last.note = use->note;
    last.task = use->with;
    if (last.task.empty()) return end(ending::unknown);
    next_ = question{question::of::task, last.task};
    return;
  }
  if (i.uses.empty()) return end(ending::works);
  if (i.uses.size() > 1) return end(ending::unknown);  // perhaps any of them would do
  waits_as_ = i.uses.front().with;
  next_ = question{question::of::lock, i.uses.front().lock};
}

std::size_t wait_walk::youngest() const {
  auto const waits_less = [](wait_link const& a, wait_link const& b) {
    return std::tie(a.since_us, a.client, a.task) < std::tie(b.since_us, b.client, b.task);
  };
  auto const first = links_.begin() + static_cast<std::ptrdiff_t>(circle_);
  return static_cast<std::size_t>(std::max_element(first, links_.end(), waits_less) - links_.begin());
}

bool wait_walk::is_to_end(std::string_view client, std::string_view task, std::string_view lock) const {
  if (how_ != ending::deadlock) return false;
  std::size_t const one = youngest();
  std::size_t const next = one + 1 == links_.size() ? circle_ : one + 1;
  return links_[one].client == client && links_[one].task == task && links_[next].lock == lock;
}

void wait_walk::close_circle(std::size_t at) {
  std::vector<wait_link> circle{links_.begin() + static_cast<std::ptrdiff_t>(at), links_.end()};
  bool const is_same = std::equal(circle.begin(), circle.end(), seen_.begin(), seen_.end(),
                                  [](wait_link const& a, wait_link const& b) { return a.is_still(b); });
  circle_ = at;
  if (is_same) return end(ending::deadlock);
  if (++circles_ == most_circles) return end(ending::unknown);
  seen_ = std::move(circle);
  links_.resize(at + 1);
  next_ = question{question::of::client, links_.back().client};
}

}  // namespace conch::engine
