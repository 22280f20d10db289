// What a real server cannot show on demand: its clock, its faults, its death.

#include "sim/model/redis_model.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>

namespace {

using conch::sim::append_resp;
using conch::sim::describe;
using conch::sim::redis_model;
using conch::sim::value;

constexpr std::int64_t start_us = 1'700'000'000'000'000;
constexpr std::int64_t ms = 1'000;

struct RedisModel : ::testing::Test {
  redis_model model{start_us};
  redis_model::connection_id first = connect();

  redis_model::connection_id connect(std::string address = "10.0.0.1:1000") {
    auto const id = model.connect(std::move(address));
    on(id, {"HELLO", "3"});
    return id;
  }

  value on(redis_model::connection_id who, std::initializer_list<std::string_view> argv) {
    return model.execute(who, {argv.begin(), argv.size()});
  }

  // What the first connection is told, as one line.
  std::string run(std::initializer_list<std::string_view> argv) { return describe(on(first, argv)); }

  void at(std::int64_t after_start_us) { model.set_time_us(start_us + after_start_us); }

  std::string pushes() {
    std::string text;
    for (auto const& [to, message, after_reply] : model.take_pushes()) {
      text += std::to_string(to) + (after_reply ? " after the reply: " : ": ") + describe(message) + "\n";
    }
    return text;
  }
};

// ---- the clock ----

TEST_F(RedisModel, TimeIsWhatItWasTold) {
  at(1'234'567);
  EXPECT_EQ(run({"TIME"}), R"(["1700000001", "234567"])");
  EXPECT_EQ(run({"TIME"}), R"(["1700000001", "234567"])");
  EXPECT_EQ(model.time_us(), start_us + 1'234'567);
}

TEST_F(RedisModel, AKeyLivesThroughItsLastMillisecondAndNoLonger) {
  run({"SET", "k", "v", "PX", "100"});
  at(100 * ms - 1);
  EXPECT_EQ(run({"PTTL", "k"}), ":1");
  at(100 * ms);
  EXPECT_EQ(run({"PTTL", "k"}), ":0");
  EXPECT_EQ(run({"GET", "k"}), R"("v")");
  at(101 * ms - 1);
  EXPECT_EQ(run({"GET", "k"}), R"("v")");
  EXPECT_EQ(model.key_count(), 1U);
  at(101 * ms);
  EXPECT_EQ(model.key_count(), 0U);
  EXPECT_EQ(run({"GET", "k"}), "nil");
  EXPECT_EQ(run({"PTTL", "k"}), ":-2");
}

TEST_F(RedisModel, ExpiryCountsWholeMillisecondsOfTheClock) {
  at(999);  // still the same millisecond
  run({"SET", "k", "v", "PX", "1"});
  at(2 * ms - 1);
  EXPECT_EQ(run({"EXISTS", "k"}), ":1");
  at(2 * ms);
  EXPECT_EQ(run({"EXISTS", "k"}), ":0");
}

TEST_F(RedisModel, AnExpiryThatIsNowRemovesTheKeyAtOnce) {
  run({"SET", "k", "v"});
  EXPECT_EQ(run({"PEXPIRE", "k", "0"}), ":1");
  EXPECT_EQ(run({"DBSIZE"}), ":0");
}

TEST_F(RedisModel, EveryCommandFindsAnExpiredKeyGone) {
  run({"HSET", "h", "f", "v"});
  run({"ZADD", "z", "1", "m"});
  for (char const* key : {"h", "z"}) {
    run({"PEXPIRE", key, "10"});
  }
  at(11 * ms);
  EXPECT_EQ(run({"HSET", "h", "g", "w"}), ":1");
  EXPECT_EQ(run({"HGETALL", "h"}), R"(map{"g", "w"})");
  EXPECT_EQ(run({"PTTL", "h"}), ":-1");
  EXPECT_EQ(run({"INCR", "z"}), ":1") << "not even its type may be left";
}

TEST_F(RedisModel, AfterAStepBackAnUntouchedKeyIsAliveAgainAndATouchedOneGone) {
  run({"SET", "touched", "v", "PX", "100"});
  run({"SET", "untouched", "v", "PX", "100"});
  at(200 * ms);
  EXPECT_EQ(run({"GET", "touched"}), "nil");
  at(50 * ms);
  EXPECT_EQ(run({"GET", "touched"}), "nil");
  EXPECT_EQ(run({"GET", "untouched"}), R"("v")");
  EXPECT_EQ(run({"PTTL", "untouched"}), ":50");
}

TEST_F(RedisModel, AStepBackLengthensWhatIsLeft) {
  run({"SET", "k", "v", "PX", "100"});
  at(-1'000 * ms);
  EXPECT_EQ(run({"PTTL", "k"}), ":1100");
}

TEST_F(RedisModel, TheExpiryCycleRemovesWhatNobodyTouches) {
  run({"SET", "k", "v", "PX", "100"});
  run({"SET", "other", "v"});
  at(200 * ms);
  EXPECT_EQ(run({"DBSIZE"}), ":2");
  model.expire_cycle();
  EXPECT_EQ(run({"DBSIZE"}), ":1");
  at(0);
  EXPECT_EQ(run({"GET", "k"}), "nil");
}

TEST_F(RedisModel, UptimeFollowsTheWallClock) {
  at(90'500 * ms);
  EXPECT_NE(on(first, {"INFO", "server"}).text.find("\r\nuptime_in_seconds:90\r\n"), std::string::npos);
  at(-5'000 * ms);
  EXPECT_NE(on(first, {"INFO"}).text.find("\r\nuptime_in_seconds:-5\r\n"), std::string::npos);
  // Whole seconds are compared: what began at the end of one is soon one second old.
  at(900 * ms);
  model.restart(false);
  at(1'100 * ms);
  auto const again = connect("10.0.0.9:9");
  EXPECT_NE(on(again, {"INFO", "server"}).text.find("\r\nuptime_in_seconds:1\r\n"), std::string::npos);
}

TEST_F(RedisModel, InfoTellsTheEvictionPolicy) {
  EXPECT_NE(on(first, {"INFO", "memory"}).text.find("\r\nmaxmemory_policy:noeviction\r\n"), std::string::npos);
  model.set_config("maxmemory-policy", "allkeys-lru");
  auto const info = on(first, {"INFO", "memory"}).text;
  EXPECT_NE(info.find("\r\nmaxmemory_policy:allkeys-lru\r\n"), std::string::npos);
  EXPECT_EQ(info.find("run_id"), std::string::npos);
}

// ---- faults ----

TEST_F(RedisModel, AFaultHasNoEffectAndEnds) {
  model.fail_next("SET", "OOM command not allowed", 2);
  EXPECT_EQ(run({"SET", "k", "v"}), R"(-"OOM command not allowed")");
  EXPECT_EQ(run({"GET", "k"}), "nil");
  EXPECT_EQ(run({"set", "k", "v"}), R"(-"OOM command not allowed")");
  EXPECT_EQ(run({"SET", "k", "v"}), R"(+"OK")");
  EXPECT_EQ(model.calls("set"), 1U);
}

TEST_F(RedisModel, AFaultInsideAScriptAbortsItAndKeepsWhatWasDone) {
  model.fail_next("publish", "NOPERM no publishing here");
  value const reply = on(first, {"EVAL",
                                 "redis.call('SET', 'before', '1')\nredis.call('PUBLISH', 'c', 'm')\n"
                                 "redis.call('SET', 'behind', '1')",
                                 "0"});
  EXPECT_TRUE(reply.text.starts_with("NOPERM no publishing here script: ")) << reply.text;
  EXPECT_TRUE(reply.text.ends_with(", on @user_script:2.")) << reply.text;
  EXPECT_EQ(reply.error_code(), "NOPERM");
  EXPECT_EQ(run({"EXISTS", "before", "behind"}), ":1");
}

TEST_F(RedisModel, AScriptMayCatchAFault) {
  model.fail_next("get", "LOADING later");
  EXPECT_EQ(run({"EVAL", "local e = redis.pcall('GET', 'k') return {e.err, redis.call('GET', 'k')}", "0"}),
            R"(["LOADING later", nil])");
}

TEST_F(RedisModel, AnyCallOfAScriptCanBeMadeToFail) {
  for (std::size_t step = 0; step < 3; ++step) {
    run({"FLUSHALL"});
    model.inject({"", "OOM now", step, 1, redis_model::where::script});
    auto const reply = run({"EVAL", "for i = 1, 3 do redis.call('SET', 'k' .. i, 'v') end", "0"});
    EXPECT_NE(reply.find("OOM now"), std::string::npos) << reply;
    EXPECT_EQ(model.key_count(), step);
    model.clear_faults();
  }
}

TEST_F(RedisModel, AFaultForClientsLeavesScriptsAlone) {
  model.inject({"get", "LOADING", 0, redis_model::always, redis_model::where::client});
  EXPECT_EQ(run({"GET", "k"}), R"(-"LOADING")");
  EXPECT_EQ(run({"EVAL", "return redis.call('GET', 'k')", "0"}), "nil");
  EXPECT_EQ(run({"GET", "k"}), R"(-"LOADING")");
  model.clear_faults();
  EXPECT_EQ(run({"GET", "k"}), "nil");
}

TEST_F(RedisModel, SubcommandsHaveNamesOfTheirOwn) {
  model.fail_next("client|kill", "ERR not today");
  model.deny("config|get");
  EXPECT_EQ(run({"CLIENT", "ID"}), ":1");
  EXPECT_EQ(run({"CLIENT", "KILL", "ID", "7", "ADDR", "x"}), R"(-"ERR not today")");
  EXPECT_EQ(run({"CONFIG", "GET", "timeout"}),
            R"(-"NOPERM this user has no permissions to run the 'config|get' command")");
}

TEST_F(RedisModel, AFaultForNoCommandIsAMistakeOfTheTest) {
  EXPECT_THROW(model.fail_next("pubish", "x"), std::invalid_argument);
  EXPECT_THROW(model.deny("client"), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(model.calls("none")), std::invalid_argument);
}

// ---- connections ----

TEST_F(RedisModel, CommandsOfNobodyDoNothing) {
  model.disconnect(first);
  EXPECT_FALSE(model.connected(first));
  EXPECT_EQ(run({"SET", "k", "v"}), "nothing");
  EXPECT_EQ(model.key_count(), 0U);
  EXPECT_TRUE(model.take_killed().empty());
}

TEST_F(RedisModel, KillTakesIdAndAddressTogether) {
  auto const second = connect("10.0.0.2:2000");
  auto const id = std::to_string(second);
  EXPECT_EQ(run({"CLIENT", "KILL", "ID", id, "ADDR", "10.0.0.1:1000"}), ":0");
  EXPECT_TRUE(model.connected(second));
  EXPECT_EQ(run({"CLIENT", "KILL", "ID", id, "ADDR", "10.0.0.2:2000"}), ":1");
  EXPECT_FALSE(model.connected(second));
  EXPECT_EQ(model.take_killed(), std::vector{second});
  EXPECT_TRUE(model.take_killed().empty());
  EXPECT_EQ(run({"CLIENT", "KILL", "ID", id, "ADDR", "10.0.0.2:2000"}), ":0");
}

TEST_F(RedisModel, WhoIsGoneReceivesNothingAndCountsForNothing) {
  auto const killed = connect();
  auto const left = connect();
  auto const stays = connect();
  for (auto const who : {killed, left, stays}) {
    on(who, {"SUBSCRIBE", "c"});
    on(who, {"SSUBSCRIBE", "c"});
  }
  run({"CLIENT", "KILL", "ID", std::to_string(killed)});
  model.disconnect(left);
  model.take_pushes();
  EXPECT_EQ(model.subscriber_count("c"), 1U);
  EXPECT_EQ(run({"PUBLISH", "c", "m"}), ":1");
  EXPECT_EQ(run({"SPUBLISH", "c", "m"}), ":1");
  auto const to = std::to_string(stays);
  EXPECT_EQ(pushes(), to + R"(: push["message", "c", "m"])" + "\n" + to + R"(: push["smessage", "c", "m"])" + "\n");
}

TEST_F(RedisModel, AConnectionThatKillsItselfIsAnsweredFirst) {
  EXPECT_EQ(run({"CLIENT", "KILL", "ID", "1", "SKIPME", "no"}), ":1");
  EXPECT_FALSE(model.connected(first));
  EXPECT_EQ(model.take_killed(), std::vector{first});
  EXPECT_EQ(run({"PING"}), "nothing");
}

TEST_F(RedisModel, SubscribingIsAnsweredByPushesOnly) {
  EXPECT_EQ(run({"SUBSCRIBE", "a", "b"}), "nothing");
  EXPECT_EQ(pushes(), "1: push[\"subscribe\", \"a\", :1]\n1: push[\"subscribe\", \"b\", :2]\n");
}

TEST_F(RedisModel, APushToOneselfComesBeforeTheReplyOrBehindItAsTold) {
  run({"SUBSCRIBE", "c"});
  auto const second = connect();
  on(second, {"SUBSCRIBE", "c"});
  model.take_pushes();
  EXPECT_EQ(run({"EVAL", "return redis.call('PUBLISH', 'c', 'm')", "0"}), ":2");
  EXPECT_EQ(pushes(), "1: push[\"message\", \"c\", \"m\"]\n2: push[\"message\", \"c\", \"m\"]\n");

  model.set_own_pushes_after_reply(true);
  EXPECT_EQ(run({"PUBLISH", "c", "m"}), ":2");
  EXPECT_EQ(pushes(), "1 after the reply: push[\"message\", \"c\", \"m\"]\n2: push[\"message\", \"c\", \"m\"]\n");
  run({"SUBSCRIBE", "d"});
  EXPECT_EQ(pushes(), "1: push[\"subscribe\", \"d\", :2]\n") << "this push is the reply";
}

TEST_F(RedisModel, ClientInfoNamesIdAndAddress) {
  auto const info = on(first, {"CLIENT", "INFO"}).text;
  EXPECT_TRUE(info.starts_with("txt:id=1 addr=10.0.0.1:1000 ")) << info;
  EXPECT_TRUE(info.ends_with(" resp=3\n")) << info;
}

TEST_F(RedisModel, ANewConnectionMustShowThePassword) {
  model.require_password("secret");
  auto const fresh = model.connect("10.0.0.3:1");
  EXPECT_EQ(on(fresh, {"GET", "k"}).text, "NOAUTH Authentication required.");
  EXPECT_EQ(on(fresh, {"HELLO", "3"}).error_code(), "NOAUTH");
  EXPECT_EQ(on(fresh, {"HELLO", "3", "AUTH", "default", "wrong"}).error_code(), "WRONGPASS");
  EXPECT_EQ(on(fresh, {"HELLO", "3", "AUTH", "default", "secret"}).type, value::kind::map);
  EXPECT_EQ(on(fresh, {"GET", "k"}).type, value::kind::nil);
}

// ---- restart, failover ----

TEST_F(RedisModel, ARestartLeavesAtMostTheData) {
  run({"SET", "k", "v", "PX", "100"});
  auto const sha1 = on(first, {"SCRIPT", "LOAD", "return 1"}).text;
  run({"SUBSCRIBE", "c"});
  auto const old_run = on(first, {"INFO", "server"}).text;
  at(1'000);

  model.restart(true);
  EXPECT_FALSE(model.connected(first));
  EXPECT_TRUE(model.take_pushes().empty());
  auto const fresh = connect();
  EXPECT_EQ(fresh, 1U) << "ids start again: the same id now names another connection";
  EXPECT_EQ(run({"GET", "k"}), R"("v")");
  EXPECT_EQ(run({"PTTL", "k"}), ":99");
  EXPECT_EQ(on(fresh, {"EVALSHA", sha1, "0"}).error_code(), "NOSCRIPT");
  EXPECT_EQ(run({"PUBLISH", "c", "m"}), ":0");
  EXPECT_NE(on(fresh, {"INFO", "server"}).text, old_run);
  EXPECT_NE(on(fresh, {"INFO"}).text.find("uptime_in_seconds:0\r"), std::string::npos);

  model.restart(false);
  connect();
  EXPECT_EQ(run({"GET", "k"}), "nil");
  EXPECT_EQ(model.key_count(), 0U);
}

TEST_F(RedisModel, AReplicaTakesOverTheDataItHad) {
  run({"SET", "k", "old"});
  redis_model replica{start_us};
  replica.copy_data(model);
  run({"SET", "k", "new"});
  EXPECT_EQ(describe(replica.peek("k")), R"("old")");
  EXPECT_EQ(describe(model.peek("k")), R"("new")");
}

// ---- looking in from outside ----

TEST_F(RedisModel, LookingInChangesNothing) {
  run({"SET", "b", "v", "PX", "100"});
  run({"HSET", "a", "f", "1"});
  run({"ZADD", "z", "1.5", "m"});
  run({"SELECT", "2"});
  run({"SADD", "s", "x"});
  auto const keys = model.keys();
  ASSERT_EQ(keys.size(), 4U);
  EXPECT_EQ(keys[0].name + keys[0].type, "ahash");
  EXPECT_EQ(keys[0].expires_at_ms, std::nullopt);
  EXPECT_EQ(keys[1].name + keys[1].type, "bstring");
  EXPECT_EQ(keys[1].expires_at_ms, start_us / 1000 + 100);
  EXPECT_EQ(keys[3].name + keys[3].type, "sset");
  EXPECT_EQ(keys[3].database, 2);
  EXPECT_EQ(describe(model.peek("a")), R"(map{"f", "1"})");
  EXPECT_EQ(describe(model.peek("z")), R"([["m", ,1.5]])");
  EXPECT_EQ(describe(model.peek("s")), "nil");
  EXPECT_EQ(describe(model.peek("s", 2)), R"(set{"x"})");

  at(200 * ms);
  EXPECT_EQ(model.keys().size(), 3U);
  EXPECT_EQ(describe(model.peek("b")), "nil");
  at(50 * ms);
  EXPECT_EQ(describe(model.peek("b")), R"("v")");
  EXPECT_TRUE(model.erase("b"));
  EXPECT_FALSE(model.erase("b"));
}

TEST_F(RedisModel, CountsIncludeWhatScriptsCall) {
  run({"SET", "k", "v"});
  run({"EVAL", "redis.call('SET', 'k', 'w') redis.pcall('INCR', 'k')", "0"});
  run({"GET"});
  EXPECT_EQ(model.calls("SET"), 2U);
  EXPECT_EQ(model.calls("incr"), 1U) << "a failing call counts";
  EXPECT_EQ(model.calls("get"), 0U) << "a refused one does not";
  auto const all = model.calls();
  EXPECT_EQ(all.at("eval"), 1U);
  EXPECT_FALSE(all.contains("get"));
  model.reset_calls();
  EXPECT_TRUE(model.calls().empty());
}

// ---- scripts ----

TEST_F(RedisModel, AServerKnowsOnlyTheScriptsItWasGiven) {
  auto const sha1 = on(first, {"SCRIPT", "LOAD", "return 'known'"}).text;
  redis_model other;
  auto const there = other.connect("a:1");
  std::string_view const argv[] = {"EVALSHA", sha1, "0"};
  EXPECT_EQ(other.execute(there, argv).error_code(), "NOSCRIPT");
  EXPECT_EQ(run({"EVALSHA", sha1, "0"}), R"("known")");
}

TEST_F(RedisModel, NothingOfAScriptReachesTheNext) {
  for (char const* attempt :
       {"leaked = 1", "_G.leaked = 1", "rawset(_G, 'leaked', 1)", "string.rep = nil", "redis.call = nil",
        "setmetatable(_G, nil)", "getmetatable(_G).__newindex = nil", "getmetatable('').__index = {}"}) {
    EXPECT_TRUE(on(first, {"EVAL", attempt, "0"}).is_error()) << attempt;
  }
  run({"EVAL", "KEYS[1] = 'changed' ARGV[9] = 'new'", "1", "k"});
  EXPECT_EQ(run({"EVAL", "return {pcall(function() return leaked end)}", "0"}).substr(0, 5), "[nil,");
  EXPECT_EQ(run({"EVAL", "return {#KEYS, #ARGV, ('x'):rep(2), redis.call('PING')}", "0"}),
            R"([:0, :0, "xx", +"PONG"])");
}

TEST_F(RedisModel, AScriptWithoutEndIsStopped) {
  for (char const* body : {"while true do end", "while true do pcall(function() while true do end end) end"}) {
    auto const reply = on(first, {"EVAL", body, "0"});
    EXPECT_NE(reply.text.find("too many instructions"), std::string::npos) << reply.text;
  }
  EXPECT_EQ(run({"EVAL", "return 1", "0"}), ":1");
}

TEST_F(RedisModel, AScriptThatWouldCrashTheServerIsNamed) {
  EXPECT_TRUE(on(first, {"EVAL", "error({})", "0"}).text.starts_with("ERR model: this script would crash"));
}

TEST_F(RedisModel, AModelMayMoveToAnotherThread) {
  auto const sha1 = on(first, {"SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"}).text;
  EXPECT_EQ(run({"EVALSHA", sha1, "1", "n"}), ":1");
  std::string there;
  std::thread{[&] { there = run({"EVALSHA", sha1, "1", "n"}); }}.join();
  EXPECT_EQ(there, ":2");
  EXPECT_EQ(run({"EVALSHA", sha1, "1", "n"}), ":3");
}

TEST_F(RedisModel, MathRandomGoesOnFromScriptToScriptAndStartsAgainWithTheServer) {
  auto const draw = [this] { return run({"EVAL", "return tostring(math.random())", "0"}); };
  auto const one = draw();
  EXPECT_NE(draw(), one);
  model.restart(true);
  connect();
  EXPECT_EQ(draw(), one);
}

TEST_F(RedisModel, GeneratedScriptsDoNotPileUp) {
  auto const sha1 = on(first, {"SCRIPT", "LOAD", "return 'early'"}).text;
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(run({"EVAL", "return " + std::to_string(i), "0"}), ":" + std::to_string(i));
  }
  EXPECT_EQ(run({"EVALSHA", sha1, "0"}), R"("early")");
}

// ---- how replies look on the wire ----

TEST(RedisValue, IsWrittenInEitherProtocol) {
  value const all = value::list(
      value::kind::map, {value::bulk("k\r\n"), value::real(1.5), value::nil(), value::truth(true),
                         value::of(value::kind::verbatim, "txt:a"), value::list(value::kind::set, {value::number(-1)}),
                         value::error("E x"), value::simple("OK")});
  std::string three;
  append_resp(three, all);
  EXPECT_EQ(three, "%4\r\n$3\r\nk\r\n\r\n,1.5\r\n_\r\n#t\r\n=5\r\ntxt:a\r\n~1\r\n:-1\r\n-E x\r\n+OK\r\n");
  std::string two;
  append_resp(two, all, 2);
  EXPECT_EQ(two, "*8\r\n$3\r\nk\r\n\r\n$3\r\n1.5\r\n$-1\r\n:1\r\n$1\r\na\r\n*1\r\n:-1\r\n-E x\r\n+OK\r\n");
}

}  // namespace
