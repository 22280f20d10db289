// Does the name of a server mean another one by now?

#include "base/own_addresses.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace conch {
namespace {

using texts = std::vector<std::string>;

TEST(OwnAddresses, AnAnswerWithoutAnyOfThemIsAnotherServers) {
  own_addresses own;
  own.connected("run", "a");
  EXPECT_FALSE(own.are_elsewhere({"a"}));
  EXPECT_FALSE(own.are_elsewhere({"b", "a"}));
  EXPECT_TRUE(own.are_elsewhere({"b"}));
  EXPECT_FALSE(own.are_elsewhere({})) << "no answer says nothing";
}

TEST(OwnAddresses, AnAddressAtWhichTheSameRunAnswersIsItsOwnToo) {
  own_addresses own;
  own.connected("run", "a");
  own.connected("run", "b");
  EXPECT_FALSE(own.are_elsewhere({"a"}));
  EXPECT_FALSE(own.are_elsewhere({"b"}));
  EXPECT_TRUE(own.are_elsewhere({"c"}));
}

TEST(OwnAddresses, ThoseOfAnEarlierRunOrOfAnUnknownOneAreNot) {
  own_addresses own;
  own.connected("run", "a");
  own.connected("another run", "b");
  EXPECT_TRUE(own.are_elsewhere({"a"}));
  own.connected("", "c");
  own.connected("", "d");
  EXPECT_TRUE(own.are_elsewhere({"c"})) << "nobody knows whether c and d are one server";
  own.connected("another run", "e");
  EXPECT_TRUE(own.are_elsewhere({"b"})) << "what was between is not known";
}

TEST(OwnAddresses, DoNotGrowWithoutBound) {
  own_addresses own;
  for (int i = 0; i < 1000; ++i) own.connected("run", std::to_string(i));
  EXPECT_FALSE(own.are_elsewhere({"999"}));
  EXPECT_TRUE(own.are_elsewhere({"0"}));
}

}  // namespace
}  // namespace conch
