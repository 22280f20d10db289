// The state machine of a connection to ZooKeeper: what it wants done, and what it tells the session.
#include "servers/zookeeper/connection_fsm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::zookeeper {
namespace {

using namespace std::chrono_literals;
using texts = std::vector<std::string>;

std::string frame(std::string const& bytes) {
  std::string out(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(bytes.size() >> (8 * (3 - i)) & 255U);
  return out + bytes;
}

std::string number(std::int64_t n, std::size_t size) {
  std::string out;
  for (std::size_t i = size; i-- > 0;) out += static_cast<char>(static_cast<std::uint64_t>(n) >> (8 * i) & 255U);
  return out;
}

std::string const greeting =
    frame(number(0, 4) + number(12'000, 4) + number(7, 8) + number(16, 4) + std::string(16, 'p') + '\0');
std::string answer_to(std::int32_t xid, status what = status::ok) {
  return frame(number(xid, 4) + number(5, 8) + number(static_cast<int>(what), 4));
}

class ZookeeperConnection : public ::testing::Test, public wire_events {
 protected:
  static address server(std::string host, bool over_tls = false) {
    address a;
    a.host = std::move(host);
    a.over_tls = over_tls;
    return a;
  }

  ZookeeperConnection() { fsm.report_to(*this); }

  void connected(time_point) override {
    told.emplace_back("connected");
    if (greets) fsm.greet({0, 12'000, 0, ""});
  }
  void greeted(connect_response const& c, time_point) override {
    told.push_back("session " + std::to_string(c.session));
  }
  void answered(reply const& r, time_point) override {
    told.push_back("answer " + std::to_string(static_cast<int>(r.what)));
    if (drops) fsm.drop("enough", ending::of_no_use);
  }
  void answered_ping(std::int64_t, time_point) override { told.emplace_back("ping"); }
  void noticed(notice const& n, time_point) override { told.push_back("notice " + n.path); }
  void disconnected(fault what, std::string_view why, time_point) override {
    told.push_back((what == fault::malformed    ? "malformed: "
                    : what == fault::tls_failed ? "tls: "
                                                : "") +
                   std::string{why});
  }

  /// What it wants done, in words. What is to be written is written.
  texts done() { return done(fsm); }
  texts done(connection_fsm& one) {
    texts all;
    for (net::steps a = one.life().take(); a.any(); a = one.life().take()) {
      for (log_line const& line : one.life().take_log()) logged.push_back(line.words);
      if (a.close) all.emplace_back("close");
      if (a.sleep) until = a.until;
      if (a.resolve) all.push_back("resolve " + one.where().host);
      if (a.connect) all.push_back("connect " + std::to_string(one.life().address_number()));
      if (a.handshake) all.emplace_back("handshake");
      if (a.read) all.emplace_back("read");
      if (a.write) {
        all.push_back("write " + std::to_string(one.bytes().size()));
        one.written(one.bytes().size());
      }
    }
    return all;
  }
  texts want() { return want(fsm); }
  /// For the first time, or until the pause has ended.
  texts want(connection_fsm& one, duration lease = 10s) {
    std::size_t const before = told.size();
    if (!one.want(lease)) now = std::max(now, until);
    one.life().due(now);
    EXPECT_EQ(told.size(), before);
    return done(one);
  }
  texts take_told() { return std::exchange(told, {}); }
  void hear(std::string_view bytes) {
    while (!bytes.empty()) {
      auto const room = fsm.room();
      std::size_t const n = std::min(room.size(), bytes.size());
      std::copy_n(bytes.begin(), n, room.begin());
      bytes.remove_prefix(n);
      fsm.received(n, now);
    }
  }
  void be_up() {
    want();
    fsm.life().resolved({{"1.1.1.1"}}, now);
    fsm.life().connected(now);
    hear(greeting);
    done();
    told.clear();
  }
  void be_in_use() {
    be_up();
    fsm.in_use(10s, now);
    done();
  }

  config settings;
  connection_fsm fsm{settings, {server("a"), server("b"), server("c")}, 1, 1};
  time_point now{1000s};
  time_point until{};
  bool greets = true, drops = false;
  texts told, logged;
};

TEST_F(ZookeeperConnection, ConnectsWhenItIsWanted) {
  fsm.life().due(now);
  EXPECT_EQ(done(), texts{});
  EXPECT_EQ(want(), texts{"resolve b"});
  fsm.life().resolved({{"1.1.1.1", "2.2.2.2"}}, now);
  EXPECT_EQ(done(), texts{"connect 0"});
  fsm.failed("refused", now);
  EXPECT_EQ(done(), (texts{"close", "connect 1"}));
  fsm.life().connected(now);
  EXPECT_EQ(done(), (texts{"read", "write 49"}));
  hear(greeting);
  EXPECT_EQ(take_told(), (texts{"connected", "session 7"}));
}

TEST_F(ZookeeperConnection, TakesTheNextServerForEachAttempt) {
  for (std::string const host : {"b", "c", "a", "b"}) {
    EXPECT_EQ(want(), texts{"resolve " + host});
    fsm.life().resolved({{}, true, "no such host"}, now);
    EXPECT_EQ(take_told(), texts{"no such host"});
    EXPECT_EQ(done(), texts{"close"});
  }
  EXPECT_EQ(logged.front(), "cannot connect to zookeeper://b:2181: no such host");
}

TEST_F(ZookeeperConnection, PausesOnceAllServersWereTried) {
  settings.reconnect_min = settings.reconnect_max = 1s;
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (int left = 2; left >= 0; --left) {
      want();
      fsm.life().resolved({{}, true, "no such host"}, now);
      done();
      duration const pause = until - now;
      bool const goes_on = left > 0 || attempt == 0;  // the first pause of all is none
      if (goes_on) {
        EXPECT_EQ(pause, 0s);
      } else {
        EXPECT_GE(pause, 500ms);
      }
    }
  }
}

TEST_F(ZookeeperConnection, WhatNoServerGrantsIsAskedForAgainAfterAPause) {
  settings.reconnect_min = settings.reconnect_max = 1s;
  be_up();
  fsm.drop("it has ended", ending::over);
  fsm.end_turn(now);
  done();
  EXPECT_EQ(until, now) << "another session begins";
  for (int refusal = 0; refusal < 2; ++refusal) {  // the first pause of all is none
    be_up();
    fsm.drop("not allowed", ending::refused);
    fsm.end_turn(now);
    done();
  }
  EXPECT_GE(until - now, 500ms) << "whatever other servers there are";
  EXPECT_EQ(told, texts{});
}

TEST_F(ZookeeperConnection, GivesAnswersInTheOrderOfAskingAndPingsAndNoticesBetweenThem) {
  be_up();
  fsm.send(remove{"/a"});
  fsm.send(ping{});
  fsm.send(sync{"/b"});
  fsm.end_turn(now);
  EXPECT_EQ(done(), texts{"write 52"}) << "together";
  hear(answer_to(ping_xid) + answer_to(1, status::no_node) +
       frame(number(notice_xid, 4) + number(-1, 8) + number(0, 4) + number(2, 4) + number(3, 4) + number(2, 4) + "/x"));
  hear(frame(number(2, 4) + number(5, 8) + number(0, 4) + number(2, 4) + "/b"));
  EXPECT_EQ(take_told(), (texts{"ping", "answer -101", "notice /x", "answer 0"}));
  EXPECT_EQ(done(), texts{"read"});
}

TEST_F(ZookeeperConnection, AnAnswerThatOvertakesAnotherEndsTheConnectionAndNotTheWaits) {
  be_up();
  fsm.send(remove{"/a"});
  fsm.send(remove{"/b"});
  fsm.end_turn(now);
  done();
  hear(answer_to(2, status::no_node));
  EXPECT_EQ(take_told(), texts{"an answer to request 2 (status -101), and the next is that to request 1"})
      << "not malformed, which would be final";
  EXPECT_EQ(done(), texts{"close"});
}

TEST_F(ZookeeperConnection, AnAnswerThatNobodyHasAskedForEndsTheConnection) {
  be_up();
  hear(answer_to(7));
  EXPECT_EQ(take_told(), texts{"an answer to request 7 (status 0), and none is due"});
  EXPECT_EQ(done(), texts{"close"});
}

TEST_F(ZookeeperConnection, SaysWhatAnotherKindOfServerLooksLike) {
  for (auto const& [bytes, words] : {std::pair{"HTTP/1.1 400 Bad Request\r\n", "this looks like HTTP"},
                                     std::pair{"-ERR unknown command", "it answered '-ERR unknown command'"},
                                     std::pair{"\x15\x03\x03\x02\x02P and more", "begins with zookeepers://"}}) {
    want();
    fsm.life().resolved({{"1.1.1.1"}}, now);
    fsm.life().connected(now);
    hear(bytes);
    ASSERT_EQ(told.size(), 2u);
    EXPECT_NE(told.back().find(words), std::string::npos) << told.back();
    done();
    told.clear();
  }
}

TEST_F(ZookeeperConnection, SaysWhyAServerMayEndAConnectionWithoutAWord) {
  want();
  fsm.life().resolved({{"1.1.1.1"}}, now);
  fsm.life().connected(now);
  fsm.failed("end of file", now);
  EXPECT_EQ(take_told(), (texts{"connected",
                                "end of file, before it gave a session: it may have no quorum at present, or too many "
                                "connections (maxClientCnxns, maxCnxns); or this "
                                "port is one of TLS, and the URL begins with zookeepers://"}));
}

TEST_F(ZookeeperConnection, WhatIsDroppedTellsNothingMore) {
  be_in_use();
  drops = true;
  fsm.send(remove{"/a"});
  fsm.send(remove{"/b"});
  fsm.end_turn(now);
  done();
  hear(answer_to(1) + answer_to(2));
  EXPECT_EQ(take_told(), texts{"answer 0"});
  fsm.failed("end of file", now);
  EXPECT_EQ(take_told(), texts{});
  fsm.end_turn(now);
  EXPECT_EQ(done(), texts{"close"});
  EXPECT_EQ(logged.back(), "lost the connection to zookeeper://b:2181: enough");
  EXPECT_EQ(want(), texts{"resolve c"});
}

TEST_F(ZookeeperConnection, WhatIsSentOnAConnectionThatIsDroppedIsNotWrittenOnTheNext) {
  be_up();
  fsm.send(remove{"/a"});
  fsm.drop("enough", ending::of_no_use);
  fsm.send(remove{"/b"});
  fsm.end_turn(now);
  EXPECT_EQ(done(), texts{"close"});
  EXPECT_EQ(want(), texts{"resolve c"});
  fsm.life().resolved({{"1.1.1.1"}}, now);
  greets = false;
  fsm.life().connected(now);
  EXPECT_EQ(done(), (texts{"connect 0", "read"}));
}

TEST_F(ZookeeperConnection, NumbersOfRequestsGoOnOverConnections) {
  be_up();
  fsm.send(sync{"/"});
  fsm.end_turn(now);
  done();
  fsm.failed("end of file", now);
  be_up();
  fsm.send(remove{"/a"});
  fsm.end_turn(now);
  done();
  hear(answer_to(2));
  EXPECT_EQ(take_told(), texts{"answer 0"});
}

TEST_F(ZookeeperConnection, WritesOneThingAfterAnother) {
  be_up();
  fsm.send(ping{});
  fsm.end_turn(now);
  EXPECT_TRUE(fsm.life().take().write);
  std::size_t const all = fsm.bytes().size();
  fsm.written(all - 3);
  EXPECT_TRUE(fsm.life().take().write);
  EXPECT_EQ(fsm.bytes().size(), 3u);
  fsm.send(sync{"/"});
  fsm.end_turn(now);
  EXPECT_FALSE(fsm.life().take().any()) << "the rest of the first is under way";
  fsm.written(3);
  EXPECT_TRUE(fsm.life().take().write);
  EXPECT_EQ(fsm.bytes().size(), 17u);
}

TEST_F(ZookeeperConnection, ShutsDownBehindWhatIsSent) {
  be_up();
  fsm.send(close_session{});
  fsm.life().shut_down();
  EXPECT_TRUE(fsm.life().take().write);
  fsm.written(fsm.bytes().size());
  EXPECT_EQ(done(), texts{"close"});
  EXPECT_EQ(want(), texts{});
}

TEST_F(ZookeeperConnection, ShakesHandsWhereTheUrlSaysTls) {
  connection_fsm over_tls{settings, {server("a", true)}, 0, 1};
  over_tls.report_to(*this);
  want(over_tls);
  over_tls.life().resolved({{"1.1.1.1"}}, now);
  over_tls.life().connected(now);
  EXPECT_EQ(done(over_tls), (texts{"connect 0", "handshake"}));
  EXPECT_EQ(told, texts{});
  over_tls.failed("the certificate has expired", now, fault::tls_failed);
  EXPECT_EQ(told, texts{"tls: the certificate has expired"});
}

TEST_F(ZookeeperConnection, AnEndInTheHandshakeMayBeThatOfAPlainPort) {
  connection_fsm over_tls{settings, {server("a", true)}, 0, 1};
  over_tls.report_to(*this);
  want(over_tls);
  over_tls.life().resolved({{"1.1.1.1"}}, now);
  over_tls.life().connected(now);
  over_tls.failed("end of file", now);
  EXPECT_EQ(told,
            texts{"end of file, in the TLS handshake: if this port is without TLS, the URL begins with zookeeper://"});
}

// ---- which server comes next, and for how long

TEST_F(ZookeeperConnection, ASilentServerOfThreeCostsANinthOfTheSession) {
  EXPECT_EQ(want(fsm, 9s), texts{"resolve b"});
  EXPECT_EQ(until, now + 1s);
  fsm.life().resolved({{"1.1.1.1"}}, now);
  EXPECT_EQ(done(), texts{"connect 0"});
  EXPECT_EQ(until, now + 1s);
  EXPECT_TRUE(fsm.has_another());
  now += 1s;
  fsm.life().due(now);
  EXPECT_EQ(take_told(), texts{"no answer for 1000 ms"});
  EXPECT_EQ(done(), texts{"close"}) << "it has one address";
  EXPECT_EQ(want(), texts{"resolve c"});
  EXPECT_EQ(until, now + 1s);
  now += 1s;
  fsm.life().due(now);
  EXPECT_EQ(take_told(), texts{"the name is not looked up after 1000 ms"});
}

TEST_F(ZookeeperConnection, OneServerHasAllTheTimeThereIs) {
  connection_fsm alone{settings, {server("a")}, 7, 1};
  alone.report_to(*this);
  want(alone);
  EXPECT_EQ(until, now + 5s);
  EXPECT_FALSE(alone.has_another());
}

TEST_F(ZookeeperConnection, ASilentServerIsTheLastOneNextTime) {
  be_in_use();
  EXPECT_FALSE(fsm.has_another());
  now += 10s;
  fsm.drop("no answer", ending::silent);  // b
  fsm.end_turn(now);
  done();
  for (std::string const host : {"c", "a", "b"}) {
    EXPECT_EQ(want(), texts{"resolve " + host});
    fsm.life().resolved({{}, true, "refused"}, now);
    done();
    told.clear();
  }
}

TEST_F(ZookeeperConnection, AServerThatWasOfUseComesFirstNextTime) {
  be_in_use();
  now += 10s;
  fsm.failed("connection reset", now);
  EXPECT_EQ(take_told(), texts{"connection reset"});
  done();
  EXPECT_EQ(want(), texts{"resolve b"});
}

TEST_F(ZookeeperConnection, AServerThatEndsEachConnectionAtOnceDoesNotComeFirstNextTime) {
  be_in_use();
  now += 100ms;
  fsm.failed("connection reset", now);
  done();
  EXPECT_EQ(want(), texts{"resolve c"});
}

TEST_F(ZookeeperConnection, ASilentAddressOfANameIsFollowedByTheNextOne) {
  connection_fsm one{settings, {server("a")}, 0, 1};
  one.report_to(*this);
  EXPECT_EQ(want(one, 12s), texts{"resolve a"});
  one.life().resolved({{"1.1.1.1", "2.2.2.2"}}, now);
  EXPECT_EQ(done(one), texts{"connect 0"});
  EXPECT_EQ(until, now + 2s) << "a sixth of the session";
  now += 2s;
  one.life().due(now);
  EXPECT_EQ(done(one), (texts{"close", "connect 1"}));
  EXPECT_EQ(until, now + 2s);
  EXPECT_EQ(told, texts{});
  one.life().connected(now);
  EXPECT_EQ(take_told(), texts{"connected"});
  done(one);
  now += 2s;
  one.life().due(now);
  EXPECT_EQ(told.size(), 1u) << "both were tried";
  EXPECT_EQ(done(one), texts{"close"});
  told.clear();
  // They have more time next time, and the one that was silent for longer is first.
  EXPECT_EQ(want(one, 12s), texts{"resolve a"});
  one.life().resolved({{"1.1.1.1", "2.2.2.2"}}, now);
  EXPECT_EQ(done(one), texts{"connect 0"});
  EXPECT_EQ(until, now + 4s);
}

TEST_F(ZookeeperConnection, AnAddressThatGivesNoSessionIsFollowedByTheNextOne) {
  want();
  fsm.life().resolved({{"1.1.1.1", "2.2.2.2"}}, now);
  fsm.life().connected(now);
  done();
  EXPECT_EQ(take_told(), texts{"connected"});
  fsm.failed("end of file", now);
  EXPECT_EQ(take_told().size(), 1u) << "the greeting has no answer";
  EXPECT_EQ(done(), (texts{"close", "connect 1"}));
  fsm.life().connected(now);
  hear(greeting);
  EXPECT_EQ(take_told(), (texts{"connected", "session 7"}));
}

TEST_F(ZookeeperConnection, ASessionThatIsNotSettledInTimeIsGivenUp) {
  settings.connect_timeout = 2s;
  connection_fsm one{settings, {server("a")}, 0, 1};
  one.report_to(*this);
  want(one);
  one.life().resolved({{"1.1.1.1"}}, now);
  one.life().connected(now);
  std::copy(greeting.begin(), greeting.end(), one.room().begin());
  one.received(greeting.size(), now);
  EXPECT_EQ(take_told(), (texts{"connected", "session 7"}));
  done(one);
  now += 2s;
  one.life().due(now);
  EXPECT_EQ(done(one), texts{"close"});
  EXPECT_EQ(take_told(), texts{"no answer for 2000 ms"});
  ASSERT_FALSE(logged.empty());
  EXPECT_EQ(logged.back(), "cannot connect to zookeeper://a:2181: no answer for 2000 ms");
}

}  // namespace
}  // namespace conch::zookeeper
