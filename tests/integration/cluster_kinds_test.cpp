// Every kind of lock over a Cluster: lines, slots that move, operators; and several locks at once.

#include "integration/cluster_fixture.hpp"
#include "integration/family.hpp"

#include <conch/stats.hpp>

namespace conch::test {
namespace {

/// One Cluster for all kinds.
class ClusterKinds : public testing::TestWithParam<kind_of_lock> {
 public:
  static void SetUpTestSuite() { all_ = std::make_unique<cluster_set>(); }
  static void TearDownTestSuite() { all_.reset(); }

 protected:
  kind_of_lock const& kind() const { return GetParam(); }
  static cluster_set& all() { return *all_; }
  std::string name_at(std::size_t node) const {
    return all().name_at(node, static_cast<unsigned>(std::hash<std::string>{}(kind().name) % 10'000));
  }

  world w;

 private:
  static inline std::unique_ptr<cluster_set> all_;
};

INSTANTIATE_TEST_SUITE_P(Each, ClusterKinds, testing::ValuesIn(every_kind()), kind_name);

TEST_P(ClusterKinds, AHoldAndItsLineMoveAndTheNextIsServed) {
  // Always from the first to the second: targets that change take the same epoch for their slots, and the nodes may not
  // agree for long.
  constexpr std::size_t node = 0, to = 1;
  std::string const name = name_at(node);
  unsigned const slot = redis::slot_of_lock(name);
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all())}, waits{w.ctx.get_executor(), over(all())};
    hold h = co_await kind().acquire(holds, name);
    hold next;
    kind().acquire(waits, name, {}, {}, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    redis_probe before{all().node(node)};
    auto const in_line_there = [&] { return in_line(before, name) == 1; };
    co_await until(in_line_there, "the waiter in line");
    time_point const deadline = h.deadline();
    all().move_slot(slot, to);
    auto const renewed = [&] { return h.deadline() > deadline; };
    co_await until(renewed, "a renewal where the slot is now", 60s);
    mutex any{waits, name};
    lock_status const status = co_await any.async_inspect();
    EXPECT_EQ(status.waiting, 1u);
    EXPECT_EQ(status.held, 1u);
    std::int64_t const fence = h.fence();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return next.valid(); };
    co_await until(served, "the grant of the waiter", 60s);
    EXPECT_GT(next.fence(), fence);
    bool const was_held_too = co_await next.async_release();
    EXPECT_TRUE(was_held_too);
    EXPECT_EQ(holds.stats().losses + waits.stats().losses, 0u);
  };
  w.run(body, 120s);
}

TEST_P(ClusterKinds, AnOperatorAsksAndTakesItAway) {
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all())}, rules{w.ctx.get_executor(), over(all())};
    std::string const name = name_at(2);
    hold h = co_await kind().acquire(holds, name);
    bool asked = false, lost = false;
    h.async_requested([&](error_code ec) { asked = !ec; });
    h.async_lost([&](error_code ec) { lost = !ec || ec == errc::lost; });
    mutex any{rules, name};
    // The first question of h goes to the server by itself: the order may come before it, and is still noticed.
    std::size_t const told = co_await any.async_request_release();
    EXPECT_EQ(told, 1u);
    auto const heard = [&] { return asked; };
    co_await until(heard, "the request");
    std::size_t const taken = co_await any.async_force_release();
    EXPECT_EQ(taken, 1u);
    auto const gone = [&] { return lost; };
    co_await until(gone, "the loss");
    EXPECT_FALSE(h.valid());
  };
  w.run(body, 60s);
}

TEST(ClusterMulti, SeveralLocksOfOneSlotAreOneScriptAndOthersGoToTheirMasters) {
  cluster_set all;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), over(all)}, other{w.ctx.get_executor(), over(all)};
    mutex a{c, all.name_at(0)}, b{c, all.name_at(1)}, d{c, all.name_at(2)};
    mutex busy{other, b.name()};
    {
      multi_lock both{{a, b, d}};
      multi_hold h = co_await both.async_acquire();
      EXPECT_TRUE(h.valid());
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      hold one = co_await busy.async_acquire();
      auto none = co_await both.async_try_acquire();
      EXPECT_FALSE(none);
      multi_hold later;
      both.async_acquire([&](error_code ec, multi_hold got) {
        EXPECT_FALSE(ec) << ec.message();
        later = std::move(got);
      });
      redis_probe probe{all.node(1)};
      auto const waits = [&] { return in_line(probe, b.name()) == 1; };
      co_await until(waits, "the waiter in line");
      co_await one.async_release();
      auto const served = [&] { return later.valid(); };
      co_await until(served, "all three");
      co_await later.async_release();
    }
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
