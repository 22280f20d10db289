#include "base/failure.hpp"
#include "protocol/drift.hpp"
#include "servers/zookeeper/acl.hpp"
#include "zookeeper_fixture.hpp"

#include <set>

namespace conch::zookeeper {
namespace {

/// The session alone: what it sends, until when it lasts.
class ZookeeperSession : public zookeeper_test {
 protected:
  time_point lasts(time_point from) const { return from + protocol::good_for(12s); }
  time_point deadline() { return at("a").deadline; }
  /// A hold shows the deadline.
  void hold() {
    make();
    line->ask(at("a"), true, 12s, now);
    open();
    made("/conch/a/me.1-0000000000", 2);
    listed({"me.1-0000000000"});
    at("a").renewable = true;
    take_sent();
    take_told();
  }
  /// A ping is answered, and a margin later a lock is asked for: a write and a read. Result: when the ping was sent.
  time_point ask_a_margin_after_a_ping() {
    hold();
    advance(1s);
    ok();
    advance(1s);
    time_point const pinged = now;
    answer_ping();
    advance(999ms);
    take_sent();
    now += 1ms;
    line->ask(at("b"), true, 12s, now);
    advance(1us);
    EXPECT_EQ(take_sent(), (texts{"create line /conch/b/me.2-", "list /conch/b"})) << "no write is needed beside it";
    return pinged;
  }
  void own_rights(std::vector<right> all) { answer({zxid, status::ok, rights{std::move(all)}}); }
  bool is_granted() { return at("a").state == engine::place_state::owned; }
  void renew() {
    engine::place* const one = &at("a");
    line->renew({&one, 1}, now);
  }
};

TEST_F(ZookeeperSession, ConnectsWhenItIsWantedAndMakesTheNodesOfEveryClient) {
  make();
  EXPECT_EQ(take_sent(), texts{});
  line->ask(at("a"), true, 12s, now);
  EXPECT_EQ(take_sent(), texts{"connect"});
  connected();
  EXPECT_EQ(take_sent(), texts{"greet 0 seen 0 for 12000"});
  line->receiver().greeted({12'000, 0x1234, "secret"}, now);
  EXPECT_EQ(take_sent(), texts{"get /conch"});
  error(status::no_node);
  EXPECT_EQ(take_sent(), texts{"create persistent /conch"});
  error(status::node_exists);  // another client was faster
  EXPECT_EQ(take_sent(), texts{"get /conch"});
  root();
  EXPECT_EQ(take_sent(), texts{"create persistent /conch/.clients"});
  error(status::node_exists);
  EXPECT_EQ(take_sent(), texts{"create ephemeral /conch/.clients/0000000000001234"});
  EXPECT_FALSE(line->connected());
  ok();
  EXPECT_TRUE(line->connected());
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.1-", "list /conch/a"}));
}

TEST_F(ZookeeperSession, AWaitThatEndsMeanwhileIsToldWhatTheAttemptWaitsFor) {
  make();
  line->ask(at("a"), true, 12s, now);
  EXPECT_EQ(cause_of(line->too_late(at("a"), now)), "zookeeper://a:2181: not connected yet");
  connected();
  EXPECT_EQ(cause_of(line->too_late(at("a"), now)), "zookeeper://a:2181: no answer to the greeting yet");
}

TEST_F(ZookeeperSession, MakesEachPartOfALongPath) {
  settings.url = "zookeeper://a/one/two";
  make("", "/one/two/conch");
  line->ask(at("a"), true, 12s, now);
  connected();
  line->receiver().greeted({12'000, 7, "secret"}, now);
  take_sent();
  error(status::no_node);
  EXPECT_EQ(take_sent(), texts{"create persistent /one"});
  ok();
  EXPECT_EQ(take_sent(), texts{"create persistent /one/two"});
  ok();
  EXPECT_EQ(take_sent(), texts{"create persistent /one/two/conch"});
  ok();
  EXPECT_EQ(take_sent(), texts{"get /one/two/conch"});
}

TEST_F(ZookeeperSession, AuthenticatesOnEachConnectionAndKeepsItsNodesForItsUser) {
  make("user:word");
  line->ask(at("a"), true, 12s, now);
  connected();
  line->receiver().greeted({12'000, 7, "secret"}, now);
  EXPECT_EQ(take_sent(), (texts{"connect", "greet 0 seen 0 for 12000", "auth digest user:word"}));
  ok();
  root();
  ok();
  ok();
  own_rights({{31, "digest", "user:hash"}});
  own_rights({{31, "digest", "user:hash"}});
  own_rights({{31, "digest", "user:hash"}});
  EXPECT_EQ(take_sent(),
            (texts{"get /conch", "create persistent /conch/.clients mine",
                   "create ephemeral /conch/.clients/0000000000000007 mine",
                   "rights of /conch/.clients/0000000000000007", "rights of /conch", "rights of /conch/.clients",
                   "rights of /conch/a", "create line /conch/a/me.1- mine", "list /conch/a"}));
  own_rights({{31, "digest", "user:hash"}});
  made("/conch/a/me.1-0000000000", 2);
  listed({"me.1-0000000000"});
  EXPECT_EQ(take_told(), texts{"granted a"});
  line->release(at("a"), std::nullopt, nullptr, now);
  ok();
  take_sent();
  line->ask(at("a"), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2- mine", "list /conch/a"}))
      << "it has asked for the rights to this folder";
  lose_connection();
  advance(1us);
  connected();
  line->receiver().greeted({12'000, 7, "secret"}, now);
  take_sent();
  ok();
  EXPECT_EQ(take_sent(), texts{"get /conch"});
  root();
  EXPECT_TRUE(line->connected()) << "the rights of the root were read in this session";
}

TEST_F(ZookeeperSession, ARootThatAnybodyMayChangeIsRefusedToAUser) {
  for (auto const& [scheme, id] : {std::pair{"world", "anyone"}, std::pair{"ip", "10.0.0.0/8"}}) {
    reason = {};
    make("user:word");
    line->ask(at("a"), true, 12s, now);
    connected();
    line->receiver().greeted({12'000, 7, "secret"}, now);
    ok();
    root();
    ok();
    ok();
    own_rights({{31, "digest", "user:hash"}});
    own_rights({{31, "digest", "user:hash"}, {right::read | right::create, scheme, id}});
    EXPECT_EQ(reason, errc::access_denied);
    EXPECT_NE(reason.message().find("setAcl /conch"), std::string::npos) << reason.message();
    EXPECT_EQ(reason.message().find("word"), reason.message().find("word of the URL"))
        << "the password is not shown: " << reason.message();
    EXPECT_FALSE(line->connected());
  }
}

/// A user that may change it can replace this client's node by its own, whose rights then count as those of this user.
TEST_F(ZookeeperSession, AFolderOfClientsThatAnybodyMayChangeIsRefusedToAUser) {
  for (auto const& [scheme, id] : {std::pair{"world", "anyone"}, std::pair{"ip", "10.0.0.0/8"}}) {
    for (bool const is_replaced : {false, true}) {
      reason = {};
      make("user:word");
      line->ask(at("a"), true, 12s, now);
      connected();
      line->receiver().greeted({12'000, 7, "secret"}, now);
      ok();
      root();
      ok();
      ok();
      std::vector<right> of_own{{31, "digest", "user:hash"}};
      if (is_replaced) of_own = {{31, scheme, id}};
      own_rights(of_own);
      own_rights({{31, "digest", "user:hash"}});
      EXPECT_FALSE(line->connected());
      own_rights({{31, "digest", "user:hash"}, {31, scheme, id}});
      EXPECT_EQ(reason, errc::access_denied);
      EXPECT_NE(reason.message().find("setAcl /conch/.clients auth::cdrwa"), std::string::npos) << reason.message();
      EXPECT_FALSE(line->connected());
    }
  }
}

TEST_F(ZookeeperSession, TwoEntriesWithAHiddenPasswordAreTwoUsers) {
  std::vector<right> const mine{{31, "digest", "user:hash"}}, hidden{{31, "digest", "user:x"}};
  auto const others = [&](std::vector<right> const& own, std::vector<right> const& all) {
    return writers_beside(own, all).named;
  };
  EXPECT_EQ(others(mine, hidden), "");
  EXPECT_EQ(others(mine, {hidden[0], hidden[0]}), "digest:user") << "the same name with another password";
  EXPECT_EQ(others(mine, {{right::read, "digest", "user:x"}, hidden[0]}), "digest:user") << "either may be the other";
  EXPECT_EQ(others(hidden, {{31, "digest", "user:hash"}, {31, "digest", "user:other"}}), "digest:user");
  EXPECT_EQ(others({mine[0], {31, "digest", "second:hash"}}, {hidden[0], {31, "digest", "second:x"}}), "");
  EXPECT_EQ(others(mine, {mine[0], {31, "digest", "user:other"}}), "digest:user") << "nothing is hidden";
  EXPECT_EQ(others(mine, {mine[0], mine[0]}), "") << "nothing is hidden, and it is the same";
}

TEST_F(ZookeeperSession, WarnsOfOtherUsersThatMayChangeTheRoot) {
  make("user:word");
  line->ask(at("a"), true, 12s, now);
  connected();
  line->receiver().greeted({12'000, 7, "secret"}, now);
  ok();
  root();
  ok();
  ok();
  own_rights({{31, "digest", "user:hash"}});
  own_rights({{31, "digest", "user:x"}, {31, "digest", "admin:hidden"}, {right::read, "world", "anyone"}});
  own_rights({{31, "digest", "user:x"}});
  EXPECT_TRUE(line->connected());
  ASSERT_FALSE(logged.empty());
  EXPECT_EQ(logged.front(), "zookeeper://a:2181: /conch can also be changed by digest:admin");
}

TEST_F(ZookeeperSession, AFolderThatAnybodyMayChangeIsRefusedToAUser) {
  make("user:word");
  line->ask(at("a"), true, 12s, now);
  connected();
  line->receiver().greeted({12'000, 7, "secret"}, now);
  ok();
  root();
  ok();
  ok();
  own_rights({{31, "digest", "user:hash"}});
  own_rights({{31, "digest", "user:hash"}});
  own_rights({{31, "digest", "user:hash"}});
  own_rights({{31, "world", "anyone"}});  // to the folder
  EXPECT_EQ(reason, errc::access_denied);
  EXPECT_NE(reason.message().find("/conch/a"), std::string::npos) << reason.message();
  EXPECT_NE(reason.message().find("lock a"), std::string::npos) << reason.message();
  take_sent();
  made("/conch/a/me.1-0000000000", 2);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.1-0000000000"});
  listed({"me.1-0000000000"});
  EXPECT_TRUE(line->connected()) << "other locks go on";
  EXPECT_FALSE(is_granted());
}

TEST_F(ZookeeperSession, SaysThatItsPasswordIsWrong) {
  make("user:word");
  line->ask(at("a"), true, 12s, now);
  connected();
  line->receiver().greeted({12'000, 7, "secret"}, now);
  error(status::auth_failed);
  EXPECT_EQ(reason, errc::access_denied);
  EXPECT_NE(reason.message().find("password"), std::string::npos) << reason.message();
}

TEST_F(ZookeeperSession, LastsFromWhenItAskedForASession) {
  make();
  line->ask(at("a"), true, 12s, now);
  connected();
  time_point const asked = now;
  now += 100ms;
  line->receiver().greeted({12'000, 7, "secret"}, now);
  root();
  ok();
  ok();
  made("/conch/a/me.1-0000000000", 2);
  now += 100ms;
  listed({"me.1-0000000000"});
  EXPECT_EQ(deadline(), lasts(asked));
}

TEST_F(ZookeeperSession, AnAnsweredPingAloneProvesNothing) {
  hold();
  time_point const before = deadline();
  advance(2s);
  EXPECT_EQ(take_sent(), (texts{"set /conch/.clients/0000000000000007", "ping"}));
  ok();
  answer_ping();
  renew();
  EXPECT_EQ(deadline(), before)
      << "the write was sent a margin after the greeting's answer, and proves no more than that one";
}

TEST_F(ZookeeperSession, APingAndAWriteAMarginLaterProveThatTheLeaderHasHeardOfThePing) {
  hold();
  advance(1s);
  ok();  // of the write for the greeting
  advance(1s);
  time_point const pinged = now;
  take_sent();
  advance(200ms);
  answer_ping();
  advance(999ms);
  EXPECT_EQ(take_sent(), texts{});
  advance(1ms);
  EXPECT_EQ(take_sent(), texts{"set /conch/.clients/0000000000000007"});
  advance(300ms);
  renew();
  EXPECT_EQ(take_told(), texts{}) << "it is not committed yet";
  ok();
  EXPECT_EQ(take_told(), texts{"extended a"}) << "as was asked for meanwhile";
  EXPECT_EQ(deadline(), lasts(pinged));
}

TEST_F(ZookeeperSession, AWriteThatIsSentTooEarlyProvesNothingOfThatPing) {
  hold();
  advance(1s);
  ok();
  advance(1s);
  answer_ping();
  advance(500ms);
  line->ask(at("b"), true, 12s, now);
  time_point const before = deadline();
  made("/conch/b/me.2-0000000000", 5);
  renew();
  EXPECT_EQ(deadline(), before);
}

TEST_F(ZookeeperSession, TheRequestsOfLocksAreProofsToo) {
  time_point const pinged = ask_a_margin_after_a_ping();
  made("/conch/b/me.2-0000000000", 5);
  renew();
  EXPECT_EQ(deadline(), lasts(pinged));
}

// A server that is cut off from the leader answers it.
TEST_F(ZookeeperSession, AReadProvesNothing) {
  ask_a_margin_after_a_ping();
  time_point const before = deadline();
  error(status::quota_exceeded);
  listed({});
  renew();
  EXPECT_EQ(deadline(), before);
}

TEST_F(ZookeeperSession, AFailedWriteProvesNothing) {
  hold();
  advance(1s);
  ok();
  advance(1s);
  answer_ping();
  advance(1s);
  time_point const before = deadline();
  error(status::quota_exceeded);
  renew();
  EXPECT_EQ(deadline(), before);
}

TEST_F(ZookeeperSession, WhatWasAnsweredOnAnEarlierConnectionProvesNothingOnTheNext) {
  hold();
  advance(1s);
  ok();
  advance(1s);
  answer_ping();
  lose_connection();
  advance(100ms);
  connected();
  time_point const greeted = now;
  line->receiver().greeted({12'000, 7, "secret"}, now);
  root();
  time_point const before = deadline();
  take_sent();
  renew();
  EXPECT_EQ(deadline(), before)
      << "nor does it that the session goes on: this may be the word of a leader that is cut off";
  advance(1s);
  EXPECT_EQ(take_sent().back(), "set /conch/.clients/0000000000000007");
  ok();  // the watch of its node
  ok();
  EXPECT_EQ(deadline(), lasts(greeted));
}

TEST_F(ZookeeperSession, SendsNothingButPingsWhileNobodyNeedsADeadline) {
  be_open();
  advance(1s);
  take_sent();
  for (int i = 0; i < 5; ++i) {
    advance(2s);
    EXPECT_EQ(take_sent(), texts{"ping"});
    answer_ping();
  }
}

TEST_F(ZookeeperSession, GoesOnWithItsSessionOnAnotherConnection) {
  hold();
  lose_connection();
  EXPECT_FALSE(line->connected());
  advance(1us);
  EXPECT_EQ(take_sent(), texts{"connect"}) << "at once";
  connected();
  EXPECT_EQ(take_sent(), texts{"greet 7 seen " + std::to_string(zxid) + " for 12000"});
  line->receiver().greeted({12'000, 7, "secret"}, now);
  root();
  EXPECT_TRUE(line->connected());
  EXPECT_EQ(take_told(), texts{}) << "the hold is kept";
}

TEST_F(ZookeeperSession, ItsEndIsTheLossOfAllHolds) {
  hold();
  lose_connection();
  advance(1us);
  connected();
  take_sent();
  line->receiver().greeted({0, 0, ""}, now);
  EXPECT_EQ(take_told(), (texts{"lost a", "settled a"}));
  EXPECT_EQ(take_sent(), texts{"drop: the session has ended"});
  advance(1ms);
  EXPECT_EQ(take_sent(), texts{"connect"});
  connected();
  EXPECT_EQ(take_sent(), texts{"greet 0 seen 0 for 12000"}) << "a server that gives a new session has all before it";
}

TEST_F(ZookeeperSession, WhatItHasSeenOfServersThatAreGoneItDoesNotDemandOfTheNext) {
  hold();
  line->ask(at("b"), true, 12s, now);
  made("/conch/b/me.2-0000000000", 500);
  listed({"me.2-0000000000"});
  lose_connection();
  advance(1us);
  connected();
  line->receiver().greeted({0, 0, ""}, now);
  zxid = 3;  // those that answer from now on were built anew
  line->ask(at("c"), true, 12s, now);
  advance(1ms);
  open(8);
  take_sent();
  lose_connection();
  for (int n = 0; n < 1000 && sent != texts{"connect"}; ++n) advance(1ms);
  take_sent();
  connected();
  EXPECT_EQ(take_sent(), texts{"greet 8 seen " + std::to_string(zxid) + " for 12000"});
}

// Servers that were built anew have fewer transactions than this client has seen, and close each connection of it.
TEST_F(ZookeeperSession, AsksServersThatAreBehindForItsSessionOnceItHasNothingToLose) {
  settings.reconnect_min = settings.reconnect_max = 50ms;
  hold();
  std::string const knows = "greet 7 seen " + std::to_string(zxid) + " for 12000",
                    inquires = "greet 7 seen 0 for 12000";
  auto const greets = [&] {
    lose_connection();
    advance(200ms);
    EXPECT_EQ(take_sent(), texts{"connect"});
    connected();
    return take_sent().at(0);
  };
  // Every other time: one of the servers may be only late.
  auto const inquires_at_last = [&] {
    std::string const first = greets(), second = greets(), third = greets();
    EXPECT_NE(first, second);
    EXPECT_NE(second, third);
    if (third == inquires) return;
    EXPECT_EQ(greets(), inquires);
  };
  while (now + 1s < deadline()) EXPECT_EQ(greets(), knows);
  advance(2s);
  inquires_at_last();
  // This one has the session: where servers stay late, that must be left alone to come to its end.
  line->receiver().greeted({12'000, 7, "secret"}, now);
  EXPECT_EQ(take_sent(), texts{"drop: the server may be behind what this client has seen"});
  time_point const inquired = now;
  advance(200ms);
  EXPECT_EQ(take_sent(), texts{"connect"});
  connected();
  EXPECT_EQ(take_sent(), texts{knows});
  while (now + 1s < inquired + 24s) EXPECT_EQ(greets(), knows);
  advance(2s);
  inquires_at_last();
  // It has been built anew.
  line->receiver().greeted({0, 0, ""}, now);
  EXPECT_EQ(take_sent(), texts{"drop: the session has ended"});
  advance(200ms);
  connected();
  EXPECT_EQ(take_sent(), (texts{"connect", "greet 0 seen 0 for 12000"}));
}

TEST_F(ZookeeperSession, LooksForAnotherServerWhenThereIsNoAnswer) {
  hold();
  advance(1s);
  take_sent();
  advance(2900ms);
  EXPECT_TRUE(line->connected());
  advance(200ms);
  EXPECT_FALSE(line->connected());
  EXPECT_EQ(logged, (texts{"connected to zookeeper://a:2181",
                           "lost the connection to zookeeper://a:2181: no answer for 3000 ms"}));
}

// P11: the last is queued behind all others
TEST_F(ZookeeperSession, AServerThatIsAnsweringHasTimeForAllThatWasAsked) {
  hold();
  for (int i = 0; i < 5; ++i) line->ask(at("b" + std::to_string(i)), true, 12s, now);
  for (int i = 0; i < 8; ++i) {
    advance(2900ms);
    EXPECT_TRUE(line->connected()) << i;
    error(status::no_auth);
  }
  advance(3100ms);
  EXPECT_FALSE(line->connected()) << "it has stopped";
}

TEST_F(ZookeeperSession, AStandstillOfThisProcessIsNoReasonToDropTheConnection) {
  hold();
  advance(1s);
  now += 9s;  // nothing was read meanwhile
  timers.run(now);
  EXPECT_TRUE(line->connected());
  ok();
  EXPECT_TRUE(line->connected());
}

TEST_F(ZookeeperSession, LooksForAnotherServerWhenNoneGivesASession) {
  make();
  settings.connect_timeout = 2s;
  line->ask(at("a"), true, 12s, now);
  take_sent();
  advance(2001ms);
  EXPECT_EQ(take_sent(), (texts{"drop: no answer for 2000 ms", "connect"}));
}

TEST_F(ZookeeperSession, SaysInTheLogThatItCannotConnectAndWhy) {
  make();
  settings.connect_timeout = 2s;
  line->ask(at("a"), true, 12s, now);
  fail(fault::try_later, "Connection refused");
  advance(2s);
  advance(2s);
  ASSERT_GE(logged.size(), 2u);
  EXPECT_EQ(logged[0], "cannot connect to zookeeper://a:2181: Connection refused");
  EXPECT_EQ(logged[1], "cannot connect to zookeeper://a:2181: no answer for 2000 ms");
  fail(fault::tls_failed, "the certificate has expired");
  EXPECT_EQ(logged.back(), "error: cannot connect to zookeeper://a:2181: the certificate has expired");
}

TEST_F(ZookeeperSession, AProofThatComesTooLateMakesNoHoldValidAgain) {
  hold();
  advance(1s);
  ok();
  time_point const end = deadline();
  now += 15s;  // this process was paused; the servers did not end the session
  ASSERT_GT(now, end);
  timers.run(now);
  renew();
  take_sent();
  answer_ping();
  advance(1s);
  EXPECT_EQ(take_sent().back(), "set /conch/.clients/0000000000000007");
  renew();
  take_told();
  ok();  // the watch of its node
  ok();  // what proves that the session lasts
  EXPECT_EQ(take_told(), texts{});
  EXPECT_EQ(deadline(), end);
  line->ask(at("b"), true, 12s, now);
  made("/conch/b/me.2-0000000000", 9);
  listed({"me.2-0000000000"});
  EXPECT_EQ(take_told(), texts{"granted b"}) << "the session goes on";
}

// ---- how long the session is

TEST_F(ZookeeperSession, IsAskedForWithFourMarginsWhereTheLeaseIsShorter) {
  settings.lease = 3s;
  make();
  line->ask(at("a"), true, 3s, now);
  connected();
  EXPECT_EQ(take_sent(), (texts{"connect", "greet 0 seen 0 for 4000"}));
  line->receiver().greeted({4'000, 7, "secret"}, now);
  root();
  ok();
  ok();
  made("/conch/a/me.1-0000000000", 2);
  listed({"me.1-0000000000"});
  EXPECT_EQ(take_told(), texts{"granted a"});
  EXPECT_EQ(deadline(), now + protocol::good_for(3s)) << "the hold has the lease";
}

TEST_F(ZookeeperSession, ShorterThanFourMarginsIsRefusedWithWhatToChange) {
  make();
  line->ask(at("a"), true, 12s, now);
  connected();
  line->receiver().greeted({3'999, 7, "secret"}, now);
  EXPECT_EQ(reason, errc::invalid_config);
  for (std::string const part : {"3999 ms", "4000 ms", "maxSessionTimeout", "zookeeper.session_margin"}) {
    EXPECT_NE(reason.message().find(part), std::string::npos) << reason.message();
  }
}

TEST_F(ZookeeperSession, IsTheLeaseWhereTheServersGiveLessThanWasAskedFor) {
  settings.lease = 30s;
  make();
  line->ask(at("a"), true, 30s, now);
  connected();
  line->receiver().greeted({20'000, 7, "secret"}, now);
  root();
  ok();
  ok();
  made("/conch/a/me.1-0000000000", 2);
  listed({"me.1-0000000000"});
  EXPECT_EQ(take_told(), texts{"granted a"});
  EXPECT_EQ(deadline(), now + protocol::good_for(20s));
  EXPECT_EQ(logged.front(),
            "zookeeper://a:2181: the servers give a session of 20000 ms instead of 30000 ms (maxSessionTimeout): no "
            "lease is longer than that");
  line->ask(at("b"), true, 31s, now);
  EXPECT_EQ(reason, errc::invalid_config);
  EXPECT_NE(reason.message().find("config::lease"), std::string::npos) << reason.message();
}

TEST_F(ZookeeperSession, AHoldOutlivesAConnectionThatEndsAtTheWorstMomentAndASilentServerBehindIt) {
  // The shortest session there is: four margins.
  settings.lease = 4s;
  settings.stop_margin = 500ms;
  make();
  line->ask(at("a"), true, 4s, now);
  connected();
  line->receiver().greeted({4'000, 7, "secret"}, now);
  root();
  ok();
  ok();
  made("/conch/a/me.1-0000000000", 2);
  listed({"me.1-0000000000"});
  at("a").renewable = true;
  time_point const end = now + 20s;
  auto const step = [&] {
    advance(1ms);
    for (std::string const& one : take_sent()) {
      if (one == "ping") answer_ping();
      else if (one.starts_with("set") || one.starts_with("watch")) ok();
    }
    renew();
  };
  while (now < end) step();
  // Until just before a write would prove something new.
  texts waiting;
  while (waiting.empty() || !waiting.back().starts_with("set")) {
    advance(1ms);
    waiting = take_sent();
    if (waiting == texts{"ping"}) answer_ping();
    renew();
  }
  lose_connection();
  advance(1us);
  take_sent();
  advance(400ms);  // a silent server has a ninth of the session
  fail(fault::try_later, "silent");
  advance(50ms);
  connected();
  line->receiver().greeted({4'000, 7, "secret"}, now);
  root();
  time_point const reconnected = now;
  while (now < reconnected + 1100ms) step();
  EXPECT_GT(deadline() - now, settings.stop_margin) << "it was never near its end";
  EXPECT_GT(deadline(), reconnected + 3s) << "and was proved on the new connection";
}

TEST_F(ZookeeperSession, SaysWhyItIsRefused) {
  make();
  line->ask(at("a"), true, 12s, now);
  fail(fault::malformed, "this looks like HTTP");
  EXPECT_EQ(reason, errc::protocol);
  EXPECT_NE(reason.message().find("this looks like HTTP"), std::string::npos) << reason.message();
}

TEST_F(ZookeeperSession, EndsAtTheServersWhenTheClientIsClosed) {
  be_open();
  line->closed();
  EXPECT_EQ(take_sent(), texts{"close"});
  EXPECT_EQ(timers.next(), timers.never);
}

}  // namespace
}  // namespace conch::zookeeper
