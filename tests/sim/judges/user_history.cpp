#include "sim/judges/user_history.hpp"

#include "sim/judges/observer.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <utility>

namespace conch::sim {

namespace {

using history::action;
using history::nanoseconds;
using history::outcome;

constexpr std::int64_t hand_offs_per_grant = 4096;
/// For one lock: a hundred times what most histories need.
constexpr std::uint64_t most_placements = 20'000;

std::atomic<std::uint64_t> undecided{0};

}  // namespace

user_history::user_history(int locks, history::specification const& of_each)
    : specified_{of_each},
      locks_(static_cast<std::size_t>(locks)) {}

user_history::record* user_history::of(acquire_key const& a) {
  if (a.number == 0) return nullptr;
  return &locks_[static_cast<std::size_t>(a.lock)].records[a.number - 1];
}

acquire_key user_history::asked(int lock, bool once, std::string process, nanos now) {
  auto& records = locks_[static_cast<std::size_t>(lock)].records;
  records.emplace_back();
  history::operation& o = records.back().acquire;
  o.what = once ? action::attempt : action::acquire;
  o.lock = name_of(lock);
  o.process = std::move(process);
  o.hold = records.size();
  o.invoked = now;
  return {lock, records.size()};
}

void user_history::granted(acquire_key const& a, std::int64_t fence, nanos now, std::uint32_t permits) {
  record* const r = of(a);
  if (r == nullptr) return;
  r->acquire.how = outcome::granted;
  r->acquire.completed = now;
  r->acquire.fence = fence;
  r->acquire.weight = permits;
}

void user_history::refused(acquire_key const& a, nanos now) {
  record* const r = of(a);
  if (r == nullptr) return;
  r->acquire.how = outcome::refused;
  r->acquire.completed = now;
}

void user_history::found_busy(acquire_key const& a) {
  if (record* const r = of(a)) r->acquire.how = outcome::busy;
}

void user_history::good_until(acquire_key const& a, nanos deadline) {
  if (record* const r = of(a)) r->acquire.deadline = deadline;
}

void user_history::extended(acquire_key const& a, nanos asked_at, nanos now) {
  record const* const r = of(a);
  if (r == nullptr) return;
  history::operation o = r->acquire;
  o.what = action::extend;
  o.how = outcome::held;
  o.invoked = asked_at;
  o.completed = now;
  o.deadline = 0;  // it is renewed with the acquire
  locks_[static_cast<std::size_t>(a.lock)].others.push_back(o);
}

void user_history::released(acquire_key const& a, nanos now) {
  record* const r = of(a);
  if (r == nullptr || r->acquire.how != outcome::granted || r->release.hold != 0) return;
  r->release = r->acquire;
  r->release.what = action::release;
  r->release.how = outcome::unknown;
  r->release.invoked = now;
  r->release.completed = history::never;
}

void user_history::release_answered(acquire_key const& a, outcome how, nanos now) {
  record* const r = of(a);
  if (r == nullptr || r->release.hold == 0) return;
  r->release.how = how;
  if (how != outcome::unknown) r->release.completed = now;
}

void user_history::lost(acquire_key const& a, nanos now) {
  record* const r = of(a);
  if (r != nullptr && r->lost_at < 0) r->lost_at = now;
}

void user_history::weighs(acquire_key const& a, std::uint32_t permits) {
  if (record* const r = of(a)) r->acquire.weight = std::min(r->acquire.weight, permits);
}

void user_history::has_segment(acquire_key const& a, std::uint32_t segment) {
  if (record* const r = of(a)) r->segment = segment;
}

void user_history::limited(int lock, std::int64_t to) {
  std::int64_t& highest = locks_[static_cast<std::size_t>(lock)].highest_limit;
  highest = std::max(highest, to);
}

void user_history::disowned(int lock, std::int64_t fence, nanos now) {
  locks_[static_cast<std::size_t>(lock)].excuses.push_back({now, fence});
}

void user_history::all_disowned(nanos now) {
  for (of_a_lock& l : locks_) l.excuses.push_back({now, std::numeric_limits<std::int64_t>::max()});
}

void user_history::fence_forgotten(int lock, nanos now) {
  history::operation o;
  o.what = action::forgotten;
  o.lock = name_of(lock);
  o.invoked = o.completed = now;
  locks_[static_cast<std::size_t>(lock)].others.push_back(o);
}

void user_history::orphaned(acquire_key const& a, nanos since) {
  if (record* const r = of(a)) r->orphaned_at = since;
}

void user_history::left_out(acquire_key const& a) {
  if (record* const r = of(a)) r->is_left_out = true;
}

history::operations user_history::of_lock(int name) const {
  of_a_lock const& l = locks_[static_cast<std::size_t>(name)];
  history::operations all;
  all.reserve(2 * l.records.size() + l.others.size());
  for (record const& r : l.records) {
    if (r.is_left_out) continue;
    all.push_back(r.acquire);
    nanoseconds& excused = all.back().excused;
    if (r.orphaned_at >= 0) excused = r.orphaned_at;
    for (excuse const& e : l.excuses) {
      if (r.acquire.fence / hand_offs_per_grant <= e.fence && r.acquire.invoked <= e.at)
        excused = std::min(excused, e.at);
    }
    if (r.release.hold != 0) all.push_back(r.release);
    if (r.lost_at < 0) continue;
    history::operation o = r.acquire;
    o.what = action::lost;
    o.how = outcome::not_held;
    o.invoked = o.completed = r.lost_at;
    all.push_back(o);
  }
  all.insert(all.end(), l.others.begin(), l.others.end());
  return all;
}

history::operations user_history::all() const {
  history::operations all;
  for (int name = 0; name < static_cast<int>(locks_.size()); ++name) {
    history::operations const of_one = of_lock(name);
    all.insert(all.end(), of_one.begin(), of_one.end());
  }
  return all;
}

void user_history::tally::add(tally const& other) {
  operations += other.operations;
  grants += other.grants;
  excused += other.excused;
  left_out += other.left_out;
}

user_history::tally user_history::counted() const {
  tally t;
  for (of_a_lock const& l : locks_) {
    for (record const& r : l.records) t.left_out += r.is_left_out ? 1U : 0U;
  }
  for (history::operation const& o : all()) {
    ++t.operations;
    if (o.how != outcome::granted) continue;
    ++t.grants;
    if (o.excused != history::never) ++t.excused;
  }
  return t;
}

history::specification user_history::of_its_limit(int name) const {
  history::specification s = specified_;
  std::int64_t const highest = locks_[static_cast<std::size_t>(name)].highest_limit;
  if (highest > s.limit) s.limit = static_cast<std::uint32_t>(highest);
  return s;
}

/// A segment of a striped lock is a mutex of its own.
std::vector<history::operations> user_history::parts_of(int name) const {
  history::operations const whole = of_lock(name);
  std::map<std::uint32_t, history::operations> parts;
  std::vector<record> const& records = locks_[static_cast<std::size_t>(name)].records;
  for (history::operation const& o : whole) {
    std::uint32_t const segment = o.hold != 0 ? records[o.hold - 1].segment : 0;
    if (segment != 0) parts[segment].push_back(o);
  }
  std::vector<history::operations> all;
  for (auto& [segment, operations] : parts) {
    for (history::operation const& o : whole) {
      if (o.what == action::forgotten) operations.push_back(o);
    }
    all.push_back(std::move(operations));
  }
  return all;
}

history::verdict user_history::judged() const {
  history::verdict result;
  for (int name = 0; name < static_cast<int>(locks_.size()); ++name) {
    history::verdict v = history::judge_lock(of_lock(name), of_its_limit(name), most_placements);
    if (v.broken()) return v;
    if (v.is == history::verdict::answer::too_large) result = v;
    for (history::operations const& part : parts_of(name)) {
      v = history::judge_lock(part, history::specification::mutex(), most_placements);
      if (v.broken()) return v;
      if (v.is == history::verdict::answer::too_large) result = v;
    }
  }
  if (result.is == history::verdict::answer::too_large) ++undecided;
  return result;
}

void user_history::demand_order() const {
  if (history::verdict const v = judged(); v.broken()) throw violation{of_the_history, v.words};
}

std::uint64_t undecided_histories() { return undecided; }

}  // namespace conch::sim
