// Which commands one script may carry out together.
#include "protocol/gathering.hpp"

#include "protocol/wire.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace conch::protocol {
namespace {

using namespace std::chrono_literals;

acquire_command asks(std::string_view name, grant_id id = 1) {
  return {.name = name, .id = id, .lease = 30s, .claim = 3s, .retention = 60s};
}
release_command gives_back(std::string_view name, grant_id id = 1) {
  return {.name = name, .id = id, .lease = 30s, .claim = 3s, .retention = 60s};
}

TEST(Gathering, TakesWhatIsAskedForAndGivenBackOfDifferentLocks) {
  gathering all;
  EXPECT_TRUE(all.empty());
  EXPECT_TRUE(all.add(gives_back("a", 7), 0));
  EXPECT_TRUE(all.add(asks("b", 8), 0));
  EXPECT_TRUE(all.add(gives_back("c", 9), 0));
  ASSERT_EQ(all.members().size(), 3u);
  EXPECT_EQ(all.acquires(), 1u);
  EXPECT_TRUE(all.waits());
  EXPECT_EQ(all.members()[1].name, "b");
  EXPECT_EQ(all.members()[2].id, 9u);
  auto const places = all.places();
  EXPECT_EQ(places[0], 1) << "those to acquire come first in the script";
  EXPECT_EQ(places[1], 0);
  EXPECT_EQ(places[2], 2);
  all.clear();
  EXPECT_TRUE(all.empty());
  EXPECT_TRUE(all.add(gives_back("a"), 0));
  EXPECT_EQ(all.acquires(), 0u) << "nothing is left of those before";
}

TEST(Gathering, KeepsWhatEachCommandSays) {
  gathering all;
  acquire_command a = asks("a", 7);
  a.ticket = 11;
  a.not_after_us = 12;
  a.proposal = 13;
  release_command r = gives_back("b", 8);
  r.new_id = 14;
  r.floor = 15;
  r.next_fence_floor = 16;
  ASSERT_TRUE(all.add(a, 0));
  ASSERT_TRUE(all.add(r, 0));
  EXPECT_TRUE(all.common().votes);
  EXPECT_EQ(all.common().lease, 30s);
  EXPECT_EQ(all.common().claim, 3s);
  EXPECT_EQ(all.common().retention, 60s);
  auto const m = all.members();
  EXPECT_EQ(m[0].ticket, 11);
  EXPECT_EQ(m[0].not_after_us, 12);
  EXPECT_EQ(m[0].proposal, 13);
  EXPECT_EQ(m[1].new_id, 14u);
  EXPECT_EQ(m[1].floor, 15);
  EXPECT_EQ(m[1].next_fence_floor, 16);
}

TEST(Gathering, TakesNoMoreThanOneScriptMayKeepTheServerFor) {
  gathering all;
  for (std::size_t i = 0; i < gathering::most; ++i) EXPECT_TRUE(all.add(asks("lock " + std::to_string(i)), 0)) << i;
  EXPECT_FALSE(all.add(asks("one more"), 0));
  EXPECT_EQ(all.members().size(), gathering::most);
}

TEST(Gathering, TakesNeverTwoCommandsForOneLock) {
  for (bool const releases_first : {false, true}) {
    for (bool const releases_then : {false, true}) {
      gathering all;
      EXPECT_TRUE(releases_first ? all.add(gives_back("a"), 0) : all.add(asks("a"), 0));
      EXPECT_FALSE(releases_then ? all.add(gives_back("a"), 0) : all.add(asks("a"), 0));
      EXPECT_EQ(all.members().size(), 1u);
    }
  }
}

TEST(Gathering, TakesOnlyWhatHasTheSameTerms) {
  std::vector<std::pair<std::string, std::function<void(acquire_command&)>>> const changes{
      {"lease", [](acquire_command& a) { a.lease = 1s; }},
      {"claim", [](acquire_command& a) { a.claim = 1s; }},
      {"retention", [](acquire_command& a) { a.retention = 1s; }},
      {"whether it waits", [](acquire_command& a) { a.wait = false; }},
      {"whether it is a vote", [](acquire_command& a) { a.proposal = 1; }},
  };
  for (auto const& [what, change] : changes) {
    gathering all;
    acquire_command other = asks("b");
    change(other);
    ASSERT_TRUE(all.add(asks("a"), 0));
    EXPECT_FALSE(all.add(other, 0)) << what;
    all.clear();
    EXPECT_TRUE(all.add(other, 0)) << what;
    EXPECT_FALSE(all.add(asks("a"), 0)) << what;
  }
  gathering all;
  ASSERT_TRUE(all.add(asks("a"), 3));
  EXPECT_FALSE(all.add(asks("b"), 4)) << "of another slot";
  EXPECT_TRUE(all.add(asks("b"), 3));
}

TEST(Gathering, AReleaseFitsToThoseThatWaitAndToTries) {
  for (bool const wait : {false, true}) {
    gathering all;
    acquire_command a = asks("a");
    a.wait = wait;
    ASSERT_TRUE(all.add(gives_back("b"), 0));
    EXPECT_TRUE(all.add(a, 0));
    EXPECT_TRUE(all.add(gives_back("c"), 0));
    EXPECT_EQ(all.waits(), wait);
    acquire_command other = asks("d");
    other.wait = !wait;
    EXPECT_FALSE(all.add(other, 0));
  }
}

TEST(Gathering, TakesNothingThatItsScriptDoesNotDo) {
  engine::permit const shares{.kind = engine::permit_kind::semaphore, .limit = 2, .weight = 1};
  acquire_command with_source = asks("a"), of_permit = asks("a"), patient = asks("a"), adopts = asks("a");
  with_source.with_source = true;
  of_permit.permit = &shares;
  patient.patient = true;
  adopts.origin = "c.1 5";
  for (acquire_command const& a : {with_source, of_permit, patient, adopts}) {
    gathering all;
    EXPECT_FALSE(all.add(a, 0));
    EXPECT_TRUE(all.empty());
  }
  release_command with_its_source = gives_back("a"), of_a_share = gives_back("a"), patiently = gives_back("a"),
                  leaves = gives_back("a");
  with_its_source.with_source = true;
  of_a_share.permit = &shares;
  patiently.patient = true;
  leaves.keep = true;
  for (release_command const& r : {with_its_source, of_a_share, patiently, leaves}) {
    gathering all;
    EXPECT_FALSE(all.add(r, 0));
  }
  gathering all;
  EXPECT_FALSE(all.add(ping_command{}, 0));
}

}  // namespace
}  // namespace conch::protocol
