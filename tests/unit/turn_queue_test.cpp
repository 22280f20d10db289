// Completions that a client calls by itself, in turns of the event loop.
#include "client/turn_queue.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace conch::detail {
namespace {

TEST(TurnQueue, NeedsATurnOnlyForTheFirstItemThatIsPushedOutsideOfOne) {
  turn_queue<int> q;
  EXPECT_TRUE(q.needs_turn());
  q.push(1);
  EXPECT_FALSE(q.needs_turn()) << "one was asked for";
  q.begin();
  q.run([](int) {});
  EXPECT_FALSE(q.needs_turn()) << "this turn is not over: it is asked at its end";
  EXPECT_FALSE(q.leave());
  EXPECT_TRUE(q.needs_turn());
}

TEST(TurnQueue, CallsInOrderWhatIsDueAndWhatBecomesDueMeanwhile) {
  turn_queue<int> q;
  std::vector<int> called;
  q.push(1);
  q.push(2);
  q.begin();
  q.run([&](int i) {
    called.push_back(i);
    if (i < 3) q.push(i + 2);
  });
  EXPECT_EQ(called, (std::vector{1, 2, 3, 4}));
  EXPECT_FALSE(q.leave());
}

TEST(TurnQueue, LeavesTheEventLoopToOthersWhenThereIsNoEnd) {
  turn_queue<int> q;
  int called = 0;
  for (int const i : {0, 1, 2, 3, 4}) q.push(i + 1);
  q.begin();
  q.run([&](int i) {
    ++called;
    q.push(std::move(i));
  });
  EXPECT_EQ(called, 5 + 16);
  EXPECT_TRUE(q.leave()) << "another turn is needed for what is left";
}

TEST(TurnQueue, KeepsWhatIsBehindACompletionThatThrows) {
  turn_queue<int> q;
  q.push(1);
  q.push(2);
  q.begin();
  EXPECT_THROW(q.run([](int) { throw std::runtime_error{"of a handler"}; }), std::runtime_error);
  EXPECT_TRUE(q.leave());
  std::vector<int> called;
  q.begin();
  q.run([&](int i) { called.push_back(i); });
  EXPECT_EQ(called, std::vector{2});
}

}  // namespace
}  // namespace conch::detail
