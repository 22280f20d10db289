#include "chaos/share_judge.hpp"

#include <algorithm>

namespace conch::test {

namespace {

/// Levels of one owner are one hold.
bool are_one(visit const& a, visit const& b) { return a.owner == b.owner && a.owner != visit::nobody; }

std::string words_of(visit const& v, nanoseconds_of_boot since) {
  auto const ms = [&](nanoseconds_of_boot t) { return std::to_string((t - since) / 1'000'000); };
  return v.who + " (" + std::to_string(v.weight) + " of " + std::to_string(v.limit) + ", fence " +
         std::to_string(v.fence) + ") from " + ms(v.granted) + " to " + ms(v.ended) + " ms";
}

}  // namespace

void share_judge::add(std::vector<visit> const& visits) {
  for (visit const& v : visits) {
    if (v.ended > v.granted) by_lock_[v.lock].push_back(v);  // else it came too late to be believed in
  }
  visits_ += visits.size();
}

std::vector<std::string> share_judge::judge() {
  granted_beside_others_ = 0;
  std::vector<std::string> found, wrong;
  for (auto& [lock, all] : by_lock_) judge_lock(all, found);
  for (std::string const& what : found) {
    if (reported_.insert(what).second) wrong.push_back(what);
  }
  return wrong;
}

void share_judge::judge_lock(std::vector<visit>& all, std::vector<std::string>& wrong) {
  std::stable_sort(all.begin(), all.end(), [](visit const& a, visit const& b) { return a.granted < b.granted; });
  std::vector<visit const*> active;
  for (std::size_t i = 0; i < all.size(); ++i) {
    visit const& v = all[i];
    std::erase_if(active, [&](visit const* a) { return a->ended <= v.granted; });
    active.push_back(&v);
    int sum = 0;
    std::map<std::string, int> of_owner;  // the greatest of its levels counts
    std::string others;
    for (visit const* a : active) {
      if (a->owner == visit::nobody) sum += a->weight;
      else of_owner[a->owner] = std::max(of_owner[a->owner], a->weight);
      if (a != &v && !are_one(*a, v)) others += "; " + words_of(*a, v.granted);
    }
    for (auto const& [owner, weight] : of_owner) sum += weight;
    if (!others.empty()) ++granted_beside_others_;
    if (sum > v.limit)
      wrong.push_back("'" + v.lock + "': " + words_of(v, v.granted) + " believed in its hold beside others" + others);

    for (std::size_t j = 0; j < i; ++j) {
      visit const& a = all[j];
      if (a.fence < v.fence || are_one(a, v)) continue;
      bool const excludes = a.weight + v.weight > v.limit && a.ended <= v.granted;
      if (a.fence == v.fence || excludes)
        wrong.push_back("'" + v.lock + "': the fence did not rise between " + words_of(a, v.granted) + " and " +
                        words_of(v, v.granted));
    }
  }
}

}  // namespace conch::test
