// What is said with one Sentinel.

#include "servers/redis/topology/sentinel_talk.hpp"

#include "support/messages.hpp"
#include "unit/connection_fsm_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace conch::redis {
namespace {

using progress = dialogue::progress;

std::string map_of(texts const& words) {
  std::string out = "%" + std::to_string(words.size() / 2) + "\r\n";
  for (std::string const& word : words) out += bulk(word);
  return out;
}

std::string const hello = map_of({"server", "redis", "version", "7.0.15", "mode", "sentinel"});
std::string const subscribed = ">3\r\n" + bulk("subscribe") + bulk("+switch-master") + ":1\r\n";
std::string const denied = "-NOPERM this user has no permissions\r\n";

std::string others(std::vector<texts> const& all) {
  std::string out = "*" + std::to_string(all.size()) + "\r\n";
  for (texts const& one : all) out += map_of(one);
  return out;
}

std::string epoch(std::string const& n) { return map_of({"name", "m", "ip", "old", "config-epoch", n, "quorum", "2"}); }
std::string at(std::string const& host, std::string const& port = "6379") { return "*2\r\n" + bulk(host) + bulk(port); }

/// One Sentinel, and what the core has made of it.
struct conversation {
  conversation() { core.begin(now); }

  progress hear(std::string const& bytes) {
    in.reset();
    test::feed(in, bytes);
    progress last = progress::greeting;
    for (;;) {
      auto const next = in.next();
      if (next == resp::decoder::progress::need_more) return last;
      EXPECT_EQ(next, resp::decoder::progress::message) << in.error();
      if (next != resp::decoder::progress::message) return last;
      last = talk.received(in.message(), in.is_push(), now);
    }
  }
  std::string where() {
    address to;
    auto const found = core.locate(to);
    return found.what == location::kind::here ? to.host + ":" + std::to_string(to.port) : found.words;
  }
  std::string said() const { return std::to_string(static_cast<int>(talk.fault())) + ": " + talk.why(); }

  time_point now{1000s};
  std::map<std::string, std::string> none;
  sentinels core{parse_sentinels("redis-sentinel://s?sentinelMasterId=m"), {.refresh = 10s, .patience = 3s}, none};
  struct counting : sentinel_talk::owner {
    void carry_out() override { ++times; }
    int times = 0;
  } owner;
  sentinel_talk talk{core, 0, owner};
  resp::decoder in;
};

address sentinel_with(std::string user, std::string password) {
  address a;
  a.host = "s";
  a.user = std::move(user);
  a.password = std::move(password);
  return a;
}

std::string command(texts const& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (std::string const& word : words) out += bulk(word);
  return out;
}

std::string const question =
    command({"SENTINEL", "MASTER", "m"}) + command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"});

TEST(SentinelTalk, BeginsWithAllInOnePieceAndAsksBehindTheSubscription) {
  conversation c;
  EXPECT_EQ(c.talk.begin(sentinel_with("u", "p"), "conch"),
            command({"HELLO", "3", "AUTH", "u", "p", "SETNAME", "conch"}) + command({"SENTINEL", "MYID"}) +
                command({"SUBSCRIBE", "+switch-master"}) + command({"SENTINEL", "SENTINELS", "m"}) + question);
  EXPECT_EQ(c.talk.begin(sentinel_with("", ""), "conch").substr(0, 30),
            command({"HELLO", "3", "SETNAME", "conch"}).substr(0, 30));
}

TEST(SentinelTalk, IsGoodWhenTheMasterIsNamed) {
  conversation c;
  c.talk.begin(sentinel_with("", ""), "conch");
  EXPECT_EQ(c.hear(hello + bulk("me") + subscribed), progress::greeting);
  EXPECT_EQ(
      c.hear(others({{"name", "x", "ip", "10.0.0.2", "port", "26380", "runid", "you", "flags", "sentinel"},
                     {"ip", "10.0.0.3", "port", "26380", "runid", "gone", "flags", "s_down,sentinel,disconnected"},
                     {"ip", "", "port", "26380", "runid", "no host", "flags", "sentinel"},
                     {"ip", "h", "port", "66000", "runid", "no port", "flags", "sentinel"}})),
      progress::greeting);
  EXPECT_EQ(c.hear(epoch("7")), progress::greeting);
  EXPECT_EQ(c.hear(at("10.0.0.1", "7001")), progress::good);
  EXPECT_EQ(c.where(), "10.0.0.1:7001");
  EXPECT_EQ(c.core.take().listen, (std::vector<std::size_t>{0, 1})) << "only the one that is there";
  address other;
  c.core.locate(1, other);
  EXPECT_EQ(other.shown(), "redis://10.0.0.2:26380");
  EXPECT_EQ(c.talk.question(), question);
}

TEST(SentinelTalk, TheAddressCountsAndNotTheOneBesideTheEpoch) {
  // The leader of a failover: its list has the old address until all replicas have been told.
  conversation c;
  c.talk.begin(sentinel_with("", ""), "conch");
  c.hear(hello + bulk("me") + subscribed + "*0\r\n" + epoch("8") + at("new"));
  EXPECT_EQ(c.where(), "new:6379");
}

TEST(SentinelTalk, AnEventOfOurMasterAsksAgainAndTheAnswerMovesIt) {
  conversation c;
  c.talk.begin(sentinel_with("", ""), "conch");
  c.hear(hello + bulk("me") + subscribed + "*0\r\n" + epoch("1") + at("a"));
  EXPECT_TRUE(c.core.take().moved);
  EXPECT_EQ(c.hear(push({"message", "+switch-master", "other a 1 b 2"})), progress::good);
  EXPECT_EQ(c.hear(push({"message", "+sdown", "m a 1 b 2"})), progress::good);
  EXPECT_TRUE(c.core.take().ask.empty());
  EXPECT_EQ(c.hear(push({"message", "+switch-master", "m a 1 b 2"})), progress::good);
  EXPECT_EQ(c.core.take().ask, std::vector<std::size_t>{0});
  (void)c.talk.question();
  EXPECT_EQ(c.hear(epoch("2") + at("b", "2")), progress::good);
  EXPECT_TRUE(c.core.take().moved);
  EXPECT_EQ(c.where(), "b:2");
}

TEST(SentinelTalk, EachRightThatIsMissingHasItsEffect) {
  struct row {
    std::string name, id, subscribed, others, epoch, master;
    progress end;
    std::string where;
  };
  std::string const id = bulk("me"), none = "*0\r\n", a = at("a");
  for (auto const& r : std::vector<row>{
           {"no id", denied, subscribed, none, epoch("1"), a, progress::good, "a:6379"},
           {"no events", id, denied, none, epoch("1"), a, progress::good, "a:6379"},
           {"no others", id, subscribed, denied, epoch("1"), a, progress::good, "a:6379"},
           {"no epoch", id, subscribed, none, denied, a, progress::good, "a:6379"},
           {"no address", id, subscribed, none, epoch("1"), denied, progress::failed,
            "redis-sentinel://s:26379: no answer yet"},
       }) {
    conversation c;
    c.talk.begin(sentinel_with("", ""), "conch");
    EXPECT_EQ(c.hear(hello + r.id + r.subscribed + r.others + r.epoch + r.master), r.end) << r.name;
    EXPECT_EQ(c.where(), r.where) << r.name;
    EXPECT_EQ(c.said(), r.end == progress::failed ? "5: NOPERM this user has no permissions" : "0: ") << r.name;
  }
}

TEST(SentinelTalk, D20AMasterThatItDoesNotKnowIsTold) {
  conversation c;
  c.talk.begin(sentinel_with("", ""), "conch");
  std::string const no_such = "-ERR No such master with that name\r\n";
  EXPECT_EQ(c.hear(hello + bulk("me") + subscribed + no_such + no_such + "_\r\n"), progress::good);
  EXPECT_EQ(c.where(), "redis-sentinel://s:26379: does not know this name");
}

TEST(SentinelTalk, FailsWithTheReason) {
  struct row {
    std::string bytes, said;
  };
  for (auto const& [bytes, said] : std::vector<row>{
           {"-NOAUTH HELLO must be called with the client already authenticated\r\n",
            "5: NOAUTH HELLO must be called with the client already authenticated"},
           {"-WRONGPASS invalid\r\n", "5: WRONGPASS invalid"},
           {"-ERR unknown command 'HELLO'\r\n",
            "7: Redis 6.2 or newer is needed, with HELLO; the server answered: ERR unknown command 'HELLO'"},
           {map_of({"server", "redis", "mode", "standalone"}),
            "6: this is not a Sentinel; the URL of a server begins with redis://"},
           {"+OK\r\n", "7: the answer to HELLO is not a map"},
           {hello + bulk("me") + subscribed + "*0\r\n" + epoch("1") + "*1\r\n" + bulk("a"),
            "7: the answer is not the address of a master"},
           {hello + bulk("me") + subscribed + "*0\r\n" + epoch("1") + at("a", "0"),
            "7: the answer is not the address of a master"},
           {hello + bulk("me") + subscribed + "*0\r\n" + epoch("1") + at("a") + bulk("more"), "7: an unexpected reply"},
       }) {
    conversation c;
    c.talk.begin(sentinel_with("", ""), "conch");
    EXPECT_EQ(c.hear(bytes), progress::failed) << bytes;
    EXPECT_EQ(c.said(), said) << bytes;
  }
}

TEST(SentinelTalk, OfAConnectionIsForgottenWithIt) {
  conversation c;
  c.talk.begin(sentinel_with("", ""), "conch");
  c.hear(hello + bulk("me"));
  c.talk.ended(protocol::fault::try_later, "read: reset");
  EXPECT_EQ(c.where(), "read: reset");
  c.talk.begin(sentinel_with("", ""), "conch");
  EXPECT_EQ(c.hear(hello + bulk("me") + subscribed + "*0\r\n" + epoch("1") + at("a")), progress::good);
  EXPECT_EQ(c.where(), "a:6379");
}

TEST(SentinelTalk, TellsItsOwnerOfAllThatTheCoreHears) {
  conversation c;
  address to;
  EXPECT_EQ(c.talk.locate(to, c.now).what, location::kind::here);
  EXPECT_EQ(to.shown(), "redis://s:26379");
  c.talk.begin(to, "conch");
  EXPECT_EQ(c.owner.times, 0);
  c.hear(hello + bulk("me") + subscribed + "*0\r\n" + epoch("1") + at("a"));
  EXPECT_EQ(c.owner.times, 6) << "answers";
  c.hear(push({"message", "+switch-master", "m a 6379 b 6380"}));
  EXPECT_EQ(c.owner.times, 7) << "and events";
  c.talk.ended(protocol::fault::try_later, "read: reset");
  EXPECT_EQ(c.owner.times, 8) << "and the end";
}

}  // namespace
}  // namespace conch::redis
