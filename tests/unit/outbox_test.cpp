// When what several parts have added is written, and which of them writes it.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

#include "net/outbox.hpp"

namespace conch::net {
namespace {

struct box : outbox {
  box() : outbox{true} {}

  flush_due says(std::string_view bytes, bool owed = false) {
    return say(owed, [&](std::string& out) { out += bytes; });
  }
  bool flushes(std::string_view last = {}) {
    return flush([&](std::string& out) { out += last; });
  }
};

TEST(Outbox, TheFirstOfATurnGoesOutAtOnce) {
  box b;
  EXPECT_EQ(b.says("one"), flush_due::at_once);
  EXPECT_EQ(b.says("two"), flush_due::no) << "it goes out with the first, if that has not gone yet";
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.bytes(), "onetwo");
}

TEST(Outbox, TheFirstOfATurnWaitsForItsEndWhileAnAnswerIsOwed) {
  box b;
  EXPECT_EQ(b.says("one", true), flush_due::later);
  EXPECT_EQ(b.says("two", true), flush_due::no);
}

TEST(Outbox, WhoClaimsTheFlushWritesWhatIsSaidUntilThen) {
  box b;
  EXPECT_TRUE(b.claim());
  EXPECT_FALSE(b.claim());
  EXPECT_EQ(b.says("one"), flush_due::no);
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.written(3), outbox::after::nothing);
  EXPECT_EQ(b.says("two"), flush_due::at_once) << "the claim has ended";
}

TEST(Outbox, TheFirstHalfOfManyGoesOutBeforeTheOther) {
  box b;
  b.claim();
  b.early(2);
  EXPECT_EQ(b.says("1", true), flush_due::no);
  EXPECT_EQ(b.says("2", true), flush_due::at_once);
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.bytes(), "12");
  EXPECT_EQ(b.written(2), outbox::after::nothing);
  EXPECT_EQ(b.says("3", true), flush_due::later) << "once";
  EXPECT_EQ(b.says("4", true), flush_due::no);
}

TEST(Outbox, AFlushEndsWhatWasToGoOutEarly) {
  box b;
  b.early(2);
  EXPECT_EQ(b.says("1"), flush_due::at_once);
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.written(1), outbox::after::nothing);
  EXPECT_EQ(b.says("2", true), flush_due::later);
}

TEST(Outbox, WhatIsAddedOnlyClaimsNoFlush) {
  box b;
  b.say_only([](std::string& out) { out += "AUTH"; });
  EXPECT_TRUE(b.claim());
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.bytes(), "AUTH");
}

TEST(Outbox, WritesNothingIfNothingWasSaid) {
  box b;
  b.claim();
  EXPECT_FALSE(b.flushes());
  EXPECT_FALSE(b.is_writing());
  EXPECT_TRUE(b.claim()) << "the flush is done";
}

TEST(Outbox, WhoFlushesHasTheLastWord) {
  box b;
  b.says("one");
  EXPECT_TRUE(b.flushes("end"));
  EXPECT_EQ(b.bytes(), "oneend");
}

TEST(Outbox, GoesOnWithTheRestOfAPartialWrite) {
  box b;
  b.says("hello");
  b.flushes();
  EXPECT_EQ(b.written(2), outbox::after::rest);
  EXPECT_EQ(b.bytes(), "llo");
  EXPECT_EQ(b.written(3), outbox::after::nothing);
  EXPECT_EQ(b.bytes(), "");
}

TEST(Outbox, TheBytesStayInPlaceWhileMoreIsSaid) {
  box b;
  b.says("hello");
  b.flushes();
  char const* const at = b.bytes().data();
  for (int i = 0; i < 1000; ++i) b.says("more");
  EXPECT_EQ(b.bytes().data(), at);
  EXPECT_EQ(b.bytes(), "hello");
}

TEST(Outbox, AFlushDuringAWriteFollowsItsEnd) {
  box b;
  b.says("one");
  b.flushes();
  b.says("two");
  EXPECT_TRUE(b.is_writing());
  EXPECT_EQ(b.written(1), outbox::after::rest);
  EXPECT_EQ(b.written(2), outbox::after::flush);
  EXPECT_FALSE(b.is_writing());
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.bytes(), "two");
  EXPECT_EQ(b.written(3), outbox::after::nothing) << "it was missed once";
}

TEST(Outbox, AGreetingGoesOutAlone) {
  box b;
  b.says("early");
  b.begin("HELLO");
  EXPECT_TRUE(b.is_writing());
  EXPECT_EQ(b.bytes(), "HELLO");
  EXPECT_EQ(b.written(5), outbox::after::flush);
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.bytes(), "early");
}

TEST(Outbox, ANewStreamWaitsForNoWriteOfTheOldOne) {
  box b;
  b.begin("HELLO");
  EXPECT_TRUE(b.is_writing());
  b.end_stream();
  EXPECT_FALSE(b.is_writing());
  b.end_stream();
  b.begin("HELLO");
  EXPECT_EQ(b.bytes(), "HELLO") << "from its beginning";
  EXPECT_EQ(b.written(5), outbox::after::nothing) << "the missed flush was one of the old stream";
}

TEST(Outbox, ForgetsWhatWasSaidAndWhoClaimedTheFlush) {
  box b;
  b.says("one");
  b.early(5);
  b.forget();
  EXPECT_EQ(b.says("two", true), flush_due::later);
  EXPECT_TRUE(b.flushes());
  EXPECT_EQ(b.bytes(), "two");
}

TEST(Outbox, LosesNothingThatOthersSayWhileItIsFlushed) {
  constexpr int number = 20'000;
  flush_gate gate{true};
  std::string said, taken;
  std::size_t at_once = 0;
  std::thread others{[&] {
    for (int i = 0; i < number; ++i) at_once += gate.add(false, [&] { said += 'x'; }) == flush_due::at_once ? 1u : 0u;
  }};
  for (int i = 0; i < number; ++i) {
    gate.take([&] {
      taken += said;
      said.clear();
    });
  }
  others.join();
  gate.take([&] { taken += said; });
  EXPECT_EQ(taken.size(), static_cast<std::size_t>(number));
  EXPECT_GE(at_once, 1u);
}

}  // namespace
}  // namespace conch::net
