// What `conch` asks a server itself, without a server: RESP2, addresses, keys; what watch shows and doctor makes of answers.

#include <gtest/gtest.h>

#include <cli/cluster.hpp>
#include <cli/columns.hpp>
#include <cli/doctor_checks.hpp>
#include <cli/exit_code.hpp>
#include <cli/measure.hpp>
#include <cli/resp.hpp>
#include <cli/scan.hpp>
#include <cli/sentinels.hpp>
#include <cli/server_address.hpp>
#include <cli/server_connection.hpp>
#include <cli/watch_view.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace conch::cli {
namespace {

using namespace std::chrono_literals;

TEST(CliResp, ReadsEachKindOfReplyHoweverItIsCut) {
  std::string const all = "+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n$1\r\n0\r\n*1\r\n$0\r\n\r\n";
  for (std::size_t step = 1; step <= all.size(); ++step) {
    reply_reader reader;
    std::vector<reply> read;
    for (std::size_t i = 0; i < all.size(); i += step) {
      reader.append(all.substr(i, step));
      while (std::optional<reply> r = reader.next()) read.push_back(*r);
    }
    ASSERT_EQ(read.size(), 6u) << step;
    EXPECT_EQ(read[0].text, "OK");
    EXPECT_TRUE(read[1].is_error());
    EXPECT_EQ(read[2].number, -7);
    EXPECT_EQ(read[3].text, "a\r\n");
    EXPECT_EQ(read[4].what, reply::kind::null);
    ASSERT_EQ(read[5].items.size(), 2u);
    EXPECT_EQ(read[5].items[1].items.at(0).text, "");
  }
  EXPECT_EQ(encoded({"GET", ""}), "*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
}

TEST(CliResp, RefusesWhatIsNoReply) {
  for (std::string const wrong : {"HTTP/1.1 400\r\n", "\r\n", ":x\r\n", "$99999999999\r\n", "*99999999999\r\n",
                                  "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    reply_reader reader;
    reader.append(wrong);
    EXPECT_THROW(reader.next(), failure) << wrong;
  }
}

TEST(CliResp, BoundsEachReply) {
  std::string const long_string = '$' + std::to_string(reply_reader::most_bytes + 1) + "\r\n";
  std::string const many = '*' + std::to_string(reply_reader::most_items + 1) + "\r\n";
  std::string const many_in_two = "*2\r\n*" + std::to_string(reply_reader::most_items - 1) + "\r\n";
  for (std::string const& wrong : {long_string, many, many_in_two}) {
    reply_reader reader;
    reader.append(wrong);
    EXPECT_THROW(reader.next(), failure) << wrong;
  }
  // Many strings that are short enough each.
  reply_reader reader;
  std::string const mebibyte = "$1048576\r\n" + std::string(1048576, 'x') + "\r\n";
  reader.append("*1000\r\n");
  auto const feed = [&] {
    for (int i = 0; i < 1000; ++i) {
      reader.append(mebibyte);
      EXPECT_FALSE(reader.next());
    }
  };
  EXPECT_THROW(feed(), failure);
}

/// A server that sends a reply in small pieces costs no more than its bytes.
TEST(CliResp, LooksAtEachByteOnce) {
  constexpr std::size_t items = 200'000;
  reply_reader reader;
  reader.append('*' + std::to_string(items) + "\r\n");
  for (std::size_t i = 0; i + 1 < items; ++i) {
    reader.append(":1\r\n");
    ASSERT_FALSE(reader.next());
  }
  reader.append(":1\r\n");
  std::optional<reply> const all = reader.next();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->items.size(), items);
}

TEST(CliSecret, IsNotShownByAServerThatRepeatsIt) {
  EXPECT_EQ(without_secret("unknown command AUTH, with args: hunter2 hunter2", "hunter2"), "unknown command AUTH, with args: *** ***");
  EXPECT_EQ(without_secret("***", "*"), "*********");
  EXPECT_EQ(without_secret("nothing", ""), "nothing");
}

TEST(CliAddress, ReadsWhatTheLibraryAccepts) {
  server_address a = parse_address("redis://h", {});
  EXPECT_EQ(a.host + ' ' + a.port, "h 6379");
  EXPECT_FALSE(a.over_tls);
  a = parse_address("redis://u%40:p%2Fw@10.0.0.1:7000/3", {});
  EXPECT_EQ(a.host + ' ' + a.port + ' ' + a.login.user + ' ' + a.login.password, "10.0.0.1 7000 u@ p/w");
  EXPECT_EQ(a.database, 3);
  a = parse_address("valkey://:p@[::1]:7000", {});
  EXPECT_EQ(a.host + ' ' + a.port, "::1 7000");
  EXPECT_TRUE(a.on_this_machine());
  a = parse_address("unix://u:p@/run/a@b?db=2", {});
  EXPECT_EQ(a.path + ' ' + a.login.user + ' ' + a.login.password, "/run/a@b u p");
  EXPECT_EQ(a.database, 2);
  tls_config configured;
  configured.ca_file = "mine";
  configured.cert_file = "c";
  configured.key_file = "k";
  a = parse_address("rediss://h/1?cacertdir=%2Fca&sni=other", configured);
  EXPECT_TRUE(a.over_tls);
  EXPECT_EQ(a.tls.ca_file + '|' + a.tls.ca_path + '|' + a.tls.cert_file + '|' + a.tls.server_name, "|/ca|c|other");
  a = parse_address("rediss://h?cert=x", configured);
  EXPECT_EQ(a.tls.ca_file + '|' + a.tls.cert_file + '|' + a.tls.key_file, "mine|x|");
}

TEST(CliScan, MakesKeysOfNamesAndBack) {
  EXPECT_EQ(key_pattern("conch:", "*"), "conch:{*}");
  EXPECT_EQ(key_pattern("a*[b", "x?%}"), "a\\*\\[b{x*%25%7D}");
  EXPECT_EQ(key_pattern("", "[%]a\\*\\%["), "{*a\\*%25*}");
  EXPECT_EQ(name_in_key("conch:", "conch:{a%25b%7D}"), "a%b}");
  EXPECT_EQ(name_in_key("conch:", "conch:{a}:q"), "");
  EXPECT_EQ(name_in_key("conch:", "conch:{a}:q}"), "");
  EXPECT_EQ(name_in_key("conch:", "other:{a}"), "");
  EXPECT_EQ(name_in_key("conch:", "conch:{}"), "");
}

TEST(CliScan, MatchesNamesAsRedisMatchesKeys) {
  struct row {
    char const* pattern;
    char const* name;
    bool fits;
  };
  for (row const& one : std::vector<row>{
           {"", "", true},         {"", "a", false},          {"*", "", true},      {"a*c", "abbc", true}, {"a*c", "abbd", false},
           {"**a", "bba", true},   {"*a*b*", "xaxxbx", true}, {"?", "%", true},     {"a?b", "a}b", true},  {"a?b", "ab", false},
           {"[ab]", "b", true},    {"[ab]", "c", false},      {"[^ab]", "c", true}, {"[^ab]", "a", false}, {"[a-c]x", "bx", true},
           {"[c-a]x", "bx", true}, {"[%}]", "}", true},       {"[\\]]", "]", true}, {"[a", "a", true},     {"\\*", "*", true},
           {"\\*", "a", false},    {"a\\", "a\\", true},      {"a]", "a]", true},   {"A", "a", false},     {"*aab", "aaaab", true},
       }) {
    EXPECT_EQ(matches(one.pattern, one.name), one.fits) << one.pattern << ' ' << one.name;
  }
}

lock_status held_by(std::vector<std::int64_t> const& fences, std::uint64_t waiting) {
  lock_status s;
  s.held = s.taken = static_cast<std::uint32_t>(fences.size());
  s.waiting = waiting;
  for (std::int64_t const fence : fences) {
    lock_holder h;
    h.fence = fence;
    h.client = "client";
    s.holders.push_back(h);
  }
  return s;
}

TEST(WatchView, TellsWhatIsDifferentAndCountsNewGrants) {
  watch_view view;
  time_point const begin = time_point{} + 1h;
  EXPECT_EQ(view.look({{"a", held_by({1}, 0)}, {"b", held_by({2}, 3)}}, begin).size(), 2u);
  EXPECT_EQ(view.grants_per_second(), 0) << "nobody knows since when they are held";
  EXPECT_EQ(view.look({{"a", held_by({1}, 0)}, {"b", held_by({2}, 3)}}, begin + 1s).size(), 0u);
  auto const changes = view.look({{"a", held_by({4}, 0)}, {"c", held_by({5}, 0)}}, begin + 3s);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[2].name, "b");
  EXPECT_FALSE(changes[2].now.locked()) << "gone";
  EXPECT_EQ(view.grants_per_second(), 1.0) << "two in two seconds";
  EXPECT_EQ(view.look({{"a", held_by({4}, 1)}, {"c", held_by({5}, 0)}}, begin + 4s).size(), 1u) << "another waiter";
}

TEST(WatchView, FitsTheScreen) {
  watch_view view;
  watch_view::statuses all;
  for (int i = 0; i < 50; ++i) all.emplace_back("lock " + std::to_string(i) + "\x1b[2J", held_by({1 + i}, static_cast<std::uint64_t>(i)));
  view.look(all, time_point{} + 1h);
  std::vector<std::string> const lines = view.screen(10, 60, {});
  EXPECT_EQ(lines.size(), 10u);
  EXPECT_TRUE(lines[2].starts_with("lock 49\\x1b[2J")) << lines[2];
  EXPECT_EQ(lines.back(), "and 43 more");
  for (std::string const& line : lines) EXPECT_LE(columns_of(line), 60u);
  EXPECT_EQ(padded("für €uro", 5), "für €");
  EXPECT_EQ(padded("a", 3), "a  ");
  EXPECT_EQ(padded("漢字", 5), "漢字 ");
  EXPECT_EQ(padded("漢字", 3), "漢 ") << "half a character is none";
  EXPECT_EQ(columns_of("e\xcc\x81"), 1u) << "a combining mark";
  EXPECT_EQ(columns_of("🔒"), 2u);
}

// ---------------------------------------------------------------------------------------- doctor

TEST(CliWatch, FitsAScreenOfEightyColumnsAndAWideOne) {
  watch_view view;
  watch_view::statuses all;
  for (std::string const name : {"漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", "short", "\x1b[31mred"}) {
    lock_status s;
    s.kind = lock_status::kind_of_lock::shared_mutex;
    s.held = s.taken = 2;
    s.holders.push_back({.client = "0123456789abcdef0123456789abcdef", .fence = 4096});
    all.emplace_back(name, s);
  }
  view.look(all, time_point{} + 1s);
  for (std::size_t const columns : {40U, 80U, 124U, 125U, 200U}) {
    std::vector<std::string> const lines = view.screen(24, columns, {});
    ASSERT_EQ(lines.size(), 5u);
    for (std::string const& line : lines) {
      EXPECT_LE(columns_of(line), columns) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
    if (columns < 80) continue;
    // The holder of each is under the heading.
    std::size_t const holder = columns_of(lines[1].substr(0, lines[1].find("HOLDER")));
    for (std::size_t i = 2; i < 5; ++i) {
      auto const at = lines[i].find("01234567");
      ASSERT_NE(at, std::string::npos) << lines[i];
      EXPECT_EQ(columns_of(lines[i].substr(0, at)), holder) << lines[i];
      EXPECT_NE(lines[i].find(columns < 125 ? "+1" : "and 1 more"), std::string::npos) << lines[i];
    }
  }
}

TEST(CliWatch, CountsOneLock) {
  watch_view view;
  lock_status s;
  s.kind = lock_status::kind_of_lock::shared_mutex;
  s.held = s.taken = 1;
  s.limit = 1'000'000;
  view.look({{"a", s}}, time_point{} + 1s);
  std::vector<std::string> const lines = view.screen(24, 80, {});
  EXPECT_TRUE(lines[0].starts_with("1 lock, 0 waiting")) << lines[0];
  EXPECT_NE(lines[2].find("1 reader "), std::string::npos) << lines[2];
}

TEST(DoctorChecks, OfWhatInfoTells) {
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
    EXPECT_EQ(f.advice.empty(), f.how == verdict::ok) << "whoever reads it is told what to do: " << f.what;
  }
}

TEST(CliDoctor, SaysHowFullTheMemoryIs) {
  auto const of = [](char const* text) { return judge_memory(parse_info(text)); };
  EXPECT_FALSE(of("maxmemory:0\r\nused_memory:7\r\n"));
  EXPECT_EQ(of("maxmemory:100\r\nused_memory:7\r\n")->how, verdict::ok);
  EXPECT_EQ(of("maxmemory:100\r\nused_memory:95\r\n")->how, verdict::warning);
  EXPECT_EQ(of("maxmemory:100\r\nused_memory:100\r\n")->how, verdict::bad);
  EXPECT_NE(of("maxmemory:100\r\nused_memory:100\r\n")->advice.find("raise maxmemory"), std::string::npos);
}

TEST(CliDoctor, SaysWhatToDoOfEachFailure) {
  struct row {
    errc why;
    char const* words;
    char const* advice;  // a part of it; "": the words say it
  };
  for (row const& one : std::vector<row>{
           {errc::unreachable, "Connection refused", "check that it runs"},
           {errc::unreachable, "this looks like TLS: the URL then begins with rediss://", ""},
           {errc::protocol, "the server is a Sentinel", ""},
           {errc::server_refused, "OOM command not allowed when used memory > 'maxmemory'", "raise maxmemory"},
           {errc::server_refused, "READONLY You can't write against a read only replica.", "this is a replica"},
           {errc::unreachable, "the server is a replica", "this is a replica"},
           {errc::server_refused, "MISCONF Redis is configured to save RDB snapshots", "look at its disk"},
           {errc::server_refused, "NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"},
           {errc::server_refused, "ERR max number of clients reached", "maxclients"},
           {errc::tls_failed, "certificate verify failed", "tls-ca-file"},
           {errc::tls_failed, "wrong version number", "begin the URL with redis://"},
           {errc::unreachable, "no answer to the TLS handshake yet; is this a TLS port?", "begin the URL with redis://"},
           {errc::unreachable, "no answer to the greeting yet", "has it stopped"},
           {errc::access_denied, "WRONGPASS invalid username-password pair", "set user and password"},
           {errc::unreachable, "LOADING Redis is loading the dataset in memory", "not ready yet"},
           {errc::unreachable, "MASTERDOWN Link with MASTER is down", "not ready yet"},
           {errc::unreachable, "BUSY Redis is busy running a script", "SCRIPT KILL"},
           {errc::server_refused, "ERR DB index is out of range", "names a database"},
           {errc::server_refused, "the master 'm': redis-sentinel://a: does not know this name", "SENTINEL MASTERS"},
           {errc::server_refused, "this is no Sentinel; the URL of a server begins with redis://", ""},
           {errc::not_supported, "the server is no node of a Cluster; the URL of one server begins with redis://", ""},
       }) {
    finding const f = judge_failure("hand-over", make_error_code(one.why, one.words), "redis://h");
    EXPECT_EQ(f.how, verdict::bad);
    EXPECT_NE(f.words.find("redis://h: "), std::string::npos) << f.words;
    EXPECT_NE(f.words.find(one.words), std::string::npos) << f.words;
    if (*one.advice == '\0') {
      EXPECT_EQ(f.advice, "") << one.words;
    } else {
      EXPECT_NE(f.advice.find(one.advice), std::string::npos) << one.words << " -> " << f.advice;
    }
  }
}

TEST(DoctorChecks, OfSentinels) {
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

TEST(SentinelUrl, IsReadAsTheLibraryReadsIt) {
  config settings;
  settings.tls.ca_file = "/ca";
  sentinel_addresses const all = parse_sentinels("rediss-sentinel://u:p%40@a,b:7,[::1]/2?sentinelMasterId=the%20one&sni=server", settings);
  ASSERT_EQ(all.sentinels.size(), 3u);
  EXPECT_EQ(all.master, "the one");
  EXPECT_EQ(all.sentinels[0].host + ' ' + all.sentinels[0].port, "a 26379");
  EXPECT_EQ(all.sentinels[1].host + ' ' + all.sentinels[1].port, "b 7");
  EXPECT_EQ(all.sentinels[2].host + ' ' + all.sentinels[2].port, "::1 26379");
  for (server_address const& one : all.sentinels) {
    EXPECT_TRUE(one.over_tls);
    EXPECT_EQ(one.tls.ca_file, "/ca");
    EXPECT_TRUE(one.login.password.empty()) << "it is the servers'";
  }
  settings.sentinels_over_tls = false;
  EXPECT_FALSE(parse_sentinels("rediss-sentinel://a?sentinelMasterId=m", settings).sentinels[0].over_tls);

  std::string const url = url_of_server("rediss-sentinel://u:p%40@a,b/2?sentinelMasterId=m&sni=server", "::2", "7000");
  EXPECT_EQ(url, "rediss://u:p%40@[::2]:7000/2?sentinelMasterId=m&sni=server");
  server_address const master = parse_address(url, {});
  EXPECT_EQ(master.host + ' ' + master.port + ' ' + master.login.user + ' ' + master.login.password, "::2 7000 u p@");
  EXPECT_EQ(master.database, 2);
  EXPECT_EQ(master.tls.server_name, "server");
}

TEST(DoctorChecks, OfTimes) {
  EXPECT_EQ(judge_round_trip(1ms, 5ms).how, verdict::ok);
  EXPECT_EQ(judge_round_trip(30ms, 40ms).how, verdict::warning);
  EXPECT_EQ(judge_round_trip(1ms, 2s).how, verdict::bad);
  EXPECT_EQ(judge_hand_over(300us, 100us).how, verdict::ok);
  EXPECT_EQ(judge_hand_over(80ms, 1ms).how, verdict::warning);
  EXPECT_EQ(judge_clocks({{"a", 0s, 1ms}, {"b", 5ms, 1ms}, {"c", -5ms, 1ms}}).how, verdict::ok);
  finding const apart = judge_clocks({{"a", 0s, 1ms}, {"b", 300ms, 1ms}});
  EXPECT_EQ(apart.how, verdict::warning);
  EXPECT_NE(apart.words.find("b is ahead of a"), std::string::npos) << apart.words;
  EXPECT_EQ(judge_clocks({{"a", 0s, 1ms}, {"b", 2s, 1ms}}).how, verdict::bad);
  EXPECT_EQ(judge_clocks({{"a", 0s, 2s}, {"b", 2s, 1ms}}).how, verdict::ok) << "it may be the network";
}

TEST(DoctorChecks, OfServersThatAreOne) {
  EXPECT_EQ(judge_distinct({{"a", "1"}, {"b", "2"}, {"c", "3"}}, 2).how, verdict::ok);
  EXPECT_EQ(judge_distinct({{"a", ""}, {"b", ""}}, 2).how, verdict::ok) << "they do not tell";
  EXPECT_EQ(judge_distinct({{"a", "1"}}, 2).how, verdict::bad) << "the others are away";
  EXPECT_EQ(judge_distinct({}, 2).how, verdict::bad);
  finding const still = judge_distinct({{"a", "1"}, {"b", "2"}, {"c", "1"}}, 2);
  EXPECT_EQ(still.how, verdict::warning);
  EXPECT_NE(still.words.find("c is the same server as a"), std::string::npos) << still.words;
  EXPECT_EQ(judge_distinct({{"a", "1"}, {"b", "1"}, {"c", "1"}}, 2).how, verdict::bad);
  EXPECT_EQ(judge_distinct({{"a", "1"}, {"b", "2"}, {"c", "1"}}, 3).how, verdict::bad) << "votes_needed";
}

TEST(DoctorChecks, OfVersionsOfConch) {
  EXPECT_EQ(judge_client_versions({}, true).how, verdict::ok);
  EXPECT_EQ(judge_client_versions({}, false).how, verdict::ok) << "a right that no lock needs";
  finding const f = judge_client_versions({"0.1.0", "0.2.0"}, true);
  EXPECT_EQ(f.how, verdict::warning);
  EXPECT_NE(f.words.find("0.1.0, 0.2.0"), std::string::npos) << f.words;
}

TEST(DoctorChecks, OfReplicas) {
  struct row {
    char const* count;
    std::size_t synced;
    verdict how;
  };
  for (row const& one : {row{"0", 0, verdict::ok}, row{"2", 0, verdict::warning}, row{"2", 2, verdict::ok}, row{"2", 1, verdict::warning},
                         row{"1", 2, verdict::bad}, row{"0", 1, verdict::bad}}) {
    finding const f = judge_replicas(parse_info("connected_slaves:" + std::string{one.count} + "\r\n"), one.synced, false);
    EXPECT_EQ(f.how, one.how) << f.words;
    EXPECT_EQ(f.advice.empty(), f.how == verdict::ok) << f.words;
  }
  EXPECT_EQ(judge_replicas({}, 0, false).how, verdict::warning);
  EXPECT_EQ(judge_replicas(parse_info("connected_slaves:0\r\n"), 0, true).how, verdict::warning);

  std::vector<replica_address> const all =
      replicas_of(parse_info("role:master\r\nslave_repl_offset:7\r\nslave0:ip=10.0.0.2,port=6380,state=online,offset=1,lag=0\r\nslave1:ip=::1,port=7,"
                             "state=online\r\nslave2:\r\n"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].host + ' ' + all[0].port, "10.0.0.2 6380");
  EXPECT_EQ(all[1].host + ' ' + all[1].port, "::1 7");
}

// D27
TEST(DoctorChecks, OfTheClocksOfAMasterAndItsReplicas) {
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
  EXPECT_EQ(judge_replica_clocks({{"master", 0s, 1ms}, {"b", 1s, 1ms}}, {"a: connection refused"}, 30s).how, verdict::bad);
}

TEST(DoctorChecks, OfTheWayToTheServer) {
  EXPECT_EQ(judge_way("TLSv1.3", false, true).how, verdict::ok);
  EXPECT_EQ(judge_way("", true, true).how, verdict::ok);
  EXPECT_EQ(judge_way("", false, true).how, verdict::warning);
  EXPECT_EQ(judge_way("", false, false).how, verdict::warning);
}

TEST(DoctorChecks, SayOfEachRightWhatFailsWithoutIt) {
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

TEST(DoctorChecks, OfACluster) {
  EXPECT_EQ(judge_cluster({{"a:1", 8192}, {"b:1", 8192}}).how, verdict::ok);
  finding const f = judge_cluster({{"a:1", 8192}, {"b:1", 8191}});
  EXPECT_EQ(f.how, verdict::bad);
  EXPECT_NE(f.words.find("1 slots have no master"), std::string::npos) << f.words;
}

/// An answer as the reader makes it.
reply read(std::string_view bytes) {
  reply_reader reader;
  reader.append(bytes);
  return reader.next().value();
}

TEST(ClusterMasters, AreReadFromTheirSlots) {
  std::string const node = "*3\r\n$1\r\na\r\n:7000\r\n$2\r\nid\r\n", nameless = "*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n";
  std::vector<cluster_master> const all = read_masters(
      read("*3\r\n*4\r\n:0\r\n:99\r\n" + node + nameless + "*3\r\n:100\r\n:100\r\n" + nameless + "*4\r\n:101\r\n:16383\r\n" + node + node), "::1");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].address(), "a:7000");
  EXPECT_EQ(all[0].slots, 16383u);
  EXPECT_EQ(all[1].address(), "[::1]:7001");
  EXPECT_EQ(all[1].slots, 1u);
  for (char const* const wrong : {":1\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n"})
    EXPECT_THROW(read_masters(read(wrong), "a"), failure) << wrong;
}

TEST(ClusterMasters, HaveUrlsWithWhatThatOfTheClusterSays) {
  EXPECT_TRUE(names_cluster("redis-cluster://a"));
  EXPECT_TRUE(names_cluster("valkeys-cluster://a"));
  EXPECT_FALSE(names_cluster("redis://a-cluster://b"));
  EXPECT_EQ(url_of_server("rediss-cluster://u:p%40@a,b?cacert=/c", "::2", "7000"), "rediss://u:p%40@[::2]:7000?cacert=/c");
  EXPECT_EQ(url_of_server("valkey-cluster://a,b", "c", "7000"), "redis://c:7000");
}

TEST(CliMeasure, Quantiles) {
  std::vector<duration> all;
  for (int i = 100; i >= 1; --i) all.emplace_back(i * 1ms);
  EXPECT_EQ(quantile(all, 0.5), duration{51ms});
  EXPECT_EQ(quantile(all, 0.99), duration{100ms});
  EXPECT_EQ(quantile({1ms}, 0.5), duration{1ms});
}

}  // namespace
}  // namespace conch::cli
