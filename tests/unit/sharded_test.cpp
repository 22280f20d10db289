// The masters of a Cluster: each lock is asked for where its slot is, and goes with it.

#include "sharded_fixture.hpp"

namespace conch::engine {
namespace {

using namespace std::chrono_literals;

TEST_F(sharded_test, EachLockIsAskedForAtTheMasterOfItsSlot) {
  start_connected();
  ask("x", "L1");
  ask("y", "L11");
  ask("z", "L21");
  EXPECT_EQ(sent(), (texts{"a: acquire L1 4", "b: acquire L11 5", "c: acquire L21 6"}))
      << "ids are counted for the client";
  grant(1, 100);
  EXPECT_EQ(received(), texts{"y granted 100"});
}

TEST_F(sharded_test, BeforeTheFirstMapTheMapIsWanted) {
  start();
  caller& x = ask("x", "L1");
  EXPECT_EQ(unrouted.wants, 1);
  EXPECT_TRUE(owner_is_wanted);
  owners[1] = 0;
  backend->moved(now);
  EXPECT_FALSE(owner_is_wanted);
  EXPECT_EQ(ways[0].wants, 1);
  connect(0);
  EXPECT_EQ(sent(), (texts{"a: kill here", "a: subscribe", "a: prove", "a: acquire L1 1"}));
  grant(0, 100);
  EXPECT_EQ(received(), texts{"x granted 100"});
  release(x);
  EXPECT_EQ(sent(), texts{"a: release L1 1"}) << "nobody had to move: it is not patient";
  answer(0, {1});
  expect_clean();
}

TEST_F(sharded_test, AMapThatCannotBeHadIsAnErrorAsOfOneServer) {
  start();
  settings.offline_timeout = 5s;
  ask("x", "L1");
  unrouted.events->connect_failed(fault::try_later, "redis://h:1: refused", now);
  advance(4s);
  EXPECT_EQ(received(), texts{});
  advance(2s);
  EXPECT_EQ(received(), texts{"x failed unreachable"});
  ask("y", "L2");
  unrouted.events->connect_failed(fault::not_supported, "not a node of a Cluster", now);
  EXPECT_EQ(received(), texts{"y failed not_supported"});
}

// ------------------------------------------------------------------------------------------------- what moves

TEST_F(sharded_test, AWaiterAsksAtTheNewOwnerUnderItsIdWithItsTicket) {
  start_connected();
  ask("x", "L1");
  queue(0, 77);
  (void)sent();
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: acquire L1 4 !"}) << "patient: the others have not come yet";
  EXPECT_EQ(last.ticket, 77);
  queue(1, 77);
  move(1, 0);
  EXPECT_EQ(sent(), texts{"a: acquire L1 4 !"});
}

TEST_F(sharded_test, AHoldIsVerifiedAtTheNewOwnerAtOnceAndReleasedPatiently) {
  start_connected();
  caller& x = ask("x", "L1");
  grant(0, 100);
  (void)sent();
  received();
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: renew L1 4"});
  renewed(1, {1});
  EXPECT_EQ(received(), texts{});
  advance(1s);
  (void)sent();
  release(x);
  EXPECT_EQ(sent(), texts{"b: release L1 4 !"});
}

TEST_F(sharded_test, AHoldThatTheNewOwnerDoesNotKnowIsLostAtOnce) {
  start_connected();
  ask("x", "L1");
  grant(0, 100);
  received();
  move(1, 1);
  (void)sent();
  renewed(1, {0});
  EXPECT_EQ(received(), texts{"x lost lost"});
  EXPECT_EQ(sent(), texts{"b: release L1 4 !"}) << "it may still have the place that we had before that grant";
}

TEST_F(sharded_test, ARequestThatIsInFlightIsAskedAgainAndItsOldAnswerIsNotHeard) {
  start_connected();
  ask("x", "L1");
  (void)sent();
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: acquire L1 4 !"}) << "it may be queued already";
  answer(0, fault::try_later, "MOVED 1 b");
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(sent(), texts{});
  grant(1, 100);
  EXPECT_EQ(received(), texts{"x granted 100"});
}

TEST_F(sharded_test, AReleaseThatIsInFlightIsRepeatedAndWasHeld) {
  start_connected();
  caller& x = ask("x", "L1");
  grant(0, 100);
  received();
  release(x);
  (void)sent();
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: release L1 4 !"});
  answer(1, {0, 0, 0, server_us()});  // not ours: it had been carried out before the slot moved
  EXPECT_EQ(received(), texts{"x released ok"});
  answer(0, {1});
  EXPECT_EQ(received(), texts{});
  expect_clean();
}

TEST_F(sharded_test, ALeaveThatIsInFlightIsRepeated) {
  start_connected();
  caller& x = ask("x", "L1");
  queue(0);
  cancel(x, cancel_type::total);
  EXPECT_EQ(sent(), (texts{"a: acquire L1 4", "a: leave L1 4"}));
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: leave L1 4 !"});
  answer(0, {0, 0, 0, server_us()});
  EXPECT_EQ(received(), texts{}) << "the answer of one that may not have had the slot any more";
  answer(1, {0, 0, 0, server_us()});
  EXPECT_EQ(received(), texts{"x failed cancelled"});
  expect_clean();
}

TEST_F(sharded_test, ARenewalThatIsInFlightIsRepeated) {
  start_connected();
  ask("x", "L1");
  grant(0, 100);
  received();
  advance(11s);
  (void)sent();
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: renew L1 4"});
  renewed(0, {0});
  EXPECT_EQ(received(), texts{}) << "not theirs to say";
  renewed(1, {1});
  EXPECT_EQ(received(), texts{});
}

TEST_F(sharded_test, WhatIsInFlightOnAConnectionThatIsCutBehindAMoveIsAskedForAtTheNewOwnerAlone) {
  start_connected();
  ask("kept", "K1");
  grant(0, 100);
  caller& given = ask("given", "G1");
  grant(0, 101);
  caller& left = ask("left", "L1");
  queue(0);
  advance(11s);
  release(given);
  cancel(left, cancel_type::total);
  ask("new", "N1");
  received();
  (void)sent();
  auto const of_locks = [](texts const& all) {
    return std::count_if(all.begin(), all.end(), [](std::string const& one) {
      return one.find("K1") != one.npos || one.find("G1") != one.npos || one.find("L1") != one.npos ||
             one.find("N1") != one.npos;
    });
  };
  move(1, 1);
  texts const there = sent();
  EXPECT_EQ(of_locks(there), 4) << testing::PrintToString(there);
  for (std::string const& one : there) EXPECT_TRUE(one.starts_with("b: ")) << one;
  disconnect(0);
  EXPECT_EQ(received(), texts{});
  connect(0, "2");
  texts const here = sent();
  EXPECT_EQ(of_locks(here), 0) << testing::PrintToString(here);
  EXPECT_EQ(received(), texts{});
  std::deque<std::string> const asked = ways[1].unanswered;
  for (std::string const& one : asked) {
    if (one.starts_with("acquire")) grant(1, 200);
    else if (one.starts_with("renew")) renewed(1, {1});
    else answer(1, {0, 0, 0, server_us()});
  }
  texts told = received();
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told, (texts{"given released ok", "left failed cancelled", "new granted 200"}));
}

class tries_in_flight : public sharded_test {
 public:
  /// Two locks in one script at a; then b has their slot.
  void begin() {
    start_connected();
    std::vector<named_acquisition> all;
    for (char const* name : {"A1", "B1"}) {
      auto& a = *callers.emplace_back(std::make_unique<caller>());
      a.label = name;
      a.once = true;
      a.lease = 30s;
      all.push_back({&a, name});
    }
    cohort->try_all(all, now);
    EXPECT_EQ(sent(), texts{"a: try all A1 4 B1 5"});
    move(1, 1);
    for (std::string const& one : sent()) EXPECT_TRUE(one.starts_with("b: ")) << one;
  }
};

TEST_F(tries_in_flight, AreNotGrantedByTheFormerOwner) {
  begin();
  answer(0, {server_us(), 100, 101});
  EXPECT_EQ(received(), texts{}) << "the former owner has no say in it";
}

TEST_F(tries_in_flight, OnAConnectionThatIsCutAreNotAskedForThereAgain) {
  begin();
  disconnect(0);
  connect(0, "2");
  for (std::string const& one : sent()) EXPECT_TRUE(one.find("A1") == one.npos && one.find("B1") == one.npos) << one;
  EXPECT_EQ(received(), texts{});
}

TEST_F(sharded_test, AnIdThatWasUsedAfterItsEndIsGivenBackWhereItsPlaceIsNow) {
  start_connected();
  ask("x", "L1", {.once = true});
  move(1, 1);
  answer(1, {2, 30'000, server_us()});
  EXPECT_EQ(received(), texts{"x busy"});
  (void)sent();
  move(1, 0);
  grant(0, 100);  // the slot was back when it came to the old request
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(sent(), texts{"a: release L1 4 !"});
  answer(0, {1});
  expect_clean();
}

TEST_F(sharded_test, AWaiterWhoseOwnerIsNotConnectedYetWaitsForItsConnection) {
  start_connected();
  ask("x", "L1");
  queue(0);
  (void)sent();
  disconnect(1);
  move(1, 1);
  EXPECT_EQ(sent(), texts{});
  connect(1);
  EXPECT_EQ(sent(), (texts{"b: kill here", "b: subscribe", "b: prove", "b: acquire L1 4 !"}));
}

TEST_F(sharded_test, APushFromTheFormerOwnerIsAskedAbout) {
  start_connected();
  ask("x", "L1");
  queue(0);
  move(1, 1);
  queue(1);
  (void)sent();
  ways[0].events->pushed(protocol::pushed_grant{"L1", 4, 100, server_us(), 3s}, now);
  EXPECT_EQ(received(), texts{}) << "it may only believe that it has the slot";
  EXPECT_EQ(sent(), texts{"b: acquire L1 4 !"});
  grant(1, 100);
  EXPECT_EQ(received(), texts{"x granted 100"});
}

TEST_F(sharded_test, ADeafSlotIsAskedForOnceMoreAtTheSameMaster) {
  start_connected();
  ask("x", "L1");
  queue(0);
  ask("y", "L2");
  grant(0, 100);
  ask("z", "L3");
  queue(0);
  (void)sent();
  backend->unsubscribed(0, 1, now);
  backend->unsubscribed(0, 2, now);
  advance(1ms);
  EXPECT_EQ(sent(), (texts{"a: acquire L1 4", "a: renew L2 5"}));
}

TEST_F(sharded_test, AReleaseIsNotSentOnceMoreWithAQuestionThatWasAskedMeanwhile) {
  start_connected();
  caller& x = ask("x", "L1");
  grant(0, 100);
  ask("y", "L1");
  (void)sent();
  advance(1s);  // longer than what one client may do before it is queued again
  release(x);
  EXPECT_EQ(sent(), texts{"a: release L1 4 again 5"});
  backend->unsubscribed(0, 1, now);
  advance(1ms);
  EXPECT_EQ(sent(), texts{"a: acquire L1 5"});
  answer(0, fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"a: source release L1 4"}) << "that grant is not to be put in line behind itself";
}

TEST_F(sharded_test, ACleanUpThatWasPutOffIsTriedAgainWhenItsSlotHasLeft) {
  start_connected();
  caller& x = ask("x", "L1");
  grant(0, 100);
  release(x);
  for (int i = 0; i < 6; ++i) {
    answer(0, fault::try_later, "TRYAGAIN");
    advance(i < 5 ? 4s : 1ms);
  }
  (void)sent();
  backend->unsubscribed(0, 1, now);
  advance(1ms);
  EXPECT_EQ(sent(), texts{"a: release L1 4"}) << "it would have waited for more than a second";
}

// ------------------------------------------------------------------------------------ renewals in a slot on its way

TEST_F(sharded_test, RenewalsAreAScriptForEachSlot) {
  start_connected();
  for (char const* name : {"L2", "A1", "B2", "L1"}) {
    ask(name, name);
    grant(0, 100);
    advance(1ms);
  }
  (void)sent();
  advance(11s);
  EXPECT_EQ(sent(), (texts{"a: renew A1 5 L1 7", "a: renew L2 4 B2 6"}));
}

TEST_F(sharded_test, ARenewalFollowsAskAndThePlaceStays) {
  start_connected();
  caller& x = ask("x", "L1");
  grant(0, 100);
  received();
  advance(11s);
  (void)sent();
  answer(0, fault::try_later, "ASK b");
  EXPECT_EQ(sent(), (texts{"b: asking", "b: renew L1 4"}));
  time_point const before = x.deadline();
  advance(10ms);
  answer(1, {});
  renewed(1, {1});
  EXPECT_GT(x.deadline(), before);
  advance(11s);
  EXPECT_EQ(sent(), texts{"a: renew L1 4"}) << "ASK changes nothing";
}

TEST_F(sharded_test, AHoldThatIsNeitherHereNorThereIsLost) {
  start_connected();
  ask("x", "L1");
  grant(0, 100);
  received();
  advance(11s);
  answer(0, fault::try_later, "ASK b");
  (void)sent();
  answer(1, {});
  renewed(1, {0});
  EXPECT_EQ(received(), texts{"x lost lost"});
  advance(1ms);
  EXPECT_EQ(stats.held, 0u);
}

TEST_F(sharded_test, ARenewalOfSeveralThatAreDividedIsSentForEachAlone) {
  start_connected();
  ask("x", "L1");
  grant(0, 100);
  ask("y", "M1");
  grant(0, 101);
  received();
  advance(11s);
  EXPECT_EQ(sent(), (texts{"a: acquire L1 4", "a: acquire M1 5", "a: renew L1 4 M1 5"}));
  answer(0, fault::try_later, "TRYAGAIN");
  EXPECT_EQ(sent(), (texts{"a: renew L1 4", "a: renew M1 5"}));
  renewed(0, {1});
  answer(0, fault::try_later, "ASK b");
  EXPECT_EQ(sent(), (texts{"b: asking", "b: renew M1 5"}));
  answer(1, {});
  renewed(1, {1});
  EXPECT_EQ(received(), texts{});
}

TEST_F(sharded_test, ARenewalThatIsPutOffOnceMoreIsForLater) {
  start_connected();
  ask("x", "L1");
  grant(0, 100);
  received();
  advance(11s);
  answer(0, fault::try_later, "ASK b");
  (void)sent();
  answer(1, {});
  answer(1, fault::try_later, "ASK a");
  EXPECT_EQ(sent(), texts{});
  advance(2s);
  EXPECT_EQ(sent(), texts{"a: renew L1 4"});
}

// ------------------------------------------------------------------------------------------------ several locks

TEST_F(sharded_test, TriesOfOneSlotAreOneScriptAndOthersGoEachToItsMaster) {
  start_connected();
  std::vector<named_acquisition> all;
  for (char const* name : {"A1", "B1", "C2", "D11"}) {
    auto& a = *callers.emplace_back(std::make_unique<caller>());
    a.label = name;
    a.once = true;
    a.lease = 30s;
    all.push_back({&a, name});
  }
  cohort->try_all(std::span{all}.first(2), now);
  EXPECT_EQ(sent(), texts{"a: try all A1 4 B1 5"});
  answer(0, {server_us(), 100, 101});
  EXPECT_EQ(received(), (texts{"A1 granted 100", "B1 granted 101"}));
  cohort->try_all(std::span{all}.subspan(2), now);
  EXPECT_EQ(sent(), (texts{"a: try C2 6", "b: try D11 7"}));
}

// ------------------------------------------------------------------------------------------- questions and orders

TEST_F(sharded_test, AQuestionGoesWithItsSlotAndAnOrderThatMustNotBeRepeatedStays) {
  start_connected();
  admin_request question, order;
  question.what = admin_request::kind::inspect;
  order.what = admin_request::kind::force;
  question.name = order.name = "L1";
  cohort->administer(question, *this, now);
  cohort->administer(order, *this, now);
  EXPECT_EQ(sent(), (texts{"a: inspect L1", "a: force L1"}));
  move(1, 1);
  EXPECT_EQ(sent(), texts{"b: inspect L1"});
  answer(0, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(received(), texts{}) << "the former owner's";
  answer(0, fault::try_later, "MOVED 1 b");
  advance(200ms);
  EXPECT_EQ(sent(), texts{"b: force L1"}) << "put off, so it was not carried out";
  answer(1, {0, 0, 0, 0, 0, 0});
  answer(1, {1, server_us()});
  EXPECT_EQ(received(), (texts{"admin L1 0", "admin L1 1"}));
}

TEST_F(sharded_test, AConnectionToOneThatHasNoSlotsAnyMoreEnds) {
  start_connected();
  for (unsigned slot = 20; slot < 30; ++slot) owners[slot] = 0;
  backend->moved(now);
  advance(2s);
  EXPECT_EQ(ways[2].drops, texts{"it has no slots any more"});
  EXPECT_EQ(ways[1].drops, texts{});
}

TEST_F(sharded_test, ANodeThatDoesNotCountOurOwnEarIsLeftAndRefusesNobody) {
  start_connected();
  ask("x", "L1");
  queue(0);
  received();
  disconnect(0);
  ways[0].events->connected_as({7, "here", server_us(), now, "1a"}, now);
  answer(0, {});   // kill
  answer(0, {});   // subscribe: a replica takes it
  answer(0, {0});  // prove
  EXPECT_EQ(ways[0].drops, texts{"the node does not deliver our own pushes; it may be a replica now"});
  EXPECT_EQ(received(), texts{});
}

}  // namespace
}  // namespace conch::engine
