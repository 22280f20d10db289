// The component conch::testing: the code under test has the URLs of real servers.
#include <conch/all.hpp>
#include <conch/testing.hpp>

#include "testing/shared.hpp"

#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::body;
using conch::test::contains;
using conch::test::counter;
using conch::test::hold_three_times;
using conch::test::sleep_for;
using conch::testing::finding;
using conch::testing::violation;
using conch::testing::world;

/// A URL, and the name of a server that it names.
struct place {
  std::string url, server;

  friend std::ostream& operator<<(std::ostream& to, place const& p) { return to << p.url; }
};

std::vector<place> places() {
  std::vector<place> all{{"redis://cache", "cache:6379"},
                         {"rediss://user:password@cache:6380/2", "cache:6380"},
                         {"unix:///run/redis.sock", "unix:///run/redis.sock"},
                         {"redis-sentinel://s1,s2,s3?sentinelMasterId=orders", "orders"},
                         {"redis-cluster://node2,node1:7000", "node1:7000"},
                         {"redlock://a,b:7000,c", "b:7000"},
                         {"memory://orders", "memory://orders"},
                         {"zookeeper://zk2,zk1,zk3:2182/shop", "zk1:2181"}};
#if defined(CONCH_HAS_POSTGRESQL)
  all.push_back({"postgresql://user:password@db/shop?sslmode=require", "db:5432"});
#endif
  return all;
}

class TestingUrls : public ::testing::TestWithParam<place> {
 protected:
  bool votes() const { return GetParam().url.starts_with("redlock"); }
  bool is_ensemble() const { return GetParam().url.starts_with("zookeeper"); }
};

std::string name_of(::testing::TestParamInfo<place> const& of) {
  std::string name = of.param.url.substr(0, of.param.url.find(':'));
  std::erase(name, '-');
  return name;
}

// ---------------------------------------------------------------------------------------------------------- contention

TEST_P(TestingUrls, ClientsExcludeEachOther) {
  world w{1};
  counter seen;
  for (std::string const process : {"a", "b", "c"})
    w.spawn(process, hold_three_times(w, process, GetParam().url, seen));
  w.run();
  EXPECT_EQ(seen.done, 9) << w.trace();
  EXPECT_EQ(seen.most, 1);
  EXPECT_TRUE(contains(w.trace(), "connected to " + GetParam().server)) << w.trace();
}

// -------------------------------------------------------------------------------------------------------------- faults

using fault = std::function<void(world&, conch::client&, conch::hold&)>;

body hold_through(world& w, std::string url, std::chrono::nanoseconds before, fault const& f,
                  std::chrono::nanoseconds then, bool& valid) {
  conch::client client{w.executor(), url};
  conch::mutex stock{client, "stock"};
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  co_await sleep_for(before);
  f(w, client, h);
  co_await sleep_for(then);
  valid = h.valid();
}

bool is_held_after(std::string const& url, fault const& f, std::chrono::nanoseconds then = 1min,
                   std::chrono::nanoseconds before = 0s) {
  world w{1};
  bool valid = false;
  w.run([&] { return hold_through(w, url, before, f, then, valid); });
  return valid;
}

TEST_P(TestingUrls, AHoldOutlivesACutAndARestartWithData) {
  std::string const url = GetParam().url, server = GetParam().server;
  EXPECT_TRUE(is_held_after(url, [](world&, conch::client&, conch::hold&) {}));
  EXPECT_TRUE(is_held_after(url, [](world& w, conch::client& c, conch::hold&) { w.cut(c); }));
  EXPECT_TRUE(is_held_after(url, [&](world& w, conch::client&, conch::hold&) { w.restart(server); }));
  EXPECT_TRUE(is_held_after(
      url, [](world& w, conch::client&, conch::hold&) { w.pause(5s); }, 1min, 1s));
}

TEST_P(TestingUrls, AHoldIsLostByForceAndByAPause) {
  // ZooKeeper tells the holder once the lock has been renewed.
  auto const before = is_ensemble() ? 20s : 0s;
  EXPECT_FALSE(is_held_after(
      GetParam().url, [](world& w, conch::client&, conch::hold& h) { EXPECT_TRUE(w.lose(h)); }, 100ms, before));
  EXPECT_FALSE(is_held_after(
      GetParam().url, [](world& w, conch::client&, conch::hold&) { w.pause(45s); }, 0s));
}

TEST_P(TestingUrls, AHoldIsLostWithTheDataUnlessOthersVoteForIt) {
  std::string const server = GetParam().server;
  EXPECT_EQ(is_held_after(GetParam().url, [&](world& w, conch::client&,
                                              conch::hold&) { w.restart(server, conch::testing::data::lost); }),
            votes());
}

body acquire_beside(world& w, std::string url, std::string server, bool& acquired) {
  conch::client client{w.executor(), url};
  conch::mutex stock{client, "stock"};
  w.restart(server);
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  acquired = h.valid();
}

TEST_P(TestingUrls, AnAcquireOutlivesARestart) {
  world w{1};
  bool acquired = false;
  w.run(acquire_beside(w, GetParam().url, GetParam().server, acquired));
  EXPECT_TRUE(acquired) << w.trace();
}

// ------------------------------------------------------------------------------------------------------------ findings

/// Checks its hold, is paused, and writes.
body write_late(world& w, std::string url) {
  conch::client client{w.executor(), url};
  conch::mutex stock{client, "stock"};
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  auto& left = w.resource("stock");
  std::int64_t const before = left.read(h.fence());
  if (!h.valid()) co_return;
  w.pause(45s);
  static_cast<void>(left.write(h.fence(), before + 1));
}

body write_in_time(world& w, std::string url) {
  conch::client client{w.executor("other"), url};
  conch::mutex stock{client, "stock"};
  co_await sleep_for(1s);
  conch::acquire_options const two_minutes{.wait = 2min};
  conch::hold h = co_await stock.async_acquire(two_minutes, asio::use_awaitable);
  w.expect(w.resource("stock").write(h.fence(), 100), "a write of the holder is taken");
}

TEST_P(TestingUrls, ALateWriteIsFound) {
  world w{1};
  w.spawn("main", write_late(w, GetParam().url));
  w.spawn("other", write_in_time(w, GetParam().url));
  try {
    w.run();
    ADD_FAILURE() << "nothing was found\n" << w.trace();
  } catch (violation const& v) {
    EXPECT_EQ(v.kind(), finding::late_write) << v.what() << '\n' << w.trace();
    EXPECT_TRUE(contains(v.what(), "although another holder had been granted the lock")) << v.what();
  }
}

body keep(world& w, std::string url, std::unique_ptr<conch::client>& client, conch::hold& h) {
  client = std::make_unique<conch::client>(w.executor(), url);
  conch::mutex stock{*client, "stock"};
  h = co_await stock.async_acquire(asio::use_awaitable);
}

TEST_P(TestingUrls, ALeakedHoldIsFound) {
  world w{1};
  std::unique_ptr<conch::client> client;
  conch::hold h;
  w.spawn("main", keep(w, GetParam().url, client, h));
  try {
    w.run();
    ADD_FAILURE() << "nothing was found\n" << w.trace();
  } catch (violation const& v) {
    EXPECT_EQ(v.kind(), finding::leak);
    EXPECT_TRUE(contains(v.what(), "at " + GetParam().server + ", \"stock\" is held by main")) << v.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, TestingUrls, ::testing::ValuesIn(places()), name_of);

// --------------------------------------------------------------------------------------------------------------- names

body holds_apart(world& w, std::string one, std::string other, bool& apart) {
  conch::client first{w.executor(), one}, second{w.executor(), other};
  conch::mutex stock{first, "stock"}, same{second, "stock"};
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  auto const tried = co_await same.async_try_acquire(asio::as_tuple(asio::use_awaitable));
  apart = std::get<1>(tried).valid();
}

bool are_apart(std::string const& one, std::string const& other) {
  world w{1};
  bool apart = false;
  w.run(holds_apart(w, one, other, apart));
  return apart;
}

TEST(TestingServers, TwoSpellingsAreOneServer) {
  EXPECT_FALSE(are_apart("redis://cache", "rediss://user:password@CACHE.:6379"));
  EXPECT_FALSE(are_apart("redis://[::1]:6379", "redis://[0:0::1]"));
  EXPECT_FALSE(are_apart("zookeeper://a,b,c/shop", "zookeeper://c,B:2181,a/shop"));
  EXPECT_FALSE(are_apart("redis-cluster://a,b", "redis-cluster://b,a"));
  EXPECT_FALSE(are_apart("memory://", "memory://"));
}

TEST(TestingServers, OtherPortsDatabasesAndRootsShareNoLocks) {
  EXPECT_TRUE(are_apart("redis://cache", "redis://cache:6380"));
  EXPECT_TRUE(are_apart("redis://cache", "redis://cache/1"));
  EXPECT_TRUE(are_apart("zookeeper://a", "zookeeper://a/shop"));
  EXPECT_TRUE(are_apart("memory://", "memory://orders"));
}

#if defined(CONCH_HAS_POSTGRESQL)
TEST(TestingServers, PostgresqlHasHostsPortsAndDatabases) {
  EXPECT_FALSE(are_apart("postgresql://a,b/shop", "postgres://user@A:5432/shop?connect_timeout=3"));
  EXPECT_FALSE(are_apart("postgresql://[::1]/shop", "postgresql://[0:0::1]:5432/shop"));
  EXPECT_TRUE(are_apart("postgresql://a/shop", "postgresql://a/stock"));
  EXPECT_TRUE(are_apart("postgresql://a/shop", "postgresql://a:5433/shop"));
}
#endif

body restart_by_a_wrong_name(world& w, std::string& error) {
  conch::client client{w.executor(), "redis://cache"};
  try {
    w.restart("cache");
  } catch (std::logic_error const& e) {
    error = e.what();
  }
  co_return;
}

TEST(TestingServers, AWrongNameIsRefused) {
  world w{1};
  std::string error;
  w.run(restart_by_a_wrong_name(w, error));
  EXPECT_TRUE(contains(error, "the servers are: cache:6379")) << error;
}

body acquire_at(world& w, std::string url) {
  conch::client client{w.executor(), url};
  conch::mutex stock{client, "stock"};
  conch::hold const h = co_await stock.async_acquire(asio::use_awaitable);
}

TEST(TestingServers, AWorldBeginsWithoutTheLocksOfTheWorldBefore) {
  for (int i = 0; i < 2; ++i) {
    world w{1};
    w.run(acquire_at(w, "memory://orders"));
    EXPECT_LT(w.now(), 1s);
  }
}

// -------------------------------------------------------------------------------------------------------------- quorum

/// A server that restarts again and again is down.
body keep_down(world& w, std::vector<std::string> servers, bool const& done) {
  while (!done) {
    for (std::string const& one : servers) w.restart(one);
    co_await sleep_for(5ms);
  }
}

struct outcome {
  bool done = false;
  boost::system::error_code error;
};

body acquire_without(world& w, std::string url, std::vector<std::string> servers, outcome& o) {
  conch::config settings;
  settings.url = url;
  settings.offline_timeout = 5s;
  conch::client client{w.executor(), settings};
  conch::mutex stock{client, "stock"};
  w.spawn("operator", keep_down(w, servers, o.done));
  co_await sleep_for(1ms);
  conch::acquire_options const ten_seconds{.wait = 10s};
  auto const acquired = co_await stock.async_acquire(ten_seconds, asio::as_tuple(asio::use_awaitable));
  o.error = std::get<0>(acquired);
  o.done = true;
}

outcome acquire_without(std::vector<std::string> const& servers) {
  world w{1};
  outcome o;
  w.run(acquire_without(w, "redlock://a,b,c", servers, o));
  return o;
}

TEST(TestingQuorum, TwoOfThreeServersGrantALock) {
  EXPECT_EQ(acquire_without({"b:6379"}).error, boost::system::error_code{});
}

TEST(TestingQuorum, OneOfThreeServersGrantsNone) {
  auto const error = acquire_without({"a:6379", "b:6379"}).error;
  EXPECT_EQ(error, conch::errc::unreachable) << error.message();
}

// ----------------------------------------------------------------------------------------------------------- ZooKeeper

body hold_with_a_short_lease(world& w) {
  conch::client client{w.executor(), "zookeeper://zk1"};
  conch::mutex stock{client, "stock", {.lease = 2s}};
  conch::hold const h = co_await stock.async_acquire(asio::use_awaitable);
  w.pause("main", 2min);
  co_await sleep_for(1ms);
  w.expect(!h.valid(), "the session ends while the process is paused");
}

body acquire_behind_it(world& w, conch::duration& waited) {
  conch::client client{w.executor("other"), "zookeeper://zk1"};
  conch::mutex stock{client, "stock"};
  co_await sleep_for(1s);
  conch::duration const began = w.now();
  conch::acquire_options const two_minutes{.wait = 2min};
  conch::hold const h = co_await stock.async_acquire(two_minutes, asio::use_awaitable);
  waited = w.now() - began;
}

TEST(TestingZooKeeper, AHoldEndsWithTheSessionOfItsClient) {
  world w{1};
  conch::duration waited{};
  w.spawn("main", hold_with_a_short_lease(w));
  w.spawn("other", acquire_behind_it(w, waited));
  w.run();
  EXPECT_GT(waited, 20s) << "not with its own lease\n" << w.trace();
  EXPECT_LT(waited, 35s) << "a session of 30 s, and a tick\n" << w.trace();
  EXPECT_TRUE(contains(w.trace(), "session 1 has ended")) << w.trace();
}

body share(world& w, std::string url, int& held) {
  conch::client client{w.executor(), url};
  conch::semaphore pool{client, "pool", 3};
  conch::shared_mutex table{client, "table"};
  conch::hold const a = co_await pool.async_acquire(asio::use_awaitable);
  conch::hold const b = co_await pool.async_acquire(asio::use_awaitable);
  conch::hold const c = co_await table.async_acquire_shared(asio::use_awaitable);
  held = int{a.valid()} + int{b.valid()} + int{c.valid()};
}

TEST(TestingZooKeeper, HasSemaphoresAndReadersAndWritersAndUsers) {
  world w{1};
  int held = 0;
  w.run(share(w, "zookeeper://user:password@zk1/shop", held));
  EXPECT_EQ(held, 3) << w.trace();
}

body of_another_user(world& w, boost::system::error_code& error) {
  conch::client owner{w.executor(), "zookeeper://user:password@zk1"}, other{w.executor(), "zookeeper://zk1"};
  conch::mutex mine{owner, "stock"}, theirs{other, "stock"};
  conch::hold const h = co_await mine.async_acquire(asio::use_awaitable);
  auto const tried = co_await theirs.async_acquire(asio::as_tuple(asio::use_awaitable));
  error = std::get<0>(tried);
}

TEST(TestingZooKeeper, RefusesTheFolderOfAnotherUser) {
  world w{1};
  boost::system::error_code error;
  w.run(of_another_user(w, error));
  EXPECT_EQ(error, conch::errc::access_denied) << error.message();
}

// -------------------------------------------------------------------------------------------------------------- faults

body sell(world& w, std::string process, std::string url, conch::testing::fencing f) {
  conch::client client{w.executor(process), url};
  conch::mutex lock{client, "stock"};
  auto& stock = w.resource("stock", f);
  conch::acquire_options const two_minutes{.wait = 2min};
  for (int i = 0; i < 3; ++i) {
    auto const acquired = co_await lock.async_acquire(two_minutes, asio::as_tuple(asio::use_awaitable));
    auto const& [ec, h] = acquired;
    if (ec) continue;
    std::int64_t const left = stock.read(h.fence());
    co_await sleep_for(std::chrono::milliseconds{w.random(20)});
    if (h.valid()) static_cast<void>(stock.write(h.fence(), left - 1));
  }
}

body sale(world& w, std::string url, conch::testing::fencing f) {
  w.spawn("second", sell(w, "second", url, f));
  co_await sell(w, "main", url, f);
}

TEST_P(TestingUrls, AnExplorationFindsALateWriteWithoutFencesAndNothingWithThem) {
  std::string const url = GetParam().url;
  auto const found =
      conch::testing::explore(10'000, [&](world& w) { return sale(w, url, conch::testing::fencing::off); });
  EXPECT_FALSE(found);
  EXPECT_EQ(found.kind, finding::late_write) << found;
  EXPECT_FALSE(contains(found.what, "something else the second time")) << found;
  auto const none = conch::testing::explore(200, [&](world& w) { return sale(w, url, conch::testing::fencing::on); });
  EXPECT_TRUE(none) << none;
}

// ----------------------------------------------------------------------------------------------- errors of the
// settings

/// What a client of these settings throws.
std::string refusal(asio::any_io_executor const& on, conch::config const& c) {
  try {
    conch::client{on, c};
    return {};
  } catch (boost::system::system_error const& e) {
    return e.code().message() + " | " + e.what();
  }
}

void expect_same_refusal(conch::config const& c, std::string_view part) {
  asio::io_context context;
  std::string const outside = refusal(context.get_executor(), c);
  world w{1};
  EXPECT_EQ(refusal(w.executor(), c), outside) << c.url;
  EXPECT_TRUE(contains(outside, part)) << outside;
}

conch::config with_url(std::string url) {
  conch::config c;
  c.url = std::move(url);
  return c;
}

TEST(TestingErrors, AWrongUrlIsRefusedAsOutsideOfAWorld) {
  expect_same_refusal(with_url("redis://cache:0"), "the port");
  expect_same_refusal(with_url("redis://cache/x"), "the database");
  expect_same_refusal(with_url("redis://a,b"), "did you mean redlock://");
  expect_same_refusal(with_url("redlock://a,b,A"), "two of the servers are the same");
  expect_same_refusal(with_url("REDIS://a"), "lower case");
  expect_same_refusal(with_url("zookeeper://a/b,c/d"), "the path");
  expect_same_refusal(with_url("unix://redis.sock"), "absolute path");
}

TEST(TestingErrors, ASettingOfOtherServersIsRefusedAsOutsideOfAWorld) {
  auto c = with_url("redis://cache");
  c.master_name = "orders";
  expect_same_refusal(c, "master_name is set");
  c = with_url("redis-sentinel://s1");
  expect_same_refusal(c, "master_name is empty");
  c = with_url("zookeeper://a");
  c.sync_replicas = 1;
  expect_same_refusal(c, "sync_replicas is set");
  c = with_url("redlock://a,b,c");
  c.sync_replicas = 1;
  expect_same_refusal(c, "each gives a vote");
  c = with_url("redis-cluster://a");
  c.sync_replicas = 1;
  expect_same_refusal(c, "over a Cluster");
  c = with_url("zookeeper://a");
  c.key_prefix = "a:b";
  expect_same_refusal(c, "key_prefix");
  c = {};
  c.quorum.servers = {"redis://a", "zookeeper://b"};
  expect_same_refusal(c, "gives no votes");
}

TEST(TestingErrors, ReplicasAreNotSimulated) {
  auto c = with_url("redis://cache");
  c.sync_replicas = 1;
  world w{1};
  EXPECT_TRUE(contains(refusal(w.executor(), c), "a simulated server has no replicas"));
}

/// Each of these is refused before a server is asked.
body ask_for_what_is_not_offered(asio::any_io_executor on, std::string url, std::vector<std::string>& errors) {
  conch::client client{on, url};
  conch::striped_mutex striped{client, "striped", 4};
  auto const a = co_await striped.async_acquire(asio::as_tuple(asio::use_awaitable));
  errors.push_back(std::get<0>(a).message());
  conch::semaphore pool{client, "pool", 3};
  auto const b = co_await pool.async_drain(asio::as_tuple(asio::use_awaitable));
  errors.push_back(std::get<0>(b).message());
  auto const c = co_await pool.async_set_permits(5, asio::as_tuple(asio::use_awaitable));
  errors.push_back(std::get<0>(c).message());
  conch::mutex stock{client, "stock"};
  auto const d = co_await stock.async_inspect(asio::as_tuple(asio::use_awaitable));
  errors.push_back(std::get<0>(d).message());
  auto const e = co_await stock.async_force_release(asio::as_tuple(asio::use_awaitable));
  errors.push_back(std::get<0>(e).message());
  auto const f = co_await stock.async_wait_free(asio::as_tuple(asio::use_awaitable));
  errors.push_back(std::get<0>(f).message());
}

TEST(TestingErrors, WhatServersDoNotOfferIsRefusedAsOutsideOfAWorld) {
  for (std::string const url : {"zookeeper://127.0.0.1:1", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}) {
    std::vector<std::string> outside, inside;
    asio::io_context context;
    asio::co_spawn(context, ask_for_what_is_not_offered(context.get_executor(), url, outside), asio::detached);
    context.run();
    world w{1};
    w.run(ask_for_what_is_not_offered(w.executor(), url, inside));
    EXPECT_EQ(inside, outside);
    ASSERT_EQ(outside.size(), 6u);
    for (std::string const& error : outside) EXPECT_TRUE(contains(error, " over ")) << error;
  }
}

body hold_longer_than_the_session(world& w, boost::system::error_code& error) {
  conch::client client{w.executor(), "zookeeper://a"};
  conch::mutex stock{client, "stock"};
  conch::acquire_options const long_lease{.lease = 10min};
  auto const acquired = co_await stock.async_acquire(long_lease, asio::as_tuple(asio::use_awaitable));
  error = std::get<0>(acquired);
}

TEST(TestingErrors, ALeaseOfZooKeeperIsNotLongerThanTheSession) {
  world w{1};
  boost::system::error_code error;
  w.run(hold_longer_than_the_session(w, error));
  EXPECT_EQ(error, conch::errc::invalid_config) << error.message();
}

}  // namespace
