// The judge of all that the workers were told: that it notices, and what excuses a second hold.
#include "chaos/history_judge.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace conch::test {
namespace {

constexpr std::int64_t in_memory = 1;  // added to a fence

class HistoryJudge : public testing::Test {
 protected:
  void granted(std::int64_t fence, nanoseconds_of_boot from, nanoseconds_of_boot to, nanoseconds_of_boot deadline) {
    history::operation o;
    o.how = history::outcome::granted;
    o.lock = "chaos:0";
    o.process = "w" + std::to_string(holds_) + ".1.0";
    o.hold = ++holds_;
    o.invoked = from;
    o.completed = to;
    o.fence = fence;
    o.deadline = deadline;
    judge_.add({o});
  }
  std::size_t found(std::vector<data_loss> const& losses = {}) { return judge_.judge(losses).size(); }

  history_judge judge_;

 private:
  std::uint64_t holds_ = 0;
};

TEST_F(HistoryJudge, SeesTwoHoldsAtATime) {
  granted(4096, 0, 10, 100);
  granted(8192, 5, 20, 200);
  EXPECT_EQ(found(), 1u);
}

TEST_F(HistoryJudge, ALossOfDataExcusesWhatWasGrantedBeforeIt) {
  granted(4096, 0, 10, 100);
  granted(12288, 30, 40, 200);
  EXPECT_EQ(found({{8192, 8192, 8192, 20}}), 0u);
  EXPECT_EQ(found({{2048, 2048, 2048, 20}}), 1u);  // that grant was kept
  granted(16384, 50, 60, 300);                     // after it nothing is excused
  EXPECT_EQ(found({{8192, 8192, 8192, 20}}), 1u);
}

TEST_F(HistoryJudge, WhatWasHandedOnInMemoryAfterALossIsNoPartOfTheHistory) {
  granted(4096, 0, 10, 100);
  granted(12288, 25, 30, 200);
  granted(4096 + in_memory, 26, 31, 200);
  EXPECT_EQ(found({{8192, 8192, 8192, 20}}), 0u);
  EXPECT_EQ(found(), 1u);
}

}  // namespace
}  // namespace conch::test
