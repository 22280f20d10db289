#include "engine_fixture.hpp"

#include <algorithm>
#include <functional>

namespace conch::engine {
namespace {

// With the defaults a lease of 30 s is good for 29698 ms, is renewed from a third of that on, rounded down to a grid of
// 464 ms, and is told to be lost 500 ms before its end.
class EngineWatchdog : public engine_test {
 public:
  static constexpr duration good_for = 30s - 302ms;

  /// Lets time pass until something is sent, and takes it.
  sent_command next_sent(duration at_most) {
    time_point const until = now + at_most;
    while (on_wire.empty() && timers.next() <= until) {
      now = std::max(now, timers.next());
      cohort->tick(now);
    }
    auto const all = take_sent();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? sent_command{} : all[0];
  }
};

TEST_F(EngineWatchdog, RenewsAfterAThirdOfTheLease) {
  start_connected();
  caller& a = holding("a");
  auto const renewal = next_sent(30s);
  EXPECT_EQ(renewal.text, "renew L 1");
  EXPECT_EQ(renewal.leases, std::vector<milliseconds>{30s});
  EXPECT_LE(renewal.at - begin, good_for / 3);
  EXPECT_GT(renewal.at - begin, good_for / 3 - good_for / 64);
  advance(2ms);
  renewed({1});
  EXPECT_EQ(a.deadline(), renewal.at + good_for) << "from before it was written";
  EXPECT_EQ(stats.renewals, 1u);
  EXPECT_TRUE(received().empty());
}

// The grant was asked for by one that gave up; its lease is longer than that of the first holder, and as long as that
// of the next.
TEST_F(EngineWatchdog, RenewsInTimeWhatAShorterLeaseWasHandedOnFrom) {
  settings.stop_margin = 5s;
  start_connected();
  caller& a = ask("a");
  caller& b = ask("b", "L", {.lease = 6s});
  ask("c");
  cancel(a, cancel_type::partial);
  take_sent();
  grant(100);
  release(b);
  EXPECT_EQ(received().back(), "c granted 409601");
  auto const renewal = next_sent(30s);
  EXPECT_EQ(renewal.text, "renew L 1");
  EXPECT_LE(renewal.at - begin, good_for / 3);
  EXPECT_TRUE(received().empty()) << "it is not lost";
}

TEST_F(EngineWatchdog, GoesOnRenewing) {
  start_connected();
  caller& a = holding("a");
  for (int i = 0; i < 20; ++i) {
    time_point const from = now;
    auto const renewal = next_sent(30s);
    EXPECT_LE(renewal.at - from, good_for / 3);
    EXPECT_GT(renewal.at - from, good_for / 3 - good_for / 32);
    renewed({1});
  }
  EXPECT_GT(a.deadline(), now);
  EXPECT_TRUE(received().empty());
}

// P2: a fence is kept for the retention and the lease from the grant on. A hold that lasts longer sees to it that half
// of the retention is left when it ends, however it ends.
TEST_F(EngineWatchdog, KeepsTheFenceOfAHoldThatLasts) {
  settings.fence_retention = 10min;
  settings.keep_alive = 0s;
  start_connected();
  ask("a");
  EXPECT_EQ(take_sent().back().retention, 10min + 30s);
  grant(100);
  time_point kept = now;
  int keeping = 0;
  for (int i = 0; i < 400; ++i) {
    auto const renewal = next_sent(30s);
    EXPECT_LT(now - kept, 5min + 15s);
    if (renewal.retention != 0ms) {
      EXPECT_EQ(renewal.retention, 10min + 30s);
      EXPECT_GT(now - kept, 4min + 45s) << "most renewals cost nothing more";
      kept = now;
      ++keeping;
    }
    renewed({1});
  }
  EXPECT_GE(keeping, 10);
}

TEST_F(EngineWatchdog, KeepsTheFenceAgainAfterARenewalThatFailed) {
  settings.fence_retention = 1s;
  settings.keep_alive = 0s;
  start_connected();
  holding("a");
  auto renewal = next_sent(30s);
  EXPECT_EQ(renewal.retention, 31s);
  renewed({-1});
  renewal = next_sent(30s);
  EXPECT_EQ(renewal.retention, 31s);
}

// The client that passed it on may keep fences for a shorter time.
TEST_F(EngineWatchdog, KeepsTheFenceOfAGrantThatWasPushedWhenItIsConfirmed) {
  settings.keep_alive = 0s;
  start_connected();
  queued("a");
  push(1, 100);
  auto const renewal = next_sent(3s);
  EXPECT_EQ(renewal.text, "renew L 1");
  EXPECT_EQ(renewal.retention, 10min + 30s);
  renewed({1});
  EXPECT_EQ(next_sent(30s).retention, 0ms);
}

TEST_F(EngineWatchdog, RenewsAsOftenAsItIsTold) {
  settings.renew_every = 2s;
  start_connected();
  holding("a");
  for (int i = 0; i < 5; ++i) {
    time_point const from = now;
    auto const renewal = next_sent(30s);
    EXPECT_LE(renewal.at - from, 2s);
    EXPECT_GT(renewal.at - from, 2s - good_for / 64);
    renewed({1});
  }
}

TEST_F(EngineWatchdog, SendsWhatIsDueTogetherAsOneScript) {  // P10
  start_connected();
  for (int i = 0; i < 5; ++i) {
    holding("a", std::string(1, static_cast<char>('A' + i)));
    advance(1ms);
  }
  EXPECT_EQ(next_sent(30s).text, "renew A 1 B 2 C 3 D 4 E 5");
  renewed({1, 1, 1, 1, 1});
  EXPECT_EQ(stats.renewals, 5u);
  EXPECT_EQ(stats.renewal_scripts, 1u);
}

TEST_F(EngineWatchdog, RenewsTheEarliestDeadlineFirst) {
  start_connected();
  holding("a", "A", {.lease = 30s});
  holding("b", "B", {.lease = 20s});
  holding("c", "C", {.lease = 25s});
  sleep(15s);
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].text, "renew B 2 C 3 A 1");
  EXPECT_EQ(all[0].leases, (std::vector<milliseconds>{20s, 25s, 30s}));
}

TEST_F(EngineWatchdog, SplitsWhatWouldKeepTheServerTooLong) {
  start_connected();
  for (int i = 0; i < 450; ++i) holding("a", "lock" + std::to_string(i));
  sleep(10s);
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].leases.size(), 200u);
  EXPECT_EQ(all[1].leases.size(), 200u);
  EXPECT_EQ(all[2].leases.size(), 50u);
}

TEST_F(EngineWatchdog, NeverRenewsWhatWasReleased) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  advance(5s);
  release(a);
  released();
  sent();
  advance(60s);
  EXPECT_TRUE(sent().empty());
  expect_clean();
}

TEST_F(EngineWatchdog, NeverRenewsWhatWasReleasedWhileTheServerDoesNotAnswer) {
  start_connected();
  caller& a = holding("a");
  advance(9s);
  disconnect();
  release(a);
  connect();
  for (auto const& command : sent()) EXPECT_FALSE(command.starts_with("renew")) << command;
}

TEST_F(EngineWatchdog, AsksAgainSoonWhenARenewalFailed) {
  settings.keep_alive = 0s;
  struct {
    char const* what;
    std::function<void()> answer;
  } const table[] = {
      {"one bad key", [&] { renewed({-1}); }},
      {"refused", [&] { answer(fault::refused, "OOM"); }},
      {"busy", [&] { answer(fault::try_later, "LOADING"); }},
      {"no right", [&] { answer(fault::access_denied, "NOPERM"); }},
  };
  for (auto const& row : table) {
    start_connected();
    caller& a = holding("a");
    time_point const deadline = a.deadline();
    auto const first = next_sent(30s);
    row.answer();
    EXPECT_EQ(a.deadline(), deadline) << row.what;
    auto const second = next_sent(2s);
    EXPECT_EQ(second.text, "renew L 1") << row.what;
    EXPECT_GE(second.at - first.at, 500ms);
    renewed({1});
    EXPECT_EQ(a.deadline(), second.at + good_for);
    EXPECT_TRUE(received().empty());
  }
}

TEST_F(EngineWatchdog, WhatARenewalWasRefusedWithIsForgottenWhenOneSucceeds) {
  settings.keep_alive = 0s;
  start_connected();
  holding("a");
  next_sent(30s);
  answer(fault::refused, "OOM");
  EXPECT_EQ(remote->why_not_renewed(place_of("L"), now), "OOM");
  next_sent(2s);
  renewed({1});
  EXPECT_EQ(remote->why_not_renewed(place_of("L"), now), "") << "it is not why the hold is lost later";
}

// A server refuses a script as a whole if one of its keys is denied to the user, or locked by another session.
TEST_F(EngineWatchdog, OneKeyThatIsRefusedCostsOneHold) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a", "A", {.lease = 27s});
  holding("b", "B", {.lease = 28s});
  caller& c = holding("c", "C", {.lease = 29s});
  sleep(12s);
  EXPECT_EQ(sent(), texts{"renew A 1 B 2 C 3"});
  answer_of_its_keys(fault::access_denied, "NOPERM");
  EXPECT_EQ(sent(), (texts{"renew A 1", "renew B 2", "renew C 3"})) << "at once, each by itself";
  renewed({1});
  answer_of_its_keys(fault::access_denied, "NOPERM");
  renewed({1});
  for (int i = 0; i < 160; ++i) {
    advance(250ms);
    for (auto const& one : sent()) {
      if (one.find('B') == std::string::npos) {
        one.find("A 1 C 3") == std::string::npos ? renewed({1}) : renewed({1, 1});
      } else if (one.starts_with("release")) {
        released();
      } else {
        EXPECT_EQ(one, "renew B 2") << "it holds up no other";
        answer_of_its_keys(fault::access_denied, "NOPERM");
      }
    }
  }
  EXPECT_EQ(received(), texts{"b lost lost"});
  EXPECT_GT(a.deadline(), now);
  EXPECT_GT(c.deadline(), now);
}

TEST_F(EngineWatchdog, WhatWasRenewedByItselfIsRenewedWithTheOthersAgain) {
  settings.keep_alive = 0s;
  start_connected();
  holding("a", "A", {.lease = 27s});
  holding("b", "B", {.lease = 28s});
  sleep(12s);
  sent();
  answer_of_its_keys(fault::try_later, "canceling statement due to lock timeout");
  EXPECT_EQ(sent(), (texts{"renew A 1", "renew B 2"}));
  renewed({1});
  renewed({1});
  sleep(12s);
  EXPECT_EQ(sent(), texts{"renew A 1 B 2"});
}

TEST_F(EngineWatchdog, ARefusalOfTheWholeServerDividesNothing) {
  settings.keep_alive = 0s;
  start_connected();
  holding("a", "A", {.lease = 27s});
  holding("b", "B", {.lease = 28s});
  sleep(12s);
  EXPECT_EQ(sent(), texts{"renew A 1 B 2"});
  answer(fault::refused, "OOM");
  EXPECT_TRUE(sent().empty());
  sleep(2s);
  EXPECT_EQ(sent(), texts{"renew A 1 B 2"});
}

TEST_F(EngineWatchdog, SendsOneRenewalAtATime) {
  settings.command_timeout = 10s;
  start_connected();
  holding("a");
  next_sent(30s);
  advance(5s);
  EXPECT_TRUE(sent().empty());
}

// A hold with a short lease outlives a connection that has died silently, as one with the client's lease does.
TEST_F(EngineWatchdog, WaitsForTheAnswerToARenewalForAThirdOfItsLease) {
  settings.command_timeout = 3s;
  start_connected();
  holding("a", "L", {.lease = 3s});
  holding("b", "M");
  sent_command const renewal = next_sent(3s);
  EXPECT_EQ(renewal.text, "renew L 1");
  advance(990ms);
  EXPECT_TRUE(dropped().empty());
  advance(20ms);
  EXPECT_EQ(dropped(), texts{"the server did not answer in time"});
}

TEST_F(EngineWatchdog, CountsThatTimeFromTheLastAnswer) {
  settings.command_timeout = 3s;
  start_connected();
  holding("a", "L", {.lease = 3s});
  ask("b", "M");
  take_sent();
  next_sent(3s);
  advance(900ms);
  queue(30'000);
  advance(990ms);
  EXPECT_TRUE(dropped().empty());
  advance(20ms);
  EXPECT_EQ(dropped().size(), 1u);
}

// A claim, or the lease that another coroutine had asked for, may be longer.
TEST_F(EngineWatchdog, EndsAFixedLeaseInTimeWhateverTheServerGranted) {
  start_connected();
  queued("gives up");
  caller& a = ask("a", "L", {.fixed = true, .lease = 2s});
  caller& b = ask("b", "L", {.fixed = true, .lease = 5s});
  cancel(*callers[0], cancel_type::partial);
  take_sent();
  received();
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), now + 2s - 22ms);
  time_point const deadline = a.deadline();
  advance(2s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L 1 again 2"});
  released_and_granted(200);
  EXPECT_EQ(received(), texts{granted("b", 200)});
  EXPECT_EQ(b.deadline(), deadline + 5s - 52ms);
}

// The push came before the answer to a request with the longer lease of another coroutine.
TEST_F(EngineWatchdog, EndsAFixedLeaseInTimeAlsoWhereAnEarlierRequestIsAnsweredLater) {
  start_connected();
  queued("gives up");
  caller& a = ask("a", "L", {.fixed = true, .lease = 10s});
  disconnect();
  connect();
  settle_connection();
  EXPECT_EQ(take_sent().back().text, "acquire L 1");
  cancel(*callers[0], cancel_type::partial);
  push(1, 100);
  EXPECT_EQ(received(), (texts{"gives up failed cancelled", granted("a", 100)}));
  grant(100);
  EXPECT_EQ(a.deadline(), now + 10s - 102ms);
}

TEST_F(EngineWatchdog, ConfirmsAFixedLeaseThatIsLongerThanTheClaim) {
  start_connected();
  caller& a = queued("a", "L", {.fixed = true, .lease = 5s});
  push(1, 100);
  received();
  sent_command const renewal = next_sent(3s);
  EXPECT_EQ(renewal.text, "renew L 1");
  renewed({1});
  EXPECT_EQ(a.deadline(), renewal.at + 5s - 52ms);
  advance(5s);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

TEST_F(EngineWatchdog, PassesALockWithAShortLeaseOnForThatLong) {
  start_connected();
  caller& a = ask("a", "L", {.lease = 2s});
  EXPECT_EQ(take_sent().at(0).claim, 2s);
  grant(100);
  release(a);
  EXPECT_EQ(take_sent().at(0).claim, 2s);
  ask("b", "M");
  EXPECT_EQ(take_sent().at(0).claim, 3s);
}

TEST_F(EngineWatchdog, SendsTheSourceOfItsScriptWhenTheServerDoesNotKnowIt) {
  start_connected();
  holding("a");
  next_sent(30s);
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source renew L 1"});
  renewed({1});
  EXPECT_GT(callers[0]->deadline(), begin + good_for);
}

TEST_F(EngineWatchdog, TakesNothingFromAnAnswerOfTheWrongLength) {
  start_connected();
  caller& a = holding("a");
  time_point const deadline = a.deadline();
  next_sent(30s);
  renewed({1, 1});
  EXPECT_EQ(dropped().size(), 1u);
  EXPECT_EQ(a.deadline(), deadline);
  EXPECT_TRUE(received().empty());
}

TEST_F(EngineWatchdog, LosesAtOnceWhatTheServerSaysIsNotOurs) {  // P9
  start_connected();
  caller& a = holding("a", "A");
  advance(1ms);
  caller& b = holding("b", "B");
  EXPECT_EQ(next_sent(30s).text, "renew A 1 B 2");
  renewed({0, 1});
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_LT(a.deadline(), now);
  EXPECT_GT(b.deadline(), now);
  EXPECT_EQ(stats.losses, 1u);
  EXPECT_TRUE(sent().empty()) << "there is nothing to release";
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineWatchdog, TellsOfALossByItsOwnClockBeforeTheDeadline) {  // P3, P9
  start_connected();
  caller& a = holding("a");
  time_point const deadline = a.deadline();
  disconnect();
  advance(deadline - now - 500ms - 1ns);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(a.deadline(), deadline);
  advance(1ns);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_LT(a.deadline(), now) << "and the hold says so itself";
  EXPECT_EQ(stats.losses, 1u);
  EXPECT_EQ(stats.held, 0u);
}

TEST_F(EngineWatchdog, TakesTheMarginItIsGiven) {
  for (duration const margin : {duration{0s}, duration{2s}, duration{15s}}) {
    settings.stop_margin = margin;
    start_connected();
    caller& a = holding("a");
    disconnect();
    // Never more than a quarter of what the grant was good for.
    time_point const expected = a.deadline() - std::min<duration>(margin, good_for / 4);
    advance(expected - now - 1ms);
    EXPECT_TRUE(received().empty());
    advance(2ms);
    EXPECT_EQ(received(), texts{"a lost lost"});
    now += 1h;
  }
}

TEST_F(EngineWatchdog, ReleasesALostHoldWhenItsBodyHasEnded) {
  start_connected();
  caller& a = holding("a");
  auto const renewal = next_sent(30s);  // never answered, and the connection does not break
  advance(a.deadline() - now - 500ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  take_sent();
  advance(100ms);
  EXPECT_TRUE(sent().empty()) << "the body has its margin to end in";
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  EXPECT_EQ(sent(), texts{"release L 1"}) << "that renewal may have been carried out";
  EXPECT_EQ(renewal.text, "renew L 1");
}

TEST_F(EngineWatchdog, ReleasesALostHoldAtItsDeadlineWhenTheBodyGoesOn) {
  start_connected();
  caller& a = holding("a");
  next_sent(30s);
  time_point const deadline = a.deadline();
  advance(deadline - now - 1ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  take_sent();
  advance(1ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineWatchdog, DoesNotReviveALostHoldByALateRenewal) {
  start_connected();
  caller& a = holding("a");
  next_sent(30s);
  advance(a.deadline() - now - 500ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  renewed({1});
  EXPECT_TRUE(received().empty());
  EXPECT_LT(a.deadline(), now);
  take_sent();
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  expect_clean();
}

// The late renewal was carried out: without that release nobody could have the lock for another lease.
TEST_F(EngineWatchdog, ReleasesALostHoldAtItsDeadlineAlsoAfterALateRenewal) {  // P4
  start_connected();
  caller& a = holding("a");
  time_point const deadline = a.deadline();
  next_sent(30s);
  advance(deadline - now - 500ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  renewed({1});
  take_sent();
  advance(deadline - now - 1ms);
  EXPECT_TRUE(sent().empty()) << "its body has the margin to end in";
  advance(1ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  expect_clean();
}

TEST_F(EngineWatchdog, NeverRenewsWhatIsLost) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  advance(a.deadline() - now - 500ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"}));
}

TEST_F(EngineWatchdog, FindsTheHoldsOfASuspendedMachineExpired) {
  start_connected();
  caller& a = holding("a");
  ask("b");
  sleep(1h);
  auto const events_now = received();
  ASSERT_FALSE(events_now.empty());
  EXPECT_EQ(events_now[0], "a lost lost");
  EXPECT_LT(a.deadline(), now);
  for (auto const& command : sent()) EXPECT_FALSE(command.starts_with("renew")) << command;
}

TEST_F(EngineWatchdog, TellsAReleaseAfterTheDeadlineThatTheHoldWasLost) {
  start_connected();
  caller& a = holding("a");
  now += 31s;  // no timer has run yet
  release(a);
  EXPECT_EQ(received(), (texts{"a lost lost", "a not released ok"}));
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineWatchdog, NeverRenewsAFixedLease) {
  start_connected();
  caller& a = holding("a", "L", {.fixed = true, .lease = 10s});
  time_point const deadline = a.deadline();
  EXPECT_EQ(deadline, begin + 10s - 102ms);
  settings.keep_alive = 0s;
  advance(deadline - now - 500ms - 1ns);
  EXPECT_TRUE(sent().empty());
  EXPECT_TRUE(received().empty());
  advance(1ns);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

TEST_F(EngineWatchdog, StopsRenewingAfterMaxHold) {
  start_connected();
  caller& a = holding("a", "L", {.max_hold = 60s});
  time_point last{};
  while (received().empty()) {
    ASSERT_LT(now - begin, 5min);
    advance(100ms);
    for (auto const& command : take_sent()) {
      EXPECT_EQ(command.text, "renew L 1");
      last = command.at;
      renewed({1});
    }
  }
  EXPECT_LT(last - begin, 60s);
  EXPECT_GE(now - begin, 60s - 500ms);
  EXPECT_LE(now - begin, 60s + 30s) << "at most one lease later";
  EXPECT_EQ(a.phase, acquisition_phase::lost);
}

TEST_F(EngineWatchdog, DoesNotRenewPastMaxHoldAfterAReconnectEither) {
  start_connected();
  holding("a", "L", {.max_hold = 2s});
  advance(3s);  // the next regular renewal is not due yet
  disconnect();
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"}));
}

TEST_F(EngineWatchdog, AsksNoServerForWhatIsOver) {  // P6
  start_connected();
  caller& a = holding("a", "L", {.max_hold = 2s});
  advance(3s);
  disconnect();
  now = a.deadline();  // no timer has run yet
  connect("another run");
  EXPECT_EQ(sent(), (texts{"kill here:2", "subscribe", "prove"}));
}

TEST_F(EngineWatchdog, AsksAnotherServerAlsoForWhatIsNotRenewed) {  // P9
  start_connected();
  caller& a = holding("a", "L", {.max_hold = 2s});
  advance(3s);
  time_point const deadline = a.deadline();
  disconnect();
  connect("another run");
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].text, "renew L 1");
  EXPECT_EQ(all[3].fences, numbers{100}) << "of that grant, and of no other under the same id";
  EXPECT_GE(protocol::good_for(all[3].leases[0]), deadline - now)
      << "the server keeps it for as long as it is believed";
  EXPECT_LE(protocol::good_for(all[3].leases[0]), deadline - now + 5ms) << "and no longer";
  settle_connection();
  renewed({1});
  EXPECT_EQ(a.deadline(), deadline);
  EXPECT_EQ(received(), texts{});
  disconnect();
  connect("a third one");
  settle_connection();
  take_sent();
  renewed({0});
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L 1"}) << "it may be queued there, as before that grant";
}

TEST_F(EngineWatchdog, GivesBackWhatAnotherServerHasUnderTheIdOfALostHold) {  // P6
  start_connected();
  holding("a");
  disconnect();
  connect("another run");
  settle_connection();
  take_sent();
  renewed({0});
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineWatchdog, CountsMaxHoldForEachHolderAnew) {
  settings.local_slice = 1min;
  settings.lease = 60s;
  start_connected();
  caller& a = holding("a", "L", {.max_hold = 30s});
  ask("b", "L", {.max_hold = 30s});
  advance(25s);
  renewed({1});
  take_sent();
  release(a);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 100, 1)}));
  auto const renewal = next_sent(29s);  // before b has had its time
  EXPECT_EQ(renewal.text, "renew L 1");
}

TEST_F(EngineWatchdog, RenewsWithTheLeaseOfTheHolderItWasHandedTo) {
  settings.local_slice = 10s;
  start_connected();
  caller& a = holding("a");
  ask("b", "L", {.lease = 40s});
  release(a);
  EXPECT_EQ(next_sent(20s).leases, std::vector<milliseconds>{40s});
}

TEST_F(EngineWatchdog, IgnoresTheAnswerForAHoldThatIsOver) {
  start_connected();
  caller& a = holding("a");
  next_sent(30s);
  release(a);
  caller& b = ask("b");
  renewed({0});  // for the grant of a
  released();
  grant(200);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 200)}));
  EXPECT_GT(b.deadline(), now);
  EXPECT_EQ(stats.losses, 0u);
}

TEST_F(EngineWatchdog, RenewsAtOnceOnANewConnection) {
  start_connected();
  holding("a", "A", {.lease = 30s});
  holding("b", "B", {.lease = 20s});
  advance(1s);
  disconnect();
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "renew B 2 A 1"}));
  time_point const written = now;
  settle_connection();
  renewed({1, 1});
  EXPECT_EQ(callers[0]->deadline(), written + good_for);
}

}  // namespace
}  // namespace conch::engine
