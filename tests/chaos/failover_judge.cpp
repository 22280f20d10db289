#include "chaos/failover_judge.hpp"

#include <algorithm>
#include <limits>

namespace conch::test {

namespace {

using namespace std::chrono_literals;

constexpr nanoseconds_of_boot never = std::numeric_limits<nanoseconds_of_boot>::max();

/// By then Sentinels make a replica of a former master that is alive (Redis: four pings, and its publish period).
constexpr auto demotion = 12s;

std::string worker_of(visit const& v) { return v.who.substr(0, v.who.rfind('.')); }

}  // namespace

void failover_judge::add(std::vector<visit> const& visits) {
  for (visit const& v : visits) {
    if (v.ended > v.granted) by_lock_[v.lock].push_back(v);  // else it came too late to be believed in
  }
  visits_ += visits.size();
}

void failover_judge::add(std::vector<arrival> const& arrivals) {
  for (arrival const& a : arrivals) by_worker_[a.worker].push_back(a);
}

std::vector<std::string> failover_judge::judge(std::vector<promotion> const& promotions,
                                               std::vector<standstill> const& standstills) {
  promotions_.resize(1);
  promotions_.insert(promotions_.end(), promotions.begin(), promotions.end());
  standstills_ = standstills;
  std::vector<std::string> wrong;
  for (auto& [lock, all] : by_lock_) {
    std::sort(all.begin(), all.end(), [](visit const& a, visit const& b) { return a.granted < b.granted; });
    visit const* greatest = nullptr;
    for (std::size_t i = 0; i < all.size(); ++i) {
      visit const& a = all[i];
      // Both are believed in at the same time ...
      for (std::size_t j = i + 1; j < all.size() && all[j].granted < a.ended; ++j) {
        visit const& b = all[j];
        judge_pair({a.fence < b.fence ? a : b, a.fence < b.fence ? b : a, b.granted, std::min(a.ended, b.ended)},
                   wrong);
      }
      // ... or one after the other, with a smaller fence.
      if (greatest != nullptr && greatest->fence > a.fence && greatest->ended <= a.granted)
        judge_pair({a, *greatest, a.granted, a.granted}, wrong);
      if (greatest == nullptr || a.fence > greatest->fence) greatest = &a;
    }
  }
  return wrong;
}

void failover_judge::judge_pair(pair const& p, std::vector<std::string>& wrong) {
  std::pair const fences{p.lower.fence, p.higher.fence};
  if (is_explained(p)) {
    explained_.insert(fences);
    longest_ = std::max(longest_, p.to - p.from);
    if (all_well(p)) longest_of_the_well_ = std::max(longest_of_the_well_, p.to - p.from);
    return;
  }
  if (!unexplained_.insert(fences).second) return;
  auto const ms = [&](nanoseconds_of_boot t) { return std::to_string((t - p.lower.granted) / 1'000'000); };
  std::string text = "'" + p.lower.lock + "': " + p.lower.who + " with fence " + std::to_string(p.lower.fence) +
                     " believed in its hold until " + ms(p.lower.ended) + " ms after its grant, and " + p.higher.who +
                     " with fence " + std::to_string(p.higher.fence) + " from " + ms(p.higher.granted) + " to " +
                     ms(p.higher.ended) + " ms";
  for (promotion const& one : promotions_) {
    text += "; " + std::to_string(one.port) + " promoted at " + ms(one.from) + " to " + ms(one.to) +
            (one.lossless ? " without loss" : "");
  }
  for (visit const* v : {&p.lower, &p.higher}) {
    for (arrival const& a : by_worker_[worker_of(*v)])
      text += "; " + a.worker + " at " + std::to_string(a.port) + " at " + ms(a.at);
  }
  wrong.push_back(text);
}

bool failover_judge::is_explained(pair const& p) const {
  for (std::size_t i = 1; i < promotions_.size(); ++i) {
    promotion const& one = promotions_[i];
    if (one.lossless || one.from > p.from) continue;
    if (p.to > one.to + in_ns(demotion) + in_ns(lease_) + in_ns(asking)) continue;
    if (p.to <= std::max(asked(p.lower, i), asked(p.higher, i))) return true;
  }
  return false;
}

/// Until when its client had certainly asked a master of that promotion, or of a later one, what became of its holds.
nanoseconds_of_boot failover_judge::asked(visit const& v, std::size_t promoted) const {
  promotion const& one = promotions_[promoted];
  auto const found = by_worker_.find(worker_of(v));
  if (found == by_worker_.end()) return never;
  for (arrival const& a : found->second) {
    if (a.at < one.from || a.port != last_before(a.at).port) continue;
    std::string const port = std::to_string(a.port);
    nanoseconds_of_boot until = a.at + in_ns(asking);
    for (standstill const& s : standstills_) {  // in the order of their begins
      if ((s.who == port || s.who == a.worker) && s.from <= until && s.to >= a.at)
        until = std::max(until, s.to == never ? never : s.to + in_ns(asking));
    }
    return until;
  }
  return never;
}

/// The last, if there are several within one look at the servers.
promotion const& failover_judge::last_before(nanoseconds_of_boot t) const {
  promotion const* last = &promotions_.front();
  for (promotion const& one : promotions_) {
    if (one.from <= t) last = &one;
  }
  return *last;
}

bool failover_judge::all_well(pair const& p) const {
  std::string const lower = worker_of(p.lower), higher = worker_of(p.higher);
  return std::none_of(standstills_.begin(), standstills_.end(), [&](standstill const& s) {
    bool const about = s.who == lower || s.who == higher || s.who == std::to_string(last_before(p.to).port);
    return about && s.from <= p.to && s.to >= p.from;
  });
}

}  // namespace conch::test
