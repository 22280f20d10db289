#include "engine_fixture.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace conch::engine {
namespace {

using EngineConnection = engine_test;

// ---- the order of a new connection ---------------------------------------------------------------------------

TEST_F(EngineConnection, ShowsFirstWhatItMayDo) {
  start();
  connect();
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].text, "kill here:1");
  EXPECT_EQ(all[0].id, std::numeric_limits<std::int64_t>::max()) << "nobody has this id: a question only";
  EXPECT_EQ(all[1].text, "subscribe");
  EXPECT_EQ(all[2].text, "prove");
}

TEST_F(EngineConnection, IsWantedByTheFirstWhoAsks) {
  start();
  EXPECT_EQ(wants, 0);
  ask("a");
  EXPECT_EQ(wants, 1);
  EXPECT_TRUE(sent().empty()) << "no script before the greeting";
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "acquire L 1"}));
}

TEST_F(EngineConnection, PicksEverythingUpInTheOneRightOrder) {
  settings.keep_alive = 0s;
  start_connected();
  holding("held late", "H1");                   // id 1
  holding("held short", "H2", {.lease = 20s});  // id 2
  ask("in line", "Q1");                         // id 3
  queue(30'000, 4711);
  caller& gone = queued("leaving", "G1");   // id 4
  caller& stays = queued("staying", "G2");  // id 5
  caller& freed = holding("freed", "F");    // id 6
  ask("asked", "Q2");                       // id 7, not answered
  cancel(gone, cancel_type::partial);
  cancel(stays, cancel_type::total);
  release(freed);
  take_sent();
  advance(1s);
  disconnect();
  advance(1s);
  EXPECT_TRUE(sent().empty());
  connect();
  auto const all = take_sent();
  texts order;
  for (auto const& c : all) order.push_back(c.text);
  EXPECT_EQ(order, (texts{"kill here:1", "subscribe", "prove",              // nothing old may act or receive any more
                          "renew H2 2 H1 1",                                // the earliest deadline first
                          "release G1 4", "release F 6",                    // clean-ups
                          "acquire Q1 3", "leave G2 5", "acquire Q2 7"}));  // what waits, with its id and its place
  EXPECT_EQ(all[0].id, 1u) << "the old connection, by id and address";
  EXPECT_EQ(all[6].ticket, 4711);
  EXPECT_EQ(all[8].ticket, 0);
}

TEST_F(EngineConnection, IsTheSameTheHundredthTimeAsTheFirst) {
  settings.keep_alive = 0s;
  start_connected();
  caller& held = holding("held", "H");  // id 1
  ask("waits", "Q");                    // id 2
  take_sent();
  queue(30'000, 4711);
  received();
  for (std::uint64_t i = 1; i <= 300; ++i) {
    advance(20ms);
    disconnect();
    advance(20ms);
    connect();
    auto const all = take_sent();
    texts order;
    for (auto const& c : all) order.push_back(c.text);
    ASSERT_EQ(order, (texts{"kill here:" + std::to_string(i), "subscribe", "prove", "renew H 1", "acquire Q 2"})) << i;
    EXPECT_EQ(all[0].id, i);
    EXPECT_EQ(all[4].ticket, 4711);
    settle_connection();
    renewed({1});
    queue(30'000, 4711);
    ASSERT_EQ(received(), texts{}) << "nobody hears of it";
    ASSERT_EQ(sent(), texts{}) << "and nothing is left to say";
  }
  EXPECT_EQ(stats.losses, 0u);
  push(2, 200, 3s, "Q");
  EXPECT_EQ(received().size(), 1u);
  release(held);
  EXPECT_EQ(sent(), texts{"release H 1"});
}

TEST_F(EngineConnection, EndsEveryOldOneThatMayStillLive) {
  start_connected();
  disconnect();
  connect();
  disconnect();  // before the KILL of the first was answered
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "kill here:1", "kill here:2", "subscribe", "prove"}));
  settle_connection();
  disconnect();
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:3", "subscribe", "prove"})) << "the others are known to be gone";
}

TEST_F(EngineConnection, EndsNoOldOneOfAServerThatWasRestarted) {
  start();
  remote->receiver().connected_as({1, "socket:0", server_us(), now, "first run"}, now);
  settle_connection();
  disconnect();
  sent();
  remote->receiver().connected_as({1, "socket:0", server_us(), now, "second run"}, now);
  auto const first = take_sent();
  ASSERT_EQ(first.size(), 3u);
  EXPECT_NE(first[0].id, 1u) << "only the question whether it might";
  settle_connection();
  disconnect();
  remote->receiver().connected_as({2, "socket:0", server_us(), now, "second run"}, now);
  auto const commands = take_sent();
  ASSERT_FALSE(commands.empty());
  EXPECT_EQ(commands[0].id, 1u) << "the one of the same run";
}

TEST_F(EngineConnection, KeepsThePlaceInLine) {  // P5
  start_connected();
  ask("a");
  queue(30'000, 4711);
  for (int i = 0; i < 3; ++i) {
    disconnect();
    connect();
    take_sent();
    settle_connection();
    queue(30'000, 4711);
  }
  disconnect();
  connect();
  EXPECT_EQ(take_sent().back().ticket, 4711);
  settle_connection();
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineConnection, GrantsNothingByAnswersOfTheOldOne) {
  start_connected();
  ask("a");
  disconnect();
  connect();
  settle_connection();
  EXPECT_EQ(unanswered.size(), 1u) << "only what was written on this one is answered";
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

// ---- without the right to CLIENT KILL ------------------------------------------------------------------------

TEST_F(EngineConnection, WithoutKillLimitsHowLateAnAcquireMayAct) {
  start_connected(false);
  EXPECT_EQ(notes.size(), 1u);
  advance(10s);
  ask("a");
  auto const not_after = take_sent()[0].not_after_us;
  // Late rather than early, but not by more than what the clocks may differ by.
  EXPECT_GE(not_after, server_us(now + settings.command_timeout));
  EXPECT_LE(not_after, server_us(now + settings.command_timeout + 200ms));
}

TEST_F(EngineConnection, WithoutKillAsksAgainWhatCameTooLate) {
  start_connected(false);
  ask("a");
  take_sent();
  answer({3, 0, server_us()});
  EXPECT_EQ(sent(), texts{"acquire L 1"});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineConnection, WithoutKillAsksAgainInAScriptOfItsOwn) {
  settings.local_slice = 0s;
  start_connected(false);
  caller& a = holding("a");
  ask("b");
  release(a);
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text, "release L 1");
  EXPECT_EQ(all[1].text, "acquire L 2");
  EXPECT_GT(all[1].not_after_us, 0);
}

TEST_F(EngineConnection, WithoutKillRepeatsACleanUpThatAnOldConnectionMayUndo) {  // P6
  start_connected(false);
  caller& a = ask("a");
  disconnect();
  cancel(a, cancel_type::partial);
  connect();
  EXPECT_EQ(sent().back(), "release L 1");
  settle_connection(false);
  removed();
  // Known to be gone as far as this connection goes; the caller need not wait for more.
  auto const reported = received();
  advance(settings.command_timeout);
  EXPECT_TRUE(sent().empty()) << "an acquire of the old connection may act until its not-after";
  advance(settings.command_timeout / 10);
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  auto const later = received();
  EXPECT_EQ(reported.size() + later.size(), 1u);
  expect_clean();
}

// What the old connection holds may act between the release and its answer, if that is slow to come.
TEST_F(EngineConnection, WithoutKillRepeatsACleanUpWhoseAnswerWasLate) {  // P6
  start_connected(false);
  caller& a = ask("a");
  disconnect();
  connect();
  settle_connection(false);
  grant(100);
  received();
  take_sent();
  advance(settings.command_timeout / 2);
  release(a);
  advance(settings.command_timeout * 7 / 10);  // by now nothing of the old connection can act any more
  take_sent();
  released(true, false, false);
  EXPECT_EQ(received(), texts{"a released ok"});
  advance(1ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  expect_clean();
}

// A waiter here asks at once, in the same place: what the release needs to know belongs to the previous id.
TEST_F(EngineConnection, WithoutKillRepeatsTheReleaseOfWhatWasTakenAway) {  // P6
  start_connected(false);
  ask("a");
  disconnect();
  connect();
  settle_connection(false);
  grant(100);
  ask("b");
  received();
  take_sent();
  remote->receiver().pushed(protocol::revocation{"L", 1}, now);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), (texts{"acquire L 2", "release L 1"}));
  grant(101);
  removed();
  EXPECT_EQ(received(), texts{granted("b", 101)});
  advance(settings.command_timeout * 11 / 10);
  EXPECT_EQ(sent(), texts{"release L 1"}) << "the acquire of the old connection was carried out until now";
  removed();
}

TEST_F(EngineConnection, WithTheRightToKillSetsNoLimit) {
  start_connected();
  disconnect();
  connect();
  settle_connection();
  sent();
  ask("a");
  EXPECT_EQ(take_sent()[0].not_after_us, 0);
}

// ---- clients that may not take part
// -----------------------------------------------------------------------------------

TEST_F(EngineConnection, WhoIsNotHeardGetsNoLock) {
  struct {
    char const* what;
    std::function<void()> answers;
  } const table[] = {
      {"no right to subscribe",
       [&] {
         answer(fault::access_denied, "NOPERM subscribe");
         answer({1});
       }},
      {"no right to publish",
       [&] {
         answer({});
         answer(fault::access_denied, "NOPERM publish");
       }},
      {"nobody hears",
       [&] {
         answer({});
         answer({0});
       }},
  };
  for (auto const& row : table) {
    start();
    ask("a");
    connect();
    answer({0});
    row.answers();
    EXPECT_EQ(received(), texts{"a failed access_denied"}) << row.what;
    EXPECT_FALSE(notes.empty());
    ask("b");
    EXPECT_EQ(received(), texts{"b failed access_denied"}) << "at once, without asking";
    // The administrator mends it; the next connection finds out.
    disconnect();
    connect();
    settle_connection();
    sent();
    ask("c");
    EXPECT_EQ(sent(), texts{"acquire L 3"});
  }
}

TEST_F(EngineConnection, TriesAnotherWhenTheServerIsNotReadyForTheProof) {
  for (fault const what : {fault::try_later, fault::reconnect}) {
    start();
    ask("a");
    connect();
    answer({0});
    answer(what, "LOADING");
    EXPECT_EQ(dropped(), texts{"LOADING"});
    EXPECT_TRUE(received().empty());
  }
}

TEST_F(EngineConnection, ReportsARefusedGreetingThatWaitingDoesNotMend) {
  struct {
    fault what;
    texts expected;
  } const table[] = {{fault::access_denied, {"a failed access_denied"}},
                     {fault::malformed, {"a failed protocol"}},
                     {fault::refused, {"a failed server_refused"}},
                     {fault::try_later, {}},
                     {fault::reconnect, {}}};
  for (auto const& [what, expected] : table) {
    start();
    ask("a");
    remote->receiver().connect_failed(what, "WORDS", now);
    EXPECT_EQ(received(), expected);
    if (!expected.empty()) expect_clean();
  }
}

// ---- time-outs -----------------------------------------------------------------------------------------------

TEST_F(EngineConnection, CountsAsLostWhenAnAnswerIsOverdue) {
  start_connected();
  ask("a");
  advance(3s - 1ns);
  EXPECT_TRUE(dropped().empty());
  advance(1ns);
  EXPECT_EQ(dropped().size(), 1u);
  EXPECT_TRUE(received().empty()) << "the request goes on with the next one";
}

TEST_F(EngineConnection, MeasuresTheOldestUnansweredCommand) {
  start_connected();
  ask("a", "A");
  advance(2s);
  ask("b", "B");
  queue(30'000);
  advance(2s);
  EXPECT_TRUE(dropped().empty());
  advance(1s);
  EXPECT_EQ(dropped().size(), 1u);
}

TEST_F(EngineConnection, IsQuietWithoutAnyTimeOutWhenNothingIsAsked) {
  settings.keep_alive = 0s;
  start_connected();
  holding("a", "L", {.fixed = true, .lease = 24h});
  advance(1h);
  EXPECT_TRUE(dropped().empty());
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineConnection, SendsAPingWhenNothingCameInForLong) {
  settings.keep_alive = 45s;
  start_connected();
  advance(45s - 1ns);
  EXPECT_TRUE(sent().empty());
  advance(1ns);
  EXPECT_EQ(sent(), texts{"ping"});
  answer({});
  advance(44s);
  EXPECT_TRUE(sent().empty());
  advance(2s);
  EXPECT_EQ(sent(), texts{"ping"});
  advance(3s);
  EXPECT_EQ(dropped().size(), 1u);
}

TEST_F(EngineConnection, PingsMoreOftenWhereSilentConnectionsAreClosed) {
  settings.keep_alive = 45s;
  start_connected();
  for (int i = 0; i < 2; ++i) {
    advance(30s);
    EXPECT_TRUE(sent().empty()) << i;
    disconnect();
    connect();
    settle_connection();
    sent();
  }
  advance(15s);
  EXPECT_EQ(sent(), texts{"ping"});
  answer({});
  advance(15s);
  EXPECT_EQ(sent(), texts{"ping"});
}

TEST_F(EngineConnection, ReportsAServerThatStaysAway) {
  start();
  ask("a");
  advance(10s - 1ns);
  EXPECT_TRUE(received().empty());
  advance(1ns);
  EXPECT_EQ(received(), texts{"a failed unreachable"});
  expect_clean();
}

TEST_F(EngineConnection, ReportsAServerThatIsLostForLongAndCleansUpWhenItIsBack) {  // P6
  start_connected();
  queued("a");
  ask("b");
  disconnect();
  advance(10s);
  EXPECT_EQ(received(), (texts{"a failed unreachable", "b failed unreachable"}));
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1"}));
  settle_connection();
  removed();
  expect_clean();
}

TEST_F(EngineConnection, WaitsNoLongerThanItsOwnTimeOutForAServerThatIsAway) {
  start_connected();
  queued("a", "L", {.wait = 20s});
  advance(15s);
  disconnect();
  advance(5s);
  // It may have been granted meanwhile, and the server cannot be asked: after one command time-out that is that.
  advance(settings.command_timeout);
  EXPECT_EQ(received(), texts{"a failed unreachable"});
}

TEST_F(EngineConnection, PatienceIsNotBegunAgainByAnAnswerThatAQuestionCameTooLate) {  // P4
  settings.offline_timeout = 10s;
  start();
  ask("a");
  remote->receiver().connect_failed(fault::try_later, "nobody there", now);
  advance(6s);
  connect();
  settle_connection(false);
  take_sent();
  answer({3, 0, server_us()});
  disconnect();
  take_sent();
  advance(3999ms);
  EXPECT_TRUE(received().empty());
  advance(1ms);
  EXPECT_EQ(received(), texts{"a failed unreachable"});
}

TEST_F(EngineConnection, PatienceDoesNotCountAPauseOfThisProcess) {
  for (auto const& [several, timers_first] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
    SCOPED_TRACE(testing::Message() << "several " << several << ", timers first " << timers_first);
    start_connected();
    if (several) {
      try_all({"a", "b"});
    } else {
      ask("a");
    }
    take_sent();
    now += settings.offline_timeout + 2s;  // no timer of this process is served meanwhile
    if (timers_first) advance(0ms);
    disconnect();
    advance(1ms);
    EXPECT_EQ(received(), texts{});
    connect();
    settle_connection();
    EXPECT_FALSE(sent().empty()) << "asked again";
    disconnect();
    advance(settings.offline_timeout - 2 * settings.command_timeout - 2ms);
    EXPECT_EQ(received(), texts{});
    advance(1ms);
    EXPECT_EQ(received().size(), several ? 2u : 1u);
  }
}

// ---- what each error means -----------------------------------------------------------------------------------

TEST_F(EngineConnection, SendsTheSourceOfAScriptTheServerDoesNotKnow) {
  start_connected();
  caller& a = ask("a");
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"acquire L 1", "source acquire L 1"}));
  queue(30'000);
  cancel(a, cancel_type::total);
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"leave L 1", "source leave L 1"}));
  stay(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  release(a);
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"release L 1", "source release L 1"}));
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineConnection, GivesEachErrorOfAnAcquireItsMeaning) {
  struct {
    fault what;
    texts report;
    texts then;  // what is sent at once
    std::size_t drops;
  } const table[] = {
      // it may be the key of the fence, and a place taken
      {fault::wrong_type, {"a failed wrong_type"}, {"release L 1"}, 0},
      {fault::access_denied, {"a failed access_denied"}, {"release L 1"}, 0},
      {fault::refused, {"a failed server_refused"}, {"release L 1"}, 0},
      {fault::malformed, {"a failed protocol"}, {"release L 1"}, 0},
      {fault::no_script, {}, {"source acquire L 1"}, 0},
      {fault::try_later, {}, {}, 0},
      {fault::reconnect, {}, {}, 1},
  };
  for (auto const& row : table) {
    start_connected();
    ask("a");
    take_sent();
    answer(row.what, "THE server's words");
    EXPECT_EQ(received(), row.report);
    EXPECT_EQ(sent(), row.then);
    EXPECT_EQ(dropped().size(), row.drops);
    if (row.report.empty()) continue;
    while (!unanswered.empty()) removed();
    expect_clean();
  }
}

TEST_F(EngineConnection, EndsAllWaitersOfALockThatCannotBeHad) {
  start_connected();
  ask("a");
  ask("b");
  answer(fault::wrong_type, "WRONGTYPE");
  EXPECT_EQ(received(), (texts{"a failed wrong_type", "b failed wrong_type"}));
  answer(fault::wrong_type, "WRONGTYPE");
  expect_clean();
}

TEST_F(EngineConnection, AsksAgainSoonWhenTheServerIsNotReady) {
  start_connected();
  ask("a");
  take_sent();
  for (int i = 0; i < 10; ++i) {
    answer(fault::try_later, "LOADING");
    EXPECT_TRUE(sent().empty());
    advance(100ms);
    EXPECT_EQ(sent(), texts{"acquire L 1"});
  }
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineConnection, ReportsAServerThatIsNeverReady) {
  start_connected();
  ask("a");
  while (received().empty()) {
    ASSERT_LT(now - begin, 11s);
    if (!unanswered.empty()) answer(fault::try_later, "LOADING");
    if (!received().empty()) break;
    advance(50ms);
  }
  EXPECT_GE(now - begin, 9900ms);
  EXPECT_EQ(stats.failures, 1u);
}

TEST_F(EngineConnection, AsksAgainOnTheNextOneAfterAFailover) {
  start_connected();
  ask("a");
  take_sent();
  answer(fault::reconnect, "READONLY You can't write against a read only replica.");
  EXPECT_EQ(dropped().size(), 1u);
  disconnect();
  connect();
  EXPECT_EQ(sent().back(), "acquire L 1");
}

TEST_F(EngineConnection, MayBeLostAtAnyStep) {
  // Everything that can be written, lost before its answer; then again, answered after the reconnect.
  for (int steps = 0; steps <= 6; ++steps) {
    start_connected();
    caller& a = ask("a");
    auto step = [&, left = steps]() mutable {
      if (left-- != 0) return;
      disconnect();
      connect();
      settle_connection();
    };
    step();
    queue(30'000);
    step();
    if (!unanswered.empty()) queue(30'000);
    push(1, 100);
    EXPECT_EQ(received(), texts{granted("a", 100)}) << steps;
    step();
    for (int second = 0; second < 12; ++second) {
      while (!unanswered.empty()) renewed({1});
      advance(1s);
    }
    step();
    while (!unanswered.empty()) renewed({1});
    EXPECT_TRUE(received().empty()) << steps;
    release(a);
    step();
    released();
    EXPECT_EQ(received(), texts{"a released ok"}) << steps;
    step();
    expect_clean();
  }
}

}  // namespace
}  // namespace conch::engine
