// What ZooKeeper's servers refuse: what it affects, whether it is tried again, and which error the caller gets.
#include "servers/zookeeper/faults.hpp"
#include "zookeeper_fixture.hpp"

#include <algorithm>

namespace conch::zookeeper {
namespace {

class ZookeeperRefusals : public zookeeper_test {
 protected:
  ZookeeperRefusals() { settings.reconnect_max = 100ms; }  // no heartbeat is due until it has passed

  /// "held" is held in all that follows.
  void be_open_and_hold() {
    be_open();
    line->ask(at("held"), true, 12s, now);
    made("/conch/held/me.2-0000000000", ++zxid);
    listed({"me.2-0000000000"});
    take_sent();
    ASSERT_EQ(take_told(), texts{"granted held"});
  }
  void ask_for_a_new_folder(bool wait = true) {
    line->ask(at("bad"), wait, 12s, now);
    error(status::no_node);
    ASSERT_EQ(take_sent(), (texts{"create line /conch/bad/me.3-", "list /conch/bad", "create container /conch/bad",
                                  "create line /conch/bad/me.3-", "list /conch/bad"}));
    error(status::no_node);  // the first list
  }
  static bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }
};

struct row {
  status what;
  errc error;
  bool is_final;
  std::string says;
};

std::vector<row> const& rows() {
  static std::vector<row> const all{
      {status::quota_exceeded, errc::server_refused, true, "setquota"},
      {status::unimplemented, errc::server_refused, true, "3.5.3"},
      {status::no_auth, errc::access_denied, true, "setAcl"},
      {status::invalid_acl, errc::access_denied, true, "no user"},
      {status::auth_failed, errc::access_denied, true, "user and the password"},
      {status::sasl_required, errc::access_denied, true, "SASL"},
      {status::local_session, errc::server_refused, true, "localSessionsUpgradingEnabled=true"},
      {status::no_children_for_ephemerals, errc::wrong_type, true, "remove it"},
      {status::bad_arguments, errc::server_refused, true, "path"},
      {status::marshalling_error, errc::server_refused, true, "read"},
      {status::system_error, errc::server_refused, true, "its log"},
      {status::runtime_inconsistency, errc::server_refused, true, "its log"},
      {status::data_inconsistency, errc::server_refused, true, "its log"},
      {static_cast<status>(-1234), errc::server_refused, true, "-1234"},
      {status::operation_timeout, errc::unreachable, false, "in time"},
      {status::request_timeout, errc::unreachable, false, "in time"},
      {status::no_quorum, errc::unreachable, false, "quorum"},
      {status::reconfiguration, errc::unreachable, false, "reconfigured"},
      {status::throttled, errc::unreachable, false, "throttledOpWaitTime"},
  };
  return all;
}

TEST_F(ZookeeperRefusals, ARefusedFolderEndsOnlyTheLockThatAskedForIt) {
  for (row const& one : rows()) {
    if (!one.is_final) continue;
    SCOPED_TRACE(static_cast<int>(one.what));
    be_open_and_hold();
    ask_for_a_new_folder();
    error(one.what);
    texts const heard = take_told();
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_TRUE(heard[0].starts_with("failed bad: ")) << heard[0];
    EXPECT_EQ(reason, one.error);
    EXPECT_TRUE(has(heard[0], one.says)) << heard[0];
    EXPECT_TRUE(has(heard[0], "/conch/bad")) << heard[0];
    EXPECT_TRUE(has(heard[0], "zookeeper://a:2181")) << heard[0];
    error(status::no_node);  // the node
    error(status::no_node);  // the list
    EXPECT_TRUE(line->connected()) << "the others go on";
    EXPECT_EQ(take_told(), texts{"settled bad"});
    EXPECT_TRUE(line->settled());
    EXPECT_EQ(take_sent(), texts{});
    timers.run(now);
    line->ask(at("bad"), true, 12s, now);
    EXPECT_EQ(take_sent(), (texts{"create line /conch/bad/me.4-", "list /conch/bad"})) << "it may have become better";
  }
}

TEST_F(ZookeeperRefusals, ARefusedNodeEndsOnlyItsLockAndLeavesNothingToBeDone) {
  for (row const& one : rows()) {
    if (!one.is_final) continue;
    SCOPED_TRACE(static_cast<int>(one.what));
    be_open_and_hold();
    line->ask(at("bad"), true, 12s, now);
    error(one.what);
    EXPECT_EQ(reason, one.error);
    error(status::no_node);
    EXPECT_TRUE(line->connected());
    EXPECT_TRUE(line->settled()) << "nothing was made";
  }
}

TEST_F(ZookeeperRefusals, ARefusedListEndsTheWaitAndRemovesTheNode) {
  be_open_and_hold();
  line->ask(at("bad"), true, 12s, now);
  made("/conch/bad/me.3-0000000004", ++zxid);
  take_sent();
  error(status::no_auth);
  EXPECT_EQ(reason, errc::access_denied);
  EXPECT_EQ(take_sent(), texts{"remove /conch/bad/me.3-0000000004"});
  ok();
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperRefusals, WhoeverLeavesALineThatItMayNotListRemovesItsNode) {
  be_open_and_hold();
  stand("bad", {"x.1-0000000001"}, "me.3-0000000004");
  ok();
  take_sent();
  take_told();
  line->leave_unless_granted(at("bad"), now);
  EXPECT_EQ(take_sent(), texts{"list /conch/bad"});
  error(status::no_auth);
  EXPECT_EQ(take_sent(), texts{"remove /conch/bad/me.3-0000000004"});
  EXPECT_EQ(take_told(), texts{"left bad"});
  ok();
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperRefusals, AFolderThatVanishesEachTimeIsAnErrorOfItsLock) {
  be_open_and_hold();
  ask_for_a_new_folder();
  for (int i = 0; i < 2; ++i) {
    ok();                    // the folder
    error(status::no_node);  // the node
    error(status::no_node);  // the list
  }
  ok();
  error(status::no_node);
  error(status::no_node);
  EXPECT_EQ(reason, errc::server_refused);
  EXPECT_TRUE(line->connected());
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperRefusals, WithoutTheRootAConnectionIsMadeAnewForItMakesTheRoot) {
  be_open_and_hold();
  ask_for_a_new_folder();
  error(status::no_node);  // what is above the folder
  EXPECT_FALSE(line->connected());
  EXPECT_EQ(take_sent(), texts{"drop: the root was removed: /conch"});
}

TEST_F(ZookeeperRefusals, WhatTheServerCannotDoNowIsAskedForAgainWithinTheWait) {
  for (row const& one : rows()) {
    if (one.is_final) continue;
    SCOPED_TRACE(static_cast<int>(one.what));
    be_open_and_hold();
    line->ask(at("later"), true, 12s, now);
    take_sent();
    error(one.what);
    error(status::no_node);  // the list
    EXPECT_EQ(take_told(), texts{});
    EXPECT_EQ(take_sent(), texts{}) << "not at once";
    advance(settings.reconnect_max);
    ASSERT_EQ(take_sent(), (texts{"sync /conch/later", "list /conch/later"})) << "it may have been carried out";
    ok();
    listed({});
    take_told();
    EXPECT_EQ(take_sent(), (texts{"create line /conch/later/me.4-", "list /conch/later"}));
    made("/conch/later/me.4-0000000004", ++zxid);
    listed({"me.4-0000000004"});
    EXPECT_EQ(take_told(), texts{"granted later"});
    EXPECT_TRUE(line->settled());
  }
}

TEST_F(ZookeeperRefusals, WhatTheServerCannotDoForLongIsAnErrorThatSaysSo) {
  be_open_and_hold();
  line->ask(at("later"), true, 12s, now);
  time_point const began = now;
  while (!reason && now < began + 2 * settings.offline_timeout) {
    for (std::string const& one : take_sent()) {
      if (one == "ping") answer_ping();
      else if (one.ends_with("/conch/later") || one.starts_with("create")) error(status::throttled);
      else ok();
    }
    advance(10ms);
  }
  EXPECT_EQ(reason, errc::unreachable);
  EXPECT_TRUE(has(reason.message(), "throttledOpWaitTime")) << reason.message();
  EXPECT_GE(now - began, settings.offline_timeout);
  EXPECT_TRUE(line->connected());
}

TEST_F(ZookeeperRefusals, WhatTheServerCouldNotDoOnceDoesNotShortenItsTimeToDoWhatIsAskedLater) {
  be_open_and_hold();
  line->ask(at("later"), true, 12s, now);
  made("/conch/later/me.3-0000000004", ++zxid);
  error(status::throttled);  // the list
  take_sent();
  advance(settings.reconnect_max);
  ASSERT_EQ(take_sent(), texts{"list /conch/later"});
  listed({"x.1-0000000003", "me.3-0000000004"});
  ASSERT_EQ(take_told(), texts{"queued later"});
  ok();  // the watch
  take_sent();
  for (time_point const until = now + settings.offline_timeout + 1s; now < until; advance(10ms)) {
    for (std::string const& one : take_sent()) one == "ping" ? answer_ping() : ok();
  }
  lose_connection();
  advance(1us);
  take_sent();
  open(7, false);
  while (take_sent().back() != "list /conch/later") listed({"me.2-0000000000"});
  error(status::throttled);
  EXPECT_FALSE(reason) << reason.message();
  advance(settings.reconnect_max);
  EXPECT_EQ(take_sent().back(), "list /conch/later");
}

TEST_F(ZookeeperRefusals, AReleaseThatTheServerCannotDoNowIsRepeatedUntilItIsDone) {
  be_open_and_hold();
  engine::receipt r;
  line->release(at("held"), std::nullopt, &r, now);
  EXPECT_EQ(take_sent(), texts{"remove /conch/held/me.2-0000000000"});
  for (int i = 0; i < 3; ++i) {
    error(status::throttled);
    EXPECT_EQ(take_told(), texts{});
    EXPECT_FALSE(line->settled());
    advance(settings.reconnect_max);
    EXPECT_EQ(take_sent(), texts{"remove /conch/held/me.2-0000000000"});
  }
  ok();
  EXPECT_EQ(take_told(), (texts{"released", "settled held"}));
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperRefusals, ARefusedReleaseSaysWhatTheServerSaid) {
  be_open_and_hold();
  engine::receipt r;
  line->release(at("held"), std::nullopt, &r, now);
  error(status::no_auth);
  texts const heard = take_told();
  ASSERT_FALSE(heard.empty());
  EXPECT_TRUE(heard[0].starts_with("released: ")) << heard[0];
  EXPECT_TRUE(has(heard[0], "remove /conch/held/me.2-0000000000")) << heard[0];
  EXPECT_TRUE(has(heard[0], "releasing lock \"held\"")) << heard[0];
}

// The session goes on with the other locks, and the node would stay as long as that does.
TEST_F(ZookeeperRefusals, ANodeThatMustNotBeRemovedGoesWhenTheServerAllowsIt) {
  be_open_and_hold();
  engine::receipt r;
  line->release(at("held"), std::nullopt, &r, now);
  take_sent();
  error(status::no_auth);
  EXPECT_EQ(take_told().size(), 1u) << "the caller is told at once";
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(line->settled());
    advance(settings.reconnect_max);
    EXPECT_EQ(take_sent(), texts{"remove /conch/held/me.2-0000000000"});
    if (i < 2) error(status::no_auth);
  }
  EXPECT_EQ(take_told(), texts{}) << "and only once";
  ok();
  EXPECT_EQ(take_told(), texts{"settled held"});
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperRefusals, AReleaseWithoutAnAnswerNamesItsLock) {
  be_open_and_hold();
  engine::receipt r;
  line->release(at("held"), std::nullopt, &r, now);
  take_sent();
  EXPECT_TRUE(has(line->why_not_done(r).message(), "releasing lock \"held\"")) << line->why_not_done(r).message();
}

TEST_F(ZookeeperRefusals, ATryWhoseNodeCannotBeRemovedNowIsBusyAndTheNodeGoesLater) {
  be_open_and_hold();
  line->ask(at("a"), false, 12s, now);
  made("/conch/a/me.3-0000000004", ++zxid);
  listed({"me.3-0000000004", "other.1-0000000003"});
  take_sent();
  error(status::throttled);
  EXPECT_EQ(take_told(), texts{"busy a"});
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.3-0000000004"});
  EXPECT_FALSE(line->settled());
  ok();
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperRefusals, AWatchThatIsRefusedEndsTheWaitOfThisLockAlone) {
  be_open_and_hold();
  stand("a", {"x.1-0000000001"}, "me.3-0000000004");
  take_sent();
  take_told();
  error(status::no_auth);
  EXPECT_EQ(reason, errc::access_denied);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.3-0000000004"});
  EXPECT_TRUE(line->connected());
}

TEST_F(ZookeeperRefusals, AWatchThatCannotBeSetNowIsSetAgain) {
  be_open_and_hold();
  stand("a", {"x.1-0000000001"}, "me.3-0000000004");
  take_sent();
  take_told();
  error(status::throttled);
  advance(settings.reconnect_max);
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"x.1-0000000001", "me.3-0000000004"});
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/x.1-0000000001"});
}

}  // namespace
}  // namespace conch::zookeeper
