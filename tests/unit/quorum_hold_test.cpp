// While a lock over several servers is held: confirmed, mended, lost.
#include "quorum_fixture.hpp"

namespace conch::quorum::test {
namespace {

TEST(Quorum, AGrantOfVotesThatAreAlmostOverIsConfirmedBeforeItsLossIsTold) {
  world w{3};
  w.ask();
  w.yes(0);
  w.advance(400ms);  // of 493: less is left than a quarter of a claim
  w.yes(1);
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  w.advance(50ms);
  EXPECT_EQ(w.wires[0]->count("confirm"), 1u);
  EXPECT_EQ(w.wires[1]->count("confirm"), 1u);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
  w.advance(30ms);
  EXPECT_EQ(w.events.back(), "lost") << "nobody has confirmed it, and its end is near";
}

TEST(Quorum, AHoldIsConfirmedOnAllWithItsFenceAsFloor) {
  config c;
  c.quorum.strict_fence = false;
  world w{3, c};
  engine::acquisition& a = w.ask();
  w.yes(0, 100);
  w.yes(1, 300);
  w.yes(2, 200);
  EXPECT_EQ(a.fence / 4096, 300);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(w.wires[i]->count("confirm"), 1u);
    EXPECT_EQ(w.wires[i]->all.back().floor, 300);
  }
  time_point const asked = w.now;
  w.answer(0, {w.server_us(), 1, 300});
  EXPECT_LT(a.deadline(), asked + 1s) << "one is not a quorum";
  w.answer(1, {w.server_us(), 1, 300});
  EXPECT_GT(a.deadline(), asked + w.settings.lease - 1s);
}

TEST(Quorum, AHoldThatAMajorityHasForgottenIsLostAndTheRestReleased) {
  world w{3};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  w.answer(0, {w.server_us(), 0, 0});
  EXPECT_EQ(w.events.back(), "granted") << "two are a quorum";
  w.answer(1, {w.server_us(), 0, 0});
  EXPECT_EQ(w.events.back(), "lost");
  EXPECT_EQ(w.wires[2]->count("release"), 1u);
}

TEST(Quorum, ALostHoldStaysAtAllServersForTheDelay) {
  config c;
  c.lock_delay = 10s;
  world w{3, c};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(w.wires[i]->all.back().lease, engine::whole_ms(w.settings.quorum.vote_claim + 10s));
    w.yes(i);
  }
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(w.wires[i]->all.back().lease, engine::whole_ms(w.settings.lease + 10s));
    w.answer(i, {w.server_us(), 1, 100});
  }
  engine::acquisition& next = w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.servers[i]->receiver().disconnected("cut", w.now);
  w.advance(w.settings.lease);
  EXPECT_EQ(w.events.back(), "lost");
  for (std::size_t i = 0; i < 3; ++i) {
    w.wires[i]->unanswered.clear();
    w.connect(i, 100h, true);
    EXPECT_EQ(w.wires[i]->count("release"), 0u);
    EXPECT_EQ(w.wires[i]->count("acquire"), 2u) << "the second is by the one that waits";
  }
  EXPECT_EQ(next.phase, engine::acquisition_phase::waiting);
}

TEST(Quorum, WhatIsLeftOfAHoldThatAMajorityHasForgottenStaysForTheDelay) {
  config c;
  c.lock_delay = 10s;
  world w{3, c};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  w.answer(0, {w.server_us(), 0, 0});
  w.answer(1, {w.server_us(), 0, 0});
  EXPECT_EQ(w.events.back(), "lost");
  EXPECT_EQ(w.wires[2]->count("release"), 0u);
}

TEST(Quorum, EachServerKeepsAGrantForTheMinimumInterval) {
  world w{3};
  w.at_least = 10s;
  engine::acquisition& a = w.ask();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(w.wires[i]->all.back().lease, 10s) << "also a vote that is not confirmed";
    w.yes(i);
  }
  time_point const granted = w.now;
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 3; ++i) w.answer(i, {w.server_us(), 1, 100});
  w.advance(granted + 1s - w.now);
  w.cohort->release(a, w.now);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(w.wires[i]->all.back().what, "release");
    EXPECT_EQ(w.wires[i]->all.back().ends_in, 9s + protocol::drift_of(10s));
    EXPECT_EQ(w.wires[i]->all.back().ahead, 0);
  }
}

TEST(Quorum, VotesThatAreGivenBackByOneThatHasNoMajorityAreFree) {
  world w{3};
  w.at_least = 10s;
  w.ask(true);
  w.yes(0);
  w.busy(1);
  w.busy(2);
  EXPECT_EQ(w.events, std::vector<std::string>{"busy"});
  EXPECT_EQ(w.wires[0]->all.back().what, "release");
  EXPECT_EQ(w.wires[0]->all.back().ends_in, 0ms);
}

TEST(Quorum, AServerThatForgotIsAskedAgainWhenAMajorityHasRenewedSince) {
  world w{3};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 3; ++i) w.answer(i, {w.server_us(), 1, 100});
  w.advance(w.settings.renew_every + 500ms);
  w.answer(0, {w.server_us(), 0, 0});
  w.answer(1, {w.server_us(), 1, 100});
  w.answer(2, {w.server_us(), 1, 100});
  EXPECT_EQ(w.wires[0]->count("try"), 0u) << "they were asked before it said so";
  w.advance(w.settings.renew_every + 500ms);
  w.answer(1, {w.server_us(), 1, 100});
  w.answer(2, {w.server_us(), 1, 100});
  EXPECT_EQ(w.wires[0]->count("try"), 1u);
  EXPECT_EQ(w.wires[0]->count("acquire"), 1u) << "it is not queued for";
}

TEST(Quorum, OneServerThatSaysThatAHoldLastsIsNoMajority) {
  world w{3};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 3; ++i) w.answer(i, {w.server_us(), 1, 100});
  time_point const before = w.cohort->find("L")->heard_from;
  w.advance(w.settings.renew_every + 500ms);
  w.answer(0, {w.server_us(), 1, 100});
  EXPECT_EQ(w.cohort->find("L")->heard_from, before);
  w.answer(1, {w.server_us(), 1, 100});
  EXPECT_GT(w.cohort->find("L")->heard_from, before);
}

TEST(Quorum, AServerThatWasLetAloneIsAskedAgainByTheFirstRenewalOfTheHold) {
  world w{3};
  w.ask();
  w.in_line(1, 77, 5, true);
  w.yes(0);
  w.answer(0, {1, 0, 0, w.server_us()});  // the release: nobody else was queued
  w.yes(0, 101);                          // and once more: now it is let alone for a claim at least
  w.answer(0, {1, 0, 0, w.server_us()});
  ASSERT_TRUE(w.wires[0]->unanswered.empty());
  w.advance(5ms);
  w.ask_by_a_new_connection(2);
  w.yes(2);
  w.advance(5ms);
  ASSERT_EQ(w.wires[1]->count("acquire"), 2u);
  w.yes(1);
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 1; i < 3; ++i) w.answer(i, {w.server_us(i), 1, 101});
  EXPECT_EQ(w.wires[0]->count("try"), 1u) << "two are a bare majority";
}

TEST(Quorum, P3AVoteThatIsLostMovesTheEndOfTheHoldUp) {
  world w{3};
  engine::acquisition& a = w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 3; ++i) w.answer(i, {w.server_us(i), 1, 100});
  time_point const of_the_first_renewal = a.deadline();
  w.advance(w.settings.renew_every + 500ms);
  for (std::size_t i = 0; i < 2; ++i) w.answer(i, {w.server_us(i), 1, 100});  // server 2 does not answer
  ASSERT_GT(a.deadline(), of_the_first_renewal);
  w.advance(w.settings.lease / 20);
  w.ask_by_a_new_connection(0);
  ASSERT_EQ(w.wires[0]->unanswered.front().what, "confirm");
  w.answer(0, {w.server_us(0), 0, 0});
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  EXPECT_EQ(a.deadline(), of_the_first_renewal) << "server 2 has it for no longer";
}

TEST(Quorum, ALateVoteIsConfirmedBeforeItEndsAlsoWhereALongOneHasPutOffTheEndOfTheHold) {
  world w{5};
  w.ask();
  for (std::size_t i = 0; i < 3; ++i) w.yes(i, 1000);
  for (std::size_t i = 3; i < 5; ++i) w.in_line(i, 77, 5, false);
  // Asked again by a new connection, server 3 grants for the whole lease; and does not answer any more.
  w.servers[3]->receiver().disconnected("cut", w.now);
  w.wires[3]->unanswered.clear();
  w.servers[3]->receiver().connected_as({2, "here", w.server_us(3), w.now}, w.now);
  while (w.wires[3]->unanswered.front().what == "other") w.answer(3, {1, 0, w.server_us(3)});
  ASSERT_EQ(w.wires[3]->unanswered.front().what, "acquire");
  w.yes(3, 1001);
  w.advance(200ms);
  w.answer(0, {w.server_us(), 0, 1000});
  w.answer(1, {w.server_us(), 1, 1000});
  w.answer(2, {w.server_us(), 1, 1000});
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"}) << "three votes are left, one of which is not confirmed";
  ASSERT_GT(w.callers.front()->deadline(), w.now + 1s);
  w.servers[4]->receiver().pushed(
      protocol::pushed_grant{"L", w.wires[4]->all.front().id, 1002, w.server_us(4), milliseconds{500}}, w.now);
  w.advance(400ms);
  EXPECT_EQ(w.wires[4]->count("confirm"), 1u) << "else it would run out";
}

TEST(Quorum, ALateVoteKeepsAHoldOfWhichOneVoteIsNotConfirmed) {
  for (bool const long_one : {false, true}) {
    world w{3};
    w.ask();
    w.yes(0);
    w.yes(1);
    w.in_line(2, 77, 5, false);
    ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
    w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
    w.answer(1, {w.server_us(1), 1, 100});  // server 0 does not answer
    w.advance(50ms);
    if (long_one) {
      // Asked by a new connection, which asks for the whole lease.
      w.ask_by_a_new_connection(2);
      ASSERT_EQ(w.wires[2]->unanswered.front().what, "acquire");
      w.yes(2);
    } else {
      w.servers[2]->receiver().pushed(
          protocol::pushed_grant{"L", w.wires[2]->all.front().id, 100, w.server_us(2), milliseconds{500}}, w.now);
    }
    EXPECT_EQ(w.wires[2]->count("confirm"), 1u);
    w.advance(200ms);
    EXPECT_EQ(w.events, std::vector<std::string>{"granted"}) << "two of three servers have it";
    w.answer(2, {w.server_us(2), 1, 100});
    EXPECT_GT(w.callers.front()->deadline(), w.now + w.settings.lease - 1s);
  }
}

TEST(Quorum, P9TheMarginOfAHoldIsThatOfTheVoteThatEndsIt) {
  world w{3};
  engine::acquisition& a = w.ask();
  w.yes(0);
  w.yes(1);
  w.in_line(2, 77, 5, false);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 2; ++i) w.answer(i, {w.server_us(i), 1, 100});
  w.advance(50ms);
  w.ask_by_a_new_connection(2);
  ASSERT_EQ(w.wires[2]->unanswered.front().what, "acquire");
  w.yes(2);  // for the whole lease; and it does not answer any more
  w.ask_by_a_new_connection(0);
  ASSERT_EQ(w.wires[0]->unanswered.front().what, "confirm");
  w.answer(0, {w.server_us(0), 0, 0});
  w.advance(w.settings.renew_every + 500ms);
  w.answer(1, {w.server_us(1), 1, 100});
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"}) << "two of three servers have it";
  time_point const end = a.deadline();
  while (w.events.size() == 1 && w.now < end) w.advance(1ms);
  EXPECT_EQ(w.events.back(), "lost");
  EXPECT_GE(end - w.now + 1ms, w.settings.stop_margin) << "server 2 was asked for a lease, also if it is not confirmed";
}

TEST(Quorum, ALateVoteWhoseConfirmationIsRefusedIsConfirmedAgainBeforeItEnds) {
  world w{3};
  w.ask();
  w.yes(0);
  w.yes(1);
  w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
  for (std::size_t i = 0; i < 2; ++i) w.answer(i, {w.server_us(i), 1, 100});
  w.yes(2);
  ASSERT_EQ(w.wires[2]->count("confirm"), 1u);
  w.refuse(2);
  w.advance(w.settings.quorum.vote_claim / 5);
  EXPECT_EQ(w.wires[2]->count("confirm"), 2u) << "the hold itself is renewed in ten seconds";
  w.answer(2, {w.server_us(2), 1, 100});
  w.advance(w.settings.quorum.vote_claim);
  EXPECT_EQ(w.wires[2]->count("confirm"), 2u);
}

TEST(Quorum, AVoteThatComesWhileTheOthersAreConfirmedIsConfirmedToo) {
  for (bool const answered : {false, true}) {
    world w{3};
    w.ask();
    w.yes(0);
    w.yes(1);
    w.advance(w.settings.quorum.vote_claim / 3 + 5ms);
    if (answered) w.answer(1, {w.server_us(1), 1, 100});
    w.yes(2);  // as long as the votes that the hold began with
    ASSERT_EQ(w.wires[2]->count("confirm"), 1u);
    w.answer(2, {w.server_us(2), 1, 100});
    if (!answered) w.answer(1, {w.server_us(1), 1, 100});
    w.advance(300ms);
    EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
    EXPECT_GT(w.callers.front()->deadline(), w.now + w.settings.lease - 1s) << "server 0 has said nothing";
  }
}

TEST(Quorum, P10ALateVoteCostsNothingBeforeTheOthersAreConfirmed) {
  world w{5};
  w.ask();
  for (std::size_t i = 0; i < 5; ++i) w.in_line(i, 77, 5, true);
  for (std::size_t i = 0; i < 5; ++i) {
    w.advance(2ms);
    w.servers[i]->receiver().pushed(
        protocol::pushed_grant{"L", w.wires[i]->all.front().id, 100, w.server_us(i), milliseconds{500}}, w.now);
  }
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  w.advance(100ms);
  for (auto const& one : w.wires) EXPECT_EQ(one->count("confirm"), 0u);
  w.advance(100ms);
  for (auto const& one : w.wires) EXPECT_EQ(one->count("confirm"), 1u);
}

/// One of its servers forgot it, and another, where it was queued, granted it only after that: another client could
/// have had it.
TEST(Quorum, P7AVoteThatCameAfterTheReleaseDoesNotShowThatTheLockWasHeld) {
  for (bool const forgotten : {false, true}) {
    world w{5};
    engine::acquisition& a = w.ask();
    for (std::size_t i : {0u, 1u, 2u}) w.yes(i);
    for (std::size_t i : {3u, 4u}) w.in_line(i, 7, 100, false);
    ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
    w.cohort->release(a, w.now);
    w.answer(3, {1, 1, 1, w.server_us()});
    w.answer(4, {1, 1, 1, w.server_us()});
    w.answer(0, {1, 1, 1, w.server_us()});
    w.answer(1, {1, 1, 1, w.server_us()});
    EXPECT_EQ(w.events.size(), 1u) << "the third vote that it was granted with decides";
    w.answer(2, {forgotten ? 0 : 1, 1, 1, w.server_us()});
    w.advance(1ms);
    EXPECT_EQ(w.events.back(), forgotten ? "not released" : "released");
  }
}

/// Each way in which a release fails: nobody answers, too few answer, most of them refuse, and all of them have gone.
TEST(Quorum, AReleaseThatFailsNamesItsLock) {
  enum class way { silent, too_few, refused, gone };
  for (way const how : {way::silent, way::too_few, way::refused, way::gone}) {
    SCOPED_TRACE(static_cast<int>(how));
    world w{5};
    engine::acquisition& a = w.ask();
    for (std::size_t i = 0; i < 5; ++i) w.yes(i);
    ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
    w.advance(1ms);
    while (!w.wires[0]->unanswered.empty()) {
      for (std::size_t i = 0; i < 5; ++i) w.answer(i, {w.server_us(i), 1, 0, 0});
    }
    w.cohort->release(a, w.now);
    for (std::size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(w.wires[i]->unanswered.back().what, "release");
      if (how == way::too_few && i < 2) w.answer(i, {1, 0, 0, w.server_us(i)});
      if (how == way::refused) w.refuse(i);
      if (how == way::gone) w.servers[i]->receiver().disconnected("connection reset", w.now);
    }
    w.advance(60s);
    ASSERT_EQ(w.events.size(), 2u);
    ASSERT_TRUE(w.why);
    std::string const words = w.why.message();
    EXPECT_NE(words.find("releasing lock \"L\""), std::string::npos) << words;
    EXPECT_EQ(words.find("releasing a lock"), std::string::npos) << words;
    if (how == way::refused) {
      EXPECT_NE(words.find("OOM"), std::string::npos) << words;
    }
    if (how == way::gone) {
      EXPECT_NE(words.find("connection reset"), std::string::npos) << words;
    }
  }
}

TEST(Quorum, AHoldIsHandedOnInMemoryWhileItIsStillAClaim) {
  for (bool const strict : {false, true}) {
    config c;
    c.quorum.strict_fence = strict;
    world w{5, c};
    engine::acquisition& first = w.ask();
    engine::acquisition& second = w.ask();
    engine::acquisition& third = w.ask();
    for (std::size_t i = 0; i < 3; ++i) w.yes(i, 1000);
    EXPECT_EQ(first.fence, 1000 * 4096);
    w.cohort->release(first, w.now);
    EXPECT_EQ(second.fence, 1000 * 4096 + 1);
    EXPECT_EQ(second.deadline(), w.begin + 500ms - 7ms);
    w.advance(4ms);
    w.cohort->release(second, w.now);
    EXPECT_EQ(third.fence, 1000 * 4096 + 2);
    for (auto const& one : w.wires) EXPECT_EQ(one->all.size(), 1u) << "the acquire only";
    w.yes(3, 1000);
    w.advance(2ms);
    w.ask();
    w.cohort->release(third, w.now);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(w.wires[i]->count("release"), 1u) << "others may wait at the servers";
    EXPECT_EQ(w.stats.grants_local, 2u);
  }
}

}  // namespace
}  // namespace conch::quorum::test
