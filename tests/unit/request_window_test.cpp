// How many requests may be in flight: tables of answers and what the window is after them.
#include "protocol/request_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace conch::protocol {
namespace {

using namespace std::chrono_literals;

/// A server that carries out one request after another, behind a network that takes `way` for there and back, and a
/// client with any number of requests to send.
struct busy_server {
  request_window window;
  duration lease = 1s, way = 1ms, each = 10us;
  time_point now{1h};
  time_point free_at = now;
  struct one {
    std::size_t together;
    time_point written, answered;
  };
  std::deque<one> in_flight;
  duration longest{};  // of the answers of the last run()
  std::size_t done = 0, in_time = 0;

  void run(duration how_long) {
    time_point const end = now + how_long;
    longest = {};
    done = in_time = 0;
    for (;;) {
      while (window.has_room()) {
        window.uses(lease, now);
        free_at = std::max(free_at, now + way / 2) + each;
        in_flight.push_back({window.written(1), now, free_at + way / 2});
      }
      if (in_flight.front().answered > end) break;
      one const first = in_flight.front();
      in_flight.pop_front();
      now = std::max(now, first.answered);
      duration const took = now - first.written;
      longest = std::max(longest, took);
      ++done;
      in_time += took < lease - lease / 100 ? 1 : 0;
      window.answered(1, first.together, first.written, true, now);
    }
    now = end;
  }
};

TEST(RequestWindow, BeginsWithRoomForAFirstBurst) {
  request_window w;
  EXPECT_EQ(w.size(), 256u);
  EXPECT_TRUE(w.has_room());
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_TRUE(w.has_room()) << i;
    EXPECT_EQ(w.written(1), i + 1);
  }
  EXPECT_FALSE(w.has_room());
}

TEST(RequestWindow, AnAnswerMakesRoomForAnother) {
  request_window w;
  time_point const now{1h};
  std::size_t together = 0;
  while (w.has_room()) together = w.written(1);
  w.answered(1, together, now, false, now + 1ms);
  EXPECT_TRUE(w.has_room());
  EXPECT_EQ(w.size(), 256u) << "nobody waits for more";
}

TEST(RequestWindow, IsNotSeenWhereTheServerKeepsUp) {  // all that a server of usual speed can be given, it is given
  busy_server s;
  s.lease = 30s;
  s.run(200ms);
  s.run(1s);
  EXPECT_GE(s.done, 99'000u) << "100,000 is what the server can do";
}

TEST(RequestWindow, OfADistantServerAsManyAreInFlightAsFillTheWay) {
  busy_server s;
  s.lease = 30s;
  s.way = 200ms;
  s.run(3s);
  s.run(1s);
  EXPECT_GE(s.done, 95'000u);
}

TEST(RequestWindow, KeepsAnswersWithinAQuarterOfTheShortestLease) {
  for (duration const each : {10us, 50us, 200us, 1000us, 5000us}) {
    busy_server s;
    s.each = each;
    s.run(5s);
    s.run(5s);
    EXPECT_LE(s.longest, s.lease / 4 + s.way + each) << each.count();
    EXPECT_EQ(s.done, s.in_time);
    EXPECT_GE(s.done * each, 4500ms) << "the server is kept busy";
  }
}

TEST(RequestWindow, GoesOnHoweverSlowTheServerIs) {  // P4: four of them take as long as the lease
  busy_server s;
  s.each = 240ms;
  s.run(60s);
  s.run(60s);
  EXPECT_GE(s.in_time, 240u);
}

// the network takes longer than a quarter of the lease, and became that slow later
TEST(RequestWindow, ADistantServerIsNotTakenForASlowOne) {
  busy_server s;
  s.run(1s);
  s.way = 400ms;
  s.run(20s);
  s.run(5s);
  EXPECT_GE(s.in_time, 50'000u);
  EXPECT_EQ(s.in_time, s.done);
}

TEST(RequestWindow, ShrinksToWhatWouldHaveBeenAnsweredInTime) {
  request_window w;
  time_point now{1h};
  w.uses(1s, now);
  w.answered(1, w.written(1), now - 1ms, false, now);  // the way takes 1 ms
  std::deque<std::size_t> together;
  while (w.has_room()) together.push_back(w.written(1));
  time_point const written = now;
  now += 501ms;  // 256 took 500 ms: 64 would have taken half of a quarter of the lease
  for (std::size_t i = 0; i + 1 < together.size(); ++i) w.answered(1, 256, written, true, now);
  EXPECT_EQ(w.size(), 64u);
}

TEST(RequestWindow, GrowsAgainWhenTheServerIsFastAgain) {
  busy_server s;
  s.each = 20ms;
  s.run(10s);
  EXPECT_LE(s.window.size(), 16u);
  s.each = 10us;
  s.run(1s);
  s.run(1s);
  EXPECT_GE(s.done, 90'000u);
}

// as long as only a few are begun, the server shows nothing of what it can do
TEST(RequestWindow, DoesNotGrowWhileItIsNotUsed) {
  request_window w;
  time_point now{1h};
  w.uses(1s, now);
  for (int i = 0; i < 1'000; ++i) {
    std::size_t together = 0;
    for (int k = 0; k < 4; ++k) together = w.written(1);
    now += 1ms;
    for (int k = 0; k < 4; ++k) w.answered(1, together, now - 1ms, true, now);
  }
  EXPECT_EQ(w.size(), request_window::first);
}

// what is in flight when it stops growing took half of the time of an answer before
TEST(RequestWindow, HowFarItGrowsIsBelowTheLimit) {
  busy_server s;
  s.run(5s);
  s.run(1s);
  EXPECT_LE(s.longest, 110ms) << "of a lease of 1 s";
  s.lease = 30s;
  s.run(60s);
  s.run(1s);
  EXPECT_LE(s.longest, 110ms) << "of any lease";
}

TEST(RequestWindow, RequestsAndRenewalsLeaveHalfOfItToEachOther) {
  request_window w;
  while (w.has_room()) w.written(1);
  EXPECT_EQ(w.in_flight(), request_window::first);
  EXPECT_TRUE(w.has_room_for_renewal());
  w.renewals_written(request_window::first / 2);
  EXPECT_FALSE(w.has_room_for_renewal());

  request_window of_renewals;
  of_renewals.renewals_written(10 * request_window::first);  // of the first holds, which wait for nothing
  std::size_t requests = 0;
  for (; of_renewals.has_room(); ++requests) of_renewals.written(1);
  EXPECT_EQ(requests, request_window::first / 2);
}

TEST(RequestWindow, ShrinksIfRenewalsAreAnsweredLate) {
  request_window w;
  time_point const written{1h};
  w.uses(1s, written);
  w.renewals_answered(1, w.renewals_written(1), written - 1ms, written);  // the way takes 1 ms
  w.written(100);
  w.renewals_answered(100, w.renewals_written(100), written, written + 501ms);
  EXPECT_EQ(w.size(), 50u) << "half of a quarter of the lease is a quarter of what it took";
  EXPECT_EQ(w.in_flight(), 100u);
}

TEST(RequestWindow, TheShortestLeaseInUseCounts) {  // a hold with a short lease is renewed while others are asked for
  busy_server s;
  s.lease = 30s;
  for (int i = 0; i < 50; ++i) {
    s.window.uses(600ms, s.now);
    s.run(200ms);
  }
  EXPECT_LE(s.longest, 600ms / 4 + 5ms);
}

TEST(RequestWindow, ALeaseThatNobodyUsesAnyMoreIsForgotten) {
  busy_server s;
  s.window.uses(8ms, s.now);
  s.lease = 30s;
  s.run(100ms);
  s.run(1s);
  EXPECT_GE(s.longest, 10ms);
  EXPECT_GE(s.done, 99'000u);
}

TEST(RequestWindow, AClientThatRenewsManyHoldsLateBeginsOnlyAFew) {  // P4: every wait ends, if slowly
  request_window w;
  time_point now{1h};
  w.uses(900ms, now);
  w.renewed(200, 900ms, 500ms, now);
  EXPECT_TRUE(w.may_begin(now)) << "in time";
  w.renewed(200, 900ms, 300ms, now);
  std::size_t begun = 0;
  for (; w.may_begin(now); ++begun) w.begins(now);
  EXPECT_EQ(begun, request_window::least);
  EXPECT_EQ(w.begins_again(), now + 300ms);
  now += 299ms;
  EXPECT_FALSE(w.may_begin(now));
  w.renewed(200, 900ms, 300ms, now);  // still
  now += 1ms;
  for (begun = 0; w.may_begin(now); ++begun) w.begins(now);
  EXPECT_EQ(begun, request_window::least);
  now += 300ms;
  for (begun = 0; w.may_begin(now) && begun < 100; ++begun) w.begins(now);
  EXPECT_EQ(begun, 100u) << "they are renewed in time again";
}

TEST(RequestWindow, AClientThatDoesNotGetToItsRenewalsBeginsOnlyAFew) {
  request_window w;
  time_point const now{1h};
  w.uses(960ms, now);
  w.renewals_due(now - 31ms, now);
  for (int i = 0; i < 100; ++i) w.begins(now);
  EXPECT_TRUE(w.may_begin(now)) << "it is not known to have many";
  w.renewed(request_window::many, 960ms, 600ms, now);
  w.renewals_due(now - 30ms, now);
  for (int i = 0; i < 100; ++i) w.begins(now);
  EXPECT_TRUE(w.may_begin(now));
  w.renewals_due(now - 31ms, now);
  for (int i = 0; i < 100; ++i) w.begins(now);
  EXPECT_FALSE(w.may_begin(now));
}

TEST(RequestWindow, AFewHoldsAreNotTheReasonWhyTheyAreRenewedLate) {
  request_window w;
  time_point const now{1h};
  w.renewed(request_window::many - 1, 900ms, 1ms, now);
  for (int i = 0; i < 100; ++i) w.begins(now);
  EXPECT_TRUE(w.may_begin(now));
}

TEST(RequestWindow, OneForManyLocksCountsAsMany) {
  request_window w;
  EXPECT_EQ(w.written(64), 64u);
  EXPECT_EQ(w.in_flight(), 64u);
  w.answered(64, 64, time_point{1h}, false, time_point{1h});
  EXPECT_EQ(w.in_flight(), 0u);
}

TEST(RequestWindow, OfAConnectionThatHasEndedNothingIsInFlight) {
  request_window w;
  while (w.has_room()) w.written(1);
  w.connection_ended();
  EXPECT_EQ(w.in_flight(), 0u);
  EXPECT_TRUE(w.has_room());
}

}  // namespace
}  // namespace conch::protocol
