// A lock over several servers: details that a change breaks easily, and that random schedules seldom come to.
#include "quorum_fixture.hpp"

#include <malloc.h>

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

// ------------------------------------------------------------------------------------ what an earlier acquire has left

/// Says that nothing is left of what has ended.
void let_go(world& w) {
  for (std::size_t i = 0; i < w.wires.size(); ++i) {
    while (!w.wires[i]->unanswered.empty()) {
      std::string const what = w.wires[i]->unanswered.front().what;
      if (what == "confirm") w.answer(i, {w.server_us(i), 0, 0});
      else if (what == "leave" || what == "release") w.answer(i, {0, 0, 0, w.server_us(i)});
      else w.busy(i);
    }
  }
}

TEST(QuorumDetails, IsSettledWhereAMajorityHasEverythingBackAndTheOtherServerIsAway) {
  world w{3};
  engine::acquisition& a = w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.servers[2]->receiver().disconnected("away", w.now);
  w.wires[2]->unanswered.clear();
  w.cohort->release(a, w.now);
  EXPECT_FALSE(w.backend->settled()) << "two have it still";
  let_go(w);
  EXPECT_TRUE(w.backend->settled()) << "a client that closes does not wait for a server that is away";
}

void a_try_that_is_busy(world& w) {
  w.ask(true);
  for (std::size_t i = 0; i < 3; ++i) w.busy(i);
}

void a_wait_that_is_cancelled(world& w) {
  engine::acquisition& a = w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.in_line(i, 7, 1, true);
  w.cohort->cancel(a, engine::cancel_type::terminal, w.now);
}

void a_wait_that_is_granted(world& w) {
  engine::acquisition& a = w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.in_line(i, 7, 1, true);
  w.advance(1ms);  // what they said of another owner is older than what follows
  for (std::size_t i : {0u, 1u}) {
    auto const claim = std::chrono::duration_cast<milliseconds>(w.settings.quorum.vote_claim);
    w.servers[i]->receiver().pushed(protocol::pushed_grant{"L", w.wires[i]->all.back().id, 1000, w.server_us(i), claim},
                                    w.now);
  }
  w.cohort->release(a, w.now);
}

void a_wait_that_gives_a_vote_back(world& w) {
  engine::acquisition& a = w.ask();
  w.yes(0);
  w.in_line(1, 7, 1, true);
  w.in_line(2, 7, 1, true);
  w.answer(0, {1, 0, 0, w.server_us(0)});
  w.yes(0);
  w.cohort->cancel(a, engine::cancel_type::terminal, w.now);
}

void a_wait_that_fails(world& w) {
  w.ask();
  for (std::size_t i = 0; i < 2; ++i) w.refuse(i);
}

void a_hold_that_is_lost(world& w) {
  w.ask();
  w.yes(0);
  w.yes(1);
  w.busy(2);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i : {0u, 1u}) w.answer(i, {w.server_us(i), 0, 0});
}

constexpr void (*courses[])(world&) = {a_try_that_is_busy,     a_wait_that_is_cancelled,
                                       a_wait_that_is_granted, a_wait_that_gives_a_vote_back,
                                       a_wait_that_fails,      a_hold_that_is_lost};

/// What is asked of each server, what the caller is told, and what an observer sees.
std::string taken(world& w, void (*course)(world&)) {
  for (auto const& wire : w.wires) wire->all.clear();
  w.events.clear();
  w.observed.clear();
  course(w);
  let_go(w);
  std::string all;
  for (auto const& wire : w.wires) {
    for (auto const& one : wire->all) all += one.what + ' ';
    all += "; ";
  }
  for (std::string const& one : w.events) all += one + ' ';
  for (auto const one : w.observed) all += std::to_string(static_cast<int>(one)) + ' ';
  return all;
}

struct onlooker final : conch::observer {};

TEST(QuorumDetails, AnAcquireTakesTheSameCourseWhateverTheOneBeforeItHasMet) {
  config settings;
  settings.observer = std::make_shared<onlooker>();
  for (std::size_t after = 0; after < std::size(courses); ++after) {
    world fresh{3, settings};
    std::string const expected = taken(fresh, courses[after]);
    for (std::size_t before = 0; before < std::size(courses); ++before) {
      world w{3, settings};
      taken(w, courses[before]);
      EXPECT_EQ(taken(w, courses[after]), expected) << "course " << after << " after course " << before;
    }
  }
}

TEST(QuorumDetails, WhatAServerHasSaidBeforeItsPresentConnectionDoesNotCount) {
  world w{3, {}, 0};
  w.ask();
  w.servers[0]->receiver().connect_failed(protocol::fault::access_denied, "wrong password", w.now);
  w.connect(0, 100h, true);
  w.servers[0]->receiver().disconnected("away", w.now);
  w.servers[1]->receiver().connect_failed(protocol::fault::access_denied, "wrong password", w.now);
  EXPECT_TRUE(w.events.empty()) << "one server refuses now, and two may still connect";
}

// ---------------------------------------------------------------------------------- how many servers are too few

/// Each number of servers, and each number of votes that may be demanded of them.
template <class F>
void for_each_size(F const& test) {
  for (std::size_t n = 2; n <= most_servers; ++n) {
    for (std::size_t needed = majority_of(n); needed <= n; ++needed) {
      SCOPED_TRACE(std::to_string(needed) + " of " + std::to_string(n));
      config settings;
      settings.quorum.votes_needed = needed;
      test(n, needed, settings);
    }
  }
}

TEST(QuorumDetails, P4AWaitEndsWhenSoManyServersRefuseTheClientThatTooFewAreLeft) {
  for_each_size([](std::size_t n, std::size_t needed, config const& settings) {
    world w{n, settings, 0};
    w.ask();
    for (std::size_t refused = 1; refused <= n && w.events.empty(); ++refused) {
      w.servers[refused - 1]->receiver().connect_failed(protocol::fault::access_denied, "wrong password", w.now);
      EXPECT_EQ(w.events.empty(), n - refused >= needed) << refused << " have refused";
    }
  });
}

TEST(QuorumDetails, AWaitThatHasTimedOutNamesAnErrorOnlyWhereTooFewServersHaveNone) {
  for_each_size([](std::size_t n, std::size_t needed, config const& settings) {
    for (std::size_t refused = 0; n - refused >= needed; ++refused) {
      world w{n, settings};
      w.ask();
      for (std::size_t i = 0; i < n; ++i) i < refused ? w.refuse(i) : w.in_line(i, 7, 1, true);
      error_code const why = w.backend->too_late(*w.cohort->find("L"), w.now);
      EXPECT_EQ(why, errc::timed_out);
      EXPECT_EQ(why.message().find("OOM"), std::string::npos) << refused << " have refused: " << why.message();
    }
  });
}

TEST(QuorumDetails, P4WhoseTimeIsOverWaitsForAsManyServersAsAreNeededAndForNoSlowerOne) {
  for_each_size([](std::size_t n, std::size_t needed, config const& settings) {
    world w{n, settings};
    for (int times = 0; times < 30; ++times) {
      w.ask(false, "lock " + std::to_string(times));
      for (std::size_t i = 0; i < n; ++i) {  // one slower than the other
        w.in_line(i, 7, 1, true);
        w.advance(1ms);
      }
    }
    engine::place const& place = *w.cohort->find("lock 0");
    std::vector<duration> usual;
    for (protocol::server const* const s : w.servers) usual.push_back(s->answers_within(place));
    for (std::size_t i = 1; i < n; ++i) ASSERT_GT(usual[i], usual[i - 1]);
    EXPECT_EQ(w.backend->answers_within(place), usual[needed - 1]);
  });
}

// ------------------------------------------------------------------------------------------------- other details

TEST(QuorumDetails, ATryAsksAServerAgainThatHadAnErrorWhileItWaitsForOthersToConnect) {
  world w{3};
  for (std::size_t i : {1u, 2u}) w.servers[i]->receiver().disconnected("away", w.now);
  w.ask(true);
  w.refuse(0);
  ASSERT_TRUE(w.events.empty()) << "the others may still connect";
  w.advance(w.settings.reconnect_max + 5ms);
  EXPECT_EQ(w.wires[0]->count("try"), 2u);
}

TEST(QuorumDetails, ATryThatFailsAfterItsCallerHasGoneEndsNoWaitThatHasJoinedIt) {
  world w{3};
  engine::acquisition& tries = w.ask(true);
  w.ask();
  w.cohort->cancel(tries, engine::cancel_type::terminal, w.now);
  for (std::size_t i : {0u, 1u}) w.refuse(i);
  EXPECT_EQ(w.events, events{"failed"}) << "the cancelled one";
  EXPECT_EQ(w.wires[2]->count("acquire"), 1u) << "the other one waits on";
}

TEST(QuorumDetails, AReleaseWaitsForNoServerThatIsNotNeeded) {
  for_each_size([](std::size_t n, std::size_t needed, config const& settings) {
    world w{n, settings};
    engine::acquisition& a = w.ask();
    for (std::size_t i = 0; i < n; ++i) w.yes(i);
    w.events.clear();
    w.cohort->release(a, w.now);
    for (std::size_t i = 0; i < needed; ++i) {
      EXPECT_TRUE(w.events.empty()) << i << " have answered";
      while (w.events.empty() && !w.wires[i]->unanswered.empty()) w.answer(i, {1, 0, 0, w.server_us(i)});
    }
    EXPECT_EQ(w.events, events{"released"});
  });
}

/// Bytes of the heap that are in use; always 0 where a sanitizer keeps it.
std::size_t in_use() { return mallinfo2().uordblks; }

TEST(QuorumDetails, NothingIsKeptOfALockThatNobodyUsesAnyMore) {
  world w{3};
  // For each lock one server answers only when other locks have been used since.
  auto const use_ten = [&](int number) {
    for (int n = 0; n < 10; ++n) {
      engine::acquisition& a = w.ask(false, "lock " + std::to_string(10 * number + n));
      w.yes(0);
      w.yes(1);
      w.cohort->release(a, w.now);
      for (std::size_t i : {0u, 1u}) w.answer(i, {1, 0, 0, w.server_us(i)});
    }
    while (!w.wires[2]->unanswered.empty())
      w.wires[2]->unanswered.front().what == "release" ? w.answer(2, {1, 0, 0, w.server_us(2)}) : w.yes(2);
    w.callers.clear();
    w.events.clear();
    for (auto const& wire : w.wires) wire->all.clear();
  };
  for (int n = 0; n < 10; ++n) use_ten(n);
  std::size_t const before = in_use();
  for (int n = 10; n < 110; ++n) use_ten(n);
  EXPECT_LT(in_use(), before + 100'000) << "a hundred bytes for each would be too many";
}

TEST(QuorumDetails, WhatAnyServerAnswersIsProgress) {
  world w{3};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) {
    std::uint64_t const before = w.backend->progress();
    w.in_line(i, 7, 1, true);
    EXPECT_GT(w.backend->progress(), before) << "server " << i;
  }
}

/// Each of these numbers is another one, so that none can stand in the place of another.
TEST(QuorumDetails, TheStatisticsOfAServerAreItsOwn) {
  world w{3};
  for (int times = 0; times < 4; ++times) {
    w.servers[1]->receiver().disconnected("away", w.now);
    w.connect(1);
  }
  w.ask();
  for (std::size_t i : {0u, 2u}) w.yes(i);
  statistics all = w.stats;
  w.backend->report(all);
  ASSERT_EQ(all.servers.size(), 3u);
  auto const& one = all.servers[1];
  EXPECT_EQ(one.url, "server 1");
  EXPECT_EQ(one.connects, 5u);
  EXPECT_EQ(one.disconnects, 4u);
  EXPECT_EQ(one.votes, 0u);
  EXPECT_EQ(one.last_trouble, "away");
  auto const& other = all.servers[2];
  EXPECT_EQ(other.connects, 1u);
  EXPECT_EQ(other.disconnects, 0u);
  EXPECT_EQ(other.scripts, 1u);
  EXPECT_EQ(other.votes, 1u);
  EXPECT_EQ(all.connects, 7u);
  EXPECT_EQ(all.disconnects, 4u);
}

}  // namespace
}  // namespace conch::quorum::test
