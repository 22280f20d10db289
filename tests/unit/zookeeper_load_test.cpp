// More to do than the ensemble can do in time.
#include "zookeeper_fixture.hpp"

#include <algorithm>

namespace conch::zookeeper {
namespace {

class ZookeeperLoad : public zookeeper_test {
 protected:
  static constexpr auto most = static_cast<int>(protocol::request_window::first);

  static std::ptrdiff_t count(texts const& of, std::string_view what) {
    return std::count_if(of.begin(), of.end(), [&](std::string const& one) { return one.starts_with(what); });
  }

  static std::string name(int i) { return "w" + std::to_string(i); }
};

TEST_F(ZookeeperLoad, SoManyFoldersAreListedAtOnceAndTheOthersWaitTheirTurn) {  // P4, P5
  be_open();
  for (int i = 0; i < most + 10; ++i) line->ask(at(name(i)), true, 12s, now);
  EXPECT_EQ(count(take_sent(), "list "), most);
  EXPECT_FALSE(at(name(most)).written);
  made("/conch/w0/me.2-0000000000", 9);
  listed({"me.2-0000000000"});
  auto const next = take_sent();
  ASSERT_GE(count(next, "list "), 1);
  EXPECT_TRUE(next.front().starts_with("create line /conch/" + name(most) + "/")) << next.front();
}

TEST_F(ZookeeperLoad, AWaitThatHasNotBegunEndsAtOnce) {
  be_open();
  for (int i = 0; i <= most; ++i) line->ask(at(name(i)), true, 12s, now);
  EXPECT_NE(line->too_late(at(name(most)), now).message().find("others of this client"), std::string::npos);
  take_sent();
  take_told();
  line->leave_unless_granted(at(name(most)), now);
  EXPECT_EQ(count(take_told(), "left "), 1);
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperLoad, WaitsThatEndTogetherListTheirFoldersInTurns) {  // each list is as long as the line
  be_open();
  std::string const other = "other.1-0000000000";
  auto const mine = [](int i) { return "me." + std::to_string(i + 2) + "-0000000001"; };
  int const waiters = most + 20;
  for (int i = 0; i < waiters; ++i) {
    line->ask(at(name(i)), true, 12s, now);
    made("/conch/" + name(i) + "/" + mine(i), 9 + i);
    listed({other, mine(i)});
    ok();  // it is watched
  }
  take_sent();
  for (int i = 0; i < waiters; ++i) line->leave_unless_granted(at(name(i)), now);
  EXPECT_EQ(count(take_sent(), "list "), most);
  take_told();
  for (int i = 0; i < most; ++i) listed({other, mine(i)});
  auto const rest = take_sent();
  EXPECT_EQ(count(rest, "list "), 20);
  EXPECT_EQ(count(rest, "remove "), most);
}

TEST_F(ZookeeperLoad, WhatWaitsIsAskedForOnTheNextConnection) {  // P4
  be_open();
  for (int i = 0; i < most + 10; ++i) line->ask(at(name(i)), true, 12s, now);
  take_sent();
  lose_connection();
  advance(1s);
  open(7, false);
  texts all = take_sent();
  for (int i = 0; i < most + 10; ++i) {
    listed({});  // that is searched for, and not there
    for (std::string const& one : take_sent()) all.push_back(one);
  }
  EXPECT_GE(count(all, "create line /conch/" + name(most) + "/"), 1);
  EXPECT_GE(count(all, "create line /conch/" + name(most + 9) + "/"), 1);
}

}  // namespace
}  // namespace conch::zookeeper
