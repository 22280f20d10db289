// A lock over several servers: every mask of what the servers may do, and which client gets it.
#include "quorum_fixture.hpp"

namespace conch::quorum::test {
namespace {

enum class fate { yes, no, error, silence, late_yes };
constexpr std::size_t fates = 5;

std::size_t masks_of(std::size_t servers) {
  std::size_t masks = 1;
  for (std::size_t i = 0; i < servers; ++i) masks *= fates;
  return masks;
}

std::vector<fate> fates_in(std::size_t mask, std::size_t servers) {
  std::vector<fate> all(servers);
  for (std::size_t i = 0; i < servers; ++i, mask /= fates) all[i] = static_cast<fate>(mask % fates);
  return all;
}

class QuorumMask : public testing::TestWithParam<std::size_t> {};

TEST_P(QuorumMask, OfATryIsDecidedAtTheEarliestMomentAndLeavesNothingBehind) {
  std::size_t const n = GetParam(), needed = majority_of(n);
  for (std::size_t mask = 0; mask < masks_of(n); ++mask) {
    SCOPED_TRACE("mask " + std::to_string(mask));
    std::vector<fate> const all = fates_in(mask, n);
    world w{n};
    w.ask(true);
    std::size_t yes = 0, open = n;
    bool decided = false, ran_out = false;
    std::vector<bool> was_no(n);  // it had answered so when the decision fell
    for (std::size_t i = 0; i < n; ++i) {
      if (all[i] == fate::silence || all[i] == fate::late_yes) continue;
      if (all[i] == fate::yes) {
        w.yes(i);
        ++yes;
      } else if (all[i] == fate::no) {
        was_no[i] = !decided;
        w.busy(i);
      } else {
        w.refuse(i);
      }
      --open;
      bool const certain = yes >= needed || yes + open < needed;
      ASSERT_EQ(!w.events.empty(), certain) << "after server " << i;
      decided = certain;
    }
    if (!decided) {
      // Only silence is left. If a minority is silent, each server has its time, and no more. If the rest cannot decide
      // anything without them: as long as for servers that are away.
      auto const missing =
          std::count_if(all.begin(), all.end(), [](fate f) { return f != fate::yes && f != fate::no; });
      w.advance(15ms);
      if (static_cast<std::size_t>(missing) > n - needed) {
        ran_out = true;
        ASSERT_TRUE(w.events.empty());
        w.advance(w.settings.offline_timeout);
      }
      ASSERT_EQ(w.events.size(), 1u);
    }
    bool const granted = yes >= needed;
    ASSERT_EQ(w.events.front() == "granted", granted) << w.events.front();
    for (std::size_t i = 0; i < n; ++i) {
      if (all[i] == fate::late_yes) w.yes(i);
    }
    ASSERT_EQ(w.events.size(), 1u) << "a late yes changes nothing";
    for (std::size_t i = 0; i < n; ++i) {
      // After a failure everything that may be ours is released, also where nobody answered; a grant keeps it. What was
      // refused with an error is released in any case.
      bool const ours = !was_no[i];
      bool const release = all[i] == fate::error || (!granted && ours);
      // While the others were waited for, a vote that ran out has been given back, and asked for anew, now and then,
      // and a server that had answered with an error has been asked again.
      bool const several = ran_out && (all[i] == fate::yes || all[i] == fate::error);
      std::size_t const releases = w.wires[i]->count("release");
      ASSERT_TRUE(several ? releases >= 1 : releases == (release ? 1u : 0u)) << "server " << i << ": " << releases;
    }
  }
}

TEST(Quorum, P11ATryOfAFreeLockIsGrantedHoweverSlowAllServersAre) {
  for (duration const late : {20ms, 300ms}) {  // a vote is good for 500 ms
    world w{5};
    w.ask(true);
    w.advance(late);
    EXPECT_TRUE(w.events.empty());
    for (std::size_t i = 0; i < 3; ++i) w.yes(i);
    EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
  }
}

TEST(Quorum, P11ATryOfAFreeLockWaitsForASlowServerWhereOthersHaveNoVote) {
  world w{5};
  w.ask(true);
  for (std::size_t i = 0; i < 2; ++i) w.yes(i);
  for (std::size_t i = 2; i < 4; ++i) w.refuse(i);
  w.advance(100ms);
  EXPECT_TRUE(w.events.empty());
  w.yes(4);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
}

TEST(Quorum, P11ATryWhoseVotesRanOutWhileItWaitedForTheOthersAsksForThemAnew) {
  world w{5};
  w.ask(true);
  for (std::size_t i = 0; i < 2; ++i) w.yes(i);
  w.advance(490ms);
  EXPECT_TRUE(w.events.empty());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(w.wires[i]->count("release"), 1u);
    EXPECT_EQ(w.wires[i]->count("try"), 2u);
    w.answer(i, {1, 0, 0, w.server_us(i)});
    w.yes(i, 200);
  }
  EXPECT_TRUE(w.events.empty());
  for (std::size_t i = 2; i < 5; ++i) {
    if (w.events.empty()) w.wires[i]->unanswered.size() == 1 ? w.yes(i, 200) : w.busy(i);
  }
  EXPECT_NE(w.events, std::vector<std::string>{"failed"});
}

/// What is there is no majority: one of those has no vote.
TEST(Quorum, P11ATryWaitsForTheConnectionOfAServerWithoutWhichTooFewMayVote) {
  config c;
  c.quorum.min_server_uptime = 1h;
  world w{3, c};
  for (std::size_t i : {0u, 1u}) w.servers[i]->receiver().disconnected("cut", w.now);
  w.connect(1, 1s);
  w.ask(true);
  w.advance(1ms);
  EXPECT_TRUE(w.events.empty()) << "server 1 is connected, and may not vote";
  w.ask_by_a_new_connection(0);
  w.yes(0);
  w.yes(2);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
}

TEST(Quorum, P11ATryWaitsForTheConnectionOfAServerWithoutWhichTooFewAnswer) {
  for (bool const of_use_again : {false, true}) {
    config c;
    c.reconnect_max = 20ms;
    world w{3, c};
    w.servers[0]->receiver().disconnected("cut", w.now);
    w.ask(true);
    w.refuse(1);
    w.advance(1ms);
    EXPECT_TRUE(w.events.empty()) << "server 1 is connected, and of no use";
    if (of_use_again) {
      w.answer(1, {0, 0, 0, w.server_us()});  // the release of what was refused
      w.advance(w.settings.reconnect_max);
      w.yes(1);
    } else {
      w.ask_by_a_new_connection(0);
      w.yes(0);
    }
    w.yes(2);
    EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
  }
}

TEST(Quorum, P11ATryOfATakenLockWaitsForConnectionsBeforeItCallsTheServersUnreachable) {
  for (bool const there : {false, true}) {
    world w{4};
    w.servers[0]->receiver().disconnected("cut", w.now);
    w.ask(true);
    w.refuse(2);
    w.busy(1);
    w.advance(1ms);
    ASSERT_TRUE(w.events.empty()) << "two of four are left, and one of them may connect";
    if (there) {
      w.ask_by_a_new_connection(0);
      w.busy(0);
    } else {
      w.busy(3);
      w.advance(w.settings.offline_timeout);
    }
    EXPECT_EQ(w.events, std::vector<std::string>{there ? "busy" : "failed"});
  }
}

TEST(Quorum, P11ATrySaysThatTheLockIsBusyOnlyWhereAServerHasSaidSo) {
  // Two slow servers of five do not keep it from an answer; three do, until they are two.
  world few{5};
  few.ask(true);
  few.yes(0);
  few.busy(1);
  few.busy(2);
  few.advance(15ms);
  EXPECT_EQ(few.events, std::vector<std::string>{"busy"});
  world many{5};
  many.ask(true);
  many.yes(0);
  many.busy(1);
  many.advance(15ms);
  EXPECT_TRUE(many.events.empty());
  many.yes(2);
  EXPECT_EQ(many.events, std::vector<std::string>{"busy"});
}

/// A waiter is granted with the last vote that is needed, even if that comes late, and has failed when too many servers
/// refuse to be asked; a server that is silent, or has granted the lock to a later client, is waited for.
TEST_P(QuorumMask, OfAWaitIsDecidedAtTheEarliestMomentAndLeavesNothingBehind) {
  std::size_t const n = GetParam(), needed = majority_of(n);
  for (std::size_t mask = 0; mask < masks_of(n); ++mask) {
    SCOPED_TRACE("mask " + std::to_string(mask));
    std::vector<fate> const all = fates_in(mask, n);
    world w{n};
    w.ask();
    std::int64_t const mine = w.wires[0]->all.front().ticket;
    std::size_t yes = 0, errors = 0;
    std::string decided;
    auto const heard = [&](std::size_t i) {
      if (decided.empty()) decided = yes >= needed ? "granted" : errors > n - needed ? "failed" : "";
      ASSERT_EQ(w.events, decided.empty() ? std::vector<std::string>{} : std::vector{decided}) << "after server " << i;
    };
    std::vector<bool> was_error(n);  // its own clean-up was owed before the decision fell
    for (std::size_t i = 0; i < n; ++i) {
      if (all[i] == fate::silence || all[i] == fate::late_yes) continue;
      if (all[i] == fate::yes) {
        w.yes(i);
        ++yes;
      } else if (all[i] == fate::no) {
        w.in_line(i, 0x700000000000 + static_cast<std::int64_t>(i), mine + 10, false);
      } else {
        was_error[i] = true;
        w.refuse(i);
        ++errors;
      }
      ASSERT_NO_FATAL_FAILURE(heard(i));
    }
    w.advance(5ms);  // no client's patience counts here
    ASSERT_NO_FATAL_FAILURE(heard(n));
    for (std::size_t i = 0; i < n; ++i) {
      if (all[i] != fate::late_yes) continue;
      w.yes(i);
      ++yes;
      ASSERT_NO_FATAL_FAILURE(heard(i));
    }
    bool const failed = decided == "failed";
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const given_up = w.wires[i]->count("release") + w.wires[i]->count("leave");
      // Given up as a whole, once; else only what answered with an error. A holder stays in line where it has no vote.
      ASSERT_EQ(given_up, failed || was_error[i] ? 1u : 0u) << "server " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfOneToSevenServers, QuorumMask, testing::Range<std::size_t>(1, 8));

TEST(Quorum, AsksAllServersWithOneTicketThatTheirClocksAgreeOn) {
  world w{5};
  w.now += 1s;
  w.ask();
  for (auto const& wire : w.wires) {
    ASSERT_EQ(wire->count("acquire"), 1u);
    EXPECT_EQ(wire->all.back().ticket, w.server_us(2)) << "the median of the five";
  }
}

TEST(Quorum, ValidityIsThatOfTheVotesNotOfTheLease) {
  world w{3};
  engine::acquisition& a = w.ask();
  w.yes(0);
  w.now += 3ms;
  w.yes(1);
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  EXPECT_EQ(a.deadline(),
            world::begin + w.settings.quorum.vote_claim - protocol::drift_of(w.settings.quorum.vote_claim));
}

TEST(Quorum, AMinorityIsGivenBackWhenSomebodyElseHasTheLock) {
  world w{3};
  w.ask();
  w.yes(0);
  w.in_line(1, 77, 5, true);
  EXPECT_EQ(w.wires[0]->count("release"), 1u);
  EXPECT_EQ(w.wires[0]->all.back().what, "acquire") << "and queued for again";
  EXPECT_NE(w.wires[0]->all.back().id, w.wires[0]->all.front().id) << "every attempt has a new id";
  EXPECT_EQ(w.wires[0]->all.back().ticket, w.wires[0]->all.front().ticket) << "the place is the ticket's";
  EXPECT_EQ(w.stats.votes_given_back, 1u);
}

TEST(Quorum, AMinorityIsGivenBackWhenSomebodyElseHasAMajorityOfVotes) {
  world w{5};
  w.ask();
  w.yes(0);
  std::int64_t const mine = w.wires[0]->all.front().ticket;
  w.in_line(1, 77, mine + 10, false);
  w.in_line(2, 78, mine + 20, false);
  w.in_line(3, 77, mine + 10, false);
  EXPECT_EQ(w.wires[0]->count("release"), 0u) << "two of one, one of another, all of them later";
  w.in_line(4, 77, mine + 10, false);
  EXPECT_EQ(w.wires[0]->count("release"), 1u);
}

TEST(Quorum, AMinorityIsGivenBackToAnEarlierTicketAndKeptFromALaterOne) {
  for (bool const earlier : {true, false}) {
    world w{5};
    w.ask();
    w.yes(0);
    std::int64_t const mine = w.wires[0]->all.front().ticket;
    w.in_line(1, 77, mine + (earlier ? -10 : 10), false);
    EXPECT_EQ(w.wires[0]->count("release"), earlier ? 1u : 0u);
  }
}

TEST(Quorum, WhatTheOthersSaidBeforeTheVoteWasGivenDoesNotCount) {
  world w{3};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.in_line(i, 77, 5, true);
  w.now += 50ms;
  auto const id = w.wires[0]->all.front().id;
  w.servers[0]->receiver().pushed(protocol::pushed_grant{"L", id, 400, w.server_us(), milliseconds{500}}, w.now);
  EXPECT_EQ(w.wires[0]->count("release"), 0u) << "the holder may have released since";
  w.advance(5ms);
  EXPECT_EQ(w.wires[1]->count("acquire"), 2u) << "they are asked again";
  w.in_line(1, 78, 6, true);
  EXPECT_EQ(w.wires[0]->count("release"), 1u);
}

/// One vote of three in hand, and rivals with later tickets have the others. Answers our own ticket.
std::int64_t keep_a_minority(world& w) {
  w.ask();
  std::int64_t const mine = w.wires[0]->all.front().ticket;
  w.now += 1ms;  // the round trip
  w.yes(0);
  w.in_line(1, 77, mine + 10, false);
  w.in_line(2, 78, mine + 20, false);
  return mine;
}

TEST(Quorum, WhoKeepsAMinorityAsksTheOthersAgainAndAgainAfterLongerAndLongerPauses) {
  world w{3};
  std::int64_t const mine = keep_a_minority(w);
  std::vector<duration> pauses;
  for (time_point asked = w.now; pauses.size() < 4;) {
    std::size_t const before = w.wires[1]->count("acquire");
    for (int i = 0; i < 1000 && w.wires[1]->count("acquire") == before; ++i) w.advance(1ms);
    ASSERT_EQ(w.wires[1]->count("acquire"), before + 1);
    ASSERT_EQ(w.wires[2]->count("acquire"), before + 1);
    pauses.push_back(w.now - asked);
    asked = w.now;
    if (pauses.size() < 4) {
      w.in_line(1, 77, mine + 10, false);
      w.in_line(2, 78, mine + 20, false);
    }
  }
  EXPECT_LE(pauses[0], 10ms);
  EXPECT_GE(pauses[2], 2 * pauses[1] - 3ms);
  EXPECT_GE(pauses[3], 2 * pauses[2] - 3ms);
  EXPECT_EQ(w.wires[0]->count("release"), 0u) << "it is kept all the time";
  w.in_line(1, 77, mine + 10, true);
  EXPECT_EQ(w.wires[0]->count("release"), 1u) << "and given back when somebody has the lock";
}

TEST(Quorum, WhoKeepsAMinorityLeavesAServerAloneThatSaidToComeLater) {
  world w{3};
  std::int64_t const mine = keep_a_minority(w);
  w.advance(5ms);
  w.come_later(1);
  w.in_line(2, 78, mine + 20, false);
  std::size_t const asked = w.wires[2]->count("acquire");
  w.advance(20ms);  // the least that it has
  EXPECT_GT(w.wires[2]->count("acquire"), asked);
  EXPECT_TRUE(w.wires[1]->unanswered.empty());
  w.advance(80ms);
  EXPECT_FALSE(w.wires[1]->unanswered.empty());
}

TEST(Quorum, AVoteThatComesBackIsLetAlone) {
  world w{3};
  w.ask();
  w.in_line(1, 77, 5, true);
  w.yes(0);
  ASSERT_EQ(w.wires[0]->count("acquire"), 2u);
  w.answer(0, {1, 0, 0, w.server_us()});  // the release: nobody else was queued
  w.yes(0, 101);
  EXPECT_EQ(w.wires[0]->count("release"), 2u);
  EXPECT_EQ(w.wires[0]->count("acquire"), 2u) << "not asked for again at once";
}

TEST(Quorum, P4NoMajorityOfServersIsLetAlone) {
  world w{3};
  w.ask();
  w.in_line(1, 77, 5, true);
  auto const give_back_twice = [&w](std::size_t i) {
    for (int times = 0; times < 2; ++times) {
      w.yes(i, 101);
      for (int ms = 0; ms < 50 && w.wires[i]->unanswered.empty(); ++ms) {
        w.advance(1ms);
        if (!w.wires[1]->unanswered.empty()) w.in_line(1, 77, 5, true);
      }
      ASSERT_EQ(w.wires[i]->unanswered.front().what, "release");
      w.answer(i, {1, 0, 0, w.server_us(i)});  // nobody else was queued
    }
    ASSERT_TRUE(w.wires[i]->unanswered.empty()) << "it is let alone";
  };
  ASSERT_NO_FATAL_FAILURE(give_back_twice(0));
  w.ask_by_a_new_connection(2);
  ASSERT_NO_FATAL_FAILURE(give_back_twice(2));
  // Suddenly it is free, and we were not told, since we are queued where that was lost.
  w.ask_by_a_new_connection(1);
  w.yes(1, 102);
  w.advance(20ms);
  EXPECT_EQ(w.wires[0]->all.back().what, "acquire");
  EXPECT_EQ(w.wires[2]->all.back().what, "acquire");
}

/// A rival has a majority. Each of the two servers that it lacks gives us its vote again whenever the other rival gives
/// it back.
TEST(Quorum, P10TwoVotesThatComeAndGoDoNotWakeEachOtherForEver) {
  world w{5};
  w.ask();
  std::size_t pushes = 0;
  for (int ms = 0; ms < 200; ++ms) {
    for (std::size_t i = 0; i < 5; ++i) {
      while (!w.wires[i]->unanswered.empty()) {
        wire_to_one::sent const asked = w.wires[i]->unanswered.front();
        if (asked.what == "release") {
          w.answer(i, {1, 1, 1, w.server_us(i)});
        } else if (i < 3) {
          w.in_line(i, 77, 5, true);
        } else {
          w.in_line(i, 78, 6, false);
          w.servers[i]->receiver().pushed(protocol::pushed_grant{"L", asked.id, 400, w.server_us(i), milliseconds{500}},
                                          w.now);
          ++pushes;
        }
      }
    }
    w.advance(1ms);
  }
  EXPECT_TRUE(w.events.empty());
  EXPECT_GE(pushes, 4u) << "each comes back once at least";
  for (std::size_t i : {3u, 4u}) EXPECT_LE(w.wires[i]->count("release"), 10u) << "server " << i;
}

TEST(Quorum, ATryThatFailsDoesNotEndTheWaitsThatHaveJoinedIt) {
  world w{3};
  w.ask(true);
  w.ask();
  w.refuse(0);
  w.refuse(1);
  w.busy(2);
  EXPECT_EQ(w.events, std::vector<std::string>{"failed"});
  EXPECT_EQ(w.wires[0]->count("acquire"), 1u);
  EXPECT_EQ(w.wires[1]->count("acquire"), 1u);
}

TEST(Quorum, ATryThatWaitsForAMajorityToComeBackKeepsTheVotesItHas) {
  world w{3};
  for (std::size_t i = 1; i < 3; ++i) w.servers[i]->receiver().disconnected("away", w.now);
  w.ask(true);
  w.yes(0);
  w.ticks = 0;
  for (int i = 0; i < 10; ++i) {
    w.advance(100ms);
    while (!w.wires[0]->unanswered.empty())
      w.wires[0]->unanswered.front().what == "try" ? w.yes(0) : w.answer(0, {1, 0, 0, w.server_us()});
  }
  EXPECT_TRUE(w.events.empty());
  EXPECT_LT(w.ticks, 100) << "nothing is looked at all the time";
  EXPECT_EQ(w.wires[0]->count("try"), 3u) << "before a vote ends it is asked for again";
  EXPECT_EQ(w.wires[0]->count("release"), 2u);
  w.servers[1]->receiver().connected_as({2, "here", w.server_us(1), w.now}, w.now);
  while (w.wires[1]->unanswered.front().what == "other") w.answer(1, {1, 0, w.server_us(1)});
  w.yes(1);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
}

TEST(Quorum, AVoteThatComesBackIsLetAloneAlsoWhereTwoRivalsAreSeenByTurns) {
  world w{3};
  w.ask();
  for (int i = 0; i < 10 && !w.wires[0]->unanswered.empty(); ++i) {
    w.advance(1ms);
    w.yes(0, 100 + i);
    if (i != 0) w.advance(4ms);  // the others are asked
    w.in_line(1, i % 2 == 0 ? 77 : 78, 5, true);
    ASSERT_EQ(w.wires[0]->unanswered.front().what, "release");
    w.answer(0, {1, 0, 0, w.server_us()});  // nobody else was queued
  }
  EXPECT_EQ(w.wires[0]->count("release"), 3u) << "once for each of them, and then it is let alone";
  EXPECT_EQ(w.wires[0]->count("acquire"), 3u);
}

TEST(Quorum, AStrictFenceIsDeliveredWhenAMajorityHasAcceptedIt) {
  config c;
  c.quorum.strict_fence = true;
  world w{3, c};
  engine::acquisition& a = w.ask();
  w.yes(0, 1000);
  w.yes(1, 1200);
  EXPECT_TRUE(w.events.empty()) << "the votes differ";
  ASSERT_EQ(w.wires[0]->all.back().what, "confirm");
  EXPECT_EQ(w.wires[0]->all.back().floor, 1200);
  w.answer(0, {w.server_us(), 1, 1000});
  EXPECT_TRUE(w.events.empty()) << "one is not a quorum";
  w.answer(1, {w.server_us(), 2, 1300});
  EXPECT_TRUE(w.events.empty()) << "it had given 1300 before";
  EXPECT_EQ(w.wires[1]->all.back().floor, 1301);
  w.answer(0, {w.server_us(), 1, 1200});
  w.answer(1, {w.server_us(), 1, 1300});
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  EXPECT_EQ(a.fence / 4096, 1301);
  EXPECT_EQ(w.stats.fence_rounds, 1u);
}

TEST(Quorum, EqualVotesNeedNoSecondRound) {
  config c;
  c.quorum.strict_fence = true;
  world w{3, c};
  w.ask();
  w.yes(0, 1000);
  w.yes(2, 1000);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
  EXPECT_EQ(w.stats.fence_rounds, 0u);
}

TEST(Quorum, AVoteThatTellsOnlyTheTimeHasTheFenceThatWasProposed) {
  world w{3};
  engine::acquisition& a = w.ask();
  std::int64_t const proposed = w.wires[0]->unanswered.front().floor;
  EXPECT_GT(proposed, w.server_us() - protocol::fence_epoch_us);
  w.answer(0, {-w.server_us()});
  w.answer(1, {-w.server_us()});
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
  EXPECT_EQ(a.fence / 4096, proposed);
  EXPECT_EQ(w.stats.fence_rounds, 0u);
}

// Votes of some are in a line as long as others decide; then nobody waits in line for the lock.
TEST(Quorum, ThoseWhoLookOnHearThatItIsInLineWhereTheOtherVotesAreTooFew) {
  using kind = engine::observation::kind;
  config settings;
  settings.observer = std::make_shared<observer>();
  world w{5, settings};
  engine::acquisition& a = w.ask();
  w.in_line(0, 7, 1, true);
  w.in_line(1, 7, 1, true);
  EXPECT_EQ(w.observed, std::vector{kind::waiting});
  w.in_line(2, 7, 1, true);
  w.in_line(3, 7, 1, true);
  EXPECT_EQ(w.observed, (std::vector{kind::waiting, kind::queued}));
  w.cohort->cancel(a, engine::cancel_type::terminal, w.now);
  EXPECT_EQ(w.observed, (std::vector{kind::waiting, kind::queued, kind::not_granted}));
}

TEST(Quorum, ThoseWhoLookOnHearOfVotesThatAreGivenBack) {
  using kind = engine::observation::kind;
  config settings;
  settings.observer = std::make_shared<observer>();
  world w{3, settings};
  w.ask();
  w.yes(0);
  w.in_line(1, 7, 1, true);
  EXPECT_EQ(w.observed, (std::vector{kind::waiting, kind::retried})) << "behind one that has the lock";
  EXPECT_EQ(w.stats.votes_given_back, 1u);
  w.in_line(2, 7, 1, true);
  EXPECT_EQ(w.observed, (std::vector{kind::waiting, kind::retried, kind::queued}));
}

}  // namespace
}  // namespace conch::quorum::test
