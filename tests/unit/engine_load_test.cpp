// More to do than the server can do in time: what goes first, what waits in the client, and what becomes of it there.
#include "unit/engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

class EngineLoad : public engine_test {
 protected:
  void SetUp() override { settings.keep_alive = 0s; }

  /// As many requests as may be in flight, for the locks "load N". They are not answered.
  std::vector<caller*> fill(wanted const& w = {}) {
    std::vector<caller*> all;
    for (std::size_t i = 0; i < request_window::first; ++i) all.push_back(&ask("load", "load " + std::to_string(i), w));
    return all;
  }

  static std::size_t count(texts const& of, std::string_view what) {
    return static_cast<std::size_t>(
        std::count_if(of.begin(), of.end(), [&](std::string const& one) { return one.starts_with(what); }));
  }

  /// Answers everything as a server does that grants every free lock and needs `each` for a request, for `how_long`.
  /// Timers run between the answers.
  void serve(duration each, duration how_long) {
    time_point const until = now + how_long;
    while (now < until) {
      if (unanswered.empty()) {
        advance(each);
        continue;
      }
      advance(each);
      std::string const what = unanswered.front();
      if (what.starts_with("renew")) {
        renewed(std::vector<int>(static_cast<std::size_t>(std::count(what.begin(), what.end(), ' ')) / 2, 1));
      } else if (what.starts_with("release")) {
        released();
      } else if (what.starts_with("leave")) {
        removed();
      } else {
        grant(100);
      }
    }
  }
};

TEST_F(EngineLoad, WhatDoesNotFitWaitsInTheClientInItsOrder) {  // P5
  start_connected();
  fill();
  EXPECT_EQ(take_sent().size(), request_window::first);
  ask("a", "A");
  ask("b", "B");
  EXPECT_TRUE(sent().empty());
  grant(100);
  auto const next = sent();
  ASSERT_EQ(next.size(), 2u) << "one was answered, and that quickly";
  EXPECT_TRUE(next[0].starts_with("acquire A ")) << next[0];
  EXPECT_TRUE(next[1].starts_with("acquire B ")) << next[1];
}

TEST_F(EngineLoad, ARenewalWaitsForNothing) {  // P9
  start_connected();
  holding("held", "H", {.lease = 1s});
  fill();
  ask("waits", "W");
  take_sent();
  advance(400ms);
  EXPECT_EQ(sent(), texts{"renew H 1"});
}

TEST_F(EngineLoad, TheFirstHoldsAreRenewedHoweverManyLaterOnesAreDue) {  // P9: those wait for the next turn
  start_connected();
  auto const hold_many = [&](std::string const& name, int number, milliseconds lease) {
    for (int i = 0; i < number; ++i) {
      ask(name, name + std::to_string(i), {.lease = lease});
      grant(100);
    }
    take_sent();
  };
  hold_many("first", 1'000, 1s);
  hold_many("later", 3'000, 900ms);
  sleep(400ms);
  std::size_t first = 0, later = 0;
  for (auto const& one : sent()) {
    for (auto at = one.find("first"); at != std::string::npos; at = one.find("first", at + 1)) ++first;
    for (auto at = one.find("later"); at != std::string::npos; at = one.find("later", at + 1)) ++later;
  }
  EXPECT_EQ(first, 1'000u);
  EXPECT_EQ(later, 1'000u);
}

// P9: or it would come too late to the first ones
TEST_F(EngineLoad, LaterHoldsAreRenewedWhileTheServerHasAnsweredMostOfWhatIsInFlight) {
  start_connected();
  for (int i = 0; i < 5'000; ++i) {
    ask("held", "held" + std::to_string(i), {.lease = 1s});
    grant(100);
  }
  take_sent();
  std::size_t const room = request_window::first / 2;
  std::size_t renewed_now = 0;
  for (int turn = 0; turn < 4; ++turn) {  // all of them are due
    sleep(turn == 0 ? 340ms : 1ms);
    for (auto const& one : sent()) renewed_now += static_cast<std::size_t>(std::count(one.begin(), one.end(), ' ')) / 2;
  }
  EXPECT_GE(renewed_now, watchdog::renewed_first + room);
  EXPECT_LE(renewed_now, watchdog::renewed_first + room + in_one_turn)
      << "nothing is answered, so no more than those of one turn";
}

TEST_F(EngineLoad, OnANewConnectionTheHoldsComeFirst) {  // P9: they may be over before the others have been asked for
  start_connected();
  make_room(4000);
  for (int i = 0; i < 3000; ++i) ask("waits", "W" + std::to_string(i));
  while (!unanswered.empty()) queue(30'000);
  caller& held = holding("held", "H");
  take_sent();
  disconnect();
  connect();
  auto const all = take_sent();
  auto const renewal =
      std::find_if(all.begin(), all.end(), [](auto const& c) { return c.text.starts_with("renew H "); });
  ASSERT_NE(renewal, all.end());
  EXPECT_EQ(renewal - all.begin(), 3) << "behind what proves the connection";
  static_cast<void>(held);
}

TEST_F(EngineLoad, AWaitThatIsNotWrittenYetEndsAtOnce) {
  start_connected();
  fill();
  caller& total = ask("total", "A");
  caller& partial = ask("partial", "B");
  caller& terminal = ask("terminal", "C");
  ask("timed", "D", {.wait = 50ms});
  take_sent();
  cancel(total, cancel_type::total);
  cancel(partial, cancel_type::partial);
  cancel(terminal, cancel_type::terminal);
  EXPECT_EQ(received(), (texts{"total failed cancelled", "partial failed cancelled", "terminal failed cancelled"}));
  advance(50ms);
  EXPECT_EQ(received(), texts{"timed failed timed_out"});
  grant(100);
  EXPECT_TRUE(sent().empty()) << "nobody wants these locks any more";
}

TEST_F(EngineLoad, AWaitThatIsNotWrittenYetSaysWhatItWaitsFor) {
  start_connected();
  fill();
  caller& a = ask("a", "A", {.wait = 1s});
  error_code const why = remote->too_late(place_of("A"), now);
  EXPECT_EQ(why, errc::timed_out);
  EXPECT_NE(why.message().find("others of this client"), std::string::npos) << why.message();
  static_cast<void>(a);
}

TEST_F(EngineLoad, AReleaseGoesBeforeTheNextAcquire) {  // it lets others in
  start_connected();
  caller& held = holding("held", "H");
  fill();
  ask("a", "A");
  take_sent();
  release(held);
  ask("again", "H");
  EXPECT_TRUE(sent().empty());
  grant(100);
  auto const next = sent();
  ASSERT_GE(next.size(), 2u) << next[0];
  EXPECT_EQ(next[0], "release H 1");
  EXPECT_TRUE(next[1].starts_with("acquire A ")) << next[1];
}

TEST_F(EngineLoad, WhatIsQueuedBehindOthersOfThisClientIsNotTakenForSilence) {  // of the server: that one answers
  start_connected();
  ask("a", "A");
  ask("b", "B");
  advance(900ms);
  queue(30'000);
  advance(50ms);
  EXPECT_EQ(to_text(remote->too_late(place_of("B"), now)), "timed_out");
  advance(900ms);
  EXPECT_EQ(to_text(remote->too_late(place_of("B"), now)), "unreachable") << "now it has answered nothing for long";
}

TEST_F(EngineLoad, AReleaseThatWaitsForRoomIsNotLate) {  // P11: the server answers
  settings.command_timeout = 1s;
  start_connected();
  caller& held = holding("held", "H", {.lease = 30s});
  fill();
  release(held);
  received();
  for (std::size_t i = 0; i < request_window::first; ++i) {
    advance(900ms);
    auto const told = received();
    ASSERT_EQ(count(told, "held released"), 0u);
    if (unanswered.front().starts_with("release")) break;
    grant(100);
    if (i == 3) break;
  }
  while (!unanswered.front().starts_with("release")) grant(100);
  released();
  EXPECT_EQ(count(received(), "held released ok"), 1u);
}

TEST_F(EngineLoad, ASafetyCheckGoesBeforeWhatWasNotAskedForYet) {  // P4: its place in line lasts no longer than a lease
  start_connected();
  ask("waits", "Q");
  queue(20);
  fill();
  ask("a", "A");
  take_sent();
  advance(200ms);
  EXPECT_TRUE(sent().empty());
  grant(100);
  EXPECT_EQ(count(sent(), "acquire Q "), 1u);
}

TEST_F(EngineLoad, ALeaveGoesBeforeWhatWasNotAskedForYet) {
  start_connected();
  caller& waits = queued("waits", "Q");
  fill();
  ask("a", "A");
  take_sent();
  cancel(waits, cancel_type::total);
  EXPECT_TRUE(sent().empty());
  grant(100);
  EXPECT_EQ(sent().front(), "leave Q 1");
}

TEST_F(EngineLoad, WhatWaitsForRoomIsAskedForOnTheNextConnection) {  // P4
  start_connected();
  caller& left = queued("left", "L");
  ask("checked", "Q");
  queue(20);
  auto const all = fill();
  ask("a", "A");
  cancel(left, cancel_type::total);
  advance(200ms);
  take_sent();
  disconnect();
  connect();
  settle_connection();
  texts asked;
  while (!unanswered.empty()) {
    for (auto const& one : sent()) asked.push_back(one);
    if (unanswered.front().starts_with("leave")) removed();
    else if (unanswered.front().starts_with("renew")) renewed({1});
    else if (unanswered.front().starts_with("release")) released();
    else grant(100);
  }
  EXPECT_EQ(count(asked, "acquire load "), all.size());
  EXPECT_EQ(count(asked, "acquire A "), 1u);
  EXPECT_EQ(count(asked, "acquire Q "), 1u);
  EXPECT_EQ(count(asked, "leave L "), 1u);
}

TEST_F(EngineLoad, AConnectionThatIsDeniedSomethingForgetsNoLeaveThatWaitsForRoom) {  // P6
  start_connected();
  caller& left = queued("left", "L");
  disconnect();
  connect();
  fill();
  cancel(left, cancel_type::total);
  answer({0});
  answer({});
  answer(fault::access_denied, "NOPERM publish");
  take_sent();
  texts all;
  for (int i = 0; i < 3000 && !unanswered.empty(); ++i) {
    advance(1ms);
    if (unanswered.front().starts_with("release")) released();
    else if (unanswered.front().starts_with("leave")) removed();
    else queue(30'000);
    for (auto const& one : sent()) all.push_back(one);
  }
  EXPECT_EQ(count(all, "leave L "), 1u);
  EXPECT_EQ(count(received(), "left failed"), 1u);
}

TEST_F(EngineLoad, NoGrantComesTooLateAndNoHoldIsLost) {  // P4, P9: 20 times what the server can do within a lease
  start_connected();
  std::vector<caller*> kept;
  for (int i = 0; i < 50; ++i) kept.push_back(&holding("kept", "kept" + std::to_string(i), {.lease = 1s}));
  auto const scripts = [&] { return stats.scripts - stats.renewal_scripts; };
  std::size_t const before = scripts();
  for (int i = 0; i < 20'000; ++i) ask("burst", "burst" + std::to_string(i), {.fixed = true, .lease = 1s});
  serve(1ms, 45s);
  auto const told = received();
  EXPECT_EQ(count(told, "burst granted"), 20'000u);
  EXPECT_EQ(count(told, "kept lost"), 0u);
  EXPECT_EQ(scripts() - before, 40'000u) << "each is asked for once, and released when its lease is over";
}

TEST_F(EngineLoad, ASlowServerGrantsWhatItCan) {  // P4: the first requests tell how slow it is
  start_connected();
  for (int i = 0; i < 500; ++i) ask("burst", "burst" + std::to_string(i), {.fixed = true, .lease = 1s});
  serve(50ms, 120s);
  EXPECT_GE(count(received(), "burst granted"), 450u);
}

}  // namespace
}  // namespace conch::engine
