// The general judge: each rule of a lock broken by hand, what it must accept, and thousands of short histories of which
// another judge tries all orders.
#include "support/history/linearizable.hpp"
#include "support/history/brute_force.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace conch::history {
namespace {

using busy_rule = specification::busy_rule;

/// A history of one lock, written in short words.
class Linearizable : public testing::Test {
 protected:
  std::uint64_t granted(nanoseconds from, nanoseconds to, std::int64_t fence, nanoseconds deadline,
                        std::uint32_t weight = 1) {
    operation& o = add(action::acquire, outcome::granted, from, to);
    o.hold = ++holds_;
    o.fence = fence;
    o.deadline = deadline;
    o.weight = weight;
    return holds_;
  }
  std::uint64_t unheard(nanoseconds from) {
    add(action::acquire, outcome::unknown, from, never).hold = ++holds_;
    return holds_;
  }
  void busy(nanoseconds from, nanoseconds to) { add(action::attempt, outcome::busy, from, to).hold = ++holds_; }
  void released(std::uint64_t hold, nanoseconds from, nanoseconds to, outcome how = outcome::held) {
    add(action::release, how, from, to).hold = hold;
  }
  void extended(std::uint64_t hold, nanoseconds from, nanoseconds to, outcome how, nanoseconds deadline = 0) {
    operation& o = add(action::extend, how, from, to);
    o.hold = hold;
    o.deadline = deadline;
  }
  void lost(std::uint64_t hold, nanoseconds at) { add(action::lost, outcome::not_held, at, at).hold = hold; }
  operation& last() { return all_.back(); }
  operations const& all_operations() const { return all_; }

  /// Both judges agree.
  bool is_fine() {
    verdict const v = judge(all_, what_);
    EXPECT_NE(v.is, verdict::answer::too_large);
    EXPECT_EQ(v.words.empty(), !v.broken()) << v.words;
    EXPECT_EQ(brute_force(all_, what_).is_linearizable(), !v.broken()) << v.words;
    return !v.broken();
  }
  verdict judged(std::uint64_t most = most_placements) const { return judge(all_, what_, most); }

  specification what_;

 private:
  operation& add(action what, outcome how, nanoseconds from, nanoseconds to) {
    operation o;
    o.what = what;
    o.how = how;
    o.lock = "lock";
    o.process = "c" + std::to_string(all_.size());
    o.invoked = from;
    o.completed = to;
    all_.push_back(o);
    return all_.back();
  }

  operations all_;
  std::uint64_t holds_ = 0;
};

TEST_F(Linearizable, AcceptsOneHoldAfterTheOther) {
  auto const first = granted(0, 10, 1, 100);
  auto const second = granted(5, 30, 2, 100);
  released(first, 20, 40);  // the next holder may hear of its grant before this one hears of its release
  released(second, 50, 60);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, SeesTwoHoldsAtATime) {
  auto const first = granted(0, 10, 1, 100);
  granted(5, 15, 2, 100);
  released(first, 20, 30);
  EXPECT_FALSE(is_fine());
  EXPECT_NE(judged().words.find("fence 2"), std::string::npos) << judged().words;
}

TEST_F(Linearizable, SeesAHoldGrantedBeforeTheDeadlineOfOneThatNobodyReleased) {
  granted(0, 10, 1, 100);
  granted(20, 99, 2, 200);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AcceptsAHoldGrantedAtTheDeadlineOfTheOneBefore) {
  granted(0, 10, 1, 100);
  granted(20, 100, 2, 200);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, ARenewalMovesTheDeadline) {
  auto const first = granted(0, 10, 1, 100);
  extended(first, 50, 60, outcome::held, 300);
  granted(20, 200, 2, 400);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, SeesASmallerFence) {
  auto const first = granted(0, 10, 7, 100);
  released(first, 20, 30);
  granted(40, 50, 6, 100);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, SeesTheSameFenceTwice) {
  auto const first = granted(0, 10, 7, 100);
  released(first, 20, 30);
  granted(40, 50, 7, 100);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AcceptsASmallerFenceThatIsHeardOfLater) {
  auto const second = granted(0, 60, 6, 50);  // its answer took longer than its lease
  (void)second;
  granted(0, 55, 7, 100);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, AcceptsASmallerFenceAfterTheLastOneIsForgotten) {
  auto const first = granted(0, 10, 7, 100);
  released(first, 20, 30);
  granted(40, 50, 6, 100);
  operation forgotten;
  forgotten.what = action::forgotten;
  forgotten.lock = "lock";
  forgotten.invoked = forgotten.completed = 35;
  operations all = all_operations();
  all.push_back(forgotten);
  EXPECT_FALSE(judge(all, what_).broken());
  EXPECT_TRUE(brute_force(all, what_).is_linearizable());
  all.back().invoked = all.back().completed = 51;
  EXPECT_TRUE(judge(all, what_).broken());
  EXPECT_FALSE(brute_force(all, what_).is_linearizable());
}

TEST_F(Linearizable, SeesThatAReleaseAfterALossSaysMine) {
  auto const first = granted(0, 10, 1, 100);
  lost(first, 20);
  released(first, 30, 40);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, SeesThatAReleaseAfterTheDeadlineSaysMine) {
  auto const first = granted(0, 10, 1, 100);
  released(first, 100, 110);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, SeesThatAReleaseBeforeTheDeadlineSaysNotMine) {
  auto const first = granted(0, 10, 1, 100);
  released(first, 20, 30, outcome::not_held);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AcceptsThatAReleaseAcrossTheDeadlineSaysNotMine) {
  auto const first = granted(0, 10, 1, 100);
  released(first, 90, 110, outcome::not_held);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, SeesThatAnExtensionSaysHeldAfterTheNextGrant) {
  auto const first = granted(0, 10, 1, 100);
  granted(20, 105, 2, 300);
  extended(first, 106, 120, outcome::held);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, SeesThatTheNextWasGrantedBeforeTheLossWasTold) {
  auto const first = granted(0, 10, 1, 100);
  granted(20, 30, 2, 300);
  lost(first, 31);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AcceptsAGrantThatWaitsForTheLoss) {
  auto const first = granted(0, 10, 1, 100);
  granted(20, 32, 2, 300);
  lost(first, 31);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, AcceptsTwoHoldsWhereTheServerLostItsData) {
  granted(0, 10, 1, 100);
  last().excused = 15;
  granted(5, 20, 2, 100);
  EXPECT_TRUE(is_fine());
  granted(21, 25, 3, 200);  // that one is not excused
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AnExcusedHoldMayHaveEndedBeforeItsClientSaysThatItHoldsIt) {
  auto const first = granted(0, 10, 1, 100);
  last().excused = 15;
  granted(20, 30, 2, 100);
  extended(first, 40, 45, outcome::held);
  released(first, 50, 60);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, AHoldIsThereWhenItWasExtendedBeforeItsExcuse) {
  auto const first = granted(0, 10, 1, 100);
  last().excused = 35;
  granted(20, 30, 2, 100);
  extended(first, 31, 33, outcome::held);
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AcceptsWhatNobodyHeardTheEndOf) {
  unheard(0);  // its process died: it was granted, or was not
  auto const second = granted(5, 50, 2, 100);
  released(second, 60, never, outcome::unknown);  // and this one died while it released
  granted(55, 70, 3, 200);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, AReleaseWithoutAnAnswerMayBeCarriedOutLater) {
  auto const first = granted(0, 10, 1, 1000);
  released(first, 20, 30, outcome::unknown);
  granted(40, 500, 2, 2000);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, SeesThatATrySaidBusyWhenTheLockWasFreeIfThatIsSpecified) {
  auto const first = granted(0, 10, 1, 100);
  released(first, 20, 30);
  busy(31, 40);
  EXPECT_TRUE(is_fine());
  what_.busy = busy_rule::held;
  EXPECT_FALSE(is_fine());
}

TEST_F(Linearizable, AcceptsThatATrySaidBusyWhereSomebodyMayHaveTheLock) {
  what_.busy = busy_rule::held;
  auto const first = granted(0, 10, 1, 100);
  released(first, 20, 30);
  busy(30, 40);
  EXPECT_TRUE(is_fine());
  unheard(35);
  busy(36, 60);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, BusyMayNeedNoMoreThanSomebodyElse) {
  what_.busy = busy_rule::wanted;
  what_.settling = 5;
  auto const first = granted(0, 10, 1, 100);
  released(first, 20, 30);
  busy(34, 40);
  EXPECT_FALSE(judged().broken());
  busy(46, 50);
  EXPECT_TRUE(judged().broken());
}

TEST_F(Linearizable, HoldsOfASemaphoreShareItsLimit) {
  what_ = specification::permits(3);
  auto const first = granted(0, 10, 1, 100, 2);
  granted(5, 15, 2, 100, 1);
  EXPECT_TRUE(is_fine());
  granted(20, 30, 3, 100, 1);
  EXPECT_FALSE(is_fine());
  released(first, 25, 40);
  EXPECT_TRUE(is_fine());
}

TEST_F(Linearizable, SaysWhenAHistoryIsTooLargeToDecide) {
  what_ = specification::permits(20);
  what_.fences_rise = false;
  what_.busy = busy_rule::held;
  for (int i = 0; i < 20; ++i) granted(0, 1000, i + 1, 2000);
  busy(1001, 1100);  // a weight of 1 fits in once each may have ended: all orders of the grants are tried
  last().weight = 21;
  granted(1101, 1110, 50, 3000);
  granted(1111, 1120, 51, 3000);
  verdict const v = judged(1000);
  EXPECT_EQ(v.is, verdict::answer::too_large);
  EXPECT_FALSE(v.words.empty());
  EXPECT_EQ(v.tried, 1001u);
}

TEST_F(Linearizable, LocksAreJudgedByThemselves) {
  auto const first = granted(0, 10, 5, 100);
  released(first, 50, 60);
  granted(20, 30, 4, 100);
  last().lock = "another";
  EXPECT_FALSE(judged().broken());
}

TEST_F(Linearizable, ALongHistoryIsJudgedInOnePass) {
  for (int i = 0; i < 20'000; ++i) {
    auto const one = granted(i * 10, i * 10 + 15, i + 1, i * 10 + 1000);
    released(one, i * 10 + 16, i * 10 + 30);
  }
  verdict const v = judged();
  EXPECT_EQ(v.is, verdict::answer::linearizable) << v.words;
  EXPECT_EQ(v.tried, 40'000u);
}

// ---- beside the judge that tries all orders

class random_history {
 public:
  explicit random_history(std::uint64_t seed) : random_{seed} {}

  specification specified() {
    specification s;
    if (roll(3) == 0) s.limit = static_cast<std::uint32_t>(1 + roll(3));
    s.fences_rise = roll(5) != 0;
    if (roll(2) == 0) s.busy = busy_rule::held;
    return s;
  }

  operations drawn(specification const& s) {
    operations all;
    nanoseconds now = 0;
    for (int left = 2 + roll(3); left > 0 && all.size() < 6; --left) {
      now += roll(8);
      std::uint64_t const number = all.size() + 1;
      operation o = drawn_operation(roll(4) == 0 ? action::attempt : action::acquire, number, now);
      o.weight = static_cast<std::uint32_t>(1 + roll(static_cast<int>(s.limit)));
      o.how = roll(8) == 0                                ? outcome::unknown
              : o.what == action::attempt && roll(2) == 0 ? outcome::busy
                                                          : outcome::granted;
      if (o.how == outcome::unknown) o.completed = never;
      if (o.how == outcome::granted) o.fence = roll(6) == 0 ? 1 + roll(5) : ++fences_;
      o.deadline = o.how == outcome::granted ? o.completed + roll(12) : 0;
      if (o.how == outcome::granted && roll(10) == 0) o.excused = o.completed + roll(4) - 2;
      all.push_back(o);
      if (o.how == outcome::granted) add_end(all, number, o.completed, o.weight);
    }
    if (roll(10) == 0) {
      operation o = drawn_operation(action::forgotten, 0, roll(20));
      o.completed = o.invoked;
      all.push_back(o);
    }
    return all;
  }

 private:
  int roll(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random_); }

  operation drawn_operation(action what, std::uint64_t hold, nanoseconds from) {
    operation o;
    o.what = what;
    o.lock = "lock";
    o.process = "c" + std::to_string(hold);
    o.hold = hold;
    o.invoked = from;
    o.completed = from + roll(10);
    return o;
  }

  void add_end(operations& all, std::uint64_t hold, nanoseconds from, std::uint32_t weight) {
    int const how_many = roll(3);
    for (int i = 0; i < how_many; ++i) {
      constexpr action ends[] = {action::release, action::release, action::extend, action::lost};
      action const what = ends[roll(4)];
      bool const again =
          std::any_of(all.begin(), all.end(), [&](operation const& o) { return o.hold == hold && o.what == what; });
      if (again) continue;
      operation o = drawn_operation(what, hold, from + roll(8));
      o.weight = weight;
      o.how = roll(4) == 0 ? outcome::not_held : roll(4) == 0 ? outcome::unknown : outcome::held;
      if (what == action::lost) o.how = outcome::not_held;
      if (what == action::lost) o.completed = o.invoked;
      if (what == action::extend && o.how == outcome::held) o.deadline = o.completed + roll(10);
      from = o.completed;
      all.push_back(o);
    }
  }

  std::mt19937_64 random_;
  std::int64_t fences_ = 0;
};

std::string words_of(operations const& all) {
  std::string text;
  for (operation const& o : all) {
    text += "{" + std::to_string(static_cast<int>(o.what)) + ", " + std::to_string(static_cast<int>(o.how)) +
            ", hold " + std::to_string(o.hold) + ", " + std::to_string(o.invoked) + " to " +
            (o.completed == never ? "-" : std::to_string(o.completed)) + ", fence " + std::to_string(o.fence) +
            ", weight " + std::to_string(o.weight) + ", deadline " + std::to_string(o.deadline) +
            (o.excused == never ? "" : ", excused " + std::to_string(o.excused)) + "}\n";
  }
  return text;
}

TEST(LinearizableOracle, AgreesWithAllOrdersOfShortHistories) {
  int fine = 0, broken = 0;
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    random_history random{seed};
    specification const what = random.specified();
    operations const all = random.drawn(what);
    bool const expected = brute_force(all, what).is_linearizable();
    verdict const v = judge(all, what);
    ASSERT_NE(v.is, verdict::answer::too_large);
    ASSERT_EQ(!v.broken(), expected) << "seed " << seed << ", limit " << what.limit
                                     << ", fences rise: " << what.fences_rise
                                     << ", busy: " << static_cast<int>(what.busy) << "\n"
                                     << words_of(all) << v.words;
    (expected ? fine : broken)++;
  }
  // Both answers are common, or it proves little.
  EXPECT_GT(fine, 2'000);
  EXPECT_GT(broken, 2'000);
  std::cout << fine << " linearizable, " << broken << " not\n";
}

}  // namespace
}  // namespace conch::history
