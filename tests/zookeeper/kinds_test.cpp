// Locks with several owners over a ZooKeeper server: what is special of them there. What they share with other servers
// is in EveryServer.
#include "integration/fixture.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {
namespace {

class ZookeeperKinds : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<zookeeper_ensemble>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static std::string url() { return server_->url(); }
  /// How many nodes a lock has.
  std::size_t nodes(std::string const& name) {
    if (client_ && client_->ends(0ms)) client_.reset();
    if (!client_) client_ = std::make_unique<zookeeper_client>(server_->port(0), 60s);
    return client_->list("/conch/" + name).size();
  }
  auto has_nodes(std::string const& name, std::size_t count) {
    return [this, name, count] { return nodes(name) == count; };
  }

  world w;

 private:
  static inline std::unique_ptr<zookeeper_ensemble> server_;
  std::unique_ptr<zookeeper_client> client_;
};

/// What one that asks has become.
struct asked {
  error_code why;
  hold got;
  bool done = false;

  auto handler() {
    return [this](error_code ec, hold h) {
      why = ec;
      got = std::move(h);
      done = true;
    };
  }
};

TEST_F(ZookeeperKinds, ASemaphoreIsForAsManyAsItsLimitSaysInTheOrderOfAsking) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), url()}, two{w.ctx.get_executor(), url()};
    semaphore a{one, "permits", 3}, b{two, "permits", 3};
    hold first = co_await a.async_acquire(asio::use_awaitable);
    hold second = co_await b.async_acquire(asio::use_awaitable);
    asked large, small;
    a.async_acquire(2, large.handler());
    auto const large_waits = has_nodes("permits", 3);
    co_await until(large_waits, "the large one in line");
    b.async_acquire(small.handler());
    auto const both_wait = has_nodes("permits", 4);
    co_await until(both_wait, "both in line");
    EXPECT_FALSE(large.done);
    EXPECT_FALSE(small.done) << "one permit is free, and somebody asked earlier";
    co_await first.async_release();
    auto const large_has = [&] { return large.done; };
    co_await until(large_has, "the large one");
    EXPECT_FALSE(large.why) << large.why.message();
    EXPECT_GT(large.got.fence(), second.fence());
    EXPECT_FALSE(small.done);
    co_await second.async_release();
    auto const small_has = [&] { return small.done; };
    co_await until(small_has, "the small one");
    EXPECT_GT(small.got.fence(), large.got.fence());
    co_await large.got.async_release();
    co_await small.got.async_release();
    auto const none = has_nodes("permits", 0);
    co_await until(none, "nothing left");
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKinds, TheTokenOfAWriterIsGreaterThanThoseOfAllReadersBeforeIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), url()}, two{w.ctx.get_executor(), url()};
    shared_mutex a{one, "readers"}, b{two, "readers"};
    hold r1 = co_await a.async_acquire_shared(asio::use_awaitable);
    hold r2 = co_await b.async_acquire_shared(asio::use_awaitable);
    asked writer, reader;
    a.async_acquire(writer.handler());
    auto const writer_waits = has_nodes("readers", 3);
    co_await until(writer_waits, "the writer in line");
    b.async_acquire_shared(reader.handler());
    auto const reader_waits = has_nodes("readers", 4);
    co_await until(reader_waits, "the reader in line");
    EXPECT_FALSE(reader.done) << "a reader does not pass a writer";
    co_await r2.async_release();
    co_await r1.async_release();
    auto const writes = [&] { return writer.done; };
    co_await until(writes, "the writer");
    EXPECT_GT(writer.got.fence(), std::max(r1.fence(), r2.fence()));
    EXPECT_FALSE(reader.done);
    co_await writer.got.async_release();
    auto const reads = [&] { return reader.done; };
    co_await until(reads, "the reader");
    EXPECT_GT(reader.got.fence(), writer.got.fence());
    co_await reader.got.async_release();
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKinds, ALevelThatEndsIsNoErrorAlthoughTheNodeStaysAWritersUntilTheLast) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), url()}, two{w.ctx.get_executor(), url()};
    reentrant_shared_mutex m{one, "levels"};
    shared_mutex other{two, "levels"};
    owner me;
    reentrant_hold writes = co_await m.async_acquire(me, asio::use_awaitable);
    reentrant_hold reads = co_await m.async_acquire_shared(me, asio::use_awaitable);
    EXPECT_EQ(writes.fence(), reads.fence());
    EXPECT_EQ(nodes("levels"), 1u);
    bool const was_held = co_await writes.async_release(asio::use_awaitable);
    EXPECT_TRUE(was_held);
    EXPECT_TRUE(reads.valid());
    hold beside = co_await other.readers().async_try_acquire(asio::use_awaitable);
    EXPECT_FALSE(beside);
    co_await reads.async_release(asio::use_awaitable);
    beside = co_await other.readers().async_try_acquire(asio::use_awaitable);
    EXPECT_TRUE(beside.valid());
    co_await beside.async_release();
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKinds, AnOwnerHasOneNodeHoweverManyOfItAsk) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), url()}, two{w.ctx.get_executor(), url()};
    reentrant_mutex m{one, "owner"};
    owner const me{"me"}, also_me{"me"}, somebody{"somebody"};
    reentrant_hold first = co_await m.async_acquire(me, asio::use_awaitable);
    reentrant_hold second = co_await m.async_acquire(also_me, asio::use_awaitable);
    EXPECT_TRUE(first.valid());
    EXPECT_TRUE(second.valid());
    EXPECT_EQ(nodes("owner"), 1u);
    co_await first.async_release(asio::use_awaitable);
    EXPECT_TRUE(second.valid());
    EXPECT_EQ(nodes("owner"), 1u) << "the node is the other's now";
    reentrant_mutex from_there{two, "owner"};
    reentrant_hold none = co_await from_there.async_try_acquire(somebody, asio::use_awaitable);
    EXPECT_FALSE(none);
    auto const refused = co_await from_there.async_acquire(owner{"me"}, as_tuple);
    EXPECT_EQ(std::get<0>(refused), errc::not_supported) << std::get<0>(refused).message();
    co_await second.async_release(asio::use_awaitable);
    EXPECT_EQ(nodes("owner"), 0u);
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKinds, WhatIsNotOfferedSaysSo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), url()};
    striped_mutex stripes{c, "stripes", 3};
    auto const striped = co_await stripes.async_acquire_any(as_tuple);
    EXPECT_EQ(std::get<0>(striped), errc::not_supported);
    EXPECT_NE(std::get<0>(striped).message().find("zookeeper://"), std::string::npos) << std::get<0>(striped).message();
    semaphore s{c, "drained", 3};
    auto const drained = co_await s.async_drain(as_tuple);
    EXPECT_EQ(std::get<0>(drained), errc::not_supported);
    shared_mutex m{c, "downgraded"};
    hold writer = co_await m.async_acquire(asio::use_awaitable);
    auto const downgraded = co_await m.async_downgrade(writer, as_tuple);
    EXPECT_EQ(std::get<0>(downgraded), errc::not_supported);
    EXPECT_TRUE(writer.valid());
    co_await writer.async_release();
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
