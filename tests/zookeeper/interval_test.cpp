// acquire_options::at_least over a ZooKeeper server: the nodes that keep a lock. What it shares with other servers is
// in Interval.
#include "integration/child.hpp"
#include "integration/fixture.hpp"
#include "servers/zookeeper/names.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {
namespace {

class ZookeeperKeeps : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<zookeeper_ensemble>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static config settings(duration delay = duration::zero()) {
    config c;
    c.url = server_->url();
    c.lease = 4s;
    c.zookeeper.session_margin = 1s;
    c.lock_delay = delay;
    return c;
  }
  static std::string folder(std::string const& name) { return "/conch/" + name; }
  zookeeper_client& other() {
    if (client_ && client_->ends(0ms)) client_.reset();
    if (!client_) client_ = std::make_unique<zookeeper_client>(server_->port(0), 60s);
    return *client_;
  }
  /// How many of the folder's nodes keep the lock, and how many are in line.
  std::size_t keeping(std::string const& name) {
    auto const all = other().list(folder(name));
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [](std::string const& one) { return zookeeper::read_keep_name(one).has_value(); }));
  }
  std::size_t in_line(std::string const& name) { return other().list(folder(name)).size() - keeping(name); }

  world w;
  static inline std::unique_ptr<zookeeper_ensemble> server_;

 private:
  std::unique_ptr<zookeeper_client> client_;
};

TEST_F(ZookeeperKeeps, TheNodeOutlivesTheHoldAndItsOwnClientRemovesIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "own"};
    hold h = co_await m.async_acquire({.at_least = 1s});
    EXPECT_EQ(keeping("own"), 1u);
    EXPECT_EQ(in_line("own"), 1u);
    co_await h.async_release();
    EXPECT_EQ(keeping("own"), 1u);
    EXPECT_EQ(in_line("own"), 0u);
    auto const none = [&] { return other().list(folder("own")).empty(); };
    co_await until(none, "nothing left of an idle lock");
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKeeps, AMutexWithoutAnIntervalHasOneNode) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "plain"};
    hold h = co_await m.async_acquire();
    auto const all = other().list(folder("plain"));
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all.front().find('~'), std::string::npos) << all.front();
    co_await h.async_release();
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKeeps, TheNextRemovesTheNodeOfAKilledClient) {
  auto const body = [&]() -> asio::awaitable<void> {
    child dead{server_->url(), "killed", 4s, 0ms, 0ms, 12s};
    dead.wait_for("held");
    auto const began = steady::now();
    dead.kill();
    auto const gone = [&] { return in_line("killed") == 0; };
    co_await until(gone, "its session has ended", 40s);
    EXPECT_EQ(keeping("killed"), 1u);
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "killed"};
    hold next = co_await m.async_acquire();
    EXPECT_GE(steady::now() - began, 11900ms);
    EXPECT_EQ(keeping("killed"), 0u);
    co_await next.async_release();
  };
  w.run(body, 60s);
}

/// Nobody was there for the end of the interval.
TEST_F(ZookeeperKeeps, TheNextRemovesOneThatIsOver) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::string const keep = folder("over") + "/gone~k100c1.1-0000000000";
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "over"};
    hold first = co_await m.async_acquire();
    other().create(keep);
    co_await first.async_release();
    co_await pause_for(200ms);
    hold next = co_await m.async_acquire();
    EXPECT_FALSE(other().has(keep));
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKeeps, DeletingTheNodeEndsTheInterval) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "by hand"};
    hold h = co_await m.async_acquire({.at_least = 1h});
    co_await h.async_release();
    bool granted = false;
    hold next;
    auto const taken = [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
      granted = true;
    };
    m.async_acquire(taken);
    auto const waits = [&] { return in_line("by hand") == 1; };
    co_await until(waits, "in line");
    for (std::string const& one : other().list(folder("by hand"))) {
      if (zookeeper::read_keep_name(one)) other().remove(folder("by hand") + '/' + one);
    }
    auto const has = [&] { return granted; };
    co_await until(has, "the grant");
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_F(ZookeeperKeeps, AnotherKindOfLockIsToldThatItIsAMutex) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "kind"};
    semaphore s{c, "kind", 2};
    hold h = co_await m.async_acquire({.at_least = 1h});
    co_await h.async_release();
    auto const got = co_await s.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(got), errc::wrong_type) << std::get<0>(got).message();
    for (std::string const& one : other().list(folder("kind"))) other().remove(folder("kind") + '/' + one);
  };
  w.run(body, 60s);
}

/// After a loss: the delay, from the end of the hold, and the interval, from its grant.
TEST_F(ZookeeperKeeps, BothTheDelayAndTheIntervalHold) {
  auto const body = [&]() -> asio::awaitable<void> {
    client two{w.ctx.get_executor(), settings()};
    struct {
      duration delay, interval, least;
    } const table[] = {{1s, 3s, 3s}, {2s, 1s, 2500ms}};
    for (auto const& row : table) {
      std::string const name = "both " + std::to_string(row.interval.count());
      client one{w.ctx.get_executor(), settings(row.delay)};
      mutex mine{one, name}, theirs{two, name};
      auto const began = steady::now();
      hold h = co_await mine.async_acquire({.lease = 600ms, .renew = false, .at_least = row.interval});
      co_await h.async_lost(as_tuple);
      h = {};
      hold next = co_await theirs.async_acquire();
      EXPECT_GE(steady::now() - began, row.least) << name;
      co_await next.async_release();
    }
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
