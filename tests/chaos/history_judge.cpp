#include "chaos/history_judge.hpp"

#include "support/history/edn.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace conch::test {

namespace {

constexpr std::int64_t hand_offs_per_grant = 4096;

/// docs/guarantees.md, P1 and P2: what the server lost excludes nobody any more, and a client that has not heard of it
/// may hand it on in memory.
history::operations excused(history::operations all, std::vector<data_loss> const& losses) {
  for (data_loss const& loss : losses) {
    for (history::operation& o : all) {
      if (o.how == history::outcome::granted && o.invoked <= loss.at && o.fence <= loss.to)
        o.excused = std::min(o.excused, loss.at);
    }
    std::erase_if(all, [&](history::operation const& o) {
      bool const in_memory = o.fence % hand_offs_per_grant != 0;
      return o.how == history::outcome::granted && in_memory && o.invoked > loss.at && o.fence <= loss.killed;
    });
  }
  return all;
}

}  // namespace

void history_judge::add(history::operations const& some) {
  for (history::operation const& o : some) by_lock_[o.lock].push_back(o);
}

std::vector<std::string> history_judge::judge(std::vector<data_loss> const& losses) {
  std::vector<std::string> wrong;
  undecided_ = 0;
  for (auto const& [lock, all] : by_lock_) {
    history::verdict const v = history::judge_lock(excused(all, losses), history::specification::mutex());
    if (v.broken()) wrong.push_back("no order explains what the users of a lock were told: " + v.words);
    if (v.is == history::verdict::answer::too_large) ++undecided_;
  }
  return wrong;
}

void history_judge::write(std::string const& directory) const {
  std::filesystem::create_directories(directory);
  int number = 0;
  for (auto const& [lock, all] : by_lock_)
    std::ofstream{directory + "/lock-" + std::to_string(number++) + ".edn"} << history::to_edn(all);
}

std::size_t history_judge::operations() const {
  std::size_t sum = 0;
  for (auto const& [lock, all] : by_lock_) sum += all.size();
  return sum;
}

}  // namespace conch::test
