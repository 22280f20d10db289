// The names of locks for which was waited longest, in bounded memory.
#include "base/top_names.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace conch {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> names_of(top_names const& of) {
  std::vector<std::string> names;
  for (auto const& one : of.report()) names.push_back(one.name);
  return names;
}

TEST(TopNames, TheLongestWaitedForComeFirst) {
  top_names top{2};
  top.waited("short", 1ms, true);
  top.waited("long", 5ms, true);
  top.waited("middle", 3ms, true);
  EXPECT_EQ(names_of(top), (std::vector<std::string>{"long", "middle"}));
  top.waited("short", 9ms, false);
  EXPECT_EQ(names_of(top), (std::vector<std::string>{"short", "long"}));
}

TEST(TopNames, CountsWhatBecameOfEach) {
  top_names top{1};
  top.waited("a", 2ms, true);
  top.waited("a", 3ms, false);
  top.held("a", 10ms, false);
  top.waited("a", 0ms, true);
  top.held("a", 20ms, true);
  lock_statistics const a = top.report().at(0);
  EXPECT_EQ(a.grants, 2u);
  EXPECT_EQ(a.refusals, 1u);
  EXPECT_EQ(a.losses, 1u);
  EXPECT_EQ(a.wait, 5ms);
  EXPECT_EQ(a.hold, 30ms);
}

TEST(TopNames, ANewNameTakesThePlaceOfTheLeast) {
  top_names top{1};  // keeps four
  for (char const* name : {"a", "b", "c", "d"}) top.waited(name, 10ms, true);
  top.waited("b", 1ms, true);
  for (int i = 0; i < 100; ++i) top.waited("once " + std::to_string(i), 1us, true);
  EXPECT_EQ(names_of(top), std::vector<std::string>{"b"}) << "names that come once push out none that was waited for";
  for (int i = 0; i < 20; ++i) top.waited("busy", 1ms, true);
  EXPECT_EQ(names_of(top), std::vector<std::string>{"busy"});
  EXPECT_EQ(top.report().at(0).grants, 20u);
  EXPECT_EQ(top.report().at(0).wait, 20ms) << "its own figures, and not those of the name whose place it took";
}

TEST(TopNames, AHoldOfANameThatWasPushedOutIsNotCounted) {
  top_names top{1};
  top.waited("gone", 0ms, true);
  for (char const* name : {"a", "b", "c", "d"}) top.waited(name, 10ms, true);
  top.held("gone", 1h, true);
  for (auto const& one : top.report()) EXPECT_NE(one.name, "gone");
  EXPECT_EQ(top.report().size(), 1u);
}

TEST(TopNames, NoneAreKeptWhereNoneAreAskedFor) {
  EXPECT_FALSE(top_names{0}.counts());
  EXPECT_TRUE(top_names{0}.report().empty());
}

}  // namespace
}  // namespace conch
