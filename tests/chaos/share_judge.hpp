// Judges all holds of locks that may have several owners, after the fact. Nothing excuses what it finds.
#pragma once

#include "chaos/witness.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace conch::test {

/// The weights of all holds believed valid at one moment never exceed the limit, and a hold that excludes an earlier
/// one has the greater fence. It knows no kinds: a mutex is 1 of 1, a reader 1 of many, a writer all of them. A hold
/// whose process was killed tells nothing, and is not judged.
class share_judge {
 public:
  void add(std::vector<visit> const& visits);
  /// Judges all visits so far. Returns the violations that it has not returned before.
  std::vector<std::string> judge();

  std::size_t visits() const noexcept { return visits_; }
  /// Those that were granted while another client held a share of the same lock: in the last look.
  std::size_t granted_beside_others() const noexcept { return granted_beside_others_; }

 private:
  void judge_lock(std::vector<visit>& all, std::vector<std::string>& wrong);

  std::map<std::string, std::vector<visit>> by_lock_;
  std::set<std::string> reported_;
  std::size_t visits_ = 0, granted_beside_others_ = 0;
};

}  // namespace conch::test
