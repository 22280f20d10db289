// A lock over several servers: details that a change breaks easily, and that random schedules seldom come to.
#include "quorum_fixture.hpp"

namespace conch::quorum::test {
namespace {

using events = std::vector<std::string>;

/// Stands in line at all servers, behind a client that has the lock, and is granted a vote by each of two pushes.
void wait_long_for_two_votes(world& w, std::int64_t first_fence, std::int64_t second_fence) {
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) {
    w.answer(i, {0, 30'000, w.server_us(i), w.wires[i]->unanswered.front().ticket, 77, 5, 1});
  }
  w.advance(2 * w.settings.quorum.vote_claim);
  for (std::size_t i : {0u, 1u}) {
    auto const claim = std::chrono::duration_cast<milliseconds>(w.settings.quorum.vote_claim);
    std::int64_t const fence = i == 0 ? first_fence : second_fence;
    w.servers[i]->receiver().pushed(
        protocol::pushed_grant{"L", w.wires[i]->all.front().id, fence, w.server_us(i), claim}, w.now);
  }
}

/// What is sent to that server is answered: confirmations by "not yours", releases, and a question by a vote.
void give_vote_anew(world& w, std::size_t i, std::int64_t fence) {
  while (!w.wires[i]->unanswered.empty()) {
    std::string const what = w.wires[i]->unanswered.front().what;
    if (what == "confirm") {
      w.answer(i, {w.server_us(i), 0, 0});
    } else if (what == "release") {
      w.answer(i, {0, 0, 0, w.server_us(i)});
    } else {
      w.yes(i, fence);
      return;
    }
  }
}

TEST(QuorumDetails, OfEqualTicketsTheLesserClientIsFirst) {
  for (std::int64_t const client : {std::int64_t{77}, std::int64_t{0xfedcba987654}}) {
    world w{5};
    w.ask();
    w.yes(0);
    w.in_line(1, client, w.wires[0]->all.front().ticket, false);
    EXPECT_EQ(w.wires[0]->count("release"), client == 77 ? 1u : 0u);
  }
}

TEST(QuorumDetails, VotesOfOneClientForTwoOfItsTicketsAreNoMajority) {
  world w{5};
  w.ask();
  w.yes(0);
  std::int64_t const mine = w.wires[0]->all.front().ticket;
  w.in_line(1, 77, mine + 10, false);
  w.in_line(2, 77, mine + 20, false);
  w.in_line(3, 77, mine + 10, false);
  EXPECT_EQ(w.wires[0]->count("release"), 0u);
}

TEST(QuorumDetails, AVoteIsNotGivenBackForAnEarlierAttemptOfTheSameClient) {
  world w{5};
  w.ask();
  w.yes(0);
  w.in_line(1, 0x0123456789ab, w.wires[0]->all.front().ticket - 10, true);
  EXPECT_EQ(w.wires[0]->count("release"), 0u);
}

TEST(QuorumDetails, AGrantByAPushIsCountedAsOne) {
  world w{3};
  wait_long_for_two_votes(w, 1000, 1000);
  EXPECT_EQ(w.events, events{"granted"});
  EXPECT_EQ(w.stats.grants_pushed, 1u);
}

TEST(QuorumDetails, P4AFenceHasAClaimToBeAgreedOnHoweverLongTheWaitWas) {
  world w{3};
  wait_long_for_two_votes(w, 1000, 1200);
  w.advance(w.settings.quorum.vote_claim / 4);
  EXPECT_TRUE(w.events.empty());
  for (std::size_t i : {0u, 1u}) EXPECT_EQ(w.wires[i]->count("release"), 0u);
}

TEST(QuorumDetails, P4AFenceThatIsNotAgreedOnIsGivenUpAndTheNextVotesAreCountedAnew) {
  world w{3};
  wait_long_for_two_votes(w, 1000, 1200);
  w.advance(w.settings.quorum.vote_claim + 5ms);
  for (std::size_t i : {0u, 1u}) EXPECT_EQ(w.wires[i]->count("release"), 1u);
  give_vote_anew(w, 0, 2000);
  give_vote_anew(w, 1, 2000);
  EXPECT_EQ(w.events, events{"granted"}) << "equal votes need no second round";
}

TEST(QuorumDetails, P6WhoLeavesWhileAFenceIsNotAgreedOnIsToldSoAfterAClaim) {
  world w{3};
  wait_long_for_two_votes(w, 1000, 1200);
  w.cohort->cancel(*w.callers.front(), engine::cancel_type::total, w.now);
  w.advance(w.settings.quorum.vote_claim + 5ms);
  EXPECT_EQ(w.events, events{"failed"});
  for (std::size_t i : {0u, 1u}) EXPECT_EQ(w.wires[i]->count("release"), 1u);
}

TEST(QuorumDetails, ATryThatHasWaitedForConnectionsGivesEachServerItsTime) {
  world w{3, {}, 0};
  w.ask(true);
  w.advance(100ms);
  for (std::size_t i = 0; i < 3; ++i) w.connect(i, 100h, true);
  w.yes(0);
  w.busy(1);
  EXPECT_TRUE(w.events.empty()) << "server 2 was asked just now";
  w.yes(2);
  EXPECT_EQ(w.events, events{"granted"});
}

TEST(QuorumDetails, ATryWhoseMajorityIsBackGivesThoseServersTheirTime) {
  world w{5};
  for (std::size_t i : {2u, 3u, 4u}) w.servers[i]->receiver().disconnected("away", w.now);
  w.ask(true);
  w.yes(0);
  w.yes(1);
  w.advance(100ms);
  w.ask_by_a_new_connection(2);
  w.ask_by_a_new_connection(3);
  w.busy(3);
  EXPECT_TRUE(w.events.empty()) << "server 2 was asked just now";
  w.yes(2);
  EXPECT_EQ(w.events, events{"granted"});
}

TEST(QuorumDetails, NobodyIsAskedBeforeAMajorityHasToldTheTime) {
  world w{3, {}, 0};
  w.ask();
  w.connect(0, 100h, true);
  EXPECT_EQ(w.wires[0]->count("acquire"), 0u) << "one clock does not agree on a place in the queue";
  w.connect(1, 100h, true);
  for (std::size_t i : {0u, 1u}) EXPECT_EQ(w.wires[i]->count("acquire"), 1u);
}

TEST(QuorumDetails, TheProposedFenceIsAheadOfTheServersClocksSoThatAllGiveTheSame) {
  world w{3};
  w.ask();
  EXPECT_NEAR(static_cast<double>(w.wires[0]->all.front().floor),
              static_cast<double>(w.server_us(2) - protocol::fence_epoch_us + 20'000), 1000);
}

TEST(QuorumDetails, AReleaseSaysWhatTheNextFenceShouldBeAboveSoThatAllGiveTheSame) {
  world w{3};
  engine::acquisition& a = w.ask();
  w.yes(0);
  w.yes(1);
  w.cohort->release(a, w.now);
  for (std::size_t i : {0u, 1u})
    EXPECT_EQ(w.wires[i]->all.back().ahead, w.server_us(2) - protocol::fence_epoch_us + 20'000);
}

TEST(QuorumDetails, AnErrorOfAServerWhereItStandsInLineByNowFailsNoWait) {
  config c;
  c.reconnect_max = 20ms;
  world w{3, c};
  w.ask();
  w.refuse(0);
  w.answer(0, {0, 0, 0, w.server_us()});  // the release of what was refused
  w.advance(w.settings.reconnect_max);
  w.in_line(0, 77, w.server_us() + 1'000'000, false);
  w.refuse(1);
  EXPECT_TRUE(w.events.empty()) << "one of three has failed";
}

TEST(QuorumDetails, AServerThatRefusedAfterTheOthersWereAskedIsAskedWhenTheyHaveRenewedSince) {
  world w{3};
  w.ask(true);
  w.yes(0);
  w.yes(1);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  w.busy(2);
  for (std::size_t i : {0u, 1u}) w.answer(i, {w.server_us(), 1, 100});
  EXPECT_EQ(w.wires[2]->count("try"), 1u) << "they were asked before it said so";
  w.advance(w.settings.renew_every + 500ms);
  for (std::size_t i : {0u, 1u}) w.answer(i, {w.server_us(), 1, 100});
  EXPECT_EQ(w.wires[2]->count("try"), 2u);
}

TEST(QuorumDetails, AServerIsGivenAHoldAgainForTheLeaseOfItsLastRenewal) {
  world w{3};
  engine::acquisition& a = w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  w.answer(0, {w.server_us(), 0, 0});
  for (std::size_t i : {1u, 2u}) w.answer(i, {w.server_us(), 1, 100});
  milliseconds const longer = 2 * a.lease;
  w.cohort->extend(a, longer, w.now);
  w.advance(1ms);
  for (std::size_t i : {1u, 2u}) {
    while (!w.wires[i]->unanswered.empty()) w.answer(i, {w.server_us(), 1, 100});
  }
  ASSERT_EQ(w.wires[0]->count("try"), 1u);
  EXPECT_EQ(w.wires[0]->all.back().lease, longer);
}

TEST(QuorumDetails, P10ALateVoteIsConfirmedAlone) {
  world w{3};
  w.ask();
  w.yes(0);
  w.yes(1);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i : {0u, 1u}) w.answer(i, {w.server_us(), 1, 100});
  w.yes(2);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(w.wires[i]->count("confirm"), 1u);
}

TEST(QuorumDetails, LocksThatWaitForRoomAreAskedForWhenOthersHaveTheirAnswers) {
  world w{3};
  for (int n = 0; n < 1000; ++n) w.ask(false, "lock " + std::to_string(n));
  std::size_t const asked = w.wires[0]->count("acquire");
  ASSERT_LT(asked, 1000u);
  for (std::size_t n = 0; n < asked; ++n) {
    for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  }
  w.advance(1ms);
  EXPECT_GT(w.wires[0]->count("acquire"), asked);
}

TEST(QuorumDetails, P4AWaitEndsWhenAMajorityOfServersRefusesTheClient) {
  world w{3, {}, 0};
  w.ask();
  w.servers[0]->receiver().connect_failed(protocol::fault::access_denied, "wrong password", w.now);
  EXPECT_TRUE(w.events.empty()) << "two may still connect";
  w.servers[1]->receiver().connect_failed(protocol::fault::access_denied, "wrong password", w.now);
  EXPECT_EQ(w.events, events{"failed"});
}

TEST(QuorumDetails, P6WhoLeavesAfterALongWaitGivesEachServerItsTimeToSayThatItLetGo) {
  world w{3};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i)
    w.answer(i, {0, 30'000, w.server_us(i), w.wires[i]->unanswered.front().ticket, 77, 5, 1});
  w.advance(2 * w.settings.quorum.vote_claim);
  w.cohort->cancel(*w.callers.front(), engine::cancel_type::total, w.now);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(w.wires[i]->count("leave"), 1u);
  EXPECT_TRUE(w.events.empty()) << "they were asked just now";
}

TEST(QuorumDetails, P6NothingIsSettledWhileAMajorityThatIsAwayHasTheLockStill) {
  world w{3};
  engine::acquisition& a = w.ask();
  w.yes(0);
  w.yes(1);
  for (std::size_t i = 0; i < 3; ++i) w.servers[i]->receiver().disconnected("away", w.now);
  w.cohort->release(a, w.now);
  EXPECT_FALSE(w.backend->settled());
}

}  // namespace
}  // namespace conch::quorum::test
