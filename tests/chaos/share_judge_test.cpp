// The judge of locks that may have several owners: each rule broken by hand.
#include "chaos/share_judge.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace conch::test {
namespace {

constexpr int everything = 1000;

/// Visits of one lock, each by another client.
class ShareJudge : public testing::Test {
 protected:
  visit& add(std::int64_t fence, nanoseconds_of_boot from, nanoseconds_of_boot to, int weight, int limit) {
    visit v;
    v.who = "w" + std::to_string(all_.size()) + ".1.0";
    v.lock = "lock";
    v.fence = fence;
    v.granted = from;
    v.ended = to;
    v.weight = weight;
    v.limit = limit;
    all_.push_back(v);
    return all_.back();
  }
  std::vector<std::string> found() {
    judge_.add(all_);
    all_.clear();
    return judge_.judge();
  }

  share_judge judge_;

 private:
  std::vector<visit> all_;
};

TEST_F(ShareJudge, ReadersMayOverlapReaders) {
  add(1, 10, 100, 1, everything);
  add(2, 20, 90, 1, everything);
  add(3, 100, 120, everything, everything);
  EXPECT_TRUE(found().empty());
  EXPECT_EQ(judge_.visits(), 3u);
  EXPECT_EQ(judge_.granted_beside_others(), 1u);
}

TEST_F(ShareJudge, AWriterMayNotOverlapAReaderWhicheverCameFirst) {
  add(1, 10, 100, 1, everything);
  add(2, 99, 120, everything, everything);
  EXPECT_EQ(found().size(), 1u);
  add(3, 119, 130, 1, everything);
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, AtMostSoManyPermitsAreBelievedInAtAMoment) {
  add(1, 10, 100, 2, 3);
  add(2, 20, 50, 1, 3);
  add(3, 50, 90, 1, 3);
  EXPECT_TRUE(found().empty());
  add(4, 60, 70, 1, 3);
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, TwoMayNotHaveAMutex) {
  add(1, 10, 100, 1, 1);
  add(2, 99, 110, 1, 1);
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, LevelsOfOneOwnerAreOneHoldAndThoseOfTwoAreNot) {
  add(1, 10, 100, 1, 1).owner = "me";
  add(1, 20, 90, 1, 1).owner = "me";
  EXPECT_TRUE(found().empty());
  add(2, 95, 98, 1, 1).owner = "other";
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, OfTheLevelsOfAnOwnerTheGreatestCounts) {
  add(1, 10, 100, everything, everything).owner = "me";
  add(1, 20, 90, 1, everything).owner = "me";
  EXPECT_TRUE(found().empty());
  add(2, 30, 40, 1, everything).owner = "other";
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, TheFenceRisesBetweenThoseThatExcludeEachOther) {
  add(5, 10, 20, everything, everything);
  add(4, 30, 40, 1, everything);
  EXPECT_EQ(found().size(), 1u);
  add(3, 50, 60, 1, everything);  // against the writer, too
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, NoTwoHoldsHaveOneFence) {
  add(5, 10, 40, 1, everything);
  add(5, 20, 30, 1, everything);
  EXPECT_EQ(found().size(), 1u);
}

TEST_F(ShareJudge, WhatIsWrongIsSaidOnceAlsoWhenItIsHeardLate) {
  add(2, 50, 100, 1, 1);
  EXPECT_TRUE(found().empty());
  add(1, 10, 60, 1, 1);  // the holder was paused, and reports it now
  EXPECT_EQ(found().size(), 1u);
  EXPECT_TRUE(found().empty());
}

TEST_F(ShareJudge, AHoldThatCameTooLateToBeBelievedInExcludesNobody) {
  add(1, 10, 10, 1, 1);
  add(2, 5, 20, 1, 1);
  EXPECT_TRUE(found().empty());
}

}  // namespace
}  // namespace conch::test
