// What `conch doctor` and `conch list` make of an ensemble's answers.
#include "servers/zookeeper/examination.hpp"

#include "base/glob.hpp"
#include "servers/probe.hpp"
#include "servers/urls.hpp"
#include "servers/zookeeper/line_status.hpp"
#include "servers/zookeeper/names.hpp"

#include <gtest/gtest.h>

namespace conch::zookeeper {
namespace {

using namespace std::chrono_literals;
using servers::verdict;

TEST(ZookeeperExamination, ReadsWhatAServerSaysOfItself) {
  server_word const word = read_word(
      "zookeeper://a:1", "Zookeeper version: 3.8.0-5a02a05, built on 2022\nLatency: 0\nMode: leader\nNode count: 5\n");
  EXPECT_EQ(word.version, "3.8.0");
  EXPECT_EQ(word.mode, "leader");
  EXPECT_EQ(word.trouble, "");
  EXPECT_EQ(read_word("a", "srvr is not executed because it is not in the whitelist.\n").trouble,
            "it does not answer srvr (4lw.commands.whitelist)");
  EXPECT_EQ(read_word("a", "This ZooKeeper instance is not currently serving requests\n").trouble,
            "This ZooKeeper instance is not currently serving requests");
  EXPECT_EQ(read_word("a", "\x1b[2J\n").trouble, "\\x1b[2J");
}

TEST(ZookeeperExamination, CountsOnAMajority) {
  server_word const leader{"a", "3.8.0", "leader", ""}, follower{"b", "3.8.0", "follower", ""},
      away{"c", "", "", "Connection refused"}, alone{"d", "3.8.0", "standalone", ""};
  EXPECT_EQ(judge_ensemble({leader, follower}).how, verdict::ok);
  EXPECT_EQ(judge_ensemble({leader, follower, away}).how, verdict::warning);
  EXPECT_EQ(judge_ensemble({leader, follower, away}).words, "a: leader; b: follower; c: Connection refused");
  EXPECT_EQ(judge_ensemble({alone}).how, verdict::ok);
  EXPECT_EQ(judge_ensemble({leader, alone}).how, verdict::bad) << "two servers that know nothing of each other";
}

TEST(ZookeeperExamination, KnowsTheOldestVersion) {
  auto const of = [](std::string version) { return judge_version({{"a", std::move(version), "leader", ""}}); };
  EXPECT_EQ(of("3.5.2").how, verdict::bad);
  EXPECT_EQ(of("3.5.3").how, verdict::ok);
  EXPECT_EQ(of("3.10.0").how, verdict::ok);
  EXPECT_EQ(of("").words, "not known: no server answers srvr (4lw.commands.whitelist)");
}

TEST(ZookeeperExamination, ComparesTheSessionWithWhatIsNeeded) {
  EXPECT_EQ(judge_session({30s, 30s, 8s, 30s}).how, verdict::ok);
  EXPECT_EQ(judge_session({30s, 20s, 8s, 30s}).how, verdict::warning);
  EXPECT_EQ(judge_session({30s, 4s, 8s, 30s}).how, verdict::bad);
}

TEST(ZookeeperExamination, LooksForOthersWhoMayChangeTheRoot) {
  std::vector<right> const open{{31, "world", "anyone"}}, own{{31, "digest", "u:x"}},
      shared{{31, "digest", "u:x"}, {31, "digest", "admin:x"}};
  EXPECT_EQ(judge_root({"/conch", status::ok, open, ""}).how, verdict::ok);
  EXPECT_EQ(judge_root({"/conch", status::ok, open, "u"}).how, verdict::bad);
  EXPECT_EQ(judge_root({"/conch", status::ok, own, "u"}).words, "/conch is for this user only");
  EXPECT_EQ(judge_root({"/conch", status::ok, shared, "u"}).words, "/conch may also be changed by digest:admin");
  EXPECT_EQ(judge_root({"/conch", status::ok, own, ""}).how, verdict::warning);
  EXPECT_EQ(judge_root({"/conch", status::no_node, {}, ""}).how, verdict::ok);
  EXPECT_EQ(judge_root({"/conch", status::no_auth, {}, "u"}).how, verdict::bad);
}

TEST(ZookeeperLineStatus, TellsHoldersFromWaiters) {
  line_status const mutex = read_line({"b.1-0000000005", "a.1-0000000003", "no node of a lock"});
  EXPECT_EQ(mutex.status.kind, lock_status::kind_of_lock::mutex);
  EXPECT_EQ(mutex.status.held, 1u);
  EXPECT_EQ(mutex.status.waiting, 1u);
  ASSERT_EQ(mutex.status.holders.size(), 1u);
  EXPECT_EQ(mutex.status.holders[0].client, "a");
  EXPECT_EQ(mutex.status.holders[0].lease_left, servers::unknown_lease);
  EXPECT_EQ(mutex.holders, std::vector<std::string>{"a.1-0000000003"});
  line_status const readers =
      read_line({"a~r.1-0000000001", "b~r.1-0000000002", "c~w.1-0000000003", "d~r.1-0000000004"});
  EXPECT_EQ(readers.status.readers(), 2u);
  EXPECT_EQ(readers.status.waiting, 2u) << "a reader does not pass a writer";
  line_status const permits = read_line({"a~s2of3.1-0000000001", "b~s1of3.1-0000000002", "c~s1of3.1-0000000003"});
  EXPECT_EQ(permits.status.taken, 3u);
  EXPECT_EQ(permits.status.limit, 3u);
  EXPECT_EQ(permits.status.waiting, 1u);
  EXPECT_FALSE(read_line({}).status.locked());
  line_status const kept = read_line({"a~k1500c7.1-0000000001", "b.1-0000000002"});
  EXPECT_EQ(kept.status.held, 1u);
  EXPECT_EQ(kept.status.waiting, 1u);
  EXPECT_EQ(kept.status.holders[0].client, "a");
  EXPECT_EQ(kept.holders, std::vector<std::string>{"a~k1500c7.1-0000000001"});
  line_status const both = read_line({"a~k1500c7.1-0000000001", "a~i1500.1-0000000001"});
  EXPECT_EQ(both.holders, std::vector<std::string>{"a~i1500.1-0000000001"});
}

TEST(ZookeeperNames, AreReadBack) {
  std::vector<std::string> const names{"a", "b/%}", ".clients", "zookeeper", "\x01\xff", "ä"};
  for (std::string const& name : names) EXPECT_EQ(decoded(encoded(name)), name);
  for (char const* other : {"", ".clients", "zookeeper", "a%", "a%4", "%61", "%zz", "a/b"})
    EXPECT_EQ(decoded(other), std::nullopt) << other;
}

TEST(Glob, MatchesOneOfThePatterns) {
  EXPECT_TRUE(matches_one({}, "a"));
  EXPECT_TRUE(matches_one({"b", "a*"}, "abc"));
  EXPECT_FALSE(matches_one({"b", "a?"}, "abc"));
}

TEST(ServersLogin, ReplacesWhatTheUrlSays) {
  using servers::with_login;
  EXPECT_EQ(with_login("postgresql://app:old@h/db", {"", "new"}), "postgresql://app:new@h/db");
  EXPECT_EQ(with_login("postgresql://h/a@b", {"u", "p"}), "postgresql://u:p@h/a@b");
  EXPECT_EQ(with_login("zookeeper://h", {"u", "\xc3\xa4 "}), "zookeeper://u:%C3%A4%20@h");
}

}  // namespace
}  // namespace conch::zookeeper
