// What the design of zookeeper:// rests on, shown with a real server and a client that does nothing by itself.
// docs/design/zookeeper.md says what follows from it.
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

using namespace zookeeper;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

/// Resumes a session. A server that does not know yet what the client has seen closes the connection; a little later it
/// knows.
std::unique_ptr<zookeeper_client> go_on(std::uint16_t port, zookeeper_client::resumption const& with) {
  for (auto const until = steady::now() + 60s;;) {
    auto c = std::make_unique<zookeeper_client>(port);
    try {
      c->resume(with);
      return c;
    } catch (zookeeper_connection_ended const&) {
      if (steady::now() > until) throw;
    }
  }
}

// ---------------------------------------------------------------------------------------- a server by itself

class ZookeeperServer : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<zookeeper_ensemble>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static std::uint16_t port() { return server_->port(0); }
  /// For this test only.
  static std::string path(std::string const& more = {}) {
    return std::string{"/"} + testing::UnitTest::GetInstance()->current_test_info()->name() + more;
  }

  static inline std::unique_ptr<zookeeper_ensemble> server_;
};

TEST_F(ZookeeperServer, MakesNodesOfEachKindAndTellsTheirTransaction) {
  zookeeper_client client{port(), 30s};
  auto const folder = client.create(path(), node_kind::container);
  auto const first = client.create(path("/a-"), node_kind::ephemeral_sequential, "x");
  auto const second = client.create(path("/a-"), node_kind::ephemeral_sequential);
  auto const kept = client.create(path("/kept"), node_kind::persistent, "data");
  EXPECT_EQ(folder.path, path());
  EXPECT_EQ(first.path.size(), path("/a-0000000000").size());
  EXPECT_LT(first.path, second.path);
  EXPECT_LT(folder.node.created, first.node.created);
  EXPECT_LT(first.node.created, second.node.created);
  EXPECT_EQ(first.node.owner, client.session().session);
  EXPECT_EQ(kept.node.owner, 0);
  EXPECT_EQ(client.list(path()).size(), 3u);
  EXPECT_EQ(client.read(path("/kept"))->bytes, "data");
  EXPECT_EQ(client.ask(remove{path("/none")}).what, status::no_node);
  EXPECT_EQ(client.ask(create{path("/none/x"), {}, node_kind::ephemeral, access::anyone}).what, status::no_node);
  EXPECT_EQ(client.ask(create{path("/kept"), {}, node_kind::ephemeral, access::anyone}).what, status::node_exists);
  EXPECT_EQ(client.ask(create{first.path + "/x", {}, node_kind::ephemeral, access::anyone}).what,
            status::no_children_for_ephemerals);
}

TEST_F(ZookeeperServer, AnswersTwoRequestsOfOneWriteInTheirOrder) {
  zookeeper_client client{port(), 30s};
  client.create(path());
  client.send_all(
      {create{path("/a-"), {}, node_kind::ephemeral_sequential, access::anyone}, get_children{path()}, ping{}});
  reply const made = client.read_answer();
  reply const listed = client.read_answer();
  ASSERT_TRUE(std::holds_alternative<created>(made.content));
  ASSERT_TRUE(std::holds_alternative<children>(listed.content));
  ASSERT_EQ(std::get<children>(listed.content).names.size(), 1u) << "the list shows what the request before it made";
  EXPECT_EQ(path("/") + std::get<children>(listed.content).names.front(), std::get<created>(made.content).path);
}

TEST_F(ZookeeperServer, TellsADeletionToWhoeverHasReadTheData) {
  zookeeper_client one{port(), 30s}, other{port(), 30s};
  one.create(path());
  EXPECT_TRUE(other.read(path(), true).has_value());
  EXPECT_FALSE(other.read(path("/none"), true).has_value()) << "and no watch stays behind";
  one.create(path("/none"));
  one.remove(path("/none"));
  one.remove(path());
  auto const told = other.next_notice(60s);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->what, notice::event::deleted);
  EXPECT_EQ(told->path, path());
  EXPECT_FALSE(other.next_notice(0ms).has_value());
}

TEST_F(ZookeeperServer, UsesUpAWatchByAWrite) {
  zookeeper_client one{port(), 30s}, other{port(), 30s};
  one.create(path());
  other.read(path(), true);
  one.write(path(), "changed");
  auto const told = other.next_notice(60s);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->what, notice::event::changed);
  one.remove(path());
  (void)other.list(path());  // behind the deletion
  EXPECT_FALSE(other.next_notice(0ms).has_value()) << "a write to a lock's node would cost its successor the wake-up";
}

TEST_F(ZookeeperServer, KeepsNodesOverAReconnectButNoWatches) {
  zookeeper_client other{port(), 30s};
  other.create(path());
  auto first = std::make_unique<zookeeper_client>(port(), 30s);
  auto const mine = first->create(path("/mine"), node_kind::ephemeral);
  first->read(path(), true);
  auto const again = first->to_resume();
  first.reset();
  zookeeper_client second{port()};
  EXPECT_EQ(second.resume(again).session, again.greeting.session);
  EXPECT_EQ(second.read(mine.path)->node.owner, again.greeting.session);
  other.write(path(), "changed");
  EXPECT_EQ(second.read(path())->bytes, "changed");
  EXPECT_FALSE(second.next_notice(0ms).has_value()) << "the watch of the old connection is gone";
}

TEST_F(ZookeeperServer, EndsASessionAndItsNodesByCloseSession) {
  zookeeper_client other{port(), 30s};
  auto const none = [&] {
    zookeeper_client one{port(), 30s};
    auto const mine = one.create(path(), node_kind::ephemeral);
    EXPECT_TRUE(other.read(mine.path, true));
    EXPECT_EQ(one.ask(close_session{}).what, status::ok);
    EXPECT_TRUE(one.ends(60s));
    return one.to_resume();
  }();
  auto const told = other.next_notice(60s);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->what, notice::event::deleted);
  zookeeper_client late{port()};
  auto const& greeting = late.resume(none);
  EXPECT_EQ(greeting.timeout_ms, 0) << "the session has ended";
  EXPECT_EQ(greeting.session, 0);
  EXPECT_TRUE(late.ends(60s));
}

TEST_F(ZookeeperServer, EndsNoSessionByTheEndOfItsConnection) {
  zookeeper_client other{port(), 30s};
  zookeeper_client::resumption again;
  {
    zookeeper_client one{port(), 30s};
    one.create(path(), node_kind::ephemeral);
    again = one.to_resume();
  }
  EXPECT_TRUE(other.has(path()));
  zookeeper_client two{port()};
  two.resume(again);
  EXPECT_EQ(two.ask(close_session{}).what, status::ok);
  EXPECT_FALSE(other.has(path()));
}

TEST_F(ZookeeperServer, GivesNoSessionToAWrongPassword) {
  zookeeper_client one{port(), 30s};
  auto forged = one.to_resume();
  forged.greeting.password[0] = static_cast<char>(forged.greeting.password[0] + 1);
  zookeeper_client other{port()};
  EXPECT_EQ(other.resume(forged).timeout_ms, 0);
}

TEST_F(ZookeeperServer, ClosesTheConnectionOfAClientThatHasSeenMore) {
  zookeeper_client one{port()};
  EXPECT_THROW(one.greet({std::int64_t{1} << 60, 30000, 0, {}}), zookeeper_connection_ended);
}

TEST_F(ZookeeperServer, BoundsTheTimeOfASession) {
  EXPECT_EQ((zookeeper_client{port(), 1ms}.session().timeout_ms), 400);
  EXPECT_EQ((zookeeper_client{port(), 1h}.session().timeout_ms), 60'000);
}

TEST_F(ZookeeperServer, ProtectsNodesOfAUser) {
  zookeeper_client owner{port(), 30s}, same{port(), 30s}, stranger{port(), 30s};
  EXPECT_EQ(owner.ask(create{path(), {}, node_kind::persistent, access::creator_only}).what, status::invalid_acl)
      << "nobody has authenticated";
  EXPECT_EQ(owner.ask(add_auth{"digest", "user:secret"}).what, status::ok);
  EXPECT_EQ(same.ask(add_auth{"digest", "user:secret"}).what, status::ok);
  EXPECT_EQ(stranger.ask(add_auth{"digest", "user:other"}).what, status::ok)
      << "any password is one: it names another user";
  EXPECT_EQ(owner.ask(create{path(), {}, node_kind::persistent, access::creator_only}).what, status::ok);
  for (request const& r : std::vector<request>{get_data{path()}, get_children{path()}, set_data{path(), {}},
                                               create{path("/x"), {}, node_kind::ephemeral, access::anyone}}) {
    EXPECT_EQ(stranger.ask(r).what, status::no_auth);
    EXPECT_EQ(same.ask(r).what, status::ok);
  }
  EXPECT_EQ(stranger.ask(remove{path("/x")}).what, status::no_auth);
  EXPECT_EQ(same.ask(remove{path("/x")}).what, status::ok);
  EXPECT_EQ(stranger.ask(add_auth{"nonsense", "x"}).what, status::auth_failed);
  EXPECT_TRUE(stranger.ends(60s));
}

TEST_F(ZookeeperServer, ListsTenThousandNodes) {
  zookeeper_client client{port(), 60s};
  client.create(path());
  std::string const prefix = path("/0123456789abcdef0123456789abcdef.1234567890-");
  for (int some = 0; some < 10; ++some) {
    client.send_all(std::vector<request>(1000, create{prefix, {}, node_kind::ephemeral_sequential, access::anyone}));
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.read_answer().what, status::ok);
  }
  EXPECT_EQ(client.list(path()).size(), 10'000u);
  EXPECT_EQ(client.ask(close_session{}).what, status::ok);
}

// --------------------------------------------------------------------------------------------------- three of them

class ZookeeperEnsemble : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    zookeeper_options options;
    options.servers = 3;
    options.proxies = true;
    options.tick = 500ms;
    options.shortest_session = 1s;
    options.sync_limit = 20;
    ensemble_ = std::make_unique<zookeeper_ensemble>(options);
  }
  static void TearDownTestSuite() { ensemble_.reset(); }
  void SetUp() override {
    // A server that was cut off in the test before may think for a moment that it still follows.
    for (auto const until = steady::now() + 60s; followers_.size() != 2 && steady::now() < until;) {
      ensemble_->wait_until_serving();
      leader_ = ensemble_->leader();
      followers_ = ensemble_->followers();
    }
    ASSERT_EQ(followers_.size(), 2u);
  }
  static std::string path(std::string const& more = {}) {
    return std::string{"/"} + testing::UnitTest::GetInstance()->current_test_info()->name() + more;
  }

  std::size_t leader_ = 0;
  std::vector<std::size_t> followers_;
  static inline std::unique_ptr<zookeeper_ensemble> ensemble_;
};

TEST_F(ZookeeperEnsemble, TakesASessionFromOneServerToAnother) {
  zookeeper_client one{ensemble_->port(followers_[0]), 30s};
  one.create(path(), node_kind::ephemeral);
  auto const again = one.to_resume();
  auto const on = go_on(ensemble_->port(followers_[1]), again);
  zookeeper_client& two = *on;
  EXPECT_EQ(two.session().session, again.greeting.session);
  EXPECT_EQ(two.read(path())->node.owner, again.greeting.session);
  EXPECT_TRUE(one.has(path())) << "the old connection is not closed, and answers";
  one.send(set_data{path(), {}});
  EXPECT_TRUE(one.ends(60s)) << "but not to a write";
  EXPECT_EQ(two.ask(remove{path()}).what, status::ok);
}

TEST_F(ZookeeperEnsemble, AnswersPingsOfASessionThatHasEndedWhileAFollowerIsCutOff) {
  auto const timeout = 2s;
  zookeeper_client other{ensemble_->port(leader_), 60s};
  zookeeper_client one{ensemble_->port(followers_[0]), timeout};
  auto const mine = one.create(path(), node_kind::ephemeral);
  ASSERT_TRUE(other.read(mine.path, true));
  tcp_proxy& link = ensemble_->between(followers_[0], leader_);
  link.stall();
  auto const cut = steady::now();
  // The pings go on all the time, and are answered.
  std::optional<notice> told;
  while (!told && steady::now() - cut < 60s) {
    ASSERT_TRUE(one.ping(10s)) << "as long as the leader takes the session for alive";
    told = other.next_notice(100ms);
  }
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->what, notice::event::deleted);
  auto const ended = steady::now();
  int answered = 0;
  while (steady::now() - cut < 60s) {
    try {
      if (!one.ping(100ms)) break;
    } catch (zookeeper_connection_ended const&) {
      break;
    }
    ++answered;
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_GT(answered, 0) << "a ping that is answered would prove something about the session";
  RecordProperty("node_deleted_ms",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(ended - cut).count()));
  RecordProperty("pings_answered_after_it", answered);
  link.heal();
  link.reset();
}

TEST_F(ZookeeperEnsemble, DoesNotServeWithoutAMajority) {
  zookeeper_client one{ensemble_->port(followers_[0]), 60s};
  ensemble_->kill(leader_);
  ensemble_->kill(followers_[1]);
  EXPECT_TRUE(one.ends(60s));
  for (auto const until = steady::now() + 60s; !ensemble_->role(followers_[0]).empty() && steady::now() < until;)
    std::this_thread::sleep_for(20ms);
  // It takes the TCP connection, and closes it.
  zookeeper_client two{ensemble_->port(followers_[0])};
  EXPECT_THROW(two.resume(one.to_resume()), zookeeper_connection_ended);
  ensemble_->start_all();
  EXPECT_EQ(go_on(ensemble_->port(followers_[0]), one.to_resume())->session().session, one.session().session)
      << "the session is still there";
}

TEST_F(ZookeeperEnsemble, ShowsBySyncAndListWhetherACreateWasDone) {
  zookeeper_client other{ensemble_->port(leader_), 60s};
  other.create(path());
  int done = 0;
  for (int i = 0; i < 50; ++i) {
    zookeeper_client one{ensemble_->port(followers_[0]), 30s};
    // Its answer is not waited for: another server takes the session over.
    one.send(create{path("/c-"), {}, node_kind::ephemeral_sequential, access::anyone});
    auto const on = go_on(ensemble_->port(followers_[1]), one.to_resume());
    zookeeper_client& two = *on;
    ASSERT_EQ(two.session().session, one.session().session);
    ASSERT_EQ(two.ask(sync{path()}).what, status::ok);
    auto const listed = two.list(path());
    std::this_thread::sleep_for(20ms);
    ASSERT_EQ(other.ask(sync{path()}).what, status::ok);
    EXPECT_EQ(other.list(path()), listed) << i << ": what the list does not show must not come later";
    done += listed.empty() ? 0 : 1;
    EXPECT_EQ(two.ask(close_session{}).what, status::ok);
  }
  RecordProperty("creates_done", done);
}

/// A create that the leader has taken, and that no follower has received yet; meanwhile the session goes to the leader.
/// A sync there waits for what the session itself has asked for, also by a follower, and for nothing else
/// (`forward_learner_requests_to_commit_processor_disabled` would change that).
TEST_F(ZookeeperEnsemble, WaitsInASyncAtTheLeaderForWhatTheSessionHasAskedForBefore) {
  zookeeper_client other{ensemble_->port(followers_[1]), 60s};
  other.create(path());
  zookeeper_client one{ensemble_->port(followers_[0]), 60s};
  EXPECT_TRUE(one.list(path()).empty());
  tcp_proxy::behaviour nothing;
  nothing.stalled = true;
  for (std::size_t const follower : followers_)
    ensemble_->between(follower, leader_).set(tcp_proxy::towards::client, nothing);
  one.send(create{path("/c-"), {}, node_kind::ephemeral_sequential, access::anyone});
  // Until the leader has it: nothing shows that from outside.
  std::this_thread::sleep_for(500ms);
  auto const on = go_on(ensemble_->port(leader_), one.to_resume());
  zookeeper_client& two = *on;
  two.keep_order();
  two.send_all({sync{path()}, get_children{path()}});
  EXPECT_FALSE(two.next_message(500ms)) << "it does not wait for the create";
  for (std::size_t const follower : followers_) ensemble_->between(follower, leader_).heal();
  EXPECT_TRUE(two.next_message(60s));
  auto const listed = two.next_message(60s);
  auto const* const answer = listed ? std::get_if<reply>(&*listed) : nullptr;
  auto const* const all = answer == nullptr ? nullptr : std::get_if<children>(&answer->content);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->names.size(), 1u);
}

}  // namespace
}  // namespace conch::test
