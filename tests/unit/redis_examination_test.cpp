// What `conch doctor` makes of the answers of Redis servers, Sentinels and Clusters.

#include <gtest/gtest.h>

#include <servers/redis/examination.hpp>
#include <servers/redis/rights.hpp>
#include <servers/redis/url.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {
namespace {

using namespace std::chrono_literals;

TEST(RedisExamination, OfWhatInfoTells) {
  struct row {
    finding (*judge)(server_info const&);
    char const* info;
    verdict how;
  };
  auto const version = [](server_info const& i) { return judge_version(i, false); };
  auto const role = [](server_info const& i) { return judge_role(i, false); };
  auto const node_version = [](server_info const& i) { return judge_version(i, true); };
  auto const node_role = [](server_info const& i) { return judge_role(i, true); };
  for (row const& one : std::vector<row>{
           {node_version, "redis_version:7.0.15\r\n", verdict::ok},
           {node_version, "redis_version:6.2.0\r\n", verdict::bad},
           {node_role, "redis_mode:cluster\r\nrole:master\r\n", verdict::ok},
           {node_role, "redis_mode:cluster\r\nrole:slave\r\nmaster_host:h\r\n", verdict::bad},
           {node_role, "redis_mode:standalone\r\nrole:master\r\n", verdict::bad},
           {version, "redis_version:7.0.15\r\n", verdict::ok},
           {version, "redis_version:6.2.0\r\n", verdict::ok},
           {version, "redis_version:6.0.16\r\n", verdict::bad},
           {version, "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", verdict::ok},
           {version, "", verdict::warning},
           {role, "redis_mode:standalone\r\nrole:master\r\n", verdict::ok},
           {role, "role:slave\r\nmaster_host:h\r\n", verdict::bad},
           {role, "redis_mode:cluster\r\nrole:master\r\n", verdict::bad},
           {role, "redis_mode:sentinel\r\n", verdict::bad},
           {role, "", verdict::warning},
           {judge_eviction, "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n", verdict::ok},
           {judge_eviction, "maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", verdict::ok},
           {judge_eviction, "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", verdict::warning},
           {judge_eviction, "maxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n", verdict::bad},
           {judge_eviction, "", verdict::warning},
           {judge_persistence, "aof_enabled:1\r\naof_last_write_status:ok\r\n", verdict::ok},
           {judge_persistence, "aof_enabled:1\r\naof_last_write_status:err\r\n", verdict::bad},
           {judge_persistence, "aof_enabled:0\r\n", verdict::warning},
       }) {
    finding const f = one.judge(parse_info(std::string{"# Section\r\n"} + one.info));
    EXPECT_EQ(f.how, one.how) << f.what << ": " << f.words;
    EXPECT_EQ(f.advice.empty(), f.how == verdict::ok) << "it must say what to do: " << f.what;
  }
}

TEST(RedisExamination, SaysHowFullTheMemoryIs) {
  auto const of = [](char const* text) { return judge_memory(parse_info(text)); };
  EXPECT_FALSE(of("maxmemory:0\r\nused_memory:7\r\n"));
  EXPECT_EQ(of("maxmemory:100\r\nused_memory:7\r\n")->how, verdict::ok);
  EXPECT_EQ(of("maxmemory:100\r\nused_memory:95\r\n")->how, verdict::warning);
  EXPECT_EQ(of("maxmemory:100\r\nused_memory:100\r\n")->how, verdict::bad);
  EXPECT_NE(of("maxmemory:100\r\nused_memory:100\r\n")->advice.find("raise maxmemory"), std::string::npos);
}

TEST(RedisExamination, OfSentinels) {
  EXPECT_EQ(judge_sentinels({{"a:1", "m:7", false}, {"b:1", "m:7", false}}).how, verdict::ok);
  finding const differ = judge_sentinels({{"a:1", "m:7", false}, {"b:1", "n:7", false}, {"c:1", "away", true}});
  EXPECT_EQ(differ.how, verdict::warning);
  EXPECT_NE(differ.advice.find("different masters"), std::string::npos) << differ.advice;
  EXPECT_EQ(differ.words, "a:1 names m:7; b:1 names n:7; c:1: away");
  EXPECT_EQ(judge_sentinels({{"a:1", "away", true}, {"b:1", "m:7", false}}).how, verdict::warning);
  EXPECT_EQ(judge_sentinels({{"a:1", "away", true}}).how, verdict::bad);
  finding const nameless = judge_sentinels({{"a:1", "it knows no master without a name", true}});
  EXPECT_NE(nameless.advice.find("add ?sentinelMasterId=NAME"), std::string::npos) << nameless.advice;
}

TEST(RedisExamination, OfVersionsOfConch) {
  EXPECT_EQ(judge_client_versions({}, true).how, verdict::ok);
  EXPECT_EQ(judge_client_versions({}, false).how, verdict::ok) << "a right that no lock needs";
  finding const f = judge_client_versions({"0.1.0", "0.2.0"}, true);
  EXPECT_EQ(f.how, verdict::warning);
  EXPECT_NE(f.words.find("0.1.0, 0.2.0"), std::string::npos) << f.words;
}

TEST(RedisExamination, OfReplicas) {
  struct row {
    char const* count;
    std::size_t synced;
    verdict how;
  };
  for (row const& one : {row{"0", 0, verdict::ok}, row{"2", 0, verdict::warning}, row{"2", 2, verdict::ok},
                         row{"2", 1, verdict::warning}, row{"1", 2, verdict::bad}, row{"0", 1, verdict::bad}}) {
    finding const f =
        judge_replicas(parse_info("connected_slaves:" + std::string{one.count} + "\r\n"), one.synced, false);
    EXPECT_EQ(f.how, one.how) << f.words;
    EXPECT_EQ(f.advice.empty(), f.how == verdict::ok) << f.words;
  }
  EXPECT_EQ(judge_replicas({}, 0, false).how, verdict::warning);
  EXPECT_EQ(judge_replicas(parse_info("connected_slaves:0\r\n"), 0, true).how, verdict::warning);

  std::vector<replica_address> const all =
      replicas_of(parse_info("role:master\r\nslave_repl_offset:7\r\nslave0:ip=10.0.0.2,port=6380,state=online,offset=1,"
                             "lag=0\r\nslave1:ip=::1,port=7,"
                             "state=online\r\nslave2:\r\n"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(host_and_port(all[0].host, all[0].port), "10.0.0.2:6380");
  EXPECT_EQ(host_and_port(all[1].host, all[1].port), "[::1]:7");
}

TEST(RedisExamination, OfTheClocksOfAMasterAndItsReplicas) {
  auto const judged = [](duration a, duration b, duration unsure = 100us, duration lease = 30s) {
    return judge_replica_clocks({{"master", 0s, unsure}, {"a", a, unsure}, {"b", b, unsure}}, {}, lease);
  };
  EXPECT_EQ(judged(5ms, -5ms).how, verdict::ok);
  EXPECT_TRUE(judged(5ms, -5ms).advice.empty());
  EXPECT_EQ(judged(102ms, 0ms).how, verdict::warning) << "a third of what is allowed";
  EXPECT_EQ(judged(301ms, 0ms).how, verdict::warning);
  EXPECT_EQ(judged(303ms, 0ms).how, verdict::bad) << "1 % of the lease and 2 ms";
  EXPECT_EQ(judged(-303ms, 0ms).how, verdict::bad) << "in either direction: they may change roles";
  EXPECT_EQ(judged(160ms, -160ms).how, verdict::bad) << "of two replicas one may follow the other";
  EXPECT_EQ(judged(303ms, 0ms, 100us, 60s).how, verdict::warning) << "602 ms are allowed";
  EXPECT_EQ(judged(20ms, 0ms, 100us, 1s).how, verdict::bad) << "12 ms are allowed";
  EXPECT_EQ(judged(303ms, 0ms, 2s).how, verdict::warning) << "it may be the network";
  finding const bad = judged(400ms, 0ms);
  EXPECT_NE(bad.words.find("up to 400 ms apart, give or take 200 µs (a is ahead of "), std::string::npos) << bad.words;
  EXPECT_NE(bad.words.find("with a lease of 30 s up to 302 ms is acceptable"), std::string::npos) << bad.words;
  EXPECT_NE(bad.advice.find("NTP"), std::string::npos);

  finding const away = judge_replica_clocks({{"master", 0s, 1ms}}, {"a: connection refused"}, 30s);
  EXPECT_EQ(away.how, verdict::warning);
  EXPECT_EQ(away.words, "not known; a: connection refused");
  EXPECT_EQ(judge_replica_clocks({{"master", 0s, 1ms}, {"b", 1s, 1ms}}, {"a: connection refused"}, 30s).how,
            verdict::bad);
}

TEST(RedisExamination, SayOfEachRightWhatFailsWithoutIt) {
  EXPECT_EQ(judge_rights({}, 32, 0).at(0).how, verdict::ok);
  for (bool const in_cluster : {false, true}) {
    for (needed_right const& one : needed_rights(in_cluster)) {
      std::vector<finding> const f = judge_rights({&one}, 32, 0);
      ASSERT_EQ(f.size(), 1u);
      EXPECT_EQ(f[0].how, one.without);
      EXPECT_EQ(judge_rights({&one}, 32, 1).at(0).how, one.name == "wait" ? verdict::bad : one.without);
      EXPECT_NE(f[0].words.find(one.consequence), std::string::npos);
    }
  }
}

TEST(RedisExamination, OfACluster) {
  EXPECT_EQ(judge_cluster({{"a:1", 8192}, {"b:1", 8192}}).how, verdict::ok);
  finding const f = judge_cluster({{"a:1", 8192}, {"b:1", 8191}});
  EXPECT_EQ(f.how, verdict::bad);
  EXPECT_NE(f.words.find("1 slots have no master"), std::string::npos) << f.words;
}

/// A hostile server's words are printable and short.
TEST(RedisExamination, ShowsNothingOfAServerThatATerminalObeys) {
  std::string const evil = "\x1b[2J" + std::string(100'000, 'x');
  server_info const info =
      parse_info("redis_version:" + evil + "\r\nrole:slave\r\nmaster_host:" + evil + "\r\nmaster_port:" + evil +
                 "\r\nmaxmemory_policy:" + evil + "\r\nmaxmemory:" + evil + "\r\nconnected_slaves:" + evil + "\r\n");
  for (finding const& f :
       {judge_version(info, false), judge_role(info, false), judge_eviction(info), judge_replicas(info, 0, false)}) {
    EXPECT_EQ(f.words.find('\x1b'), std::string::npos) << f.what;
    EXPECT_LT(f.words.size() + f.advice.size(), 1000u) << f.what;
  }
}

}  // namespace
}  // namespace conch::redis
