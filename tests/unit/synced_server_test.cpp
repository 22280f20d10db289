// A server whose grants count when replicas have them: two wires that write down what they are told, and a cohort.
#include "protocol/synced_server.hpp"

#include "unit/engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

struct written_wire final : wire {
  void send(command const& c) override {
    sent_command one = write_down(c);
    last = one;
    sent.push_back(one.text);
  }
  void want_connection() override { ++wants; }
  void drop_connection(std::string_view why) override { drops.emplace_back(why); }
  texts take() { return std::exchange(sent, {}); }

  texts sent, drops;
  sent_command last;
  int wants = 0;
};

class SyncedServer : public testing::Test, public acquisition_events, public log_sink {
 public:
  SyncedServer() {
    settings.sync_replicas = 2;
    settings.sync_timeout = 1s;
    both = std::make_unique<synced_server>(settings, 1, nonces, timers, first, second, of_this_process, *this, stats);
    of_this_process.use(*both);
  }

  void connect(std::string const& run = "1") {
    both->first().receiver().connected_as({1, "here:1", 1'700'000'000'000'000, now, run}, now);
    while (!first.sent.empty() && (first.sent.front().starts_with("kill") || first.sent.front() == "subscribe" ||
                                   first.sent.front() == "prove")) {
      first.sent.erase(first.sent.begin());
      ++unheard;
    }
    for (; unheard > 0; --unheard) tell({1});
    connect_second(run);
  }
  void connect_second(std::string const& run = "1") {
    both->second().connected_as({2, "here:2", 1'700'000'000'000'000, now, run}, now);
  }

  caller& new_caller(std::string label) {
    auto& a = *callers.emplace_back(std::make_unique<caller>());
    a.label = std::move(label);
    a.lease = std::chrono::duration_cast<milliseconds>(settings.lease);
    return a;
  }

  caller& ask(std::string label, std::string_view lock = "L", duration wait = duration::max(), bool once = false) {
    caller& a = new_caller(std::move(label));
    a.once = once;
    if (wait != duration::max()) a.until = now + wait;
    of_this_process.acquire(a, lock, now);
    return a;
  }

  void tell(numbers const& n) { both->first().receiver().answered({fault::none, {}, n}, now); }
  void grant(std::int64_t fence = 100) { tell({1, fence, 1'700'000'000'000'000}); }
  void tell_second(numbers const& n) { both->second().answered({fault::none, {}, n}, now); }
  void fail_second(fault what, std::string_view words) { both->second().answered({what, words, {}}, now); }
  /// The answers to a script for this many locks, the mark and the WAIT.
  void acknowledge(std::int64_t replicas, std::size_t locks = 1) {
    numbers n(locks + 1, 1);
    tell_second(n);
    tell_second({0});
    tell_second({replicas});
  }

  void advance(duration d) {
    time_point const until = now + d;
    while (timers.next() <= until) {
      now = std::max(now, timers.next());
      of_this_process.tick(now);
    }
    now = until;
  }

  /// Holding lock "L" since now, with both replicas.
  caller& holding() {
    connect();
    caller& a = ask("a");
    grant();
    acknowledge(2);
    EXPECT_EQ(received(), texts{"a granted"});
    first.take();
    second.take();
    return a;
  }

  texts received() { return std::exchange(events, {}); }

  void on_acquired(acquisition& a, acquired how, error_code why) override {
    std::string const what = how == acquired::granted ? "granted" : how == acquired::busy ? "busy" : why.message();
    events.push_back(static_cast<caller&>(a).label + ' ' + what);
  }
  void on_lost(acquisition& a, error_code why) override {
    events.push_back(static_cast<caller&>(a).label + " lost: " + to_text(why));
  }
  void on_requested(acquisition& a) override { events.push_back(static_cast<caller&>(a).label + " requested"); }
  void on_released(acquisition& a, bool was_held, error_code) override {
    events.push_back(static_cast<caller&>(a).label + (was_held ? " released" : " was not held"));
  }
  void on_observed(acquisition& a, observation const& o) override {
    if (o.what == observation::kind::retried && o.again == retry_reason::replicas_missing)
      observed.push_back(static_cast<caller&>(a).label);
  }
  void note(bool, std::string_view) override {}

  static config observed_settings() {
    config c;
    c.observer = std::make_shared<observer>();
    return c;
  }

  config settings = observed_settings();
  time_point now{1h};
  timer_queue timers;
  statistics stats;
  table_of_nonces nonces;
  written_wire first, second;
  std::vector<std::unique_ptr<caller>> callers;
  texts events;
  texts observed;  // the acquires that were asked for again since replicas are missing
  int unheard = 0;
  std::unique_ptr<synced_server> both;  // outlives the cohort, whose places are its own
  engine::cohort of_this_process{settings, timers, *this, stats};
};

TEST_F(SyncedServer, AGrantIsDeliveredWhenEnoughReplicasHaveIt) {
  connect();
  caller& a = ask("a");
  EXPECT_EQ(first.take(), texts{"acquire L 1"});
  EXPECT_EQ(first.last.lease, 3s) << "for a claim only";
  grant();
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  time_point const written = now;
  advance(5ms);
  tell_second({1'700'000'000'000'000, 1});
  tell_second({0});
  EXPECT_EQ(received(), texts{}) << "the server has it; the replicas may not";
  advance(5ms);
  tell_second({2});
  EXPECT_EQ(received(), texts{"a granted"});
  EXPECT_EQ(a.deadline(), written + good_for(30s)) << "from before the script was written";
  EXPECT_EQ(stats.sync_wait.count, 1u);
}

TEST_F(SyncedServer, APushedGrantIsRenewedOnTheSecondConnectionFirst) {
  connect();
  ask("a");
  tell({0, 30'000, 1'700'000'000'000'000, 77});
  both->first().receiver().pushed(protocol::pushed_grant{"L", 1, 100, 1'700'000'000'000'000, 3s}, now);
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"});
  EXPECT_EQ(stats.grants_pushed, 1u);
}

TEST_F(SyncedServer, APermitThatTooFewReplicasHaveIsGivenBackByAScriptOfItsOwnAndAskedForByAnother) {
  connect();
  caller& a = new_caller("a");
  a.permit = {.kind = permit_kind::semaphore, .limit = 3, .weight = 1};
  of_this_process.acquire(a, "L", now);
  EXPECT_EQ(first.take(), texts{"acquire L 1 permit 1 of 3"});
  tell({1, 100, 1'700'000'000'000'000, 0});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(second.take(), (texts{"renew permits L 1", "mark", "wait 2 1000"}));
    acknowledge(1);
  }
  EXPECT_EQ(first.take(), (texts{"release L 1 permit 1 of 3", "acquire L 2 permit 1 of 3"}))
      << "no script of permits does both";
  tell({1, 0, 0, 1'700'000'000'000'000});
  tell({1, 200, 1'700'000'000'000'000, 0});
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"});
  EXPECT_EQ(first.drops, texts{});
}

TEST_F(SyncedServer, WhatIsGrantedWhileAWaitBlocksGoesWithTheNextBatch) {
  connect();
  ask("a", "A");
  ask("b", "B");
  ask("c", "C");
  grant();
  grant();
  grant();
  EXPECT_EQ(second.take(), (texts{"renew A 1", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"}) << "the count is not one of what was written later";
  EXPECT_EQ(second.take(), (texts{"renew B 2 C 3", "mark", "wait 2 1000"}));
  acknowledge(2, 2);
  EXPECT_EQ(received(), (texts{"b granted", "c granted"}));
}

TEST_F(SyncedServer, ARequestToLetGoThatComesBeforeTheReplicasHaveItIsToldWithTheGrant) {
  connect();
  ask("a");
  grant();
  both->first().receiver().pushed(request_to_let_go{"L", 1}, now);
  EXPECT_EQ(received(), texts{}) << "nobody holds it yet";
  acknowledge(2);
  EXPECT_EQ(received(), (texts{"a granted", "a requested"}));
}

TEST_F(SyncedServer, WithTooFewItIsAskedOnceMoreAndThenGivenBackAndAskedForAgain) {
  connect();
  ask("a", "L", 10s);
  grant();
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  advance(1s);
  acknowledge(1);
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  first.take();
  advance(1s);
  acknowledge(1);
  EXPECT_EQ(first.take(), texts{"release L 1 again 2"});
  EXPECT_EQ(second.take(), texts{});
  tell({1, 0, 0, 1'700'000'000'000'000, 1, 200});
  EXPECT_EQ(second.take(), (texts{"renew L 2", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"});
  EXPECT_EQ(stats.sync_short, 2u);
  EXPECT_EQ(observed, texts{"a"});
}

TEST_F(SyncedServer, TheErrorOfAWaitNamesHowManyReplicasHaveAcknowledged) {
  connect();
  ask("a", "L", 1500ms);
  grant();
  advance(1s);
  acknowledge(1);
  advance(500ms);
  EXPECT_EQ(received(), texts{}) << "its WAIT is not over";
  advance(500ms);
  first.take();
  acknowledge(1);
  EXPECT_EQ(received(), texts{"a too few replicas have the lock: 1 of 2 replicas (waiting for lock \"L\")"});
  EXPECT_EQ(first.take(), texts{"release L 1"});
}

TEST_F(SyncedServer, AWaitThatEndsDuringItsWaitTakesWhatIsAcknowledged) {
  connect();
  ask("a", "L", 500ms);
  grant();
  advance(550ms);
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"});
}

TEST_F(SyncedServer, AWaitThatEndsDuringItsWaitNamesWhatThatOneSays) {
  connect();
  ask("a", "L", 500ms);
  grant();
  advance(550ms);
  EXPECT_EQ(received(), texts{});
  acknowledge(1);
  EXPECT_EQ(received(), texts{"a too few replicas have the lock: 1 of 2 replicas (waiting for lock \"L\")"})
      << "and not what was known at the end of its time";
}

TEST_F(SyncedServer, AWaitThatEndsDuringItsWaitIsNotLongerThanItsUserAllowsAndOneMomentMore) {
  connect();
  ask("a", "L", 500ms);
  grant();
  advance(600ms);  // a few usual round trips; its WAIT has a second
  EXPECT_EQ(received(), texts{"a too few replicas have the lock: 0 of 2 replicas so far (waiting for lock \"L\")"});
  acknowledge(2);
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(first.take().back(), "release L 1") << "what comes later is given back";
}

TEST_F(SyncedServer, ATryFailsAfterASecondAttempt) {
  connect();
  ask("a", "L", duration::max(), true);
  grant();
  acknowledge(0);
  EXPECT_EQ(received(), texts{});
  first.take();
  acknowledge(1);
  EXPECT_EQ(received(), texts{"a too few replicas have the lock: 1 of 2 replicas (trying lock \"L\")"});
  EXPECT_EQ(first.take(), texts{"release L 1"});
}

TEST_F(SyncedServer, ATryThatFailsLeavesThoseWaitingThatWait) {
  connect();
  ask("a", "L", duration::max(), true);
  ask("b");
  grant();
  acknowledge(0);
  acknowledge(0);
  EXPECT_EQ(received(), texts{"a too few replicas have the lock: 0 of 2 replicas (trying lock \"L\")"});
  EXPECT_EQ(first.take().back(), "acquire L 2") << "for the other";
  tell({1});
  grant(200);
  acknowledge(2);
  EXPECT_EQ(received(), texts{"b granted"});
}

TEST_F(SyncedServer, ATryWhoseClaimIsLostAsksAgain) {
  connect();
  ask("a", "L", duration::max(), true);
  grant();
  first.take();
  tell_second({1'700'000'000'000'000, 0});
  tell_second({0});
  tell_second({2});
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(first.take(), (texts{"try L 2", "release L 1"}));
}

TEST_F(SyncedServer, ARenewalThatTooFewHaveMovesNoDeadline) {
  caller& a = holding();
  time_point const before = a.deadline();
  advance(10s);
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  acknowledge(1);
  EXPECT_EQ(a.deadline(), before);
  while (received().empty() && now < before) {
    advance(100ms);
    if (!second.take().empty()) acknowledge(1);
  }
  EXPECT_LT(now, before);
  EXPECT_GE(now, before - settings.stop_margin);
  EXPECT_EQ(stats.losses, 1u);
}

TEST_F(SyncedServer, ARenewalThatReplicasHaveMovesTheDeadlineFromItsWriting) {
  caller& a = holding();
  advance(10s);
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  time_point const before = a.deadline();
  acknowledge(2);
  EXPECT_GT(a.deadline(), before + 9s);
  EXPECT_LE(a.deadline(), now + good_for(30s));
}

TEST_F(SyncedServer, AHoldThatTheServerDoesNotHaveIsLost) {
  holding();
  advance(10s);
  tell_second({1'700'000'000'000'000, 0});
  tell_second({0});
  tell_second({2});
  EXPECT_EQ(received(), texts{"a lost: lost"});
}

TEST_F(SyncedServer, AfterTheSecondConnectionWasLostItIsAskedAgainOnTheNext) {
  connect();
  ask("a");
  grant();
  second.take();
  both->second().disconnected("lost", now);
  EXPECT_EQ(second.take(), texts{});
  advance(100ms);
  EXPECT_GT(second.wants, 0);
  connect_second();
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"});
  EXPECT_EQ(stats.sync_short, 0u);
}

TEST_F(SyncedServer, AScriptThatIsNotKnownIsSentWithItsSourceAndAnotherWait) {
  connect();
  ask("a");
  grant();
  second.take();
  fail_second(fault::no_script, "NOSCRIPT");
  tell_second({0});
  tell_second({2});
  EXPECT_EQ(received(), texts{}) << "the replicas have the mark only";
  EXPECT_EQ(second.take(), (texts{"source renew L 1", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a granted"});
}

TEST_F(SyncedServer, ASecondConnectionToAnotherServerIsNotUsed) {
  connect();
  both->second().disconnected("a failover", now);
  connect_second("2");
  both->first().receiver().disconnected("a failover, and back", now);
  advance(1ms);
  both->first().receiver().connected_as({3, "here:3", 1'700'000'000'000'000, now, "1"}, now);
  for (int answers = static_cast<int>(first.take().size()); answers > 0; --answers) tell({1});
  ask("a");
  grant();
  EXPECT_EQ(second.take(), texts{}) << "the new master has not granted it";
  advance(3s);
  EXPECT_EQ(second.drops, texts{"leads to another server than the first connection"});
  EXPECT_EQ(first.take().back(), "release L 1 again 2") << "the claim is over";
}

// After a failover without a disconnection the first one is at a server that is a replica now, and has nothing to ask
// that would tell it so.
TEST_F(SyncedServer, AYoungerSecondConnectionToAnotherServerMovesTheFirst) {
  caller& a = holding();
  both->second().disconnected("UNBLOCKED", now);
  advance(10s);
  connect_second("2");
  EXPECT_EQ(second.take(), texts{});
  advance(100ms);
  EXPECT_EQ(second.drops, texts{});
  EXPECT_EQ(first.drops, texts{"leads to another server than the second connection, which is younger"});
  advance(100ms);
  EXPECT_EQ(first.drops.size(), 1u) << "once";
  both->first().receiver().disconnected("as asked", now);
  time_point const before = a.deadline();
  advance(10ms);
  both->first().receiver().connected_as({1, "here:1", 1'700'000'000'000'000, now, "2"}, now);
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_GT(a.deadline(), before);
  EXPECT_EQ(second.drops, texts{});
}

// The other way round nothing is waited for: a hold of a short lease has no time to lose.
TEST_F(SyncedServer, AnOlderSecondConnectionToAnotherServerIsLeftAtOnce) {
  caller& a = holding();
  both->second().disconnected("a failover", now);
  both->first().receiver().disconnected("a failover", now);
  advance(10ms);
  connect_second("1");  // shortly before that server becomes a replica, and cuts nobody
  advance(5ms);
  both->first().receiver().connected_as({1, "here:1", 1'700'000'000'000'000, now, "2"}, now);
  advance(1us);
  EXPECT_EQ(second.drops, texts{"leads to another server than the first connection"});
  EXPECT_EQ(first.drops, texts{});
  both->second().disconnected("as asked", now);
  second.take();
  time_point const before = a.deadline();
  advance(1ms);
  connect_second("2");
  advance(10s);
  EXPECT_EQ(second.take(), (texts{"renew L 1", "mark", "wait 2 1000"}));
  acknowledge(2);
  EXPECT_GT(a.deadline(), before);
  EXPECT_EQ(second.drops.size(), 1u);
}

// A first connection that is made anew asks for the whole lease of what it has been granted. Without replicas that is
// worth nothing.
TEST_F(SyncedServer, AClaimIsOverInItsTimeWhateverTheServerWasAskedForSince) {
  connect();
  ask("a", "L", duration::max(), true);
  grant();
  second.take();
  both->second().disconnected("gone", now);
  both->first().receiver().disconnected("gone", now);
  first.take();
  both->first().receiver().connected_as({3, "here:3", 1'700'000'000'000'000, now, "1"}, now);
  texts const written = first.take();
  ASSERT_NE(std::find(written.begin(), written.end(), "renew L 1"), written.end());
  for (std::string const& one : written)
    tell(one.starts_with("renew") ? numbers{1'700'000'000'000'000, 1} : numbers{1});
  advance(2900ms);
  EXPECT_EQ(received(), texts{});
  advance(100ms);
  EXPECT_EQ(received(), texts{"a too few replicas have the lock: 0 of 2 replicas (trying lock \"L\")"});
}

TEST_F(SyncedServer, WithoutTheRightToWaitItSaysSoAtOnce) {
  connect();
  ask("a");
  grant();
  tell_second({1'700'000'000'000'000, 1});
  tell_second({0});
  fail_second(fault::access_denied, "NOPERM this user has no permissions to run the 'wait' command");
  EXPECT_EQ(received(), texts{"a the lock server denies access: NOPERM this user has no permissions to run the 'wait' "
                              "command (waiting for lock \"L\")"});
}

TEST_F(SyncedServer, AWaitThatIsNotAnsweredEndsTheConnection) {
  connect();
  ask("a");
  grant();
  advance(3500ms);
  EXPECT_EQ(second.drops, texts{});
  advance(600ms);
  EXPECT_EQ(second.drops, texts{"the server did not answer a WAIT in time"});
}

// Else a connection that has died would be noticed when it is too late for another renewal.
TEST_F(SyncedServer, AWaitForAShortLeaseEndsTheConnectionInTimeForAnotherRenewal) {
  settings.sync_timeout = 200ms;
  connect();
  caller& a = new_caller("a");
  a.lease = milliseconds{1'200};
  of_this_process.acquire(a, "L", now);
  grant();
  advance(settings.sync_timeout + a.lease / 3 - 1ms);
  EXPECT_EQ(second.drops, texts{});
  advance(1ms);
  EXPECT_EQ(second.drops, texts{"the server did not answer a WAIT in time"});
}

TEST_F(SyncedServer, AReleaseIsNotAcknowledged) {
  caller& a = holding();
  of_this_process.release(a, now);
  EXPECT_EQ(first.take(), texts{"release L 1"});
  tell({1});
  EXPECT_EQ(received(), texts{"a released"});
  EXPECT_EQ(second.take(), texts{});
  EXPECT_EQ(of_this_process.find("L"), nullptr) << "nothing of the place is left";
}

TEST_F(SyncedServer, AWaitThatIsCancelledWhileItsGrantIsNotAcknowledgedGivesItBack) {
  connect();
  caller& a = ask("a");
  grant();
  first.take();
  of_this_process.cancel(a, cancel_type::terminal, now);
  EXPECT_EQ(first.take(), texts{"release L 1"});
  acknowledge(2);
  EXPECT_EQ(received(), texts{"a Operation canceled"});
  tell({1});
  EXPECT_EQ(of_this_process.find("L"), nullptr) << "nothing of the place is left";
}

}  // namespace
}  // namespace conch::engine
