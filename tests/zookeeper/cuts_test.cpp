// Connections that are cut or stall at the worst moments: no two clients may hold a lock, and no node may stay behind.
#include "integration/fixture.hpp"
#include "servers/zookeeper/names.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace conch::test {
namespace {

constexpr auto session_time = 3s;

config settings(std::string url) {
  config c = quick(std::move(url), session_time);
  c.stop_margin = 200ms;
  c.command_timeout = 1s;
  c.connect_timeout = 5s;
  c.zookeeper.session_margin = 600ms;  // a leader pings every 250 ms here
  return c;
}

/// What became of one cut: the holder's view, and that of the one after it.
struct cut {
  time_point last_valid = time_point::min();  // the last deadline that the holder was told
  std::optional<time_point> told, granted;
};

/// A holder at one server, and a waiter at another. `isolate` cuts the first one off, at any moment of its heartbeat;
/// `mend` undoes it.
template <class Isolate, class Mend>
asio::awaitable<cut> lose(config holders, config others, std::string lock, unsigned seed, bool busy, Isolate isolate,
                          Mend mend) {
  std::mt19937 random{seed};
  auto const on = co_await asio::this_coro::executor;
  cut seen;
  client one{on, holders}, two{on, others};
  mutex a{one, lock}, b{two, lock}, other{one, lock + " of its own"};
  hold h = co_await a.async_acquire();
  error_code lost;
  h.async_lost([&](error_code ec) { lost = ec, seen.told = clock::now(); });
  hold next;
  b.async_acquire([&](error_code ec, hold got) {
    EXPECT_FALSE(ec) << ec.message();
    seen.granted = clock::now();
    EXPECT_FALSE(h.valid()) << "two believe that they hold the lock";
    next = std::move(got);
  });
  co_await pause_for(std::chrono::milliseconds{random() % 1500});
  if (busy) {  // a write is committed just before
    hold brief = co_await other.async_acquire();
    co_await brief.async_release();
  }
  isolate();
  auto const over = [&] {
    if (h.valid()) seen.last_valid = std::max(seen.last_valid, h.deadline());
    return seen.told && seen.granted;
  };
  co_await until(over, "the loss and the next hold", 90s);
  EXPECT_EQ(lost, errc::lost) << lost.message();
  EXPECT_LE(seen.last_valid, *seen.granted) << "what the holder was told would still be true";
  EXPECT_TRUE(next.valid());
  mend();
  co_await next.async_release();
  // The first one is itself again, with another session.
  hold again = co_await a.async_acquire();
  EXPECT_TRUE(again.valid());
  co_await again.async_release();
  co_return seen;
}

// ------------------------------------------------------------------------------------------- a follower is cut off

class ZookeeperCuts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    zookeeper_options options;
    options.servers = 3;
    options.proxies = true;
    options.tick = 500ms;
    options.shortest_session = 1s;
    options.sync_limit = 20;  // for 10 s a follower that is cut off goes on as if nothing were
    ensemble_ = std::make_unique<zookeeper_ensemble>(options);
  }
  static void TearDownTestSuite() { ensemble_.reset(); }

  void cut_off_followers(int times) {
    for (int i = 0; i < times; ++i) {
      ensemble_->wait_until_serving();
      std::size_t const leader = ensemble_->leader();
      std::size_t const follower = (leader + 1 + static_cast<std::size_t>(i) % 2) % 3;
      tcp_proxy& link = ensemble_->between(follower, leader);
      auto const isolate = [&] { link.stall(); };
      auto const mend = [&] {
        link.heal();
        link.reset();
      };
      world w;
      auto const body = [&]() -> asio::awaitable<void> {
        config const holders = settings(ensemble_->url_of(follower)), others = settings(ensemble_->url_of(leader));
        cut const seen = co_await lose(holders, others, "follower " + std::to_string(i), static_cast<unsigned>(i),
                                       i % 4 == 3, isolate, mend);
        note(seen);
      };
      w.run(body, 120s);
      mend();
    }
    report();
  }

  /// The client's own connection stalls.
  void cut_off_clients(int times) {
    for (int i = 0; i < times; ++i) {
      ensemble_->wait_until_serving();
      std::size_t const at = static_cast<std::size_t>(i) % 3;
      tcp_proxy link{ensemble_->port(at)};
      auto const isolate = [&] { link.stall(); };
      auto const mend = [&] {
        link.heal();
        link.reset();
      };
      world w;
      auto const body = [&]() -> asio::awaitable<void> {
        config const holders = settings("zookeeper://127.0.0.1:" + std::to_string(link.port())),
                     others = settings(ensemble_->url_of((at + 1) % 3));
        cut const seen = co_await lose(holders, others, "client " + std::to_string(i), static_cast<unsigned>(i),
                                       i % 2 == 0, isolate, mend);
        note(seen);
      };
      w.run(body, 120s);
    }
    report();
  }

  void note(cut const& seen) {
    if (!seen.told || !seen.granted) return;
    spare_.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(*seen.granted - seen.last_valid).count());
  }
  void report() {
    RecordProperty("cuts", static_cast<int>(spare_.size()));
    if (spare_.empty()) return;
    RecordProperty("least_ms_from_the_deadline_to_the_next_grant",
                   static_cast<int>(*std::min_element(spare_.begin(), spare_.end())));
    RecordProperty("most", static_cast<int>(*std::max_element(spare_.begin(), spare_.end())));
  }

  std::vector<long> spare_;
  static inline std::unique_ptr<zookeeper_ensemble> ensemble_;
};

class SlowZookeeperCuts : public ZookeeperCuts {};

TEST_F(ZookeeperCuts, P1AndP9HoldWhileAFollowerIsCutOffFromItsLeader) { cut_off_followers(2); }
TEST_F(ZookeeperCuts, P1AndP9HoldWhenTheConnectionStandsStillBehindACommittedWrite) { cut_off_clients(2); }
TEST_F(SlowZookeeperCuts, P1AndP9HoldWhileAFollowerIsCutOffFromItsLeader) { cut_off_followers(20); }
TEST_F(SlowZookeeperCuts, P1AndP9HoldWhenTheConnectionStandsStillBehindACommittedWrite) { cut_off_clients(20); }

TEST_F(ZookeeperCuts, AReconnectToAnotherServerKeepsTheHoldAndThePlaceInLine) {
  ensemble_->wait_until_serving();
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    tcp_proxy first{ensemble_->port(0)}, second{ensemble_->port(1)};
    auto const through = [&] {
      return "zookeeper://127.0.0.1:" + std::to_string(first.port()) + ",127.0.0.1:" + std::to_string(second.port());
    };
    config c = settings(through());
    c.lease = 20s;
    client one{w.ctx.get_executor(), c}, two{w.ctx.get_executor(), c};
    mutex a{one, "kept"}, b{two, "kept"};
    hold h = co_await a.async_acquire();
    bool lost = false;
    h.async_lost([&](error_code ec) { lost = ec == errc::lost; });
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const folder = zookeeper::folder_of(zookeeper::root_of("", "conch:"), "kept");
    auto const line = [&] { return zookeeper_client{ensemble_->port(2), 30s}.list(folder); };
    auto const both = [&] { return line().size() == 2; };
    co_await until(both, "both in line", 60s);
    auto const before = line();
    for (int i = 0; i < 3; ++i) {
      auto const connects = one.stats().connects + two.stats().connects;
      first.reset();
      second.reset();
      auto const again = [&] { return one.stats().connects + two.stats().connects >= connects + 2; };
      co_await until(again, "connected again", 60s);
    }
    EXPECT_EQ(line(), before) << "the same nodes";
    EXPECT_FALSE(lost);
    EXPECT_TRUE(h.valid());
    EXPECT_FALSE(next);
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next one", 60s);
    co_await next.async_release();
  };
  w.run(body, 180s);
}

// -------------------------------------------------------------------------------------- an answer does not arrive

/// The nodes of all locks, as a server without a proxy has them.
std::vector<std::string> nodes_of_locks(std::uint16_t port) {
  zookeeper_client looking{port, 30s};
  looking.ask(zookeeper::sync{"/"});
  std::vector<std::string> nodes;
  for (std::string const& path : looking.tree(zookeeper::root_of("", "conch:"))) {
    bool const is_in_folder = std::count(path.begin(), path.end(), '/') == 3;
    if (is_in_folder && path.find("/.clients/") == std::string::npos) nodes.push_back(path);
  }
  looking.ask(zookeeper::close_session{});
  return nodes;
}

/// Two clients take each of 200 locks in turn, and their connections end after some bytes: before a request, within it,
/// or before its answer.
void lose_answers(std::vector<std::uint16_t> const& ports) {
  std::vector<std::unique_ptr<tcp_proxy>> links;
  std::string url = "zookeeper://";
  for (std::uint16_t const port : ports) {
    links.push_back(std::make_unique<tcp_proxy>(port));
    url += (links.size() == 1 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(links.back()->port());
  }
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config c = settings(url);
    c.lease = 30s;  // nothing is cleaned up by the end of a session
    c.command_timeout = 10s;
    c.offline_timeout = 60s;
    c.reconnect_min = 1ms;
    c.reconnect_max = 5ms;
    client one{w.ctx.get_executor(), c}, two{w.ctx.get_executor(), c};
    for (unsigned seed = 0; seed < 200; ++seed) {
      std::mt19937 random{seed};
      std::string const lock = "answers " + std::to_string(seed % 7);
      mutex a{one, lock}, b{two, lock};
      auto const direction = random() % 2 == 0 ? tcp_proxy::towards::server : tcp_proxy::towards::client;
      for (auto const& link : links) link->reset_after(direction, 1 + random() % 500);
      error_code first, second;
      hold h, next;
      a.async_acquire([&](error_code ec, hold got) { first = ec, h = std::move(got); });
      b.async_acquire([&](error_code ec, hold got) { second = ec, next = std::move(got); });
      for (int both = 0; both < 2; ++both) {
        auto const one_has_it = [&] { return h || next || first || second; };
        co_await until(one_has_it, "one of the two", 60s);
        EXPECT_FALSE(first) << first.message();
        EXPECT_FALSE(second) << second.message();
        EXPECT_NE(static_cast<bool>(h), static_cast<bool>(next)) << "two hold it, seed " << seed;
        if (random() % 3 == 0) links[seed % links.size()]->reset();
        hold& mine = h ? h : next;
        co_await mine.async_release();
        mine = {};
      }
    }
    auto const none = [&] { return nodes_of_locks(ports.front()).empty(); };
    co_await until(none, "all nodes gone", 60s);
    EXPECT_GT(one.stats().connects + two.stats().connects, 100u) << "the connections did not end";
    testing::Test::RecordProperty("connects", static_cast<int>(one.stats().connects + two.stats().connects));
  };
  w.run(body, 280s);
}

class ZookeeperLostAnswers : public testing::Test {};

TEST_F(ZookeeperLostAnswers, LeaveNoNodeBehind) {
  zookeeper_ensemble server;
  lose_answers({server.port(0)});
}

TEST_F(ZookeeperCuts, AnswersThatWereLostLeaveNoNodeBehindWhenTheSessionGoesToAnotherServer) {
  ensemble_->wait_until_serving();
  lose_answers({ensemble_->port(0), ensemble_->port(1), ensemble_->port(2)});
}

}  // namespace
}  // namespace conch::test
