#include "sim/judges/lock_history.hpp"

#include "sim/worlds/sim_client.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

namespace conch::sim {

namespace {

using history::action;
using history::nanoseconds;
using history::outcome;

constexpr std::int64_t hand_offs_per_grant = 4096;
/// For one lock: a hundred times what most histories need.
constexpr std::uint64_t most_placements = 20'000;

std::atomic<std::uint64_t> undecided{0};

/// How long after its last user a lock may still be busy: as the judge of single attempts has it.
nanos settling(plan const& p) {
  if (p.calm() && !p.has_delays()) return 60 * (p.latency + p.jitter) + 10 * millisecond + 4 * p.timer_lateness;
  return p.set_back() + 3 * p.longest_lease() + 2 * p.longest_claim() + second;
}

/// A reentrant lock that is acquired again is held twice: of its holds the fences are judged.
std::uint32_t limit_of(plan const& p) {
  if (p.permits == engine::permit_kind::none) return 1;
  return p.permits == engine::permit_kind::reentrant ? std::numeric_limits<std::uint32_t>::max() : p.limit;
}

}  // namespace

lock_history::lock_history(plan const& p) : plan_{p}, locks_(static_cast<std::size_t>(p.names)) {
  specified_ = history::specification::permits(limit_of(p));
  // Among faults a client may be told so by its own process, which does not know yet what has ended elsewhere.
  specified_.busy = p.calm() ? history::specification::busy_rule::wanted : history::specification::busy_rule::anything;
  specified_.settling = settling(p);
}

lock_history::record* lock_history::of(sim_acquisition const& a) {
  if (a.history_number == 0) return nullptr;
  return &locks_[static_cast<std::size_t>(a.lock_number)].records[a.history_number - 1];
}

void lock_history::asked(sim_acquisition& a, nanos now) {
  auto& records = locks_[static_cast<std::size_t>(a.lock_number)].records;
  records.emplace_back();
  a.history_number = records.size();
  history::operation& o = records.back().acquire;
  o.what = a.once ? action::attempt : action::acquire;
  o.lock = name_of(a.lock_number);
  o.process = a.client->id();
  o.hold = a.history_number;
  o.invoked = now;
}

void lock_history::granted(sim_acquisition const& a, nanos now) {
  record* const r = of(a);
  if (r == nullptr) return;
  r->acquire.how = outcome::granted;
  r->acquire.completed = now;
  r->acquire.fence = a.fence;
  r->segment = a.segment;
  if (a.permit) r->acquire.weight = a.permit.weight;
  renewed(a);
}

void lock_history::refused(sim_acquisition const& a, nanos now) {
  record* const r = of(a);
  if (r == nullptr) return;
  r->acquire.how = outcome::refused;
  r->acquire.completed = now;
}

void lock_history::found_busy(sim_acquisition const& a) {
  if (record* const r = of(a)) r->acquire.how = outcome::busy;
}

void lock_history::renewed(sim_acquisition const& a) {
  record* const r = of(a);
  if (r == nullptr || a.phase != engine::acquisition_phase::holding) return;  // what is lost shows no deadline
  r->acquire.deadline = std::max(r->acquire.deadline, a.client->true_time(a.deadline()));
}

void lock_history::extended(sim_acquisition const& a, nanos asked_at, nanos now) {
  record const* const r = of(a);
  if (r == nullptr) return;
  history::operation o = r->acquire;
  o.what = action::extend;
  o.how = outcome::held;
  o.invoked = asked_at;
  o.completed = now;
  o.deadline = 0;  // it is renewed with the acquire
  locks_[static_cast<std::size_t>(a.lock_number)].others.push_back(o);
}

void lock_history::released(sim_acquisition const& a, nanos now) {
  record* const r = of(a);
  if (r == nullptr || r->acquire.how != outcome::granted || r->release.hold != 0) return;
  renewed(a);
  weighed(a);
  r->release = r->acquire;
  r->release.what = action::release;
  r->release.how = outcome::unknown;
  r->release.invoked = now;
  r->release.completed = history::never;
}

void lock_history::release_answered(sim_acquisition const& a, outcome how, nanos now) {
  record* const r = of(a);
  if (r == nullptr || r->release.hold == 0) return;
  r->release.how = how;
  if (how != outcome::unknown) r->release.completed = now;
}

void lock_history::lost(sim_acquisition const& a, nanos now) {
  record* const r = of(a);
  if (r == nullptr || r->lost_at >= 0) return;
  r->lost_at = now;
}

void lock_history::gone(sim_acquisition const& a, nanos now) {
  if (a.active) released(a, now);  // nobody believes in it any more; the server may, for a while
}

void lock_history::weighed(sim_acquisition const& a) {
  record* const r = of(a);
  if (r != nullptr && a.permit) r->acquire.weight = std::min(r->acquire.weight, a.permit.weight);
}

void lock_history::limited(int name, std::int64_t to) {
  std::int64_t& highest = locks_[static_cast<std::size_t>(name)].highest_limit;
  highest = std::max(highest, to);
}

void lock_history::disowned(int name, std::int64_t fence, nanos now) {
  locks_[static_cast<std::size_t>(name)].excuses.push_back({now, fence});
}

void lock_history::clock_forward(nanos now) {
  for (lock& l : locks_) l.excuses.push_back({now, std::numeric_limits<std::int64_t>::max()});
}

void lock_history::fence_forgotten(int name, nanos now) {
  history::operation o;
  o.what = action::forgotten;
  o.lock = name_of(name);
  o.invoked = o.completed = now;
  locks_[static_cast<std::size_t>(name)].others.push_back(o);
}

void lock_history::orphaned(sim_acquisition const& a, nanos since) {
  if (record* const r = of(a)) r->orphaned_at = since;
}

void lock_history::left_out(sim_acquisition const& a) {
  if (record* const r = of(a)) r->is_left_out = true;
}

history::operations lock_history::of_lock(int name) const {
  lock const& l = locks_[static_cast<std::size_t>(name)];
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

history::operations lock_history::all() const {
  history::operations all;
  for (int name = 0; name < plan_.names; ++name) {
    history::operations const of_one = of_lock(name);
    all.insert(all.end(), of_one.begin(), of_one.end());
  }
  return all;
}

void lock_history::tally::add(tally const& other) {
  operations += other.operations;
  grants += other.grants;
  excused += other.excused;
  left_out += other.left_out;
}

lock_history::tally lock_history::counted() const {
  tally t;
  for (lock const& l : locks_) {
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

history::specification lock_history::of_its_limit(int name) const {
  history::specification s = specified_;
  std::int64_t const highest = locks_[static_cast<std::size_t>(name)].highest_limit;
  if (highest > s.limit) s.limit = static_cast<std::uint32_t>(highest);
  return s;
}

/// A segment of a striped lock is a mutex of its own.
std::vector<history::operations> lock_history::parts_of(int name) const {
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

history::verdict lock_history::judged() const {
  history::verdict result;
  for (int name = 0; name < plan_.names; ++name) {
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

std::uint64_t undecided_histories() { return undecided; }

}  // namespace conch::sim
