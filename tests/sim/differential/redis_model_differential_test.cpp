// The model is worth as much as its likeness to the real server: the same commands and scripts on
// both must give the same bytes.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "sim/differential/differential.hpp"
#include "sim/differential/differential_generator.hpp"

namespace {

using conch::sim::differential;
using conch::sim::generator;
using conch::sim::real_redis_server;
using words = differential::words;

constexpr int max_failures = 20;

bool enough() {
  return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count() >= max_failures;
}

void run_random(std::uint64_t seed, int steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  differential both;
  generator random{seed, both.size()};
  for (int step = 0; step < steps && !enough(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    auto const [who, argv] = random.command();
    both.run_same(who, argv);
    if (step % 200 == 199) {
      both.compare_keys(generator::keys());
    }
  }
  both.compare_keys(generator::keys());
}

// Later servers word errors and print numbers in another way, and so does Valkey. What conch needs of them its own
// tests show.
void need_the_server_of_the_model() {
  std::string const here = real_redis_server::version();
  if (!here.starts_with("Redis server v=7.0."))
    GTEST_SKIP() << "the model is of Redis 7.0, and the server here is \"" << here << '"';
}

class Differential : public ::testing::Test {
  void SetUp() override { need_the_server_of_the_model(); }
};
using SlowDifferential = Differential;

// ---- random commands and scripts ----

class DifferentialSeeds : public ::testing::TestWithParam<std::uint64_t> {
  void SetUp() override { need_the_server_of_the_model(); }
};

TEST_P(DifferentialSeeds, GiveTheSameReplies) { run_random(GetParam(), 1500); }

INSTANTIATE_TEST_SUITE_P(Fixed, DifferentialSeeds, ::testing::Range(std::uint64_t{1}, std::uint64_t{9}));

// CONCH_SEED=n replays one, also of those below.
TEST_F(Differential, AFreshSeedGivesTheSameReplies) {
  char const* const given = std::getenv("CONCH_SEED");
  std::uint64_t const seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "CONCH_SEED=" << seed << '\n';
  run_random(seed, given != nullptr ? 5000 : 3000);
}

TEST_F(SlowDifferential, ManyFreshSeedsGiveTheSameReplies) {
  std::random_device device;
  for (int i = 0; i < 50 && !enough(); ++i) {
    std::uint64_t const seed = device();
    std::cout << "CONCH_SEED=" << seed << '\n';
    run_random(seed, 5000);
  }
}

// ---- what chance would rarely find ----

TEST_F(Differential, ConversionsFromLua) {
  differential both{1};
  for (auto const& expression : conch::sim::lua_values()) {
    SCOPED_TRACE(expression);
    both.run_same_script("return " + expression);
    both.run_same_script("return {1, " + expression + ", 'behind'}");
    both.run_same_script("redis.setresp(3) return {" + expression + "}");
  }
}

TEST_F(Differential, ConversionsFromLuaInRESP2) {
  differential both{1};
  both.run_same({"HELLO", "2"});
  for (auto const& expression : conch::sim::lua_values()) {
    SCOPED_TRACE(expression);
    both.run_same_script("return " + expression);
    both.run_same_script("redis.setresp(3) return {" + expression + "}");
  }
  both.run_same({"HELLO"});
  both.run_same({"HELLO", "3"});
}

TEST_F(Differential, ConversionsToLua) {
  differential both{1};
  both.run_same({"SET", "string", "text"});
  both.run_same({"HSET", "hash", "a", "1", "b", ""});
  both.run_same({"ZADD", "zset", "1", "one", "2.5", "two", "-inf", "least", "9007199254740993", "big"});
  both.run_same({"SADD", "set", "3", "1", "2"});
  std::string const show =
      "local function show(v) if type(v) ~= 'table' then return type(v) .. ':' .. tostring(v) end "
      "local names, out = {}, {} for k in pairs(v) do names[#names + 1] = k end "
      "table.sort(names, function(a, b) return tostring(a) < tostring(b) end) "
      "for _, k in ipairs(names) do out[#out + 1] = tostring(k) .. '=' .. show(v[k]) end "
      "return '{' .. table.concat(out, ',') .. '}' end ";
  std::vector<std::string> const calls{"'GET','string'",
                                       "'GET','none'",
                                       "'HGETALL','hash'",
                                       "'HGETALL','none'",
                                       "'HGET','hash','b'",
                                       "'HGET','hash','c'",
                                       "'HMGET','hash','a','c','b'",
                                       "'ZRANGE','zset','0','-1','WITHSCORES'",
                                       "'ZSCORE','zset','two'",
                                       "'ZSCORE','zset','big'",
                                       "'ZSCORE','zset','least'",
                                       "'ZSCORE','zset','none'",
                                       "'ZPOPMIN','zset'",
                                       "'ZPOPMIN','zset','1'",
                                       "'ZPOPMIN','none'",
                                       "'ZPOPMIN','none','2'",
                                       "'SMEMBERS','set'",
                                       "'SISMEMBER','set','1'",
                                       "'SET','new','1'",
                                       "'SET','new','1','NX'",
                                       "'SET','new','2','GET'",
                                       "'INCR','new'",
                                       "'INCR','string'",
                                       "'PING'",
                                       "'PING','x'",
                                       "'TYPE','hash'",
                                       "'GET','hash'",
                                       "'EXISTS','hash'",
                                       "'ZRANK','zset','none'",
                                       "'INFO','nosection'",
                                       "'SELECT','3'",
                                       "'ZADD','zset','INCR','1.5','two'",
                                       "'ZADD','zset','NX','INCR','1','two'"};
  for (auto const& call : calls) {
    for (char const* protocol : {"2", "3"}) {
      SCOPED_TRACE(call + " in RESP" + protocol);
      both.run_same_script("redis.setresp(" + std::string{protocol} + ") " + show + "return show(redis.pcall(" + call +
                           "))");
      both.run_same_script("redis.setresp(" + std::string{protocol} + ") return redis.call(" + call + ")");
    }
  }
}

TEST_F(Differential, ScriptErrors) {
  differential both{1};
  both.run_same({"SET", "k", "v"});
  for (auto const& body : conch::sim::failing_scripts()) {
    SCOPED_TRACE(body);
    both.run_same_script(body, {"k", "l"}, {"1", "x"});
    both.run_same({"EXISTS", "before", "k"});
    both.run_same({"DEL", "before"});
  }
}

TEST_F(Differential, ScriptArgumentsKeepTheirDigits) {
  differential both{1};
  for (char const* number : {"0",
                             "-0",
                             "1",
                             "-1",
                             "0.1",
                             "1e15",
                             "1e16",
                             "1e17",
                             "123456789012345678",
                             "2^53",
                             "2^53 + 1",
                             "2^63",
                             "-2^63",
                             "1/3",
                             "1e300",
                             "1/0",
                             "-1/0",
                             "0/0",
                             "5e-324",
                             "999999999999999",
                             "1000000000000000",
                             "-1e15",
                             "16777217.5",
                             "99999999999999.98"}) {
    SCOPED_TRACE(number);
    both.run_same_script("redis.call('SET', 'k', " + std::string{number} + ") return redis.call('GET', 'k')");
    both.run_same_script("return {tostring(" + std::string{number} + "), " + number + " .. '', string.format('%.0f', " +
                         number + ")}");
    both.run_same_script("redis.pcall('ZADD', 'z', " + std::string{number} +
                         ", 'm') return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')");
    both.run_same({"ZRANGE", "z", "0", "-1", "WITHSCORES"});
  }
}

TEST_F(Differential, ManagingScripts) {
  differential both{2};
  std::string const sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";  // of "return 1"
  both.run_same({"EVALSHA", sha1, "0"});
  both.run_same({"EVALSHA", sha1});
  both.run_same({"EVALSHA", sha1, "x"});
  both.run_same({"EVALSHA", "short", "x"});
  both.run_same({"SCRIPT", "EXISTS", sha1, "x"});
  both.run_same({"SCRIPT", "LOAD", "return 1"});
  both.run_same({"SCRIPT", "LOAD", "return 1"});
  both.run_same({"SCRIPT", "LOAD", "return +"});
  both.run_same({"EVAL", "return\n+\n", "0"});
  both.run_same({"SCRIPT", "EXISTS", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", sha1});
  both.run_same(1, {"EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"});
  both.run_same({"SCRIPT", "FLUSH", "now"});
  both.run_same({"SCRIPT", "FLUSH", "SYNC", "x"});
  both.run_same({"SCRIPT", "FLUSH", "sync"});
  both.run_same({"EVALSHA", sha1, "0"});
  both.run_same({"EVAL", "return 1", "0"});
  both.run_same({"EVALSHA", sha1, "0"});
  both.run_same({"SCRIPT", "FLUSH"});
  for (words const& more : {words{}, words{"-1"}, words{"1"}, words{"1.5"}, words{""}, words{"2", "a"},
                            words{"2", "a", "b"}, words{"1", "a", "b"}, words{"9223372036854775807"}}) {
    words argv{"EVAL", "return {#KEYS, #ARGV, KEYS[1], ARGV[1]}"};
    argv.insert(argv.end(), more.begin(), more.end());
    both.run_same(argv);
  }
}

TEST_F(Differential, MathRandomIsTheSameSequence) {
  differential both{1};
  std::string const body =
      "local out = {} for i = 1, 20 do out[#out + 1] = tostring(math.random()) "
      "out[#out + 1] = math.random(1000000) out[#out + 1] = math.random(-5, 5) end return out";
  both.run_same_script(body);
  both.run_same_script(body);
  both.run_same_script("math.randomseed(42) " + body);
  both.run_same_script("math.randomseed(-7) " + body);
}

// ---- refusals ----

TEST_F(Differential, DeniedCommands) {
  differential both{2};
  for (char const* name : {"publish", "client|kill", "evalsha", "set"}) {
    both.real_only({"ACL", "SETUSER", "default", "-" + std::string{name}});
    both.model().deny(name);
  }
  both.run_same({"PUBLISH", "c", "m"});
  both.run_same({"PUBLISH"});
  both.run_same({"CLIENT", "KILL", "ID", "@id1@", "ADDR", "@addr@"});
  both.run_same({"CLIENT", "SETNAME", "x"});
  both.run_same({"EVALSHA", "x", "0"});
  both.run_same({"SET", "k", "v"});
  both.run_same_script("return redis.call('publish', 'c', 'm')");
  both.run_same_script("return redis.pcall('publish', 'c', 'm')");
  both.run_same_script("redis.call('hset', 'h', 'a', 'b') return redis.call('SET', 'k', 'v')");
  both.run_same({"HGETALL", "h"});
  both.real_only({"ACL", "SETUSER", "default", "+publish"});
  both.model().allow("PUBLISH");
  both.run_same({"PUBLISH", "c", "m"});
}

TEST_F(Differential, OutOfMemory) {
  differential both{1};
  both.run_same({"SET", "k", "v"});
  both.real_only({"CONFIG", "SET", "maxmemory", "1"});
  both.model().set_out_of_memory(true);
  for (words const& argv :
       {words{"SET", "k", "w"}, words{"GET", "k"}, words{"DEL", "k"}, words{"ZADD", "z", "1", "m"},
        words{"ZREM", "z", "m"}, words{"HSET", "h", "a", "b"}, words{"PEXPIRE", "k", "10"}, words{"PUBLISH", "c", "m"},
        words{"INCR", "n"}, words{"HINCRBY", "h", "f", "1"}, words{"SADD", "s", "m"}, words{"SET"},
        words{"HDEL", "h", "a"}, words{"HMSET", "h", "a", "b"}, words{"ZINCRBY", "z", "1", "m"},
        words{"HSETNX", "h", "a", "b"}, words{"PERSIST", "k"}}) {
    both.run_same(argv);
  }
  both.run_same_script("return redis.call('SET', 'k', 'w')");
  both.run_same_script("local e = redis.pcall('SET', 'k', 'w') return {e, redis.pcall('SET', 'k', 'x')}");
  both.run_same_script("redis.call('DEL', 'nothing') return redis.call('SET', 'k', 'w')");
  both.run_same_script("redis.call('PUBLISH', 'c', 'm') return redis.call('SET', 'k', 'x')");
  both.run_same_script("redis.call('GET', 'k') return redis.call('HSET', 'h', 'a', 'b')");
  both.real_only({"CONFIG", "SET", "maxmemory", "0"});
  both.model().set_out_of_memory(false);
  both.run_same({"SET", "k", "w"});
}

TEST_F(Differential, Passwords) {
  differential both{2};
  both.run_same({"AUTH", "x"});
  both.run_same({"AUTH", "default", "any"});
  both.run_same({"AUTH", "other", "any"});
  both.run_same({"AUTH", "a", "b", "c"});
  both.run_same({"HELLO", "3", "AUTH", "default", "any", "SETNAME", "me"});
  both.run_same({"HELLO", "3", "AUTH", "other", "any"});
  both.real_only({"CONFIG", "SET", "requirepass", "secret"});
  both.model().require_password("secret");
  both.run_same({"PING"});  // those already in stay in
  both.run_same({"AUTH", "wrong"});
  both.run_same({"AUTH", "secret"});
  both.run_same({"AUTH", "default", "secret"});
  both.run_same({"HELLO", "3", "AUTH", "default", "wrong"});
  both.run_same({"HELLO", "3", "AUTH", "default", "secret", "SETNAME", "a b"});
}

// ---- connections ----

TEST_F(Differential, KillingConnections) {
  differential both{3};
  for (words const& argv : {words{"CLIENT", "KILL"},
                            words{"CLIENT", "KILL", "nobody"},
                            words{"CLIENT", "KILL", "ID", "0"},
                            words{"CLIENT", "KILL", "ID", "x"},
                            words{"CLIENT", "KILL", "ID", "-1"},
                            words{"CLIENT", "KILL", "ID", "1", "ADDR"},
                            words{"CLIENT", "KILL", "SKIPME", "perhaps"},
                            words{"CLIENT", "KILL", "ID", "999999", "ADDR", "@addr@"},
                            words{"CLIENT", "KILL", "ID", "@id1@", "ADDR", "elsewhere:1"},
                            words{"CLIENT", "KILL", "ID", "@id0@", "ADDR", "@addr@"},
                            words{"CLIENT", "KILL", "ID", "@id1@", "ADDR", "@addr@"},
                            words{"CLIENT", "KILL", "id", "@id2@", "skipme", "no"},
                            words{"CLIENT", "KILL", "ID", "@id0@", "SKIPME", "NO"},
                            words{"CLIENT", "KILL", "ADDR", "@addr@"},
                            words{"CLIENT", "KILL", "@addr@"},
                            words{"CLIENT", "NONE"},
                            words{"CLIENT"},
                            words{"CLIENT", "ID", "x"},
                            words{"CLIENT", "SETNAME", "a b"},
                            words{"CLIENT", "SETNAME", "a\n"},
                            words{"CLIENT", "SETNAME", ""},
                            words{"CLIENT", "GETNAME"},
                            words{"CLIENT", "SETNAME", "me"},
                            words{"CLIENT", "GETNAME"},
                            words{"CLIENT", "SETINFO", "lib-name", "conch"}}) {
    both.run_same(argv);
  }
}

TEST_F(Differential, AKilledConnectionHearsNothingMore) {
  differential both{3};
  both.run_same(1, {"SUBSCRIBE", "c"});
  both.run_same({"PUBLISH", "c", "before"});
  both.run_same(2, {"CLIENT", "KILL", "ID", "@id1@", "ADDR", "@addr@"});
  both.run_same({"PUBLISH", "c", "behind"});
}

TEST_F(Differential, Hello) {
  differential both{1};
  for (words const& argv : {words{"HELLO"},
                            words{"HELLO", "4"},
                            words{"HELLO", "1"},
                            words{"HELLO", "x"},
                            words{"HELLO", "3", "AUTH", "x"},
                            words{"HELLO", "3", "SETNAME"},
                            words{"HELLO", "3", "SETNAME", "n m"},
                            words{"HELLO", "3", "SETNAME", "n"},
                            words{"CLIENT", "GETNAME"},
                            words{"HELLO", "AUTH", "default", "x"},
                            words{"HELLO", "2"},
                            words{"HELLO"},
                            words{"PING"},
                            words{"HELLO", "3"},
                            words{"SELECT", "16"},
                            words{"SELECT", "-1"},
                            words{"SELECT", "x"},
                            words{"SELECT", "15"},
                            words{"SET", "k", "v"},
                            words{"DBSIZE"},
                            words{"SELECT", "0"},
                            words{"DBSIZE"},
                            words{"PING", "a", "b"},
                            words{"NONE", "a", "b\r\nc", "", std::string(200, 'x'), "y"},
                            words{"SCRIPT"},
                            words{"SCRIPT", "NONE\r\n"},
                            words{"CONFIG", "GET", "maxmemory-policy"},
                            words{"CONFIG", "GET", "MAXMEMORY-POL*", "timeout"},
                            words{"CONFIG", "GET", "none"},
                            words{"CONFIG", "GET"},
                            words{"CONFIG", "NONE"},
                            words{"TIME"},
                            words{"TIME", "x"},
                            words{"FLUSHALL", "x"},
                            words{"FLUSHALL", "ASYNC"},
                            words{"FLUSHDB", "sync"},
                            words{"DBSIZE"},
                            words{""}}) {
    both.run_same(argv);
  }
}

TEST_F(Differential, Channels) {
  differential both{3};
  both.run_same(0, {"SUBSCRIBE", "a", "b", "a"});
  both.run_same(1, {"SUBSCRIBE", "a"});
  both.run_same(2, {"HELLO", "2"});
  both.run_same(2, {"SSUBSCRIBE", "a", "s"});
  both.run_same(0, {"PUBLISH", "a", "own"});
  both.run_same(2, {"PUBLISH", "a", "no"});
  both.run_same(2, {"PING"});
  both.run_same(2, {"PING", "x"});
  both.run_same(1, {"SPUBLISH", "a", "shard"});
  both.run_same(1, {"SPUBLISH", "none", "shard"});
  both.run_same(0, {"EVAL", "redis.call('PUBLISH', 'a', ARGV[1]) return redis.call('SPUBLISH', 'a', '')", "0",
                    std::string("\0\r\n", 3)});
  both.run_same(0, {"SUBSCRIBE"});
  both.run_same(0, {"UNSUBSCRIBE", "a", "none"});
  both.run_same(0, {"UNSUBSCRIBE"});
  both.run_same(0, {"UNSUBSCRIBE"});
  both.run_same(2, {"SUNSUBSCRIBE", "s"});
  both.run_same(2, {"SUNSUBSCRIBE"});
  both.run_same(2, {"SUNSUBSCRIBE"});
  both.run_same(2, {"PUBLISH", "a", "yes"});
}

TEST_F(Differential, WhoeverWatchesAllChannelsHearsAndIsNotOneOfTheirSubscribers) {
  differential both{4};
  both.run_same(0, {"SUBSCRIBE", "conch:a"});
  both.run_same(3, {"PSUBSCRIBE", "c*:a"});
  both.run_same(1, {"PSUBSCRIBE", "conch:*"});
  both.run_same(1, {"SUBSCRIBE", "conch:a"});
  both.run_same(2, {"PUBLISH", "conch:a", "to all"});
  both.run_same(2, {"PUBLISH", "conch:b", "to a watcher"});
  both.run_same(2, {"PUBLISH", "b", "to nobody"});
  both.run_same(2, {"PUBSUB", "NUMSUB", "conch:a", "conch:b"});
  both.run_same(2, {"PUBSUB", "NUMSUB"});
  both.run_same(2, {"EVAL",
                    "return {redis.call('PUBLISH', 'conch:a', ''), redis.call('PUBSUB', 'NUMSUB', 'conch:b')[2], "
                    "redis.pcall('PUBSUB', 'NUMSUB', 'conch:a')[2]}",
                    "0"});
}

TEST_F(Differential, KeysWhoseTimeIsOver) {
  differential both{1};
  both.run_same({"SET", "k", "v", "PXAT", "1"});
  both.run_same({"DBSIZE"});
  both.run_same({"GET", "k"});
  both.run_same({"DBSIZE"});
  both.run_same({"SET", "k", "v", "EXAT", "99999999999"});
  both.run_same({"PEXPIRETIME", "k"});
  both.run_same({"SET", "k", "w", "KEEPTTL"});
  both.run_same({"PEXPIRETIME", "k"});
  both.run_same({"PEXPIREAT", "k", "99999999999001", "LT"});
  both.run_same({"PEXPIREAT", "k", "99999999998999", "LT"});
  both.run_same({"PEXPIREAT", "k", "1", "GT"});
  both.run_same({"PEXPIREAT", "k", "1"});
  both.run_same({"DBSIZE"});
  both.run_same({"HSET", "h", "a", "b"});
  both.run_same({"PEXPIREAT", "h", "9223372036854775807"});
  for (char const* command : {"EXPIRETIME", "PEXPIRETIME", "PTTL", "TTL"}) {
    both.run_same({command, "h"});
  }
  both.run_same({"PERSIST", "h"});
  both.run_same({"PEXPIRE", "h", "-1", "GT"});
  both.run_same({"PEXPIRE", "h", "-1", "LT"});
  both.run_same({"EXISTS", "h"});
  both.run_same_script(
      "redis.call('SET', 'k', 'v', 'PXAT', 1) return {redis.call('GET', 'k'), redis.call('TTL', "
      "'k')}");
}

}  // namespace
