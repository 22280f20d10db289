// What shows that a change which only moves code has changed nothing.
#include "sim/digest.hpp"
#include "sim/every_world.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace conch::sim {
namespace {

constexpr std::uint64_t few = 4;

TEST(SimulationDigest, IsTheSameTwiceAndOnSeveralThreads) {
  for (kind_of_world const& w : every_world()) {
    std::uint64_t const once = digest_of(w, 1, few, 1);
    EXPECT_EQ(digest_of(w, 1, few, 1), once) << w.name;
    EXPECT_EQ(digest_of(w, 1, few, 3), once) << w.name;
  }
}

TEST(SimulationDigest, DiffersBetweenWorldsAndSeeds) {
  std::set<std::uint64_t> seen;
  for (kind_of_world const& w : every_world()) {
    EXPECT_TRUE(seen.insert(digest_of(w, 1, few, 2)).second) << w.name;
    EXPECT_TRUE(seen.insert(digest_of(w, 2, few, 2)).second) << w.name;
  }
}

// A fault changes what is sent long before a judge sees it.
TEST(SimulationDigest, ChangesWithWhatTheScriptsAndTheClientDo) {
  kind_of_world const& w = every_world().front();
  for (char const* const name : {"no-drift", "usual-fence-forgotten"}) {
    std::uint64_t changed = 0;
    for (std::uint64_t k = 0; k < 200 && changed == 0; ++k) {
      std::uint64_t const before = digest_of(w, seed_at(1, k));
      activate(find_mutant(name));
      std::uint64_t const after = digest_of(w, seed_at(1, k));
      activate(nullptr);
      if (before != after) ++changed;
    }
    EXPECT_NE(changed, 0u) << name;
  }
}

TEST(SimulationDigest, CountsBytesThatNoTraceShows) {
  kind_of_world const quiet{"quiet", "", [](std::uint64_t, bool) {
                              note_sent(1, "a");
                              return outcome{};
                            }};
  kind_of_world const other{"other", "", [](std::uint64_t, bool) {
                              note_sent(1, "b");
                              return outcome{};
                            }};
  EXPECT_NE(digest_of(quiet, 1), digest_of(other, 1));
}

}  // namespace
}  // namespace conch::sim
