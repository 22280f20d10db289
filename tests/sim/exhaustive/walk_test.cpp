// How orders are enumerated and left out, in worlds of a few numbers.
#include "sim/exhaustive/walk.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

namespace conch::sim {
namespace {

/// Processes that each write their letters, in their order.
struct letters {
  std::vector<std::string> of_processes;
  bool in_common = false;  // all of it concerns all processes
};

struct walked {
  std::size_t runs = 0;
  std::multiset<std::string> orders;
  std::uint64_t states = 0;
};

walked walk_through(letters const& world, reductions r, bounds limits = {100, 0}) {
  visited seen;
  walk w{r, seen, limits.steps, {}};
  walked all;
  do {
    w.begin();
    ++all.runs;
    schedule order{limits, w};
    std::string written;
    for (std::size_t p = 0; p < world.of_processes.size(); ++p) {
      for (char const letter : world.of_processes[p]) {
        footprint const touched = world.in_common ? of_all : of_client(static_cast<int>(p));
        order.add({p + 10, touched, 0, static_cast<std::uint64_t>(letter), [&written, letter] { written += letter; }});
      }
    }
    try {
      while (order.take_one({0, steps::never, [] {}, {}, 0, [] { return std::uint64_t{0}; }})) {
      }
      all.orders.insert(written);
    } catch (needless const&) {
    }
  } while (w.advance());
  all.states = seen.count();
  return all;
}

TEST(Walk, TakesEveryOrderOfStreamsAndKeepsTheOrderInEach) {
  auto const all = walk_through({{"ab", "xy"}}, {false, false});
  EXPECT_EQ(all.orders, (std::multiset<std::string>{"abxy", "axby", "axyb", "xaby", "xayb", "xyab"}));
  EXPECT_EQ(all.runs, 6U);
}

TEST(Walk, TakesOneOrderOfWhatCommutes) {
  auto const all = walk_through({{"ab", "xy"}}, {true, false});
  EXPECT_EQ(all.orders.size(), 1U);
}

TEST(Walk, GoesIntoEachStateOnce) {
  auto const all = walk_through({{"ab", "xy"}}, {false, true});
  EXPECT_EQ(all.orders.size(), 2U);  // the two ways into the last state, in which nothing is decided
  EXPECT_EQ(all.states, 8U);         // three times three, but for the last
}

TEST(Walk, LeavesOutNothingOfWhatDoesNotCommute) {
  for (reductions const r : {reductions{true, false}, reductions{false, true}, reductions{true, true}}) {
    EXPECT_EQ(walk_through({{"ab", "xy"}, true}, r).orders.size(), 6U);
  }
}

TEST(Walk, SplitsIntoPartsThatHaveAllOrders) {
  visited seen;
  walk w{{false, false}, seen, 100, {}};
  w.begin();
  choice const two[] = {{10, of_client(0)}, {11, of_client(1)}};
  (void)w.decide([] { return std::uint64_t{0}; }, std::span{two}.first(1));
  (void)w.decide([] { return std::uint64_t{0}; }, two);
  EXPECT_EQ(w.split(), (std::vector<path>{{0, 0}, {0, 1}}));
}

TEST(Walk, APathIsWrittenWithoutItsEnd) {
  EXPECT_EQ(to_text({0, 2, 0, 11, 0, 0}), "0.2.0.11");
  EXPECT_EQ(path_of("0.2.0.11"), (path{0, 2, 0, 11}));
  EXPECT_EQ(path_of(""), path{});
  EXPECT_THROW(path_of("1.x"), std::invalid_argument);
}

/// Takes what is said, by its place among what may happen.
struct dictated final : decider {
  std::vector<std::size_t> next;
  std::vector<choice> offered;
  std::uint64_t last_state = 0;
  std::size_t decide(std::function<std::uint64_t()> const& state, std::span<choice const> all) override {
    offered.assign(all.begin(), all.end());
    last_state = state();
    if (next.empty()) return 0;
    std::size_t const n = next.front();
    next.erase(next.begin());
    return n;
  }
};

TEST(Schedule, TimeDoesNotPassWhatMustHappenBefore) {
  dictated d;
  schedule s{{100, 0}, d};
  s.add({10, of_client(0), 5, 0, [] {}});
  auto const at = [](nanos timer) { return steps::moment{0, timer, [] {}, {}, 0, [] { return std::uint64_t{0}; }}; };
  d.next = {1};
  ASSERT_TRUE(s.take_one(at(5)));
  EXPECT_EQ(d.offered.size(), 2U);
  ASSERT_TRUE(s.take_one(at(6)));
  EXPECT_EQ(d.offered.size(), 1U);
  EXPECT_TRUE(s.empty());
}

TEST(Schedule, WhatIsForAPausedProcessWaits) {
  dictated d;
  schedule s{{100, 0}, d};
  s.add({10, of_client(0), 5, 0, [] {}});
  ASSERT_TRUE(s.take_one({0, 90, [] {}, {}, of_client(0), [] { return std::uint64_t{0}; }}));
  EXPECT_EQ(d.offered.size(), 1U);  // time
  EXPECT_FALSE(s.empty());
}

TEST(Schedule, TakesNoMoreFaultsThanItMay) {
  dictated d;
  schedule s{{100, 1}, d};
  s.add({10, of_client(0), 5, 0, [] {}});
  s.add({10, of_client(0), 5, 0, [] {}});
  int struck = 0;
  std::vector<steps::fault> const faults{{0, of_all, [&] { ++struck; }}};
  d.next = {1};
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(s.take_one({0, steps::never, [] {}, faults, 0, [] { return std::uint64_t{0}; }}));
  EXPECT_EQ(struck, 1);
  EXPECT_TRUE(s.empty());
}

TEST(Schedule, DropsWhatWouldDoNothing) {
  dictated d;
  schedule s{{100, 0}, d};
  s.add({10, of_client(0), 5, 0, [] {}, [] { return true; }});
  EXPECT_FALSE(s.take_one({0, steps::never, [] {}, {}, 0, [] { return std::uint64_t{0}; }}));
}

}  // namespace
}  // namespace conch::sim
