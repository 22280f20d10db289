// Which slots a connection to a node of a Cluster is subscribed to, and which answers are those of its subscriptions.

#include <gtest/gtest.h>

#include <optional>
#include <string_view>

#include "servers/redis/slot_subscriptions.hpp"
#include "servers/redis/topology/slots.hpp"

namespace conch::redis {
namespace {

constexpr bool push = true, answer = false;

struct SlotSubscriptions : testing::Test {
  SlotSubscriptions() { all.begin(home); }

  std::optional<unsigned> before(std::string_view name, std::int64_t place = 0, bool behind_auth = false) {
    return all.before(protocol::acquire_command{name, 1}, place, behind_auth);
  }

  unsigned const slot = slot_of_lock("L"), home = slot_of_lock("home");
  slot_subscriptions all;
};

TEST_F(SlotSubscriptions, SubscribesBeforeTheFirstCommandThatMayLeadToAPush) {
  EXPECT_EQ(before("L"), slot);
  EXPECT_FALSE(before("L")) << "it is on its way";
  EXPECT_FALSE(all.before(protocol::release_command{.name = "M", .id = 1}, 0, false)) << "nothing is pushed for that";
  EXPECT_EQ(before("M"), slot_of_lock("M"));
}

TEST_F(SlotSubscriptions, TheProtocolSubscribesToTheHomeByItself) {
  EXPECT_FALSE(all.before(protocol::subscribe_command{}, 0, false));
  EXPECT_FALSE(before("home"));
  EXPECT_FALSE(all.is_own(0, push, false)) << "the answer is the protocol's";
}

TEST_F(SlotSubscriptions, APushAtItsPlaceAnswersIt) {
  before("L", 2);
  EXPECT_FALSE(all.is_own(0, push, false));
  EXPECT_FALSE(all.is_own(1, push, false));
  EXPECT_TRUE(all.is_own(2, push, false));
  EXPECT_FALSE(all.is_own(2, push, false)) << "once";
  EXPECT_FALSE(before("L", 3)) << "it stands";
}

TEST_F(SlotSubscriptions, AnAnswerAtItsPlaceIsAnError) {
  before("L", 2);
  EXPECT_FALSE(all.is_own(1, answer, false));
  EXPECT_TRUE(all.is_own(2, answer, false));
  EXPECT_EQ(before("L", 3), slot) << "it does not stand, and is tried again";
}

TEST_F(SlotSubscriptions, SeveralAreAnsweredInTheirOrder) {
  before("L", 1);
  before("M", 1);
  EXPECT_TRUE(all.is_own(1, push, false));
  EXPECT_TRUE(all.is_own(1, answer, false));
  EXPECT_FALSE(before("L", 2));
  EXPECT_EQ(before("M", 2), slot_of_lock("M"));
}

TEST_F(SlotSubscriptions, AnAuthInFrontIsAnsweredFirst) {
  before("L", 1, true);
  EXPECT_FALSE(all.is_own(1, answer, true)) << "that is the answer of AUTH";
  EXPECT_TRUE(all.is_own(1, answer, false));
  before("L", 2, true);
  EXPECT_TRUE(all.is_own(2, push, true)) << "AUTH is not answered by a push";
}

TEST_F(SlotSubscriptions, AnAuthBehindIsAnsweredLater) {
  before("L", 1, false);
  EXPECT_TRUE(all.is_own(1, answer, true));
}

TEST_F(SlotSubscriptions, WhatTheNodeHasEndedIsSubscribedToAgain) {
  before("L", 0);
  EXPECT_TRUE(all.is_own(0, push, false));
  all.ended(slot);
  EXPECT_EQ(before("L", 1), slot);
}

TEST_F(SlotSubscriptions, ANewConnectionBeginsWithNone) {
  before("L", 0);
  all.begin(home);
  EXPECT_FALSE(all.is_own(0, push, false));
  EXPECT_EQ(before("L", 0), slot);
}

}  // namespace
}  // namespace conch::redis
