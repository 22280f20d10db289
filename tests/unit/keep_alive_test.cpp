// How often a silent connection is pinged.

#include "protocol/server/keep_alive.hpp"

#include <gtest/gtest.h>

namespace conch::protocol {
namespace {

using namespace std::chrono_literals;

TEST(KeepAlive, IsLearnedFromTwoConnectionsThatEndAfterTheSameSilence) {
  duration const configured = 20s;
  keep_alive k{configured};
  EXPECT_EQ(k.every(), 20s);
  EXPECT_FALSE(k.ended_idle(10s)) << "a restart, perhaps";
  EXPECT_TRUE(k.ended_idle(10040ms));
  EXPECT_EQ(k.every(), 5020ms);
}

TEST(KeepAlive, IsNotLearnedFromEndsThatHaveNothingInCommon) {
  duration const configured = 20s;
  keep_alive k{configured};
  for (duration const silence : {10s, 3s, 12s, 7s}) EXPECT_FALSE(k.ended_idle(silence));
  EXPECT_EQ(k.every(), 20s);
}

TEST(KeepAlive, IsNotLearnedFromWhatEndsAtOnce) {
  duration const configured = 20s;
  keep_alive k{configured};
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(k.ended_idle(500ms));
  EXPECT_EQ(k.every(), 20s);
}

TEST(KeepAlive, IsNeverRaised) {
  duration const configured = 1s;
  keep_alive k{configured};
  EXPECT_FALSE(k.ended_idle(10s));
  EXPECT_FALSE(k.ended_idle(10s));
  EXPECT_EQ(k.every(), 1s);
}

TEST(KeepAlive, StaysOffWhereItIsOff) {
  duration const configured = 0s;
  keep_alive k{configured};
  EXPECT_FALSE(k.is_on());
  EXPECT_FALSE(k.ended_idle(10s));
  EXPECT_FALSE(k.ended_idle(10s));
  EXPECT_FALSE(k.is_on());
}

}  // namespace
}  // namespace conch::protocol
