// Locks over the masters of a real Cluster.

#include "integration/cluster_fixture.hpp"

#include <conch/stats.hpp>

namespace conch::test {
namespace {

TEST(Cluster, ALockIsAtTheMasterOfItsSlotAndGoesToTheNextInLine) {
  cluster_set all;
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), over(all.url({1}), &log)}, second{w.ctx.get_executor(), over(all)};
    std::int64_t last = 0;
    for (std::size_t node = 0; node < all.size(); ++node) {
      std::string const name = all.name_at(node);
      mutex a{first, name}, b{second, name};
      hold h = co_await a.async_acquire();
      EXPECT_TRUE(h.valid());
      EXPECT_GT(h.fence(), last);
      redis_probe probe{all.node(node)};
      EXPECT_EQ(probe.integer({"EXISTS", lock_key(name)}), 1);
      hold next;
      co_await stand_in_line(b, next, probe);
      last = h.fence();
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      auto const served = [&] { return next.valid(); };
      co_await until(served, "the grant of the waiter");
      EXPECT_GT(next.fence(), last);
      last = next.fence();
      bool const was_held_too = co_await next.async_release();
      EXPECT_TRUE(was_held_too);
      EXPECT_TRUE(is_free(probe, name));
    }
    EXPECT_EQ(second.stats().safety_checks, 0u);
    EXPECT_EQ(second.stats().grants_pushed, 3u);
    co_await first.async_close(20s);
  };
  w.run(body, 60s);
  EXPECT_TRUE(log.contains("a Cluster of 3 masters")) << *log.text;
}

}  // namespace
}  // namespace conch::test
