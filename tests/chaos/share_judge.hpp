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
  void heard(std::vector<visit> const& visits);
  /// All of them so far. Says what is wrong and was not said before.
  std::vector<std::string> judge();

  std::size_t visits() const noexcept { return heard_; }
  /// Those that were granted while another client held a share of the same lock: in the last look.
  std::size_t beside_others() const noexcept { return beside_others_; }

 private:
  void look_at(std::vector<visit>& all, std::vector<std::string>& wrong);

  std::map<std::string, std::vector<visit>> by_lock_;
  std::set<std::string> said_;
  std::size_t heard_ = 0, beside_others_ = 0;
};

}  // namespace conch::test
