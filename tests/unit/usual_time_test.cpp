// conch: distributed locks for Boost.Asio. Boost Software License 1.0.

#include "base/usual_time.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace conch {
namespace {

using namespace std::chrono_literals;

usual_time after(std::initializer_list<duration> answers, int times = 1) {
  usual_time usual;
  for (int i = 0; i < times; ++i) {
    for (duration const one : answers) usual.sample(one);
  }
  return usual;
}

TEST(UsualTime, OfAServerThatHasNotAnsweredYetIsShort) { EXPECT_EQ(usual_time{}.soon(), 100ms); }

// Nothing is known of the variation: half of the time, as for TCP.
TEST(UsualTime, OfOneAnswerIsSixOfThem) { EXPECT_EQ(after({10ms}).soon(), 160ms); }

TEST(UsualTime, FollowsTheServersDistance) {
  EXPECT_LT(after({100us}, 100).soon() - (100ms + 400us), 1us);
  EXPECT_LT(after({30ms}, 100).soon() - 220ms, 1us);
}

// A busy server answers most requests at once and some after a pause. The next pause does not count as silence.
TEST(UsualTime, GrowsWithTheVariationOfTheAnswers) {
  auto const steady = after({20ms}, 50).soon();
  auto const varying = after({1ms, 1ms, 1ms, 77ms}, 13).soon();
  EXPECT_GT(varying, 160ms);
  EXPECT_GT(varying, steady);
}

TEST(UsualTime, OfOneSlowAnswerIsForgottenAfterADozen) {
  usual_time usual = after({1ms}, 20);
  duration const before = usual.soon();
  usual.sample(3s);
  EXPECT_LE(usual.soon(), before + 210ms) << "however slow it was";
  for (int i = 0; i < 12; ++i) usual.sample(1ms);
  EXPECT_LE(usual.soon(), before + 10ms);
}

}  // namespace
}  // namespace conch
