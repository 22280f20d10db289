// The decision of a quorum, against the definition spelled out naively, over every mask of answers.
#include "quorum/election.hpp"

#include "base/votes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace conch::quorum {
namespace {

using std::chrono::milliseconds;

enum class fate { yes, no, error, silence, late_yes };
constexpr std::size_t fates = 5;

time_point at(int ms) { return time_point{milliseconds{ms}}; }

/// Tells the election what becomes of one server. A late yes begins as silence.
void tell(election& e, std::size_t server, fate f, time_point now) {
  switch (f) {
    case fate::yes: e.yes(server, at(1000), 100 + static_cast<std::int64_t>(server), now); break;
    case fate::no: e.no(server, now); break;
    case fate::error: e.failed(server, now); break;
    case fate::silence:
    case fate::late_yes: e.silent(server, now); break;
  }
}

/// Calls f with every mask of n fates.
template <class F>
void for_each_mask(std::size_t n, F f) {
  std::size_t masks = 1;
  for (std::size_t i = 0; i < n; ++i) masks *= fates;
  for (std::size_t mask = 0; mask < masks; ++mask) {
    std::array<fate, most_servers> all{};
    for (std::size_t i = 0, rest = mask; i < n; ++i, rest /= fates) all[i] = static_cast<fate>(rest % fates);
    f(std::span{all.data(), n});
  }
}

class QuorumElection : public testing::TestWithParam<std::size_t> {};

TEST_P(QuorumElection, EveryMaskIsDecidedAtTheEarliestPossibleMomentAndNoEarlier) {
  std::size_t const n = GetParam();
  for (std::size_t needed = majority_of(n); needed <= n; ++needed) {
    for_each_mask(n, [&](std::span<fate const> all) {
      election e{{n, needed, milliseconds{10}}};
      std::size_t yes = 0;
      verdict seen = verdict::open;
      for (std::size_t i = 0; i < n; ++i) {
        tell(e, i, all[i], at(0));
        if (all[i] == fate::yes) ++yes;
        std::size_t const unknown = n - i - 1;
        verdict const right = seen != verdict::open    ? seen
                              : yes >= needed          ? verdict::won
                              : yes + unknown < needed ? verdict::out_of_reach
                                                       : verdict::open;
        ASSERT_EQ(e.result(), right) << "after " << i + 1 << " of " << n << " with " << needed << " needed";
        seen = right;
      }
      ASSERT_NE(e.result(), verdict::open) << "all have been heard";
    });
  }
}

TEST_P(QuorumElection, ALateYesChangesNoVerdict) {
  std::size_t const n = GetParam();
  std::size_t const needed = majority_of(n);
  for_each_mask(n, [&](std::span<fate const> all) {
    election e{{n, needed, milliseconds{10}}};
    for (std::size_t i = 0; i < n; ++i) tell(e, i, all[i], at(0));
    verdict const before_late = e.result();
    for (std::size_t i = 0; i < n; ++i) {
      if (all[i] == fate::late_yes) e.yes(i, at(1000), 100 + static_cast<std::int64_t>(i), at(1));
    }
    ASSERT_EQ(e.result(), before_late) << "a late yes changed a verdict";
  });
}

TEST_P(QuorumElection, TheOrderOfTheAnswersDoesNotChangeTheVerdictOfAWin) {
  std::size_t const n = std::min<std::size_t>(GetParam(), 5);
  for_each_mask(n, [&](std::span<fate const> all) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    bool const wins = static_cast<std::size_t>(std::count(all.begin(), all.end(), fate::yes)) >= majority_of(n);
    do {
      election e{{n, majority_of(n), milliseconds{10}}};
      for (std::size_t const i : order) tell(e, i, all[i], at(0));
      ASSERT_EQ(e.result() == verdict::won, wins);
    } while (std::next_permutation(order.begin(), order.end()));
  });
}

INSTANTIATE_TEST_SUITE_P(OfOneToSevenServers, QuorumElection, testing::Range<std::size_t>(1, 8));

TEST(QuorumElectionTime, ValidityIsTheQthGreatestDeadlineAndTheFenceTheGreatestOfTheVotes) {
  election e{{5, 3, milliseconds{10}}};
  e.yes(0, at(900), 7, at(0));
  e.yes(1, at(1000), 9, at(0));
  EXPECT_EQ(e.result(), verdict::open);
  e.yes(2, at(800), 8, at(0));
  ASSERT_EQ(e.result(), verdict::won);
  EXPECT_EQ(e.deadline(), at(800));
  EXPECT_EQ(e.fence(), 9);
  e.yes(3, at(950), 12, at(1));  // late, and welcome
  EXPECT_EQ(e.deadline(), at(900));
  EXPECT_EQ(e.fence(), 12);
}

TEST(QuorumElectionTime, AGrantThatIsGoodForTooShortDoesNotCount) {
  election e{{3, 2, milliseconds{10}}};
  e.yes(0, at(100), 1, at(0));
  EXPECT_EQ(e.result(), verdict::open);
  e.yes(1, at(100), 2, at(95));
  EXPECT_EQ(e.result(), verdict::out_of_reach) << "both end within min_validity, and the third alone is not a quorum";
}

TEST(QuorumElectionTime, EvenNumbersNeedMoreThanHalf) {
  EXPECT_EQ(majority_of(2), 2u);
  EXPECT_EQ(majority_of(4), 3u);
  EXPECT_EQ(majority_of(6), 4u);
}

TEST(QuorumTicket, IsTheLowerMedianOfTheServersClocks) {
  EXPECT_EQ(agreed_ticket(std::vector<std::int64_t>{5}), 5);
  EXPECT_EQ(agreed_ticket(std::vector<std::int64_t>{9, 1}), 1);
  EXPECT_EQ(agreed_ticket(std::vector<std::int64_t>{3, 1, 1'000'000}), 3)
      << "one clock that is far ahead decides nothing";
  EXPECT_EQ(agreed_ticket(std::vector<std::int64_t>{4, 3, 2, 1}), 2);
}

}  // namespace
}  // namespace conch::quorum
