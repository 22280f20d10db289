// What a client knows of its server's clock.
#include "protocol/server/server_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace conch::engine {

using namespace protocol;
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t noon_us = 1'700'000'000'000'000;
constexpr time_point begin{std::chrono::hours{1}};

TEST(ServerClock, KnowsNothingBeforeTheFirstSample) {
  server_clock c;
  EXPECT_FALSE(c.is_known());
  EXPECT_FALSE(c.can_place(noon_us));
  EXPECT_FALSE(c.shows_us(begin));
  c.sample(begin, 0, begin + 1ms);
  EXPECT_FALSE(c.is_known()) << "an answer that shows no time";
}

TEST(ServerClock, AllowsForOnePercentOfDriftInBothDirections) {
  server_clock c;
  c.sample(begin, noon_us, begin + 10ms);
  EXPECT_TRUE(c.can_place(noon_us));
  EXPECT_FALSE(c.can_place(noon_us - 1)) << "before the first sample";
  EXPECT_EQ(c.earliest(noon_us + 1'000'000), begin + 990ms);
  EXPECT_EQ(c.passed(noon_us + 1'000'000), begin + 10ms + 1020ms + 2ms);
  EXPECT_EQ(c.most_us(begin + 1s), noon_us + 1'010'000);
  EXPECT_EQ(c.shows_us(begin + 5ms + 1s), noon_us + 1'000'000);
}

TEST(ServerClock, TakesTheSampleThatPutsTheSameMomentLater) {
  server_clock c;
  c.sample(begin, noon_us, begin + 100ms);
  c.sample(begin + 150ms, noon_us + 100'000, begin + 151ms);
  EXPECT_EQ(c.earliest(noon_us + 100'000), begin + 150ms) << "a shorter round trip says more";
  c.sample(begin + 151ms, noon_us + 300'000, begin + 400ms);
  EXPECT_EQ(c.earliest(noon_us + 100'000), begin + 150ms) << "a longer one says less";
}

TEST(ServerClock, BelievesAClockThatWasStepped) {
  server_clock c;
  c.sample(begin, noon_us, begin + 1ms);
  c.sample(begin + 1s, noon_us - 3'600'000'000, begin + 1001ms);
  EXPECT_TRUE(c.can_place(noon_us - 3'600'000'000)) << "set back";
  c.sample(begin + 2s, noon_us + 3'600'000'000, begin + 2001ms);
  EXPECT_EQ(c.earliest(noon_us + 3'600'000'000), begin + 2s) << "set forward";
}

TEST(ServerClock, OfAnEarlierConnectionPlacesNothing) {
  server_clock c;
  c.sample(begin, noon_us, begin);
  c.connection_ended();
  EXPECT_FALSE(c.is_known());
  EXPECT_FALSE(c.can_place(noon_us + 1));
  EXPECT_EQ(c.shows_us(begin + 1s), noon_us + 1'000'000) << "a guess is still of use";
}

}  // namespace
}  // namespace conch::engine
