// No script does more than a bounded number of steps, whatever the numbers: the commands that each one calls are
// counted at 10, 1000 and (Slow) 100,000 owners and waiters, and what one script leaves the next ones must do.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "servers/redis/scripts.hpp"
#include "sim/model/redis_model.hpp"

namespace conch::sim {
namespace {

constexpr std::int64_t start_us = 1'700'000'000'000'000;
constexpr std::int64_t fence_epoch_us = 1'577'836'800'000'000;

/// 100 steps of five commands: admitting a client counts as three and calls ten, an order takes it from 100 and may let
/// others in as well. What belongs to no step is less than 60.
constexpr std::uint64_t most_commands = 100 * 5 + 100 / 3 * 10 + 60;

std::string text(std::int64_t n) { return std::to_string(n); }

/// In the order of bytes, in which the model keeps them: 100,000 in another order take it minutes.
std::string in_order(std::int64_t n) { return text(1'000'000 + n); }

class ScriptSteps : public testing::TestWithParam<std::int64_t> {
 protected:
  ScriptSteps() {
    model_.set_time_us(start_us);
    me_ = model_.connect("10.0.0.1:1");
    listener_ = model_.connect("10.0.0.1:2");
    run(listener_, {"HELLO", "3"});
    run(listener_, {"SUBSCRIBE", "conch:live"});
  }

  value run(redis_model::connection_id who, std::vector<std::string> const& words) {
    std::vector<std::string_view> const argv{words.begin(), words.end()};
    value reply = model_.execute(who, argv);
    (void)model_.take_pushes();
    return reply;
  }

  /// Runs one script and returns its answer, counting the commands that it called.
  value script(std::string_view name, std::vector<std::string> const& argv) {
    std::vector<std::string> words{"EVAL",
                                   std::string{redis::find_script(name).source},
                                   name == "release" || name == "acquire" ? "3" : "4",
                                   key_,
                                   key_ + ":q",
                                   key_ + ":f"};
    if (words[2] == "4") words.push_back(key_ + ":e");
    words.insert(words.end(), argv.begin(), argv.end());
    std::int64_t const fields = length("HLEN", key_);
    model_.reset_calls();
    value reply = run(me_, words);
    EXPECT_FALSE(reply.is_error()) << reply.text;
    std::uint64_t commands = 0;
    for (auto const& [what, times] : model_.calls()) commands += times;
    longest_ = std::max(longest_, commands);
    ++scripts_;
    if (fields > 202 && !may_look_at_all_ && model_.calls("hgetall") != 0)
      ADD_FAILURE() << name << " looks at all owners";
    return reply;
  }

  bool many() const { return GetParam() > 200; }

  /// With the largest numbers, the first scripts show enough.
  bool to_the_end() const { return GetParam() <= 10'000; }
  bool goes_on() const { return to_the_end() || scripts_ < 20; }

  static bool says_more(value const& reply, std::size_t where) {
    return reply.items.size() > where && (reply.items[where].integer & 2) != 0;
  }

  void release_all(std::string const& id) {
    while (goes_on() && says_more(script("release", {id, "0", "30000", "3000", "60000", ""}), 1)) continue;
  }

  void release_permit(std::string const& id, char kind, std::int64_t limit, std::int64_t weight = 1) {
    while (goes_on() && says_more(script("permit_release", {id, "0", "30000", "3000", "60000", std::string(1, kind),
                                                            text(limit), text(weight), "-", "0"}),
                                  1))
      continue;
  }

  std::vector<std::string> asks(std::string const& id, char kind, std::int64_t limit, std::int64_t weight = 1,
                                std::string const& visited = "-", std::string const& mode = "wait") {
    return {id,          mode,         "30000", "3000", "60000", "0", "0", std::string(1, kind),
            text(limit), text(weight), visited, "0"};
  }

  /// `text_of(i)`, one for each in line.
  template <class F>
  void line_up(F text_of) {
    for (std::int64_t i = 0; i < GetParam(); ++i) run(me_, {"ZADD", key_ + ":q", text(start_us + i), text_of(i)});
    run(me_, {"PEXPIRE", key_ + ":q", "3600000"});
  }

  /// As the scripts leave a semaphore with that many owners: the first `over` of them expire in 3 s, the others in an
  /// hour.
  void owners(std::int64_t over) {
    std::int64_t const count = GetParam();
    for (std::int64_t i = 0; i < count; ++i) {
      std::string const id = "o" + in_order(i) + ".1",
                        ends = text(start_us + (i < over ? 3'000'000 : 3'600'000'000) + i);
      run(me_, {"HSET", key_, id, "1 " + text(start_us - fence_epoch_us - count + i) + " h " + ends + " 0"});
      if (many()) run(me_, {"ZADD", key_ + ":e", ends, id});
    }
    run(me_, {"HSET", key_, "sums",
              "s " + text(2 * count) + " " + text(count) + (many() ? " 0" : " ") +
                  text(start_us + (over > 0 ? 3'000'000 : 3'600'000'000)) + " 0 "});
    for (char const* suffix : {"", ":e"}) run(me_, {"PEXPIRE", key_ + suffix, "7200000"});
  }

  std::int64_t length(std::string_view command, std::string const& of) {
    return run(me_, {std::string{command}, of}).integer;
  }

  void expect_bounded(std::string const& what) {
    RecordProperty(what, static_cast<int>(longest_));
    std::printf("%s, %lld: %llu scripts, at most %llu commands\n", what.c_str(), static_cast<long long>(GetParam()),
                static_cast<unsigned long long>(scripts_), static_cast<unsigned long long>(longest_));
    EXPECT_LE(longest_,
              GetParam() <= 200 && what.find("owner") != std::string::npos ? 200 * 4 + most_commands : most_commands)
        << what;
    scripts_ = longest_ = 0;
  }

  redis_model model_{start_us};
  redis_model::connection_id me_{}, listener_{};
  std::string const key_ = "conch:{n}";
  std::uint64_t longest_ = 0, scripts_ = 0;
  bool may_look_at_all_ = false;
};

TEST_P(ScriptSteps, ADeadLineIsPassedOverInBoundedScripts) {
  script("acquire", {"h.1", "wait", "30000", "3000", "60000", "0", "0"});
  line_up([](std::int64_t i) { return "dead" + text(i / 20'000) + "." + in_order(i); });
  run(me_, {"ZADD", key_ + ":q", text(start_us + 1'000'000), "live.1"});
  scripts_ = longest_ = 0;
  release_all("h.1");
  if (to_the_end()) {
    EXPECT_EQ(run(me_, {"GET", key_}).text.substr(0, 7), "live.1 ") << "the first that hears has it";
    EXPECT_GE(scripts_, static_cast<std::uint64_t>(GetParam() / 100));
  }
  expect_bounded("release past the dead");
}

TEST_P(ScriptSteps, ATryGoesOnUntilItKnows) {
  line_up([](std::int64_t i) { return "dead" + in_order(i) + ".1"; });
  value reply;
  do {
    reply = script("acquire", {"live.1", "try", "30000", "3000", "60000", "0", "0"});
  } while (goes_on() && reply.items.size() > 3 && reply.items[0].integer == 4);
  if (to_the_end()) {
    EXPECT_TRUE(reply.items.empty() || reply.items[0].integer == 1) << "the lock is free, and no waiter is alive";
    EXPECT_EQ(length("ZCARD", key_ + ":q"), 0);
  }
  expect_bounded("try of a lock that the dead wait for");
}

TEST_P(ScriptSteps, ADeadLineForAPermitIsPassedOverInBoundedScripts) {
  script("permit_acquire", asks("h.1", 's', 5, 5));
  line_up([](std::int64_t i) { return "dead" + text(i / 20'000) + "." + in_order(i) + " 1 -"; });
  run(me_, {"ZADD", key_ + ":q", text(start_us + 1'000'000), "live.1 1 -"});
  scripts_ = longest_ = 0;
  release_permit("h.1", 's', 5, 5);
  EXPECT_EQ(run(me_, {"HEXISTS", key_, "live.1"}).integer, to_the_end() ? 1 : 0);
  expect_bounded("permit_release past the dead");
}

TEST_P(ScriptSteps, AWritersReleaseLetsReadersInInBoundedScripts) {
  script("permit_acquire", asks("w.1", 'r', 1'000'000, 1'000'000));
  line_up([](std::int64_t i) { return "live." + in_order(i) + " 1 -"; });
  scripts_ = longest_ = 0;
  release_permit("w.1", 'r', 1'000'000, 1'000'000);
  std::int64_t const in_line = length("ZCARD", key_ + ":q");
  EXPECT_TRUE(in_line == 0 || !to_the_end());
  std::string const sums = run(me_, {"HGET", key_, "sums"}).text;
  EXPECT_EQ(sums.substr(0, sums.find(' ', 10)), "r 1000000 " + text(GetParam() - in_line))
      << "each reader is counted once";
  EXPECT_EQ(length("ZCARD", key_ + ":e"), many() ? GetParam() - in_line : 0);
  expect_bounded("a writer's release to readers, who are the owners then");
}

TEST_P(ScriptSteps, AJoinDoesNotWalkTheLine) {
  for (char const kind : {'e', 'g'}) {
    run(me_, {"DEL", key_, key_ + ":q"});
    script("permit_acquire", asks("h.1", kind, kind == 'e' ? 1000 : 2, 1, kind == 'e' ? "6d65" : "-"));
    line_up([&](std::int64_t i) { return "live." + in_order(i) + (kind == 'e' ? " 1 796f75" : " 1 ,2,"); });
    while (true) {  // the first that comes looks at all of them once
      value const reply = script("permit_acquire", asks("live.9999999", kind, 2, 1, kind == 'e' ? "796f75" : ",2,"));
      ASSERT_FALSE(reply.items.empty());
      if (reply.items[0].integer != 4) break;
    }
    scripts_ = 0;
    expect_bounded(std::string{"a walk, kind "} + kind);
    for (int i = 0; i < 20; ++i)
      script("permit_acquire", asks("live." + text(9'000'000 + i), kind, 2, 1, kind == 'e' ? "796f75" : ",2,"));
    EXPECT_LE(longest_, 20u) << "kind " << kind;
    expect_bounded(std::string{"joins of the line, kind "} + kind);
  }
}

TEST_P(ScriptSteps, OneOwnerThatIsOverIsFoundAmongAll) {
  owners(1);
  model_.set_time_us(start_us + 4'000'000);
  release_permit("nobody.1", 's', 2 * GetParam());
  EXPECT_EQ(run(me_, {"HEXISTS", key_, "o" + in_order(0) + ".1"}).integer, 0);
  EXPECT_EQ(run(me_, {"HEXISTS", key_, "o" + in_order(1) + ".1"}).integer, 1);
  if (many()) {
    EXPECT_LE(longest_, 20u);
  }
  expect_bounded("one owner that is over");
}

TEST_P(ScriptSteps, AllOwnersThatAreOverEndInBoundedScripts) {
  owners(GetParam() - 1);
  model_.set_time_us(start_us + 4'000'000);
  while (goes_on() && length("HLEN", key_) > 2) release_permit("nobody.1", 's', 2 * GetParam());
  EXPECT_TRUE(length("HLEN", key_) == 2 || !to_the_end()) << "the sums, and the one that has not expired";
  EXPECT_EQ(run(me_, {"HGET", key_, "sums"}).text.substr(0, 2), "s ");
  expect_bounded("all owners but one are over");
}

TEST_P(ScriptSteps, WhoAsksIsToldOnlyWhenAllIsSwept) {
  owners(GetParam());
  model_.set_time_us(start_us + 4'000'000);
  std::int64_t const all = 2 * GetParam();
  value reply;
  do {
    reply = script("permit_acquire", asks("live.1", 's', all, all, "-", "try"));
    ASSERT_GE(reply.items.size(), 3u);
  } while (goes_on() && reply.items[0].integer == 4);
  EXPECT_EQ(reply.items[0].integer, to_the_end() ? 1 : 4) << "nothing is given out to anybody";
  expect_bounded("an acquire of all when all owners are over");
}

TEST_P(ScriptSteps, AnOrderTakesItFromAllInBoundedScripts) {
  owners(0);
  std::vector<std::string> argv{"3000", "60000", "all"};
  std::int64_t taken = 0;
  while (true) {
    value const reply = script("force", argv);
    ASSERT_GE(reply.items.size(), 2u);
    taken += reply.items[0].integer;
    if (!says_more(reply, 2) || !goes_on()) break;
    argv.resize(3);
    for (std::size_t i = 5; i < reply.items.size(); ++i) argv.push_back(text(reply.items[i].integer));
  }
  EXPECT_EQ(taken, to_the_end() ? GetParam() : 20 * 100);
  EXPECT_EQ(length("EXISTS", key_), to_the_end() ? 0 : 1);
  EXPECT_EQ(length("EXISTS", key_ + ":e"), to_the_end() ? 0 : 1);
  expect_bounded("force of all owners");
}

TEST_P(ScriptSteps, AnOrderFindsOneOwnerInBoundedScripts) {
  owners(0);
  std::int64_t const which = std::min<std::int64_t>(GetParam(), 1500) - 1,
                     fence = start_us - fence_epoch_us - GetParam() + which;
  std::vector<std::string> argv{"3000", "60000", text(fence)};
  std::int64_t taken = 0;
  while (true) {
    value const reply = script("force", argv);
    taken += reply.items[0].integer;
    if (!says_more(reply, 2) || !goes_on()) break;
    argv.resize(3);
    for (std::size_t i = 5; i < reply.items.size(); ++i) argv.push_back(text(reply.items[i].integer));
  }
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(run(me_, {"HEXISTS", key_, "o" + in_order(which) + ".1"}).integer, 0);
  EXPECT_EQ(length("HLEN", key_), GetParam());
  expect_bounded("force of one owner");
}

TEST_P(ScriptSteps, AnOrderThatNamesTheFenceOfNobodyEnds) {
  owners(0);
  std::vector<std::string> argv{"3000", "60000", "0"};
  int scripts = 0;
  while (true) {
    value const reply = script("force", argv);
    ASSERT_GE(reply.items.size(), 2u);
    EXPECT_EQ(reply.items[0].integer, 0) << "nobody has the fence 0";
    ASSERT_LT(++scripts, GetParam() + 2) << "it comes no further";
    if (!says_more(reply, 2) || !goes_on()) break;
    argv.resize(3);
    for (std::size_t i = 5; i < reply.items.size(); ++i) argv.push_back(text(reply.items[i].integer));
  }
  EXPECT_EQ(length("HLEN", key_), GetParam() + 1);
}

INSTANTIATE_TEST_SUITE_P(Numbers, ScriptSteps, testing::Values(10, 1000));
INSTANTIATE_TEST_SUITE_P(Slow, ScriptSteps, testing::Values(100'000));

// ---- the set of ends
// --------------------------------------------------------------------------------------------------

class SetOfEnds : public ScriptSteps {};

TEST_P(SetOfEnds, IsMadeWhenThereAreManyAndEmptyAgainInTheEnd) {
  for (std::int64_t i = 0; i < GetParam(); ++i) script("permit_acquire", asks("o" + text(i) + ".1", 's', 100'000));
  EXPECT_EQ(length("ZCARD", key_ + ":e"), GetParam());
  for (std::int64_t i = 0; i < GetParam(); ++i) release_permit("o" + text(i) + ".1", 's', 100'000);
  EXPECT_EQ(length("EXISTS", key_), 0);
  EXPECT_EQ(length("EXISTS", key_ + ":e"), 0);
}

TEST_P(SetOfEnds, IsMadeAnewAfterAScriptOfAnEarlierVersionHasWritten) {
  for (std::int64_t i = 0; i < GetParam(); ++i) script("permit_acquire", asks("o" + text(i) + ".1", 's', 100'000));
  // 0.1.0 writes the sums without the mark, and an owner that is not in the set.
  std::string sums = run(me_, {"HGET", key_, "sums"}).text;
  std::string const taken = text(GetParam()), ends = text(start_us + 1'000'000);
  ASSERT_EQ(sums, "s 100000 " + taken + " 0" + text(start_us + 30'000'000) + " 0 ");
  run(me_, {"HSET", key_, "sums", "s 100000 " + text(GetParam() + 1) + " " + ends + " 0 ", "old.1",
            "1 " + text(start_us - fence_epoch_us) + " h " + ends + " 0"});
  model_.set_time_us(start_us + 2'000'000);
  may_look_at_all_ = true;
  script("permit_acquire", asks("late.1", 's', 100'000));
  EXPECT_EQ(run(me_, {"HEXISTS", key_, "old.1"}).integer, 0) << "it was over";
  EXPECT_EQ(length("ZCARD", key_ + ":e"), GetParam() + 1);
  EXPECT_EQ(run(me_, {"HGET", key_, "sums"}).text,
            "s 100000 " + text(GetParam() + 1) + " 0" + text(start_us + 30'000'000) + " 0 ");
}

TEST_P(SetOfEnds, IsMadeAnewWhenItIsGone) {
  for (std::int64_t i = 0; i < GetParam(); ++i) script("permit_acquire", asks("o" + text(i) + ".1", 's', 100'000));
  run(me_, {"DEL", key_ + ":e"});
  model_.set_time_us(start_us + 31'000'000);
  run(me_, {"PERSIST", key_});
  may_look_at_all_ = true;
  script("permit_acquire", asks("late.1", 's', 100'000));
  EXPECT_EQ(length("HLEN", key_), 2);
}

TEST_P(SetOfEnds, FollowsWhatARenewalHasPutOff) {
  for (std::int64_t i = 0; i < GetParam(); ++i) script("permit_acquire", asks("o" + text(i) + ".1", 's', 100'000));
  model_.set_time_us(start_us + 20'000'000);
  run(me_, {"EVAL", std::string{redis::find_script("permit_renew").source}, "1", key_, "o7.1", "30000"});
  model_.set_time_us(start_us + 31'000'000);
  for (int i = 0; i < 10; ++i) release_permit("nobody.1", 's', 100'000);
  EXPECT_EQ(length("HLEN", key_), 2) << "all but the one that was renewed";
  EXPECT_EQ(run(me_, {"HEXISTS", key_, "o7.1"}).integer, 1);
}

INSTANTIATE_TEST_SUITE_P(Numbers, SetOfEnds, testing::Values(150, 700));

}  // namespace
}  // namespace conch::sim
