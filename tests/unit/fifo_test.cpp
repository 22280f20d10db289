#include "base/fifo.hpp"

#include <gtest/gtest.h>

namespace conch::engine {
namespace {

/// Few, as many as go round in the same memory, and more.
TEST(Fifo, KeepsTheOrderHoweverManyThereAre) {
  constexpr std::size_t warm = fifo<std::size_t>::warm;
  fifo<std::size_t> all;
  std::size_t in = 0, out = 0;
  auto const check = [&] {
    ASSERT_EQ(all.empty(), in == out);
    std::size_t seen = out;
    all.for_each([&](std::size_t one) { ASSERT_EQ(one, seen++); });
    ASSERT_EQ(seen, in);
    EXPECT_EQ(all.any_of([&](std::size_t one) { return one + 1 == in; }), in != out);
    EXPECT_FALSE(all.any_of([&](std::size_t one) { return one == in; }));
  };
  for (std::size_t const most : {std::size_t{1}, std::size_t{17}, warm - 1, warm, warm + 1, 3 * warm}) {
    while (in - out < most) all.push_back(in++);
    check();
    while (in - out > most / 2) {
      ASSERT_EQ(all.front(), out++);
      all.pop_front();
    }
    check();
    while (in - out < most) all.push_back(in++);  // behind those that were there
    check();
    while (!all.empty()) {
      ASSERT_EQ(all.front(), out++);
      all.pop_front();
    }
    check();
  }
}

TEST(Fifo, IsTakenAwayAsAWhole) {
  fifo<std::size_t> all, taken;
  for (std::size_t i = 0; i < fifo<std::size_t>::warm + 2; ++i) all.push_back(i);
  taken.swap(all);
  EXPECT_TRUE(all.empty());
  std::size_t seen = 0;
  taken.for_each([&](std::size_t one) { EXPECT_EQ(one, seen++); });
  EXPECT_EQ(seen, fifo<std::size_t>::warm + 2);
  all.push_back(7);
  EXPECT_EQ(all.front(), 7u);
}

}  // namespace
}  // namespace conch::engine
