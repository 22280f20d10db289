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

std::string const greeting = frame(number(0, 4) + number(12'000, 4) + number(7, 8) + number(16, 4) + std::string(16, 'p') + '\0');
std::string answer_to(std::int32_t xid, status what = status::ok) { return frame(number(xid, 4) + number(5, 8) + number(static_cast<int>(what), 4)); }

class ZookeeperConnection : public ::testing::Test, public wire_events {
 protected:
  static address server(std::string host, bool over_tls = false) {
    address a;
    a.host = std::move(host);
    a.over_tls = over_tls;
    return a;
  }

  ZookeeperConnection() { fsm.report_to(*this); }

  void trying(time_point until) override { tried_until = until; }
  void connected(time_point) override {
    told.emplace_back("connected");
    if (greets) fsm.greet({0, 12'000, 0, ""});
  }
  void greeted(connect_response const& c, time_point) override { told.push_back("session " + std::to_string(c.session)); }
  void answered(reply const& r, time_point) override {
    told.push_back("answer " + std::to_string(static_cast<int>(r.what)));
    if (drops) fsm.drop(false, now);
  }
  void answered_ping(std::int64_t, time_point) override { told.emplace_back("ping"); }
  void noticed(notice const& n, time_point) override { told.push_back("notice " + n.path); }
  void disconnected(fault what, std::string_view why, time_point) override {
    told.push_back((what == fault::malformed ? "malformed: " : what == fault::tls_failed ? "tls: " : "") + std::string{why});
  }

  /// What it wants done, in words. What is to be written is written.
  texts done() {
    texts all;
    for (connection_actions a = fsm.take(); a.any(); a = fsm.take()) {
      if (a.close) all.emplace_back("close");
      if (a.resolve) all.push_back("resolve " + fsm.where().host);
      if (a.connect) all.push_back("connect " + std::to_string(fsm.address_number()));
      if (a.handshake) all.emplace_back("handshake");
      if (a.read) all.emplace_back("read");
      if (a.write) {
        all.push_back("write " + std::to_string(fsm.bytes().size()));
        fsm.written(fsm.bytes().size());
      }
    }
    return all;
  }
  time_point want(duration lease = 10s) {
    std::size_t const before = told.size();
    time_point const until = fsm.want({5s, lease}, now);
    EXPECT_EQ(told.size(), before);
    return until;
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
    fsm.go_on();
    fsm.resolved({"1.1.1.1"}, now);
    fsm.connected(now);
    hear(greeting);
    done();
    told.clear();
  }

  connection_fsm fsm{{server("a"), server("b"), server("c")}, 1};
  time_point now{1000s};
  time_point tried_until{};
  bool greets = true, drops = false;
  texts told;
};

TEST_F(ZookeeperConnection, ConnectsWhenItIsWanted) {
  fsm.go_on();
  EXPECT_EQ(done(), texts{});
  want();
  fsm.go_on();
  EXPECT_EQ(done(), texts{"resolve b"});
  fsm.resolved({"1.1.1.1", "2.2.2.2"}, now);
  EXPECT_EQ(done(), texts{"connect 0"});
  fsm.refused("refused", now);
  EXPECT_EQ(done(), texts{"connect 1"});
  fsm.connected(now);
  EXPECT_EQ(done(), (texts{"read", "write 49"}));
  hear(greeting);
  EXPECT_EQ(take_told(), (texts{"connected", "session 7"}));
}

TEST_F(ZookeeperConnection, TakesTheNextServerForEachAttempt) {
  for (std::string const host : {"b", "c", "a", "b"}) {
    want();
    fsm.go_on();
    EXPECT_EQ(done(), texts{"resolve " + host});
    fsm.failed("no such host", now);
    EXPECT_EQ(take_told(), texts{"no such host"});
    EXPECT_EQ(done(), texts{"close"});
  }
}

TEST_F(ZookeeperConnection, GivesAnswersInTheOrderOfAskingAndPingsAndNoticesBetweenThem) {
  be_up();
  fsm.send(remove{"/a"});
  fsm.send(ping{});
  fsm.send(sync{"/b"});
  fsm.go_on();
  EXPECT_EQ(done().size(), 1u) << "together";
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
  fsm.go_on();
  done();
  hear(answer_to(2, status::no_node));
  EXPECT_EQ(take_told(), texts{"an answer to request 2 (status -101), and the next is that to request 1"}) << "not malformed, which would be final";
  EXPECT_EQ(done(), texts{"close"});
}

TEST_F(ZookeeperConnection, AnAnswerThatNobodyHasAskedForEndsTheConnection) {
  be_up();
  hear(answer_to(7));
  EXPECT_EQ(take_told(), texts{"an answer to request 7 (status 0), and none is due"});
  EXPECT_EQ(done(), texts{"close"});
}

TEST_F(ZookeeperConnection, SaysWhatAnotherKindOfServerLooksLike) {
  for (auto const& [bytes, words] :
       {std::pair{"HTTP/1.1 400 Bad Request\r\n", "this looks like HTTP"}, std::pair{"-ERR unknown command", "it said '-ERR unknown command'"},
        std::pair{"\x15\x03\x03\x02\x02P and more", "begins with zookeepers://"}}) {
    want();
    fsm.go_on();
    fsm.resolved({"1.1.1.1"}, now);
    fsm.connected(now);
    hear(bytes);
    ASSERT_EQ(told.size(), 2u);
    EXPECT_NE(told.back().find(words), std::string::npos) << told.back();
    done();
    told.clear();
  }
}

TEST_F(ZookeeperConnection, SaysWhyAServerMayEndAConnectionWithoutAWord) {
  want();
  fsm.go_on();
  fsm.resolved({"1.1.1.1"}, now);
  fsm.connected(now);
  fsm.failed("end of file", now);
  EXPECT_EQ(
      take_told(),
      (texts{"connected",
             "end of file, before it gave a session: it may have no quorum at present, or too many connections (maxClientCnxns, maxCnxns); or this "
             "port is one of TLS, and the URL begins with zookeepers://"}));
}

TEST_F(ZookeeperConnection, WhatIsDroppedTellsNothingMore) {
  be_up();
  drops = true;
  fsm.send(remove{"/a"});
  fsm.send(remove{"/b"});
  fsm.go_on();
  done();
  hear(answer_to(1) + answer_to(2));
  EXPECT_EQ(take_told(), texts{"answer 0"});
  fsm.failed("end of file", now);
  EXPECT_EQ(take_told(), texts{});
  fsm.go_on();
  EXPECT_EQ(done(), texts{"close"});
  want();
  fsm.go_on();
  EXPECT_EQ(done(), texts{"resolve c"});
}

TEST_F(ZookeeperConnection, WhatIsSentOnAConnectionThatIsDroppedIsNotWrittenOnTheNext) {
  be_up();
  fsm.send(remove{"/a"});
  fsm.drop(false, now);
  want();
  fsm.go_on();
  EXPECT_EQ(done(), (texts{"close", "resolve c"}));
  fsm.resolved({"1.1.1.1"}, now);
  greets = false;
  fsm.connected(now);
  EXPECT_EQ(done(), (texts{"connect 0", "read"}));
}

TEST_F(ZookeeperConnection, NumbersOfRequestsGoOnOverConnections) {
  be_up();
  fsm.send(sync{"/"});
  fsm.go_on();
  done();
  fsm.failed("end of file", now);
  be_up();
  fsm.send(remove{"/a"});
  fsm.go_on();
  done();
  hear(answer_to(2));
  EXPECT_EQ(take_told(), texts{"answer 0"});
}

TEST_F(ZookeeperConnection, WritesOneThingAfterAnother) {
  be_up();
  fsm.send(ping{});
  fsm.go_on();
  EXPECT_TRUE(fsm.take().write);
  std::size_t const all = fsm.bytes().size();
  fsm.written(all - 3);
  EXPECT_TRUE(fsm.take().write);
  EXPECT_EQ(fsm.bytes().size(), 3u);
  fsm.send(sync{"/"});
  fsm.go_on();
  EXPECT_FALSE(fsm.take().any()) << "the rest of the first is under way";
  fsm.written(3);
  EXPECT_TRUE(fsm.take().write);
  EXPECT_EQ(fsm.bytes().size(), 17u);
}

TEST_F(ZookeeperConnection, ShutsDownBehindWhatIsSent) {
  be_up();
  fsm.send(close_session{});
  fsm.shut_down();
  EXPECT_TRUE(fsm.take().write);
  fsm.written(fsm.bytes().size());
  EXPECT_EQ(done(), texts{"close"});
  want();
  fsm.go_on();
  EXPECT_EQ(done(), texts{});
}

TEST_F(ZookeeperConnection, ShakesHandsWhereTheUrlSaysTls) {
  connection_fsm over_tls{{server("a", true)}, 0};
  over_tls.report_to(*this);
  (void)over_tls.want({5s, 10s}, now);
  over_tls.go_on();
  over_tls.resolved({"1.1.1.1"}, now);
  over_tls.take();
  over_tls.connected(now);
  EXPECT_TRUE(over_tls.take().handshake);
  EXPECT_EQ(told, texts{});
  over_tls.failed("the certificate has expired", now, fault::tls_failed);
  EXPECT_EQ(told, texts{"tls: the certificate has expired"});
}

TEST_F(ZookeeperConnection, AnEndInTheHandshakeMayBeThatOfAPlainPort) {
  connection_fsm over_tls{{server("a", true)}, 0};
  over_tls.report_to(*this);
  (void)over_tls.want({5s, 10s}, now);
  over_tls.go_on();
  over_tls.resolved({"1.1.1.1"}, now);
  over_tls.connected(now);
  over_tls.failed("end of file", now);
  EXPECT_EQ(told, texts{"end of file, in the TLS handshake: if this port is without TLS, the URL begins with zookeeper://"});
}

// ---- which server comes next, and for how long

TEST_F(ZookeeperConnection, ASilentServerOfThreeCostsANinthOfTheSession) {
  EXPECT_EQ(want(9s), now + 1s);
  fsm.go_on();
  EXPECT_EQ(done(), texts{"resolve b"});
  fsm.resolved({"1.1.1.1"}, now);
  EXPECT_EQ(done(), texts{"connect 0"});
  EXPECT_EQ(tried_until, now + 1s);
  EXPECT_TRUE(fsm.has_another());
  now += 1s;
  EXPECT_EQ(fsm.silent(now), time_point::min()) << "it has one address";
  fsm.drop(true, now);
  EXPECT_EQ(want(9s), now + 1s);
  fsm.go_on();
  EXPECT_EQ(done(), (texts{"close", "resolve c"}));
}

TEST_F(ZookeeperConnection, OneServerHasAllTheTimeThereIs) {
  connection_fsm alone{{server("a")}, 7};
  alone.report_to(*this);
  EXPECT_EQ(alone.want({5s, 10s}, now), now + 5s);
  EXPECT_FALSE(alone.has_another());
}

TEST_F(ZookeeperConnection, ASilentServerIsTheLastOneNextTime) {
  be_up();
  fsm.in_use(now);
  EXPECT_FALSE(fsm.has_another());
  now += 10s;
  fsm.drop(true, now);  // b
  for (std::string const host : {"c", "a", "b"}) {
    (void)want();
    fsm.go_on();
    EXPECT_EQ(done().back(), "resolve " + host);
    fsm.failed("refused", now);
    done();
  }
}

TEST_F(ZookeeperConnection, AServerThatWasOfUseComesFirstNextTime) {
  be_up();
  fsm.in_use(now);
  now += 10s;
  fsm.failed("connection reset", now);
  done();
  (void)want();
  fsm.go_on();
  EXPECT_EQ(done(), texts{"resolve b"});
}

TEST_F(ZookeeperConnection, AServerThatEndsEachConnectionAtOnceDoesNotComeFirstNextTime) {
  be_up();
  fsm.in_use(now);
  now += 100ms;
  fsm.failed("connection reset", now);
  done();
  (void)want();
  fsm.go_on();
  EXPECT_EQ(done(), texts{"resolve c"});
}

TEST_F(ZookeeperConnection, ASilentAddressOfANameIsFollowedByTheNextOne) {
  connection_fsm one{{server("a")}, 0};
  one.report_to(*this);
  (void)one.want({5s, 12s}, now);
  one.go_on();
  EXPECT_TRUE(one.take().resolve);
  one.resolved({"1.1.1.1", "2.2.2.2"}, now);
  EXPECT_TRUE(one.take().connect);
  EXPECT_EQ(one.address_number(), 0u);
  EXPECT_EQ(tried_until, now + 2s) << "a sixth of the session";
  now += 2s;
  EXPECT_EQ(one.silent(now), now + 2s);
  one.connected(now);  // of the first, too late
  EXPECT_EQ(told, texts{});
  one.go_on();
  connection_actions const a = one.take();
  EXPECT_TRUE(a.close && a.connect);
  EXPECT_EQ(one.address_number(), 1u);
  one.connected(now);
  EXPECT_EQ(told, texts{"connected"});
  now += 2s;
  EXPECT_EQ(one.silent(now), time_point::min()) << "both were tried";
  one.drop(true, now);
  // They have more time next time, and the one that was silent for longer is first.
  (void)one.want({5s, 12s}, now);
  one.go_on();
  one.take();
  one.resolved({"1.1.1.1", "2.2.2.2"}, now);
  EXPECT_EQ(one.address_number(), 0u);
  EXPECT_EQ(tried_until, now + 4s);
}

TEST_F(ZookeeperConnection, AnAddressThatGivesNoSessionIsFollowedByTheNextOne) {
  (void)want();
  fsm.go_on();
  fsm.resolved({"1.1.1.1", "2.2.2.2"}, now);
  fsm.connected(now);
  done();
  fsm.failed("end of file", now);
  EXPECT_EQ(take_told(), texts{"connected"});
  EXPECT_EQ(done(), (texts{"close", "connect 1"}));
  fsm.connected(now);
  hear(greeting);
  EXPECT_EQ(take_told(), (texts{"connected", "session 7"}));
}

}  // namespace
}  // namespace conch::zookeeper
