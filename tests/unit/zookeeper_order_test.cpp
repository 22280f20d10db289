// Which place is granted in a ZooKeeper queue, and which it watches: tables, and thousands of random queues against a
// plain statement of the rule.
#include "servers/zookeeper/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace conch::zookeeper {

std::ostream& operator<<(std::ostream& out, verdict::kind k) {
  constexpr std::string_view names[] = {"granted",    "waits",         "kept",        "not_there",
                                        "other_kind", "owner_is_away", "has_no_place"};
  return out << names[static_cast<int>(k)];
}

namespace {

using engine::permit_kind;
using kind = verdict::kind;
using step = view::step;
using texts = std::vector<std::string>;

texts watched(view const& v) {
  texts all;
  for (node_ahead const& one : v.watched) all.push_back(one.name);
  return all;
}

// ---- names

TEST(ZookeeperNames, SayWhatANodeAsksFor) {
  std::uint32_t const everything = engine::most_permits;
  struct {
    std::string_view name;
    terms asks;
  } const table[] = {
      {"me.17-0000000042", {}},
      {"me~s3of10.17-0000000042", {.kind = permit_kind::semaphore, .weight = 3, .limit = 10}},
      {"me~s1000000of1000000.17-0000000042",
       {.kind = permit_kind::semaphore, .weight = everything, .limit = everything}},
      {"me~r.17-0000000042", {.kind = permit_kind::shared, .weight = 1, .limit = everything}},
      {"me~w.17-0000000042", {.kind = permit_kind::shared, .weight = everything, .limit = everything}},
      {"me~e00ff.17-0000000042", {.kind = permit_kind::reentrant, .owner = "00ff"}},
      {"me~i1500.17-0000000042", {.interval_ms = 1500}},
  };
  for (auto const& row : table) {
    auto const read = read_node_name(row.name);
    ASSERT_TRUE(read) << row.name;
    EXPECT_EQ(read->client, "me") << row.name;
    EXPECT_EQ(read->terms, row.asks) << row.name;
    EXPECT_EQ(read->number, 17u) << row.name;
    EXPECT_EQ(read->sequence, 42) << row.name;
    EXPECT_EQ(node_prefix("me", row.asks, 17) + "0000000042", row.name);
  }
}

TEST(ZookeeperNames, TermsThatNobodyKnowsAreALockOfAnotherKind) {
  for (std::string_view const text :
       {"",       "x",  "s", "s1",  "s1of", "sof1", "s0of1", "s1of0",     "s1of1000001", "s-1of2",
        "s1of2x", "rr", "e", "eXY", "e0g",  "i",    "i0",    "i86400001", "k",           "k0"}) {
    std::string const name = "me~" + std::string{text} + ".17-0000000042";
    auto const read = read_node_name(name);
    ASSERT_TRUE(read) << name;
    EXPECT_FALSE(read->terms.known) << name;
    EXPECT_FALSE(is_alike(read->terms, read->terms)) << name;
  }
}

TEST(ZookeeperNames, ANodeThatKeepsALockIsNoPlaceInItsQueue) {
  EXPECT_EQ(keep_name_of("me~i1500.17-0000000042", 8), "me~k1500c8.17-0000000042");
  EXPECT_FALSE(read_node_name("me~k1500c8.17-0000000042"));
  auto const read = read_keep_name("me~k1500c8.17-0000000042");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->client, "me");
  EXPECT_EQ(read->number, 17u);
  EXPECT_EQ(read->interval_ms, 1500u);
  EXPECT_EQ(read->created, 8);
  for (std::string_view const name : {"me.17-0000000042", "me~i1500.17-0000000042", "me~k0c8.17-0000000042", "k1500c8"})
    EXPECT_FALSE(read_keep_name(name)) << name;
}

TEST(ZookeeperNames, APrefixNamesARootThatNoOtherPrefixNames) {
  EXPECT_EQ(root_of("", "conch:"), "/conch");
  EXPECT_EQ(root_of("/shop", "a:b:"), "/shop/a:b");
  for (std::string_view const prefix : {"orders", "orders::", ":", "::", ""})
    EXPECT_FALSE(names_a_root(prefix)) << prefix;
  for (std::string_view const prefix : {"orders:", "a:b:", "/:", "zookeeper:", ".:", "%2F:"})
    EXPECT_TRUE(names_a_root(prefix)) << prefix;
}

TEST(ZookeeperNames, EachNameHasANodeOfItsOwn) {
  std::set<std::string> names{"zookeeper",  "%7Aookeeper", "zookeeper.", ".clients",
                              "%2Eclients", "..",          "%2E.",       "%252E."},
      nodes;
  std::string const bytes{"\0\x1f ./%2EeFzZ~\x7f\x80\xff:-a", 20};
  for (char const a : bytes) {
    for (char const b : bytes) {
      for (char const c : bytes) {
        for (std::size_t size = 1; size <= 3; ++size) names.insert(std::string{a, b, c}.substr(0, size));
      }
    }
  }
  for (std::string const& name : names) {
    std::string const node = encoded(name);
    nodes.insert(node);
    EXPECT_EQ(node.find('/'), std::string::npos);
    EXPECT_FALSE(node == "." || node == ".." || node == ".clients" || node == "zookeeper") << node;
  }
  EXPECT_EQ(nodes.size(), names.size());
}

/// What a conch reads in a name that knows mutexes only.
struct old_name {
  std::string_view client;
  std::uint64_t number;
  std::int32_t sequence;
};
std::optional<old_name> read_as_earlier(std::string_view name) {
  std::size_t const dot = name.find('.');
  std::size_t const dash = name.find('-', dot == std::string_view::npos ? name.size() : dot);
  if (dash == std::string_view::npos) return std::nullopt;
  std::string const number{name.substr(dot + 1, dash - dot - 1)}, sequence{name.substr(dash + 1)};
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return old_name{name.substr(0, dot), std::stoull(number), static_cast<std::int32_t>(std::stol(sequence))};
}

TEST(ZookeeperNames, AnEarlierConchTakesANodeOfAPermitForTheMutexOfAStranger) {
  for (engine::permit const& p :
       {engine::permit{permit_kind::semaphore, 10, 3}, engine::permit{permit_kind::shared, engine::most_permits, 1},
        engine::permit{permit_kind::reentrant, engine::most_permits, 1, 0, "00ff"}}) {
    std::string const name = node_prefix("me", terms_of(p), 17) + "0000000042";
    auto const read = read_as_earlier(name);
    ASSERT_TRUE(read) << name;
    EXPECT_NE(read->client, "me") << name << ": it would be removed as a stray";
    EXPECT_EQ(read->sequence, 42) << name;
  }
}

// ---- the rule

TEST(ZookeeperOrder, OfReadersAndWriters) {
  texts const line{"a~r.1-1", "b~r.1-2", "c~w.1-3", "d~r.1-4", "e~w.1-5"};
  EXPECT_EQ(judge(line, "a~r.1-1").is, kind::granted);
  EXPECT_EQ(judge(line, "b~r.1-2").is, kind::granted);
  EXPECT_EQ(judge(line, "c~w.1-3").is, kind::waits);
  EXPECT_EQ(judge(line, "d~r.1-4").is, kind::waits) << "a reader does not pass a writer";
  EXPECT_EQ(watched(judge(line, "d~r.1-4").ahead), (texts{"c~w.1-3", "b~r.1-2"}));
  EXPECT_EQ(watched(judge(line, "e~w.1-5").ahead), (texts{"d~r.1-4", "c~w.1-3"})) << "one that blocks, and one more";
  EXPECT_EQ(judge(line, "e~w.1-5").ahead.others, 2u);
}

TEST(ZookeeperOrder, OfPermits) {
  texts const line{"a~s2of3.1-1", "b~s1of3.1-2", "c~s1of3.1-3", "d~s3of3.1-4", "e~s1of3.1-5"};
  EXPECT_EQ(judge(line, "b~s1of3.1-2").is, kind::granted);
  EXPECT_EQ(judge(line, "c~s1of3.1-3").is, kind::waits);
  EXPECT_EQ(watched(judge(line, "c~s1of3.1-3").ahead), (texts{"b~s1of3.1-2", "a~s2of3.1-1"}));
  EXPECT_EQ(watched(judge(line, "e~s1of3.1-5").ahead), (texts{"d~s3of3.1-4", "c~s1of3.1-3"}))
      << "nobody passes one that wants more";
}

TEST(ZookeeperOrder, TheLeastLimitAheadCounts) {
  EXPECT_EQ(judge(texts{"a~s1of2.1-1", "b~s1of9.1-2", "c~s1of9.1-3"}, "c~s1of9.1-3").is, kind::waits);
  EXPECT_EQ(judge(texts{"a~s1of9.1-1", "b~s1of2.1-2", "c~s1of9.1-3"}, "b~s1of2.1-2").is, kind::granted);
  EXPECT_EQ(judge(texts{"a~s1of9.1-1", "b~s1of9.1-2", "c~s1of1.1-3"}, "b~s1of9.1-2").is, kind::granted)
      << "one behind it does not";
  EXPECT_EQ(judge(texts{"a~s7of5.1-1"}, "a~s7of5.1-1").is, kind::granted) << "more than the limit is all of it";
}

TEST(ZookeeperOrder, ANameIsOfOneKindOfLockThatOfTheFirstInLine) {
  texts const line{"a~s1of2.1-1", "b.1-2", "c~s1of2.1-3", "d~x9.1-4"};
  EXPECT_EQ(judge(line, "b.1-2").is, kind::other_kind);
  EXPECT_EQ(judge(line, "b.1-2").whose, "a~s1of2.1-1");
  EXPECT_EQ(judge(line, "c~s1of2.1-3").is, kind::waits)
      << "the other one is on its way out, and nothing beside it until then";
  EXPECT_EQ(judge(line, "a~s1of2.1-1").is, kind::granted);
  EXPECT_EQ(judge(texts{"d~x9.1-1", "c~s1of2.1-3"}, "c~s1of2.1-3").is, kind::other_kind);
  EXPECT_EQ(judge(texts{"a~r.1-1", "c~s1of2.1-3"}, "c~s1of2.1-3").is, kind::other_kind);
}

TEST(ZookeeperOrder, AnOwnerNestsWithinOneClientOnly) {
  texts const line{"a~e01.1-1", "a~e02.2-2", "b~e01.1-3", "a~e01.3-4"};
  EXPECT_EQ(judge(line, "a~e02.2-2").is, kind::waits);
  EXPECT_EQ(judge(line, "b~e01.1-3").is, kind::owner_is_away);
  EXPECT_EQ(judge(line, "b~e01.1-3").whose, "a~e01.1-1");
  EXPECT_EQ(judge(texts{"a~e01.1-1", "a~e01.3-4"}, "a~e01.3-4").is, kind::waits) << "its own, earlier one";
}

TEST(ZookeeperOrder, ANodeThatKeepsTheLockKeepsOutAllButItsOwnGrant) {
  std::string const keep = "a~k9c1.1-0000000001";
  texts const all{keep, "a~i9.2-0000000002", "b.1-0000000003", "c~r.1-0000000004"};
  verdict const first = judge(all, all[1]);
  EXPECT_EQ(first.is, kind::kept) << "the same client";
  EXPECT_EQ(watched(first.ahead), texts{keep});
  verdict const second = judge(all, all[2]);
  EXPECT_EQ(second.is, kind::waits);
  EXPECT_EQ(watched(second.ahead), texts{all[1]}) << "only the first watches the node that keeps the lock";
  EXPECT_EQ(judge(all, all[3]).whose, keep) << "the lock is a mutex still";
  EXPECT_EQ(judge(texts{keep, "a~i9.1-0000000001"}, "a~i9.1-0000000001").is, kind::granted);
}

TEST(ZookeeperOrder, ATurnBehindAnIntervalIsSeenInAList) {
  texts const behind{"a~i9.1-0000000001", "b.1-0000000002"},
      beside{"a~k9c1.1-0000000000", "b.1-0000000002", "c.1-0000000003"}, plain{"a.1-0000000001", "b.1-0000000002"};
  EXPECT_EQ(judge(behind, behind[1]).ahead.gone(behind[0], {}), step::lists);
  EXPECT_EQ(judge(beside, beside[2]).ahead.gone(beside[1], {}), step::lists);
  EXPECT_EQ(judge(beside, beside[1]).ahead.gone(beside[0], {}), step::lists);
  EXPECT_EQ(judge(plain, plain[1]).ahead.gone(plain[0], {}), step::granted);
}

TEST(ZookeeperOrder, WhatIsNotThereHasNoTurn) {
  EXPECT_EQ(judge(texts{"a.1-1"}, "b.1-2").is, kind::not_there);
  EXPECT_EQ(judge(texts{}, "b.1-2").is, kind::not_there);
  EXPECT_EQ(judge(texts{"b.1-2"}, "README").is, kind::not_there);
}

TEST(ZookeeperOrder, ANumberThatSeveralMayHaveIsNoPlace) {
  texts const line{"a.1-2147483646", "b.1-2147483647", "c.1-2147483647", "d.1--2147483648", "e.1-0000000007"};
  EXPECT_EQ(judge(line, "e.1-0000000007").is, kind::granted);
  EXPECT_EQ(judge(line, "a.1-2147483646").is, kind::waits);
  EXPECT_EQ(watched(judge(line, "a.1-2147483646").ahead), texts{"e.1-0000000007"});
  for (std::string_view const mine : {"b.1-2147483647", "c.1-2147483647", "d.1--2147483648"}) {
    EXPECT_EQ(judge(line, mine).is, kind::has_no_place) << mine;
    EXPECT_EQ(judge(texts{std::string{mine}}, mine).is, kind::has_no_place) << mine << ", and nobody else is there";
  }
}

TEST(ZookeeperOrder, OneMoreIsWatchedThanBlocks) {
  verdict v = judge(texts{"a.1-1", "b.1-2", "c.1-3", "d.1-4"}, "d.1-4");
  share const one{};
  EXPECT_EQ(watched(v.ahead), (texts{"c.1-3", "b.1-2"}));
  EXPECT_EQ(v.ahead.others, 1u);
  EXPECT_EQ(v.ahead.gone("x.1-0", one), step::nothing) << "not watched";
  EXPECT_EQ(v.ahead.gone("b.1-2", one), step::lists) << "before its turn comes";
  v = judge(texts{"b.1-2", "c.1-3", "d.1-4"}, "d.1-4");
  EXPECT_EQ(v.ahead.gone("c.1-3", one), step::nothing) << "the death of one in mid-queue";
  EXPECT_EQ(v.ahead.gone("b.1-2", one), step::granted);
}

// ---- random lines

struct in_line {
  std::string name;
  permit_kind kind = permit_kind::none;
  share takes;
};

/// In the order of asking.
using random_line = std::vector<in_line>;

random_line any_line(std::mt19937& random, bool other_kinds) {
  auto const up_to = [&](std::uint32_t most) { return std::uniform_int_distribution<std::uint32_t>{0, most}(random); };
  permit_kind const usual =
      std::vector{permit_kind::none, permit_kind::semaphore, permit_kind::semaphore, permit_kind::shared}[up_to(3)];
  std::uint32_t const limit = 1 + up_to(5);
  bool const limits_vary = up_to(2) == 0;
  // From 0, up to the greatest that is a place, or anywhere.
  constexpr std::uint32_t longest = 14 * 3;
  std::uint32_t sequence = std::vector<std::uint32_t>{0, 0x7fffffffu - longest, up_to(0x7fffffffu - longest)}[up_to(2)];
  random_line line;
  for (std::uint32_t left = up_to(14); left != 0; --left) {
    in_line one;
    one.kind = other_kinds && up_to(5) == 0 ? permit_kind::none : usual;
    terms asks;
    if (one.kind == permit_kind::semaphore) {
      asks = {.kind = one.kind,
              .weight = 1 + (up_to(1) == 0 ? 0 : up_to(limit)),
              .limit = limits_vary ? 1 + up_to(7) : limit};
    } else if (one.kind == permit_kind::shared) {
      asks = {.kind = one.kind, .weight = up_to(2) == 0 ? engine::most_permits : 1, .limit = engine::most_permits};
    }
    one.takes = {asks.weight, asks.limit};
    one.name = node_prefix("c" + std::to_string(up_to(3)), asks, up_to(999)) + std::to_string(sequence);
    sequence += 1 + up_to(2);
    line.push_back(one);
  }
  return line;
}

/// The rule, word by word.
bool is_granted(random_line const& line, std::size_t which) {
  for (std::size_t i = 0; i < which; ++i) {
    if (line[i].kind != line[which].kind) return false;
  }
  std::uint32_t m = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = 0; i <= which; ++i) m = std::min(m, line[i].takes.limit);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= which; ++i) sum += std::min(line[i].takes.weight, m);
  return sum <= m;
}

texts names_of(random_line const& line, std::mt19937& random) {
  texts all;
  for (in_line const& one : line) all.push_back(one.name);
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

std::string shown(random_line const& line) {
  std::string text;
  for (in_line const& one : line) text += one.name + ' ';
  return text;
}

TEST(ZookeeperOrder, ARandomLineIsJudgedAsTheRuleSays) {
  std::mt19937 random{1};
  for (int round = 0; round < 5000; ++round) {
    random_line const line = any_line(random, round % 3 == 0);
    texts const names = names_of(line, random);
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      verdict const v = judge(names, line[i].name);
      ASSERT_EQ(v.is == kind::granted, is_granted(line, i)) << line[i].name << " in " << shown(line);
      ASSERT_EQ(v.is == kind::other_kind, line[i].kind != line[0].kind) << line[i].name << " in " << shown(line);
      if (v.is != kind::granted) continue;
      // Never more than the last one that is granted allows.
      std::uint32_t m = line[0].takes.limit;
      for (std::size_t k = 0; k <= i; ++k) m = std::min(m, line[k].takes.limit);
      given = 0;
      for (std::size_t k = 0; k <= i; ++k) given += std::min(line[k].takes.weight, m);
      ASSERT_LE(given, m) << shown(line);
    }
  }
}

TEST(ZookeeperOrder, WhatIsWatchedBlocksWithoutTheOthersAndIsTheNearest) {
  std::mt19937 random{2};
  for (int round = 0; round < 5000; ++round) {
    random_line const line = any_line(random, round % 3 == 0);
    texts const names = names_of(line, random);
    for (std::size_t i = 0; i < line.size(); ++i) {
      verdict const v = judge(names, line[i].name);
      if (v.is != kind::waits) continue;
      texts const seen = watched(v.ahead);
      ASSERT_EQ(seen.size() + v.ahead.others, i) << shown(line);
      for (std::size_t k = 0; k < seen.size(); ++k) ASSERT_EQ(seen[k], line[i - 1 - k].name) << shown(line);
      random_line alone(line.begin() + static_cast<std::ptrdiff_t>(i - seen.size()),
                        line.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      ASSERT_FALSE(is_granted(alone, alone.size() - 1)) << line[i].name << " in " << shown(line);
    }
  }
}

/// Everybody in the line, as a place knows it: by lists, and by the ends of those that it watches.
class played_line {
 public:
  played_line(random_line line, std::mt19937& random) : line_{std::move(line)}, random_{random} {
    for (in_line const& one : line_) lists(one);
  }

  bool empty() const { return line_.empty(); }
  std::size_t lists_so_far() const { return lists_; }
  std::size_t watches_so_far() const { return watches_; }

  void remove(std::size_t which) {
    std::string const gone = line_[which].name;
    line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(which));
    for (in_line const& one : line_) {
      auto const waits = waiting_.find(one.name);
      if (waits == waiting_.end()) continue;
      step const next = waits->second.gone(gone, one.takes);
      if (next == step::granted) waiting_.erase(waits);
      if (next == step::lists) lists(one);
    }
  }

  /// Nobody thinks that it has its turn too early, and nobody has missed it.
  void check() const {
    for (std::size_t i = 0; i < line_.size(); ++i) {
      ASSERT_EQ(!waiting_.contains(line_[i].name), is_granted(line_, i)) << line_[i].name << " in " << shown(line_);
    }
  }

  std::size_t one_of(bool granted) const {
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < line_.size(); ++i) {
      if (!granted || !waiting_.contains(line_[i].name)) which.push_back(i);
    }
    return which[std::uniform_int_distribution<std::size_t>{0, which.size() - 1}(random_)];
  }

 private:
  void lists(in_line const& one) {
    ++lists_;
    verdict v = judge(names_of(line_, random_), one.name);
    texts const before = watched(waiting_[one.name]);
    waiting_.erase(one.name);
    if (v.is != kind::waits) return;
    for (std::string const& name : watched(v.ahead))
      watches_ += std::find(before.begin(), before.end(), name) == before.end() ? 1 : 0;
    waiting_[one.name] = std::move(v.ahead);
  }

  random_line line_;
  std::mt19937& random_;
  std::map<std::string, view> waiting_;
  std::size_t lists_ = 0, watches_ = 0;
};

TEST(ZookeeperOrder, NobodyMissesItsTurnAndNobodyTakesItTooEarly) {
  std::mt19937 random{3};
  for (int round = 0; round < 3000; ++round) {
    played_line line{any_line(random, false), random};
    line.check();
    while (!line.empty() && !::testing::Test::HasFatalFailure()) {
      line.remove(line.one_of(round % 2 == 0));  // a hold that ends; or any client that leaves, or dies
      line.check();
    }
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "round " << round;
  }
}

TEST(ZookeeperOrder, AMutexPassesFromOneToTheNextWithOneListAtMost) {
  std::mt19937 random{4};
  for (std::size_t const many : {2u, 3u, 50u}) {
    random_line line;
    for (std::size_t i = 0; i < many; ++i) line.push_back({"c.1-" + std::to_string(i), permit_kind::none, {}});
    played_line played{line, random};
    for (std::size_t i = 0; i < many; ++i) {
      std::size_t const before = played.lists_so_far();
      played.remove(0);
      EXPECT_LE(played.lists_so_far(), before + 1) << many;
    }
    EXPECT_LE(played.lists_so_far(), 2 * many) << "with the first list of each";
  }
}

TEST(ZookeeperOrder, WhatASemaphoreOfTenCostsAHundredThatWait) {
  std::mt19937 random{5};
  std::size_t constexpr waiters = 100, limit = 10;
  random_line line;
  for (std::size_t i = 0; i < waiters + limit; ++i)
    line.push_back({"c~s1of10.1-" + std::to_string(i), permit_kind::semaphore, {1, limit}});
  played_line played{line, random};
  while (!played.empty()) played.remove(played.one_of(true));
  double const lists = static_cast<double>(played.lists_so_far()) / waiters,
               watches = static_cast<double>(played.watches_so_far()) / waiters;
  RecordProperty("lists_a_grant", std::to_string(lists));
  RecordProperty("watches_a_grant", std::to_string(watches));
  EXPECT_LE(lists, 4.0);
  EXPECT_LE(watches, 4.0 * limit);
}

}  // namespace
}  // namespace conch::zookeeper
