// Which address is tried next, and for how long.

#include "base/address_choice.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace conch {
namespace {

using namespace std::chrono_literals;
using texts = std::vector<std::string>;

struct search {
  address_choice choice;
  time_point now{1h};
  address_choice::limits limits{5s, 30s};
  texts list{"a", "b", "c"};

  void begin() { choice.begin(list, limits, now); }

  // The next one and its time: "a 2500".
  std::string next() {
    if (!choice.next(now)) return "none";
    EXPECT_EQ(choice.address(), list.at(choice.number()));
    return choice.address() + ' ' +
           std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(choice.until() - now).count());
  }

  void silent() {
    now = choice.until();
    choice.silent("silent", now);
  }

  void refused() { choice.refused("refused", now); }

  // What an attempt does of which `what` tells how each address ends: s(ilent), r(efused), g(ood). Behind its end the
  // rest is not tried.
  texts attempt(std::string_view what) {
    texts said;
    begin();
    for (char const one : what) {
      said.push_back(next());
      if (said.back() == "none") return said;
      if (one == 's') silent();
      if (one == 'r') refused();
      if (one == 'g') return choice.succeeded(), said;
    }
    said.push_back(next());
    return said;
  }
};

TEST(AddressChoice, OneAddressHasAllTheTimeOfEachAttempt) {
  search s;
  s.list = {"a"};
  s.limits = {5s, 1s};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(s.attempt("s"), (texts{"a 5000", "none"})) << i;
}

TEST(AddressChoice, SilenceCostsAShareAndTheNextAddressFollows) {
  search s;
  s.list = {"a", "b"};
  EXPECT_EQ(s.attempt("sg"), (texts{"a 2500", "b 2500"}));
}

TEST(AddressChoice, RefusalCostsNoTime) {
  search s;
  EXPECT_EQ(s.attempt("rrr"), (texts{"a 1666", "b 2500", "c 5000", "none"}));
  EXPECT_EQ(s.attempt("rrr"), (texts{"a 1666", "b 2500", "c 5000", "none"})) << "nothing was silent";
}

TEST(AddressChoice, TheGoodOneComesFirstThenTheUnknownThenTheRefusedThenTheSilent) {
  search s;
  s.attempt("srg");
  s.list = {"a", "b", "c", "d"};
  EXPECT_EQ(s.attempt("rrrr"), (texts{"c 1250", "d 1666", "b 2500", "a 5000", "none"}));
}

TEST(AddressChoice, AServerThatWasGoodAndFallsSilentIsTriedLastNextTime) {
  search s;
  s.list = {"a", "b"};
  s.attempt("g");
  s.attempt("sr");
  EXPECT_EQ(s.attempt("g"), (texts{"b 5000"})) << "b first; and the last attempt met silence";
  EXPECT_EQ(s.attempt("g"), (texts{"b 2500"})) << "it was good, so all begins anew";
}

TEST(AddressChoice, AmongEqualsTheOneWhoseFailureIsOldestComesFirst) {
  search s;
  s.limits.whole = 500ms;  // two have their turn
  texts seen;
  for (int i = 0; i < 3; ++i) {
    s.begin();
    seen.push_back(s.next());
    s.silent();
  }
  EXPECT_EQ(seen, (texts{"a 250", "b 500", "c 500"}));
  EXPECT_EQ(s.attempt("s"), (texts{"a 500", "none"}));
  EXPECT_EQ(s.attempt("s"), (texts{"b 500", "none"}));
}

TEST(AddressChoice, WhereAllIsSlowEachHasAllTheTimeAfterAFewAttempts) {
  search s;
  EXPECT_EQ(s.attempt("sss"), (texts{"a 1666", "b 1666", "c 1666", "none"}));
  EXPECT_EQ(s.attempt("sss"), (texts{"a 3333", "b 1666", "none"}));
  EXPECT_EQ(s.attempt("sss"), (texts{"c 5000", "none"}));
  EXPECT_EQ(s.attempt("sss"), (texts{"a 5000", "none"}));
  EXPECT_EQ(s.attempt("g"), (texts{"b 5000"}));
}

TEST(AddressChoice, AThirdOfTheLeaseIsEnoughForAllAddresses) {
  search s;
  s.limits.lease = 9s;
  EXPECT_EQ(s.attempt("sss"), (texts{"a 1000", "b 1000", "c 1000", "none"}));
}

TEST(AddressChoice, NoShareIsTooShortForAnAnswerFromFarAway) {
  search s;
  s.limits.lease = 100ms;
  EXPECT_EQ(s.attempt("sg"), (texts{"a 250", "b 250"}));
  search many;
  many.list.clear();
  for (int i = 0; i < 100; ++i) many.list.push_back(std::to_string(i));
  many.begin();
  int turns = 0;
  for (; many.choice.next(many.now); ++turns) many.silent();
  EXPECT_EQ(turns, 20) << "of 250 ms each";
  EXPECT_EQ(many.attempt("s").front(), "20 500") << "the next attempt goes on where this one has ended";
}

TEST(AddressChoice, AnAttemptEndsWithItsTime) {
  search s;
  s.begin();
  EXPECT_EQ(s.next(), "a 1666");
  s.now += 4900ms;  // the process was paused, or the look-up was slow
  s.refused();
  EXPECT_EQ(s.next(), "b 100");
  s.silent();
  EXPECT_EQ(s.next(), "none");
}

TEST(AddressChoice, WhatIsNotInTheListAnyMoreIsForgotten) {
  search s;
  s.attempt("sss");
  s.list = {"d"};
  s.attempt("g");
  s.list = {"a", "d"};
  EXPECT_EQ(s.attempt("rr"), (texts{"d 2500", "a 5000", "none"}));
  s.list = {"a", "d", "b"};
  EXPECT_EQ(s.attempt("r").front(), "b 1666") << "nothing is known of b, which has been silent before it was gone";
}

TEST(AddressChoice, AnAddressThatIsListedTwiceHasOneTurn) {
  search s;
  s.list = {"a", "a", "b", "a"};
  EXPECT_EQ(s.attempt("rr"), (texts{"a 2500", "b 5000", "none"}));
}

TEST(AddressChoice, SaysOfEachAddressWhyItCouldNotBeUsed) {
  search s;
  s.list = {"a"};
  s.attempt("r");
  EXPECT_EQ(s.choice.words(), "refused");
  s.list = {"a", "b"};
  s.attempt("rs");
  EXPECT_EQ(s.choice.words(), "b: refused; a: silent");
  s.begin();
  EXPECT_EQ(s.choice.words(), "");
  s.list.clear();
  for (int i = 0; i < 64; ++i) s.list.push_back(std::to_string(i));
  s.begin();
  while (s.choice.next(s.now)) s.refused();
  EXPECT_LT(s.choice.words().size(), 600u);
}

TEST(AddressChoice, WithoutAddressesThereIsNothingToTry) {
  search s;
  s.list = {};
  s.begin();
  EXPECT_EQ(s.next(), "none");
}

TEST(AddressChoice, AfterAFailoverTheStandbyIsAskedFirstInEachAttempt) {
  search s;
  s.list = {"primary", "standby"};
  s.attempt("g");
  EXPECT_EQ(s.attempt("sr"), (texts{"primary 2500", "standby 2500", "none"}))
      << "the machine is down; nobody is promoted yet";
  EXPECT_EQ(s.attempt("rs"), (texts{"standby 5000", "primary 5000", "none"}));
  EXPECT_EQ(s.attempt("g"), (texts{"standby 5000"})) << "promoted";
}

}  // namespace
}  // namespace conch
