// How a client closes: drain, give back, and give up after a standstill.
#include "client/close_rule.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace conch::detail {
namespace {

using namespace std::chrono_literals;
using action = close_rule::action;

constexpr time_point noon{std::chrono::hours{12}};

/// What the rule sees at one of its looks, and what it must decide.
struct look {
  std::uint64_t progress;
  bool ending;
  action expected;
};

struct row {
  std::string what;
  std::vector<look> looks;
};

std::vector<row> const& table() {
  static std::vector<row> const rows{
      {"a standstill from the beginning",
       {{0, false, action::give_back}, {0, false, action::give_up}, {0, false, action::none}}},
      {"what the servers did before the first look is not progress",
       {{9, false, action::give_back}, {9, false, action::give_up}, {10, false, action::none}}},
      {"servers that get on are waited for, however long it takes",
       {{3, false, action::give_back},
        {4, false, action::late},
        {5, false, action::late},
        {6, false, action::late},
        {6, false, action::give_up}}},
      {"so is this process, as long as it ends its own waits and holds",
       {{0, false, action::give_back}, {0, true, action::late}, {0, true, action::late}, {0, false, action::give_up}}},
      {"progress and a standstill by turns",
       {{0, true, action::give_back},
        {1, false, action::late},
        {1, true, action::late},
        {2, false, action::late},
        {2, false, action::give_up}}},
  };
  return rows;
}

TEST(CloseRule, GivesBackOnceAndGivesUpAtTheFirstLookWithoutProgress) {
  for (row const& r : table()) {
    close_rule rule{1s};
    rule.begin(noon, 0s);
    std::size_t n = 0;
    for (look const& l : r.looks) {
      EXPECT_EQ(rule.due(l.progress, l.ending), l.expected) << r.what << ", look " << n++;
      bool const over = l.expected == action::give_up || l.expected == action::none;
      EXPECT_EQ(rule.done(), over) << r.what;
      EXPECT_EQ(rule.under_way(), !over) << r.what;
      EXPECT_TRUE(rule.begun()) << r.what;
    }
  }
}

TEST(CloseRule, DecidesNothingBeforeACloseIsAskedForNorAfterItIsComplete) {
  close_rule rule{1s};
  EXPECT_FALSE(rule.begun());
  EXPECT_EQ(rule.due(0, false), action::none);
  EXPECT_FALSE(rule.begun() || rule.under_way() || rule.done());
  rule.begin(noon, 1s);
  EXPECT_TRUE(rule.under_way());
  rule.complete();
  EXPECT_EQ(rule.due(0, false), action::none);
  EXPECT_TRUE(rule.begun() && rule.done());
  EXPECT_FALSE(rule.under_way());
}

TEST(CloseRule, DrainsForAsLongAsItIsToldAndLooksAtLeastOnceASecond) {
  struct timing {
    duration command_timeout, drain_for;
    time_point first, next;
  };
  for (timing const& r :
       {timing{250ms, 5s, noon + 5s, noon + 250ms}, timing{1s, 0s, noon, noon + 1s}, timing{10s, -1s, noon, noon + 1s},
        timing{5s, duration::max(), time_point::max(), noon + 1s}}) {
    close_rule rule{r.command_timeout};
    EXPECT_EQ(rule.begin(noon, r.drain_for), r.first);
    EXPECT_EQ(rule.next_look(noon), r.next);
  }
}

}  // namespace
}  // namespace conch::detail
