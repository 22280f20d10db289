// What a lock in ZooKeeper costs beside the cheapest exchange with the same server in the same run: a write, and a
// deletion that a bare watcher is told of.
#include "integration/fixture.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {
namespace {

using steady = std::chrono::steady_clock;

double micros(steady::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

struct sample {
  std::vector<double> all;

  double at(double share) {
    std::sort(all.begin(), all.end());
    return all.at(static_cast<std::size_t>(share * static_cast<double>(all.size() - 1)));
  }
};

/// To the floors.
struct ratios {
  double acquire, hand_over;
};

void print(char const* what, sample& s, double floor) {
  std::printf("%-42s p50 %8.0f us  p99 %8.0f us  %5.2f x\n", what, s.at(0.5), s.at(0.99), s.at(0.5) / floor);
}

ratios measure(zookeeper_options const& of_servers) {
  zookeeper_ensemble server{of_servers};
  constexpr int rounds = 1000;
  sample write, event, acquire, release, hand_over;
  zookeeper_client bare{server.port(0), 60s}, watcher{server.port(0), 60s};
  bare.create("/floor");

  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config c;
    c.url = server.url_of(0);  // where the bare clients are
    c.single_threaded = true;
    client one{w.ctx.get_executor(), c}, two{w.ctx.get_executor(), c};
    mutex a{one, "acquire"}, x{one, "hand-over"}, y{two, "hand-over"};
    for (int i = 0; i < rounds; ++i) {
      // The floors and what is compared with them take turns, so that the load of the machine meets all of them alike;
      // and each behind a pause, in which the server's threads go to sleep.
      co_await pause_for(2ms);
      auto begin = steady::now();
      std::string const node = bare.create("/floor/n-", zookeeper::node_kind::ephemeral_sequential).path;
      write.all.push_back(micros(steady::now() - begin));
      watcher.read(node, true);
      co_await pause_for(2ms);
      begin = steady::now();
      bare.send(zookeeper::remove{node});
      EXPECT_TRUE(watcher.next_notice(60s));
      event.all.push_back(micros(steady::now() - begin));
      (void)bare.read_answer();

      co_await pause_for(2ms);
      begin = steady::now();
      hold h = co_await a.async_acquire();
      acquire.all.push_back(micros(steady::now() - begin));
      co_await h.async_release();

      hold mine = co_await x.async_acquire();
      hold next;
      steady::time_point got;
      y.async_acquire([&](error_code ec, hold granted) {
        EXPECT_FALSE(ec) << ec.message();
        got = steady::now(), next = std::move(granted);
      });
      auto const waits = [&] { return bare.list("/conch/hand-over").size() == 2; };
      co_await until(waits, "in line", 60s);
      co_await pause_for(2ms);  // also for its watches
      begin = steady::now();
      co_await mine.async_release();
      release.all.push_back(micros(steady::now() - begin));
      while (!next) co_await asio::post(w.ctx, asio::use_awaitable);
      hand_over.all.push_back(micros(got - begin));
      co_await next.async_release();
    }
    print("a write, by a bare client", write, write.at(0.5));
    print("an acquire", acquire, write.at(0.5));
    print("a deletion until a bare watcher is told", event, event.at(0.5));
    print("a release", release, event.at(0.5));
    print("a hand-over", hand_over, event.at(0.5));
  };
  w.run(body, 600s);
  return {acquire.at(0.5) / write.at(0.5), hand_over.at(0.5) / event.at(0.5)};
}

/// As a server is run: what it answers is on disk.
TEST(SlowZookeeperCost, OfAnAcquireAndAHandOverAtOneServer) {
  zookeeper_options one;
  one.settings = {"forceSync=yes"};
  ratios const r = measure(one);
  EXPECT_LE(r.acquire, 1.2);
  EXPECT_LE(r.hand_over, 1.3);
}

TEST(SlowZookeeperCost, OfAnAcquireAndAHandOverInAnEnsemble) {
  zookeeper_options three;
  three.servers = 3;
  three.settings = {"forceSync=yes"};
  ratios const r = measure(three);
  EXPECT_LE(r.hand_over, 1.3);
}

}  // namespace
}  // namespace conch::test
