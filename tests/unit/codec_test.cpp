#include "servers/redis/codec.hpp"

#include "protocol/gathering.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/scripts.hpp"
#include "servers/redis/topology/slots.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>
#include <conch/config.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using protocol::fault;
using words = std::vector<std::string>;
using numbers = std::vector<std::int64_t>;

/// The words of the commands in `bytes`, which must hold nothing else.
std::vector<words> commands_in(std::string_view bytes) {
  resp::decoder in;
  test::feed(in, bytes);
  std::vector<words> all;
  while (in.next() == resp::decoder::progress::message) {
    words one;
    for (auto const& n : in.message().subspan(1)) {
      EXPECT_EQ(n.what, resp::kind::bulk_string);
      one.emplace_back(n.text);
    }
    EXPECT_EQ(in.message().front().count, one.size());
    all.push_back(std::move(one));
  }
  EXPECT_EQ(in.error(), "");
  return all;
}

words encoded(protocol::command const& c, std::string_view client = "c1") {
  std::string bytes;
  encode(c, client, bytes);
  auto const all = commands_in(bytes);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? words{} : all.front();
}

std::string sha(std::string_view script) { return std::string{find_script(script).sha1}; }
std::string source(std::string_view script) { return std::string{find_script(script).source}; }

/// Redis Cluster's rule: what is between the first `{` and the first `}` after it, if that is not empty; else all.
std::string_view hashed_part(std::string_view key) {
  auto const open = key.find('{');
  if (open == key.npos) return key;
  auto const close = key.find('}', open + 1);
  if (close == key.npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

words keys_of(std::string_view name) {
  protocol::acquire_command const c{name, 1, true, 1s, 1s, 1s};
  auto const all = encoded(c);
  return {all.begin() + 3, all.begin() + 6};
}

std::vector<std::string> const odd_names{
    "a",     "stock:iphone", "}",  "{",    "{}",  "}{",  "}}",     "{{",    "%",       "%%",        "%7D",
    "%257D", "%25",          "%7", "7D",   "%7d", "%2",  "a}b",    "a{b}c", "{user1}", "{user1}.x", "\0"s,
    "a\0b"s, "\0}\0"s,       "\n", "\r\n", " ",   "a b", "a\r\nb", ":q",    ":f",      "a}:q",      "a:q",
    "\xff",  "\xc3\xa4",     ".",  "a.1",  "$1",  "*3",  "%%7D",   "%}",    "}%",      "%2525",     "conch:{a}"};

// ------------------------------------------------------------------------------------------------------ names

TEST(LockName, IsEscapedOnlyWhereItMust) {
  struct {
    std::string name, escaped;
  } const table[] = {{"stock:iphone", "stock:iphone"},
                     {"{a", "{a"},
                     {"}", "%7D"},
                     {"%", "%25"},
                     {"%7D", "%257D"},
                     {"a}b}", "a%7Db%7D"},
                     {"\0\n"s, "\0\n"s},
                     {"", ""}};
  for (auto const& [name, escaped] : table) EXPECT_EQ(escape_name(name), escaped);
}

TEST(LockName, ComesBackFromItsEscapedForm) {
  for (auto const& name : odd_names) EXPECT_EQ(unescape_name(escape_name(name)), name);
  std::mt19937 random{1};
  for (int i = 0; i < 20'000; ++i) {
    std::string name(std::uniform_int_distribution<std::size_t>{1, 12}(random), ' ');
    for (char& c : name) c = "%}{27D5a\0\n"[std::uniform_int_distribution{0, 10}(random)];
    ASSERT_EQ(unescape_name(escape_name(name)), name);
  }
}

TEST(LockName, OfAnyBytesComesBack) {
  for (int c = 0; c < 256; ++c) {
    std::string const name(1, static_cast<char>(c));
    EXPECT_EQ(unescape_name(escape_name(name)), name);
  }
}

TEST(LockName, SharesNoKeyWithAnyOtherName) {
  std::map<std::string, std::string> owner;
  for (auto const& name : odd_names) {
    for (auto const& key : keys_of(name)) {
      auto const [place, is_new] = owner.emplace(key, name);
      EXPECT_TRUE(is_new) << key << " belongs to " << place->second << " and to " << name;
    }
  }
  // Every name of up to five of the characters that matter.
  owner.clear();
  std::string const letters = "%}{7D2";
  std::vector<std::string> all{""};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size() == 5) break;
    for (char const c : letters) all.push_back(all[i] + c);
  }
  for (auto const& name : all) {
    auto const [place, is_new] = owner.emplace(escape_name(name), name);
    ASSERT_TRUE(is_new) << place->second << " and " << name;
  }
}

TEST(LockName, LeadsToOneClusterSlotForAllThreeKeys) {
  for (auto const& name : odd_names) {
    auto const keys = keys_of(name);
    std::string const tag{hashed_part(keys[0])};
    EXPECT_EQ(tag, escape_name(name));
    EXPECT_FALSE(tag.empty());
    for (auto const& key : keys) EXPECT_EQ(hashed_part(key), tag) << key;
  }
}

TEST(LockName, LeadsToTheDocumentedKeys) {
  EXPECT_EQ(keys_of("stock:iphone"),
            (words{"conch:{stock:iphone}", "conch:{stock:iphone}:q", "conch:{stock:iphone}:f"}));
}

// --------------------------------------------------------------------------------------------------- commands

TEST(Encode, WritesAnAcquire) {
  EXPECT_EQ(encoded(protocol::acquire_command{"a}", 7, true, 20s, 2s, 5min}),
            (words{"EVALSHA", sha("acquire"), "3", "conch:{a%7D}", "conch:{a%7D}:q", "conch:{a%7D}:f", "c1.7", "wait",
                   "20000", "2000", "300000"}));
  for (auto const& [ticket, not_after] : {std::pair{5, 0}, {0, 6}}) {
    EXPECT_EQ(encoded(protocol::acquire_command{"a", 7, true, 30s, 3s, 10min, ticket, not_after}),
              (words{"EVALSHA", sha("acquire"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7", "wait", "30000",
                     "3000", "600000", std::to_string(ticket), std::to_string(not_after)}));
  }
  EXPECT_EQ(encoded(protocol::acquire_command{"a", 18446744073709551615u, false, 1ms, 2ms, 3ms, 1'700'000'000'000'001,
                                              1'700'000'000'000'002},
                    "0123456789abcdef0123456789abcdef"),
            (words{"EVALSHA", sha("acquire"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f",
                   "0123456789abcdef0123456789abcdef.18446744073709551615", "try", "1", "2", "3", "1700000000000001",
                   "1700000000000002"}));
}

TEST(Encode, WritesWhatTakesADetachedHoldOver) {
  protocol::acquire_command c{
      .name = "a", .id = 7, .lease = 30s, .claim = 3s, .retention = 10min, .not_after_us = 5, .origin = "c2.9 100"};
  EXPECT_EQ(encoded(c), (words{"EVALSHA", sha("adopt"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7", "30000",
                               "600000", "5", "c2.9 100"}));
  engine::permit const permit{engine::permit_kind::semaphore, 3, 1, 0, "-"};
  c.permit = &permit;
  EXPECT_EQ(encoded(c), (words{"EVALSHA", sha("permit_adopt"), "4", "conch:{a}", "conch:{a}:q", "conch:{a}:f",
                               "conch:{a}:e", "c1.7", "30000", "600000", "5", "c2.9 100", "s"}));
}

TEST(Encode, WritesTheTriesOfManyLocks) {
  std::vector<protocol::attempt> const items{{"a", 7, 30s}, {"}", 8, 5s}};
  EXPECT_EQ(encoded(protocol::acquire_all_command{items, 10min, 1'700'000'000'000'002}), (words{"EVALSHA",
                                                                                                sha("gathered"),
                                                                                                "6",
                                                                                                "conch:{a}",
                                                                                                "conch:{%7D}",
                                                                                                "conch:{a}:q",
                                                                                                "conch:{%7D}:q",
                                                                                                "conch:{a}:f",
                                                                                                "conch:{%7D}:f",
                                                                                                "2",
                                                                                                "next",
                                                                                                "",
                                                                                                "",
                                                                                                "600000",
                                                                                                "0",
                                                                                                "",
                                                                                                "c1.7",
                                                                                                "0",
                                                                                                "1700000000000002",
                                                                                                "30000",
                                                                                                "c1.8",
                                                                                                "0",
                                                                                                "1700000000000002",
                                                                                                "5000"}));
}

TEST(Encode, LeavesOutWhatNoneOfSeveralLocksHas) {
  protocol::gathering all;
  protocol::acquire_command a{
      .name = "a", .id = 7, .lease = 30s, .claim = 3s, .retention = 10min, .ticket = 44, .not_after_us = 55};
  protocol::release_command r{.name = "b", .id = 8, .lease = 30s, .claim = 3s, .retention = 10min, .new_id = 9};
  auto const words_of = [&all](auto const& first, auto const& second) {
    all.clear();
    EXPECT_TRUE(all.add(first, 0));
    EXPECT_TRUE(all.add(second, 0));
    std::string bytes;
    encode(all, "c1", false, bytes);
    auto const argv = commands_in(bytes).at(0);
    return words(argv.begin() + 9 + 7, argv.end());
  };
  EXPECT_EQ(words_of(r, a), (words{"c1.7", "44", "55", "c1.8", "c1.9"}));
  // Nothing is left of what had these places before.
  protocol::acquire_command const bare_a{.name = "a", .id = 7, .lease = 30s, .claim = 3s, .retention = 10min};
  protocol::release_command const bare_r{.name = "b", .id = 8, .lease = 30s, .claim = 3s, .retention = 10min};
  EXPECT_EQ(words_of(bare_a, bare_r), (words{"c1.7", "c1.8"}));
  EXPECT_EQ(words_of(bare_r, bare_a), (words{"c1.7", "c1.8"}));
  protocol::acquire_command b = a;
  b.name = "b";
  b.ticket = 0;
  EXPECT_EQ(words_of(bare_a, b), (words{"c1.7", "0", "0", "c1.7", "0", "55"}));
  EXPECT_EQ(words_of(bare_a, r), (words{"c1.7", "0", "0", "c1.8", "c1.9"}));
}

TEST(Encode, WritesWhatOneScriptDoesForSeveralLocks) {
  protocol::gathering all;
  protocol::acquire_command a{
      .name = "a", .id = 7, .lease = 30s, .claim = 3s, .retention = 10min, .ticket = 44, .not_after_us = 55};
  protocol::release_command r{.name = "}", .id = 8, .lease = 30s, .claim = 3s, .retention = 10min, .new_id = 9};
  ASSERT_TRUE(all.add(r, 0));
  ASSERT_TRUE(all.add(a, 0));
  std::string bytes;
  encode(all, "c1", false, bytes);
  EXPECT_EQ(commands_in(bytes), (std::vector<words>{{"EVALSHA",
                                                     sha("gathered"),
                                                     "6",
                                                     "conch:{a}",
                                                     "conch:{a}:q",
                                                     "conch:{a}:f",
                                                     "conch:{%7D}",
                                                     "conch:{%7D}:q",
                                                     "conch:{%7D}:f",
                                                     "1",
                                                     "wait",
                                                     "30000",
                                                     "3000",
                                                     "600000",
                                                     "0",
                                                     "",
                                                     "c1.7",
                                                     "44",
                                                     "55",
                                                     "c1.8",
                                                     "c1.9"}}));
  all.clear();
  a.proposal = 12;
  r.floor = 34;
  r.next_fence_floor = 56;
  r.new_id = 0;
  a.wait = false;
  ASSERT_TRUE(all.add(a, 0));
  ASSERT_TRUE(all.add(r, 0));
  bytes.clear();
  encode(all, "c1", true, bytes);
  EXPECT_EQ(commands_in(bytes), (std::vector<words>{{"EVAL",
                                                     source("gathered"),
                                                     "6",
                                                     "conch:{a}",
                                                     "conch:{a}:q",
                                                     "conch:{a}:f",
                                                     "conch:{%7D}",
                                                     "conch:{%7D}:q",
                                                     "conch:{%7D}:f",
                                                     "1",
                                                     "try",
                                                     "30000",
                                                     "3000",
                                                     "600000",
                                                     "1",
                                                     "",
                                                     "c1.7",
                                                     "44",
                                                     "55",
                                                     "12",
                                                     "c1.8",
                                                     "",
                                                     "34",
                                                     "56"}}));
  sender node{"c1"};
  node.node = "12345678";
  bytes.clear();
  encode(all, node, false, bytes);
  std::string const shard = "{" + std::to_string(tag_of_slot(slot_of_lock("a"))) + "}:%s:12345678";
  EXPECT_EQ(commands_in(bytes)[0][15], shard) << "all are of this slot";
}

TEST(Encode, WritesARelease) {
  EXPECT_EQ(encoded(protocol::release_command{"a", 7, false, 20s, 2s, 5min}),
            (words{"EVALSHA", sha("release"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7", "0", "20000",
                   "2000", "300000"}));
  EXPECT_EQ(encoded(protocol::release_command{"a", 7, true, 30s, 3s, 10min, 8}),
            (words{"EVALSHA", sha("release"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7", "1", "30000",
                   "3000", "600000", "c1.8"}));
}

TEST(Encode, WritesAReleaseWithinAnInterval) {
  protocol::release_command c{.name = "a", .id = 7, .lease = 20s, .claim = 2s, .retention = 5min, .ends_in = 4s};
  EXPECT_EQ(encoded(c), (words{"EVALSHA", sha("release_later"), "4", "conch:{a}", "conch:{a}:q", "conch:{a}:f",
                               "conch:{a}:w", "c1.7", "4000", "2000", "300000", ""}));
  c.floor = 55;
  EXPECT_EQ(encoded(c).back(), "55");
}

TEST(Encode, LeavesOutWhatIsTheDefaultOfAConfig) {
  EXPECT_EQ(usual_lease, conch::config{}.lease);
  EXPECT_EQ(usual_claim, conch::config{}.claim);
  EXPECT_EQ(usual_retention, conch::config{}.fence_retention + conch::config{}.lease);
  protocol::acquire_command const acquire{"a", 7, true, usual_lease, usual_claim, usual_retention};
  protocol::release_command const release{"a", 7, false, usual_lease, usual_claim, usual_retention};
  EXPECT_EQ(encoded(acquire),
            (words{"EVALSHA", sha("acquire"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7"}));
  EXPECT_EQ(encoded(release),
            (words{"EVALSHA", sha("release"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7"}));
  auto const says_more = [](auto const& usual, auto const& change) {
    auto other = usual;
    change(other);
    EXPECT_EQ(encoded(other).size(), 11u);
  };
  auto const says_more_with_other_times = [&](auto const& usual) {
    says_more(usual, [](auto& c) { c.patient = true; });
    says_more(usual, [](auto& c) { c.lease += 1ms; });
    says_more(usual, [](auto& c) { c.claim += 1ms; });
    says_more(usual, [](auto& c) { c.retention += 1ms; });
  };
  says_more_with_other_times(acquire);
  says_more_with_other_times(release);
  says_more(acquire, [](auto& c) { c.wait = false; });
  says_more(release, [](auto& c) { c.keep = true; });
}

TEST(Encode, WritesPermitsOfLocksWithSeveralOwners) {
  engine::permit const permit{engine::permit_kind::segments, 20, 1, 7, ",3,9,"};
  protocol::acquire_command acquire{"a", 7, true, 30s, 3s, 10min};
  acquire.permit = &permit;
  EXPECT_EQ(encoded(acquire),
            (words{"EVALSHA", sha("permit_acquire"), "4", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "conch:{a}:e",
                   "c1.7", "wait", "30000", "3000", "600000", "0", "0", "g", "20", "1", ",3,9,", "7"}));
  protocol::release_command release{"a", 7, true, 30s, 3s, 10min};
  release.permit = &permit;
  release.rest = 2;
  EXPECT_EQ(encoded(release),
            (words{"EVALSHA", sha("permit_release"), "4", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "conch:{a}:e",
                   "c1.7", "1", "30000", "3000", "600000", "g", "20", "1", ",3,9,", "2"}));
  protocol::renewal const items[] = {{"a", 7, 30s}, {"a", 8, 30s}};
  EXPECT_EQ(encoded(protocol::renew_command{items, false, true}),
            (words{"EVALSHA", sha("permit_renew"), "2", "conch:{a}", "conch:{a}", "c1.7", "30000", "c1.8", "30000"}));
}

TEST(Encode, WritesAnOrderThatGoesOn) {
  protocol::force_command order{"a", 3s, 10min, 7};
  EXPECT_EQ(encoded(order), (words{"EVALSHA", sha("force"), "4", "conch:{a}", "conch:{a}:q", "conch:{a}:f",
                                   "conch:{a}:e", "3000", "600000", "7"}));
  order.last = 900;
  order.from_us = 17;
  EXPECT_EQ(encoded(order), (words{"EVALSHA", sha("force"), "4", "conch:{a}", "conch:{a}:q", "conch:{a}:f",
                                   "conch:{a}:e", "3000", "600000", "7", "900", "17"}));
}

TEST(Encode, SaysInAWordThatAnOrderMeansAllOwnersSinceAnyNumberMayBeAFence) {
  EXPECT_EQ(encoded(protocol::force_command{.name = "a"}).back(), "all");
  EXPECT_EQ(encoded(protocol::force_command{.name = "a", .fence = 0}).back(), "0");
  EXPECT_EQ(encoded(protocol::request_command{.name = "a"})[5], "all");
  EXPECT_EQ(encoded(protocol::request_command{.name = "a", .fence = 0})[5], "0");
  EXPECT_EQ(encoded(protocol::force_command{.name = "a", .fence = 0, .last = 0, .from_us = 5}).back(), "5")
      << "last 0 is a place to go on from";
}

TEST(Encode, WritesARenewalOfManyLocks) {
  std::vector<protocol::renewal> const items{{"a", 1, 30s}, {"}", 22, 5s}};
  EXPECT_EQ(encoded(protocol::renew_command{items}),
            (words{"EVALSHA", sha("renew"), "2", "conch:{a}", "conch:{%7D}", "c1.1", "30000", "c1.22", "5000"}));
}

TEST(Encode, WritesARenewalOfOneGrantOnly) {
  std::vector<protocol::renewal> const items{{"a", 1, 30s, 0, 77}};
  EXPECT_EQ(encoded(protocol::renew_command{items}),
            (words{"EVALSHA", sha("renew"), "1", "conch:{a}", "c1.1 77", "30000"}));
}

TEST(Encode, WritesARenewalThatKeepsFences) {
  std::vector<protocol::renewal> const items{{"a", 1, 30s, 5}, {"}", 22, 5s, 6}};
  EXPECT_EQ(encoded(protocol::renew_command{items, false, false, 10min}),
            (words{"EVALSHA", sha("renew"), "6", "conch:{a}", "conch:{%7D}", "conch:{a}:f", "conch:{%7D}:f",
                   "conch:{a}:q", "conch:{%7D}:q", "c1.1", "30000", "c1.22", "5000", "600000"}));
  EXPECT_EQ(encoded(protocol::renew_command{items, false, true, 10min}),
            (words{"EVALSHA", sha("permit_renew"), "8", "conch:{a}", "conch:{%7D}", "conch:{a}:f", "conch:{%7D}:f",
                   "conch:{a}:e", "conch:{%7D}:e", "conch:{a}:q", "conch:{%7D}:q", "c1.1", "30000", "c1.22", "5000",
                   "600000"}));
  EXPECT_EQ(
      encoded(protocol::confirm_command{items, 10min, false, true}),
      (words{"EVALSHA", sha("confirm"), "6", "conch:{a}", "conch:{a}:f", "conch:{a}:q", "conch:{%7D}", "conch:{%7D}:f",
             "conch:{%7D}:q", "600000", "", "c1.1", "30000", "5", "c1.22", "5000", "6", "keep"}));
}

TEST(Encode, WritesWhatAVoteNeedsBehindTheRest) {
  protocol::acquire_command acquire{"a", 1'700'000'000'000'001'002u, true, 500ms, 500ms, 10min, 1'700'000'000'000'001};
  acquire.proposal = 12;
  EXPECT_EQ(encoded(acquire),
            (words{"EVALSHA", sha("acquire"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.1700000000000001002",
                   "wait", "500", "500", "600000", "1700000000000001", "0", "12"}));
  protocol::release_command release{"a", 7, false, 500ms, 500ms, 10min};
  release.floor = 34;
  release.next_fence_floor = 56;
  EXPECT_EQ(encoded(release), (words{"EVALSHA", sha("release"), "3", "conch:{a}", "conch:{a}:q", "conch:{a}:f", "c1.7",
                                     "0", "500", "500", "600000", "", "34", "56"}));
  std::vector<protocol::renewal> const items{{"a", 1, 30s, 5}, {"}", 22, 5s, 6}};
  EXPECT_EQ(encoded(protocol::confirm_command{items, 10min}),
            (words{"EVALSHA", sha("confirm"), "6", "conch:{a}", "conch:{a}:f", "conch:{a}:q", "conch:{%7D}",
                   "conch:{%7D}:f", "conch:{%7D}:q", "600000", "", "c1.1", "30000", "5", "c1.22", "5000", "6"}));
}

TEST(Encode, SendsTheSourceWhenAskedTo) {
  std::vector<protocol::renewal> const items{{"a", 1, 30s}};
  std::vector<protocol::attempt> const attempts{{"a", 1, 30s}};
  struct {
    protocol::command what;
    std::string_view script;
  } const table[] = {
      {protocol::acquire_command{.name = "a", .id = 1, .with_source = true}, "acquire"},
      {protocol::acquire_all_command{.items = attempts, .with_source = true}, "gathered"},
      {protocol::release_command{.name = "a", .id = 1, .with_source = true}, "release"},
      {protocol::release_command{.name = "a", .id = 1, .with_source = true, .ends_in = 1s}, "release_later"},
      {protocol::renew_command{items, true}, "renew"},
      {protocol::confirm_command{items, 1s, true}, "confirm"}};
  for (auto const& [what, script] : table) {
    auto const all = encoded(what);
    EXPECT_EQ(all[0], "EVAL");
    EXPECT_EQ(all[1], source(script));
  }
}

TEST(Encode, WritesTheCommandsOfAConnection) {
  EXPECT_EQ(encoded(protocol::kill_command{42, "[::1]:4711"}),
            (words{"CLIENT", "KILL", "ID", "42", "ADDR", "[::1]:4711"}));
  EXPECT_EQ(encoded(protocol::subscribe_command{}), (words{"SUBSCRIBE", "conch:c1"}));
  EXPECT_EQ(encoded(protocol::prove_publish_command{}), (words{"PUBLISH", "conch:c1", ""}));
  EXPECT_EQ(encoded(protocol::ping_command{}), words{"PING"});
  EXPECT_EQ(encoded(protocol::mark_command{}), (words{"PUBLISH", "conch:c1:w", ""}));
  EXPECT_EQ(encoded(protocol::wait_command{2, std::chrono::milliseconds{300}}), (words{"WAIT", "2", "300"}));
  EXPECT_EQ(encoded(protocol::wait_command{1, {}}), (words{"WAIT", "1", "1"})) << "0 would be forever";
}

TEST(Encode, WritesTheVeryBytesOfResp) {
  std::string bytes = "before";
  encode(protocol::subscribe_command{}, "c1", bytes);
  EXPECT_EQ(bytes, "before*2\r\n$9\r\nSUBSCRIBE\r\n$8\r\nconch:c1\r\n");
}

/// The bytes on the wire, put together in the plainest way.
std::string plainly(words const& all) {
  std::string bytes = "*" + std::to_string(all.size()) + "\r\n";
  for (auto const& w : all) bytes += "$" + std::to_string(w.size()) + "\r\n" + w + "\r\n";
  return bytes;
}

TEST(Encode, WritesTheSameBytesForNamesAndClientsOfAnyLength) {
  std::vector<std::string> names = odd_names;
  for (std::size_t const size : {90u, 91u, 99u, 100u, 245u, 246u, 247u, 248u, 249u, 250u, 500u, 512u, 5000u}) {
    names.emplace_back(size, 'n');
    names.push_back(std::string(size, 'n') + "}%");
  }
  engine::grant_id const ids[] = {9, 10, {99, 1}, {18446744073709551615u, 18446744073709551615u}};
  for (std::string const& client : {"c1"s, std::string(32, 'f'), std::string(240, 'f'), std::string(600, 'f')}) {
    for (auto const& name : names) {
      for (engine::grant_id const id : ids) {
        for (bool const with_source : {false, true}) {
          std::string const key = "conch:{" + escape_name(name) + "}", text = client + "." + engine::to_text(id);
          std::string const how = with_source ? "EVAL" : "EVALSHA";
          std::string bytes;
          encode(
              protocol::acquire_command{
                  .name = name, .id = id, .lease = 20s, .claim = 2s, .retention = 5min, .with_source = with_source},
              client, bytes);
          ASSERT_EQ(bytes, plainly({how, with_source ? source("acquire") : sha("acquire"), "3", key, key + ":q",
                                    key + ":f", text, "wait", "20000", "2000", "300000"}));
          bytes.clear();
          encode(protocol::release_command{.name = name,
                                           .id = id,
                                           .lease = 30s,
                                           .claim = 3s,
                                           .retention = 10min,
                                           .new_id = id,
                                           .with_source = with_source},
                 client, bytes);
          ASSERT_EQ(bytes, plainly({how, with_source ? source("release") : sha("release"), "3", key, key + ":q",
                                    key + ":f", text, "0", "30000", "3000", "600000", text}));
        }
      }
    }
  }
}

TEST(GrantId, IsAsLongAsItsTextSays) {
  for (std::uint64_t power = 1; power != 10'000'000'000'000'000'000u; power *= 10) {
    for (engine::grant_id const id :
         {engine::grant_id{power}, engine::grant_id{power - 1}, engine::grant_id{power, power}}) {
      EXPECT_EQ(engine::text_size(id), engine::to_text(id).size());
    }
  }
  EXPECT_EQ(engine::to_text({1, 0xfedcba9876543210}), "1-FwSjeXrL38G");
}

TEST(Encode, AppendsOneCommandAfterTheOther) {
  std::string bytes;
  encode(protocol::ping_command{}, "c1", bytes);
  encode(protocol::release_command{"a\r\n", 1, false, 1s, 1s, 1s}, "c1", bytes);
  encode(protocol::ping_command{}, "c1", bytes);
  auto const all = commands_in(bytes);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1][3], "conch:{a\r\n}");
  EXPECT_EQ(all[2], words{"PING"});
}

// ------------------------------------------------------------------------------------------- answers and pushes

/// A message as the decoder hands it out. Keeps it alive.
struct message {
  explicit message(std::string_view bytes) { test::only_message(in, bytes); }
  resp::decoder in;
};

TEST(ToAnswer, GivesTheNumbers) {
  struct {
    std::string_view bytes;
    numbers expected;
  } const table[] = {{"*3\r\n:1\r\n:206170000000000\r\n:1700000000000000\r\n", {1, 206170000000000, 1700000000000000}},
                     {"*1\r\n:-1\r\n", {-1}},
                     {"*0\r\n", {}},
                     {":1\r\n", {1}},
                     {"+OK\r\n", {}},
                     {"+PONG\r\n", {}}};
  for (auto const& [bytes, expected] : table) {
    message const m{bytes};
    numbers memory{9, 9};
    auto const a = to_answer(m.in.message(), memory);
    EXPECT_EQ(a.what, fault::none) << bytes;
    EXPECT_EQ(numbers(a.numbers().begin(), a.numbers().end()), expected) << bytes;
  }
}

TEST(ToAnswer, ClassifiesErrorsAndKeepsTheirWords) {
  message const simple{"-NOSCRIPT No matching script.\r\n"};
  numbers memory;
  auto const a = to_answer(simple.in.message(), memory);
  EXPECT_EQ(a.what, fault::no_script);
  EXPECT_EQ(a.words, "NOSCRIPT No matching script.");
  EXPECT_TRUE(a.numbers().empty());
  message const bulk{"!10\r\nOOM no no!\r\n"};
  EXPECT_EQ(to_answer(bulk.in.message(), memory).what, fault::refused);
}

TEST(ToAnswer, TakesATextWhichIsNoNumbers) {
  message const m{"$7\r\nbilling\r\n"}, none{"_\r\n"};
  numbers memory;
  auto const text = to_answer(m.in.message(), memory), nothing = to_answer(none.in.message(), memory);
  EXPECT_EQ(std::get<std::string_view>(text.content), "billing");
  EXPECT_TRUE(text.numbers().empty());
  EXPECT_EQ(std::get<std::string_view>(nothing.content), "");
}

TEST(ToAnswer, TakesNothingElse) {
  for (std::string_view const bytes :
       {"*2\r\n:1\r\n$1\r\n2\r\n", "*2\r\n:1\r\n*1\r\n:2\r\n", "*1\r\n_\r\n", "*1\r\n-ERR inside\r\n", "*1\r\n,1.5\r\n",
        "#t\r\n", ",1\r\n", "(1\r\n", "%1\r\n:1\r\n:2\r\n", "~1\r\n:1\r\n", "=5\r\ntxt:1\r\n"}) {
    message const m{bytes};
    numbers memory;
    auto const a = to_answer(m.in.message(), memory);
    EXPECT_EQ(a.what, fault::malformed) << bytes;
    EXPECT_FALSE(a.words.empty());
    EXPECT_TRUE(a.numbers().empty());
  }
}

std::string push_of(words const& parts) {
  std::string bytes = ">" + std::to_string(parts.size()) + "\r\n";
  for (auto const& p : parts) bytes += "$" + std::to_string(p.size()) + "\r\n" + p + "\r\n";
  return bytes;
}

/// A push, or what else was read. Its name is apart: it outlives the message.
struct read_result {
  std::variant<protocol::push, notice> what;
  std::string name{};

  bool is(notice n) const { return std::holds_alternative<notice>(what) && std::get<notice>(what) == n; }
  template <class Push = protocol::pushed_grant>
  Push const* as() const {
    auto const* const p = std::get_if<protocol::push>(&what);
    return p != nullptr ? std::get_if<Push>(p) : nullptr;
  }
};

read_result read(std::string_view bytes, std::string_view client = "c1") {
  message const m{bytes};
  std::string name;
  read_result r{read_push(m.in.message(), client, name)};
  if (auto* const p = std::get_if<protocol::push>(&r.what)) {
    std::visit(
        [&](auto& one) {
          r.name = one.name;
          one.name = {};
        },
        *p);
  }
  return r;
}

TEST(ReadPush, ReadsAGrant) {
  auto const r =
      read(push_of({"message", "conch:c1", "c1.42 206170000000000 1784000000000000 3000 conch:{stock:iphone}"}));
  auto const* const grant = r.as();
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(r.name, "stock:iphone");
  EXPECT_EQ(grant->id, 42u);
  EXPECT_EQ(grant->fence, 206170000000000);
  EXPECT_EQ(grant->granted_us, 1784000000000000);
  EXPECT_EQ(grant->claim, 3s);
}

TEST(ReadPush, ReadsAPermitAndItsSegment) {
  auto const r =
      read(push_of({"message", "conch:c1", "c1.42 206170000000000 1784000000000000 3000 g17 conch:{stock}"}));
  auto const* const grant = r.as();
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(r.name, "stock");
  EXPECT_EQ(grant->kind, engine::permit_kind::segments);
  EXPECT_EQ(grant->chosen, 17u);
  for (std::string const permit : {"q1", "g", "g-1", "g1x", "17", "g4294967296", "g1  "}) {
    auto const bad = read(
        push_of({"message", "conch:c1", "c1.42 206170000000000 1784000000000000 3000 " + permit + " conch:{stock}"}));
    EXPECT_TRUE(bad.is(notice::malformed)) << permit;
  }
}

TEST(ReadPush, ReadsAGrantForAnyName) {
  for (auto const& name : odd_names) {
    auto const r = read(push_of({"message", "conch:c1", "c1.1 2 3 4 " + keys_of(name)[0]}));
    EXPECT_NE(r.as(), nullptr) << name;
    EXPECT_EQ(r.name, name);
  }
}

template <class Push>
bool more_of(Push const& p) {
  if constexpr (requires { p.more; }) return p.more;
  return false;
}

template <class Push>
void reads_a_place(char mark, bool more = false) {
  for (auto const& name : odd_names) {
    auto const r = read(push_of({"message", "conch:c1", mark + ("c1.42 " + keys_of(name)[0])}));
    Push const* const p = r.as<Push>();
    ASSERT_NE(p, nullptr) << mark << name;
    EXPECT_EQ(r.name, name);
    EXPECT_EQ(p->id, 42u);
    EXPECT_EQ(more_of(*p), more);
  }
  for (std::string const text :
       {"", "c1", "c1.42", "c1.0 conch:{a}", "c2.42 conch:{a}", "c1.42  conch:{a}", "c1.42 lock:{a}"}) {
    EXPECT_TRUE(read(push_of({"message", "conch:c1", mark + text})).is(notice::malformed)) << mark << text;
  }
}

TEST(ReadPush, ReadsWhatWasTakenAwayAndWhatWasMissed) {
  reads_a_place<protocol::revocation>('!');
  reads_a_place<protocol::request_to_let_go>('*');
  reads_a_place<protocol::missed_turn>('?');
  reads_a_place<protocol::end_of_hold>('=');
  reads_a_place<protocol::end_of_hold>('+', true);
}

TEST(ReadPush, ReadsWhenALeaseEnds) {
  for (auto const& name : odd_names) {
    auto const r = read(push_of({"message", "conch:c1", "~c1.42 3000 " + keys_of(name)[0]}));
    auto const* const end = r.as<protocol::end_of_lease>();
    ASSERT_NE(end, nullptr) << name;
    EXPECT_EQ(r.name, name);
    EXPECT_EQ(end->id, 42u);
    EXPECT_EQ(end->left, 3s);
  }
  for (std::string const text :
       {"", "c1.42", "c1.42 conch:{a}", "c1.42 -1 conch:{a}", "c1.42 86400001 conch:{a}", "c1.42 x conch:{a}",
        "c2.42 3000 conch:{a}", "c1.0 3000 conch:{a}", "c1.42 3000 lock:{a}", "c1.42 99999999999999999999 conch:{a}"}) {
    EXPECT_TRUE(read(push_of({"message", "conch:c1", "~" + text})).is(notice::malformed)) << text;
  }
}

TEST(ReadPush, LooksForNoLockInWhatIsNoGrantForUs) {
  EXPECT_TRUE(read(push_of({"subscribe", "conch:c1", "1"})).is(notice::subscribed));
  EXPECT_TRUE(read(">3\r\n$9\r\nsubscribe\r\n$8\r\nconch:c1\r\n:1\r\n").is(notice::subscribed));
  struct {
    char const* what;
    words parts;
  } const others[] = {
      {"our own proof", {"message", "conch:c1", ""}},
      {"another channel", {"message", "conch:c2", "c1.42 2 3 4 conch:{a}"}},
      {"another kind of message", {"pmessage", "conch:*", "conch:c1", "c1.42 2 3 4 conch:{a}"}},
      {"invalidation", {"invalidate", "key"}},
      {"too long", {"message", "conch:c1", "c1.42 2 3 4 conch:{a}", "more"}},
      {"the end of a subscription", {"unsubscribe", "conch:c1", "0"}},
  };
  for (auto const& [what, parts] : others) EXPECT_TRUE(read(push_of(parts)).is(notice::other)) << what;
}

TEST(ReadPush, KnowsAnIdByItsNonce) {
  engine::grant_id const id{42, 0xfedcba9876543210};
  std::string const text = "c1." + engine::to_text(id);
  auto const granted =
      read(push_of({"message", "conch:c1", text + " 206170000000000 1784000000000000 3000 conch:{stock}"}));
  ASSERT_NE(granted.as(), nullptr);
  EXPECT_EQ(granted.as()->id, id);
  auto const taken = read(push_of({"message", "conch:c1", "!" + text + " conch:{stock}"}));
  ASSERT_NE(taken.as<protocol::revocation>(), nullptr);
  EXPECT_EQ(taken.as<protocol::revocation>()->id, id);
  EXPECT_EQ(
      encoded(protocol::renew_command{std::array{protocol::renewal{"stock", id, std::chrono::milliseconds{9}}}})[4],
      text);
}

TEST(ReadPush, RefusesWhatIsMalformed) {
  for (std::string const text : {"c1",
                                 "c1.",
                                 "c1.42",
                                 "c1.42 2 3 4",
                                 "c1.42 2 3 4 ",
                                 "c1.42 2 3 4 conch:{",
                                 "c1.42 2 3 4 conch:{}",
                                 "c1.42 2 3 4 conch:{a",
                                 "c1.42 2 3 4 lock:{a}",
                                 "c1.42 2 3 4 conch:a}",
                                 "c1.42 2 3 conch:{a}",
                                 "c2.42 2 3 4 conch:{a}",
                                 "c11.42 2 3 4 conch:{a}",
                                 "c.42 2 3 4 conch:{a}",
                                 "c142 2 3 4 conch:{a}",
                                 "c1.x 2 3 4 conch:{a}",
                                 "c1.0 2 3 4 conch:{a}",
                                 "c1.-1 2 3 4 conch:{a}",
                                 "c1.42x 2 3 4 conch:{a}",
                                 "c1.42-0 2 3 4 conch:{a}",
                                 "c1.42-00000000000 2 3 4 conch:{a}",
                                 "c1.42-0000000000! 2 3 4 conch:{a}",
                                 "c1.42 2 x 4 conch:{a}",
                                 "c1.42 2 3 0 conch:{a}",
                                 "c1.42 2 3 -4 conch:{a}",
                                 "c1.42 2 3 86400001 conch:{a}",
                                 "c1.42  2 3 4 conch:{a}",
                                 " c1.42 2 3 4 conch:{a}",
                                 "c1.18446744073709551616 2 3 4 conch:{a}",
                                 "PING",
                                 " "}) {
    EXPECT_TRUE(read(push_of({"message", "conch:c1", text})).is(notice::malformed)) << text;
  }
  EXPECT_TRUE(read(">0\r\n").is(notice::malformed));
}

// P11: it fails its lock, not the connection.
TEST(ReadPush, ReadsAGrantWhoseFenceIsOutOfRange) {
  for (std::string const fence :
       {"0", "-2", "2.0", "2e3", "inf", "2251799813685248", "9223372036854775808", "1000000000000000000000"}) {
    auto const r = read(push_of({"message", "conch:c1", "c1.42 " + fence + " 3 4 conch:{a}"}));
    ASSERT_NE(r.as(), nullptr) << fence;
    EXPECT_EQ(r.as()->fence, 0) << fence;
    EXPECT_EQ(r.as()->id, 42u);
    EXPECT_EQ(r.name, "a");
  }
}

TEST(ReadPush, SurvivesAnyCutOfAGrant) {
  std::string const whole = "c1.42 206170000000000 1784000000000000 3000 conch:{stock:iphone}";
  for (std::size_t n = 1; n < whole.size(); ++n) {
    EXPECT_TRUE(read(push_of({"message", "conch:c1", whole.substr(0, n)})).is(notice::malformed)) << n;
  }
}

TEST(Channel, BelongsToTheClient) { EXPECT_EQ(channel_of("c1"), "conch:c1"); }

}  // namespace
}  // namespace conch::redis
