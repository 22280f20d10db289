// Very many at once: a server with much to do is not a dead one, and nothing is done for all of them in one turn.
#include "support/cpu_seconds.hpp"
#include "unit/engine_fixture.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace conch::engine {
namespace {

class EngineBurst : public engine_test {
 protected:
  void SetUp() override { settings.keep_alive = 0s; }

  /// What the event loop would do next, without letting time pass. Answers whether there was anything.
  bool turn() {
    if (timers.next() > in_next_turn(now)) return false;
    now = std::max(now, timers.next());
    cohort->tick(now);
    return true;
  }

  std::vector<caller*> ask_many(int count, wanted const& w = {}) {
    std::vector<caller*> all;
    for (int i = 0; i < count; ++i) all.push_back(&ask(std::to_string(i), "lock " + std::to_string(i), w));
    return all;
  }

  std::vector<caller*> hold_many(int count) {
    auto const all = ask_many(count);
    for (int i = 0; i < count; ++i) grant(100);
    take_sent();
    received();
    return all;
  }

  static constexpr auto one_turn = static_cast<int>(in_one_turn);
};

// ---- a server with much to do -------------------------------------------------------------------------------------

TEST_F(EngineBurst, AServerThatIsAnsweringHasTimeForAllThatWasSent) {  // P4, P11
  start_connected();
  ask_many(10);
  for (int i = 0; i < 10; ++i) {
    advance(2900ms);
    EXPECT_TRUE(dropped().empty()) << i;
    grant(100);
  }
}

TEST_F(EngineBurst, AServerThatHasStoppedAnsweringIsDroppedAfterACommandTimeOut) {  // P4
  start_connected();
  ask_many(10);
  advance(2s);
  grant(100);
  advance(2999ms);
  EXPECT_TRUE(dropped().empty());
  advance(1ms);
  EXPECT_EQ(dropped(), texts{"the server did not answer in time"});
}

TEST_F(EngineBurst, PushesAreNoAnswers) {  // P4: other clients' releases make them, and the answers may never come
  start_connected();
  queued("in line", "P");
  ask("a");
  for (int i = 0; i < 5; ++i) {
    advance(599ms);
    push(77, 100, 3s, "P");  // for an id that nobody wants
  }
  take_sent();
  EXPECT_TRUE(dropped().empty());
  advance(5ms);
  EXPECT_EQ(dropped(), texts{"the server did not answer in time"});
}

TEST_F(EngineBurst, WhatCameInWhileThisProcessStoodStillIsReadFirst) {
  start_connected();
  ask("a");
  sleep(10s);
  EXPECT_TRUE(dropped().empty()) << "the answer may have been here for long";
  queue(30'000);
  advance(5s);
  EXPECT_TRUE(dropped().empty());
}

TEST_F(EngineBurst, WhatCameInWhileAHandlerRanForTheTimeOfAnAnswerIsReadFirst) {  // the timer is hardly late itself
  start_connected();
  ask("a");
  sleep(3001ms);
  EXPECT_TRUE(dropped().empty()) << "the answer may have been here for long";
  advance(374ms);
  EXPECT_TRUE(dropped().empty()) << "and may be read in a later turn";
  advance(1ms);
  EXPECT_EQ(dropped(), texts{"the server did not answer in time"});
}

TEST_F(EngineBurst, ButOnlyOnce) {  // P4: also if this process is paused again and again
  start_connected();
  ask("a");
  sleep(10s);
  sleep(10s);
  EXPECT_EQ(dropped(), texts{"the server did not answer in time"});
}

TEST_F(EngineBurst, AReleaseWaitsWhileTheServerIsAnsweringWhatWasSentBefore) {  // P11
  start_connected();
  caller& a = holding("a");
  ask_many(5);
  release(a);
  for (int i = 0; i < 5; ++i) {
    advance(2900ms);
    grant(100);
  }
  received();
  advance(2900ms);
  EXPECT_TRUE(received().empty());
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  EXPECT_TRUE(dropped().empty());
}

TEST_F(EngineBurst, ButNotLongerForOneThatWasRefused) {
  start_connected();
  caller& a = holding("a");
  release(a);
  ask_many(5);
  answer(fault::refused, "OOM");
  advance(20ms);
  grant(100);
  received();
  advance(2980ms);
  EXPECT_EQ(received(), texts{"a released server_refused"}) << "its answer was heard; it is repeated in the background";
}

TEST_F(EngineBurst, ATimedOutWaitEndsWhateverTheServerHasToDo) {  // P4
  start_connected();
  queued("a", "L", {.wait = 1s});
  ask_many(20);
  advance(1s + 100ms - 1ns);
  EXPECT_TRUE(received().empty());
  advance(1ns);
  EXPECT_EQ(received(), texts{"a failed unreachable"})
      << "a few usual round trips later: it has said nothing for longer than that";
  for (int i = 0; i < 4; ++i) {
    advance(700ms);
    grant(100);
  }
}

// ---- scripts that the server does not know ------------------------------------------------------------------------

TEST_F(EngineBurst, TheSourceOfAScriptGoesOnceAndTheOthersFollowIt) {  // P10
  start_connected();
  for (char const* lock : {"a", "b", "c"}) ask(lock, lock);
  take_sent();
  for (int i = 0; i < 3; ++i) answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"source acquire a 1", "acquire b 2", "acquire c 3"}));
  for (int i = 0; i < 3; ++i) grant(100);
  EXPECT_EQ(received().size(), 3u);
}

TEST_F(EngineBurst, EachScriptHasASourceOfItsOwn) {
  start_connected();
  caller& a = holding("a", "a");
  ask("b", "b");
  release(a);
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"source acquire b 2", "source release a 1"}));
}

TEST_F(EngineBurst, AScriptThatIsForgottenOnceMoreIsSentOnceMore) {  // P4
  start_connected();
  ask("a", "a");
  ask("b", "b");
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"source acquire a 1", "acquire b 2"}));
  grant(100);
  answer(fault::no_script, "NOSCRIPT");  // forgotten in between
  EXPECT_EQ(sent(), texts{"source acquire b 2"});
  ask("c", "c");
  take_sent();
  grant(100);
  answer(fault::no_script, "NOSCRIPT");  // and again
  EXPECT_EQ(sent(), texts{"source acquire c 3"});
}

TEST_F(EngineBurst, ASourceThatWasRefusedIsSentAgain) {
  start_connected();
  ask("a", "a");
  ask("b", "b");
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  answer(fault::no_script, "NOSCRIPT");
  take_sent();
  answer(fault::try_later, "BUSY");
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source acquire b 2"});
}

TEST_F(EngineBurst, ANewConnectionMayLeadToAServerThatKnowsNoScript) {
  start_connected();
  ask("a", "a");
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  disconnect();
  connect("2");
  settle_connection();
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source acquire a 1"});
}

// ---- in turns -----------------------------------------------------------------------------------------------------

TEST_F(EngineBurst, TimeOutsAreToldInTurnsAndTheEndsOfHoldsFirst) {  // P9
  start_connected();
  make_room(4 * one_turn);
  caller& held = holding("held", "H", {.fixed = true, .lease = 5s});
  ask_many(3 * one_turn, {.wait = 4s});
  for (int i = 0; i < 3 * one_turn; ++i) queue(30'000);
  take_sent();
  now += 5s;  // all of them are due; the hold last
  cohort->tick(now);
  auto const first = received();
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first.front(), "held lost lost");
  constexpr std::size_t few = 5;  // timers of the connection, and what was held
  std::size_t leaves = 0;
  int turns = 0;
  do {
    auto const all = sent();
    EXPECT_LE(all.size(), in_one_turn + few);
    leaves += static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](std::string const& t) { return t.starts_with("leave"); }));
    ++turns;
  } while (turn());
  EXPECT_EQ(leaves, 3 * in_one_turn);
  EXPECT_GE(turns, 3);
  static_cast<void>(held);
}

TEST_F(EngineBurst, ACloseEndsWaitsInTurnsThenGivesHoldsBackInTurns) {
  start_connected();
  make_room(4 * one_turn);
  hold_many(2 * one_turn + 10);
  for (int i = 0; i < one_turn + 10; ++i) ask("waiter", "lock 0");
  cohort->close(now);
  std::size_t told = received().size();
  EXPECT_GT(told, 0u);
  EXPECT_LE(told, in_one_turn);
  cohort->give_back_everything(now);
  EXPECT_TRUE(received().empty()) << "the waits come first";
  EXPECT_FALSE(cohort->idle());
  while (turn()) {
    auto const now_told = received().size();
    EXPECT_LE(now_told, in_one_turn);
    told += now_told;
  }
  EXPECT_EQ(told, in_one_turn + 10 + 2 * in_one_turn + 10);
  EXPECT_TRUE(cohort->idle());
  EXPECT_FALSE(cohort->ending());
  EXPECT_EQ(take_sent().size(), 2 * in_one_turn + 10);
}

TEST_F(EngineBurst, ASmallCloseIsDoneAtOnce) {
  start_connected();
  hold_many(20);
  cohort->close(now);
  cohort->give_back_everything(now);
  EXPECT_EQ(received().size(), 20u);
  EXPECT_FALSE(cohort->ending());
}

TEST_F(EngineBurst, ANewConnectionIsToldEverythingInTurns) {
  start_connected();
  make_room(4 * one_turn);
  ask_many(2 * one_turn + 10);
  for (int i = 0; i < 2 * one_turn + 10; ++i) queue(30'000);
  take_sent();
  disconnect();
  connect();
  EXPECT_EQ(take_sent().size(), 3 + in_one_turn);
  ask("late comer", "late");
  EXPECT_TRUE(sent().empty()) << "those before it asked earlier";
  EXPECT_TRUE(turn());
  EXPECT_EQ(take_sent().size(), in_one_turn);
  EXPECT_TRUE(turn());
  auto const rest = sent();
  ASSERT_EQ(rest.size(), 11u);
  EXPECT_TRUE(rest.back().starts_with("acquire late ")) << rest.back();
  EXPECT_FALSE(turn());
}

TEST_F(EngineBurst, WhatIsSentBetweenTwoTurnsIsNotSentAgain) {  // P10
  start_connected();
  make_room(4 * one_turn);
  auto const holds = hold_many(one_turn);
  caller& waits = ask("waits", "W");
  queue(30'000);
  caller& owed = holding("owed", "O");
  take_sent();
  received();
  disconnect();
  release(owed);  // owed to the next connection
  connect();
  take_sent();
  cancel(waits, cancel_type::total);
  EXPECT_TRUE(sent().empty()) << "the clean-up goes first";
  EXPECT_TRUE(turn());
  auto const rest = sent();
  ASSERT_EQ(rest.size(), 2u) << "and W is not asked for";
  EXPECT_TRUE(rest[0].starts_with("release O ")) << rest[0];
  EXPECT_TRUE(rest[1].starts_with("leave W ")) << rest[1];
  EXPECT_FALSE(turn());
  static_cast<void>(holds);
}

TEST_F(EngineBurst, AConnectionThatIsDeniedSomethingBetweenTwoTurnsForgetsNoLeave) {  // P6
  start_connected();
  make_room(4 * one_turn);
  ask_many(one_turn + 10);
  for (int i = 0; i < one_turn + 10; ++i) queue(30'000);
  caller& leaves = ask("leaves", "L");
  queue(30'000);
  cancel(leaves, cancel_type::total);
  disconnect();
  take_sent();
  connect();
  answer({0});
  answer({});
  answer(fault::access_denied, "NOPERM publish");
  std::size_t left = 0;
  do {
    for (std::string const& text : sent()) left += text.starts_with("leave L") ? 1 : 0;
  } while (turn());
  EXPECT_EQ(left, 1u);
}

TEST_F(EngineBurst, AConnectionThatBreaksBetweenTwoTurnsForgetsNobody) {  // P4
  start_connected();
  make_room(4 * one_turn);
  ask_many(2 * one_turn);
  for (int i = 0; i < 2 * one_turn; ++i) queue(30'000);
  disconnect();
  connect();
  disconnect();
  take_sent();
  connect();
  std::size_t asked = 0;
  do {
    for (std::string const& text : sent()) asked += text.starts_with("acquire") ? 1 : 0;
  } while (turn());
  EXPECT_EQ(asked, 2 * in_one_turn);
}

TEST_F(EngineBurst, WhoseTurnAfterTheEndOfAConnectionHasNotComeDoesNotFailEarly) {  // P11
  start_connected();
  ask_many(2 * one_turn + 10);
  for (int i = 0; i < 2 * one_turn + 10; ++i) queue(20);  // their safety checks are due soon
  disconnect();
  now += 100ms;
  cohort->tick(now);
  EXPECT_TRUE(received().empty());
  advance(settings.offline_timeout - 101ms);
  EXPECT_TRUE(received().empty());
  advance(2ms);
  EXPECT_EQ(received().size(), 2 * in_one_turn + 10);
}

TEST_F(EngineBurst, ARefusedConnectionIsToldInTurns) {
  start();
  ask_many(2 * one_turn);
  remote->receiver().connect_failed(fault::access_denied, "WRONGPASS", now);
  EXPECT_EQ(received().size(), in_one_turn);
  EXPECT_TRUE(turn());
  EXPECT_EQ(received().size(), in_one_turn);
  EXPECT_FALSE(turn());
}

// ---- a multi_lock of many -----------------------------------------------------------------------------------------

class EngineManyTries : public EngineBurst {
 protected:
  static texts names(int count) {
    texts all;
    for (int i = 0; i < count; ++i) all.push_back((i < 10 ? "n00" : i < 100 ? "n0" : "n") + std::to_string(i));
    return all;
  }
  static std::vector<std::int64_t> fences(std::size_t count) { return std::vector<std::int64_t>(count, 100); }
};

TEST_F(EngineManyTries, GoOutInChunksOneAfterTheOther) {
  start_connected();
  try_all(names(150));
  EXPECT_EQ(take_sent().size(), 1u);
  taken(fences(64));
  EXPECT_EQ(received().size(), 64u);
  EXPECT_EQ(take_sent().size(), 1u);
  taken(fences(64));
  EXPECT_EQ(take_sent().size(), 1u);
  taken(fences(22));
  EXPECT_EQ(received().size(), 64u + 22u);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stats.scripts, 3u);
  EXPECT_EQ(stats.held, 150u);
}

TEST_F(EngineManyTries, WhatIsBehindABusyOneIsNotTouched) {
  start_connected();
  try_all(names(150));
  taken(fences(64));
  take_sent();
  received();
  taken(fences(5));
  EXPECT_TRUE(sent().empty());
  auto const all = received();
  EXPECT_EQ(all.size(), 150u - 64u);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](std::string const& t) { return t.ends_with("busy"); }),
            150 - 64 - 5);
  EXPECT_EQ(cohort->find("n149"), nullptr);
}

TEST_F(EngineManyTries, TheSourceGoesWithAChunkThatNeedsItAndTheRestFollows) {
  start_connected();
  try_all(names(70));
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  auto const again = take_sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].text.starts_with("source try all n000 "));
  taken(fences(64));
  EXPECT_EQ(take_sent().size(), 1u);
  taken(fences(6));
  EXPECT_EQ(stats.held, 70u);
}

TEST_F(EngineManyTries, WhoIsCancelledBeforeItsTurnIsLeftOut) {
  start_connected();
  auto const all = try_all(names(66));
  take_sent();
  cancel(*all[65], cancel_type::terminal);
  EXPECT_EQ(received(), texts{"n065 failed cancelled"});
  EXPECT_TRUE(sent().empty()) << "nothing of it was written";
  taken(fences(64));
  EXPECT_EQ(sent(), texts{"try all n064 65"});
  taken(fences(1));
  EXPECT_EQ(stats.held, 65u);
}

TEST_F(EngineManyTries, AServerThatIsNotReadyIsAskedAgainForAllOfThem) {  // P11
  start_connected();
  try_all(names(66));
  take_sent();
  answer(fault::try_later, "LOADING");
  EXPECT_TRUE(received().empty());
  advance(200ms);
  EXPECT_EQ(take_sent().size(), 66u) << "each by a script of its own";
  for (int i = 0; i < 66; ++i) grant(100);
  EXPECT_EQ(stats.held, 66u);
}

TEST_F(EngineManyTries, AConnectionThatBreaksForgetsNoneOfThem) {  // P4
  start_connected();
  try_all(names(66));
  disconnect();
  connect();
  settle_connection();
  for (int i = 0; i < 66; ++i) grant(100);
  EXPECT_EQ(stats.held, 66u);
}

// ---- linear -------------------------------------------------------------------------------------------------------

/// How many times as long ten times as much takes: the least of three. Linear is 10, and
/// more where it leaves a cache; quadratic is 100.
double growth(std::function<void(int)> const& work, int count) {
  double small = std::numeric_limits<double>::max(), large = small;
  for (int i = 0; i < 3; ++i) {
    small = std::min(small, test::cpu_seconds([&] { work(count); }));
    large = std::min(large, test::cpu_seconds([&] { work(10 * count); }));
  }
  return large / small;
}

struct EngineManyInquiries : EngineBurst, admin_events {
  void on_admin_answered(admin_request&, admin_result const&, error_code) override { ++ended; }
  int ended = 0;
};

TEST_F(EngineManyInquiries, OfManyInquiriesTheOneThatIsAnsweredIsFoundAtOnce) {
  auto const work = [&](int count) {
    start_connected();
    std::deque<admin_request> all(static_cast<std::size_t>(count));
    ended = 0;
    for (admin_request& one : all) {
      one.name = "L";
      remote->administer(one, *this, now);
    }
    // None of the first is answered now: those that come behind them must not be looked for behind them.
    for (int i = 0; i < count / 2; ++i) answer(fault::try_later, "LOADING");
    while (!unanswered.empty()) answer({5, 6, 7});
    EXPECT_EQ(ended, count - count / 2);
    for (admin_request& one : all) remote->withdraw(one);
  };
  EXPECT_LT(growth(work, 2'000), 40);
}

TEST_F(EngineManyInquiries, OneThatIsGoneIsNotAnswered) {
  start_connected();
  {
    admin_request gone;
    gone.name = "L";
    remote->administer(gone, *this, now);
  }
  answer({5, 6, 7});
  EXPECT_EQ(ended, 0);
}

TEST_F(EngineBurst, ManyOfAWrongTypeAreToldInLinearTime) {
  auto const work = [&](int count) {
    start_connected();
    ask_many(count);
    while (!unanswered.empty()) answer(fault::wrong_type, "WRONGTYPE");
    EXPECT_EQ(received().size(), static_cast<std::size_t>(count));
  };
  EXPECT_LT(growth(work, 1'000), 40);
}

}  // namespace
}  // namespace conch::engine
