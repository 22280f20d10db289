// More to do than one script does: a client that is told continues at once, and no client waits for a lease.

#include "integration/fixture.hpp"

#include <algorithm>
#include <vector>

namespace conch::test {
namespace {

class BoundedWork : public with_server<BoundedWork> {
 protected:
  static constexpr int many = 1000;

  /// Dead clients, before all new ones.
  void line_up_dead(std::string const& lock, std::string const& behind = "") {
    probe.command({"EVAL",
                   "for i = 1, " + std::to_string(many) + " do redis.call('ZADD', KEYS[1], i, 'dead' .. i .. '.1" +
                       behind + "') end redis.call('PEXPIRE', KEYS[1], 600000)",
                   "1", queue_key(lock)});
  }
};

TEST_F(BoundedWork, P4AReleaseReachesTheNextBehindManyDead) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    client b{w.ctx.get_executor(), steady_config(server())};
    mutex mine{a, "line"}, theirs{b, "line"};
    hold h = co_await mine.async_acquire();
    line_up_dead("line");
    hold next;
    theirs.async_acquire([&](error_code, hold got) { next = std::move(got); });
    auto const stands = in_lines("line", many + 1);
    co_await until(stands, "the living in line");
    auto const released = steady::now();
    co_await h.async_release();
    auto const has_it = [&] { return static_cast<bool>(next); };
    co_await until(has_it, "the next has it");
    EXPECT_LT(steady::now() - released, 15s) << "half a lease";
    EXPECT_EQ(in_line(probe, "line"), 0);
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(BoundedWork, P4AClientThatEndsFinishesWhatItsReleaseBegan) {
  auto const body = [&]() -> asio::awaitable<void> {
    client b{w.ctx.get_executor(), steady_config(server())};
    mutex theirs{b, "ends"};
    hold next;
    {
      client a{w.ctx.get_executor(), steady_config(server())};
      mutex mine{a, "ends"};
      hold h = co_await mine.async_acquire();
      line_up_dead("ends");
      theirs.async_acquire([&](error_code, hold got) { next = std::move(got); });
      auto const stands = in_lines("ends", many + 1);
      co_await until(stands, "the living in line");
      co_await h.async_release();
      co_await a.async_close(5s);
    }
    auto const has_it = [&] { return static_cast<bool>(next); };
    co_await until(has_it, "the next has it");
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(BoundedWork, P11ATryOfALockThatOnlyDeadWaitForIsNotBusy) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    line_up_dead("free");
    mutex m{a, "free"};
    hold h = co_await m.async_try_acquire();
    EXPECT_TRUE(static_cast<bool>(h));
    line_up_dead("free permit", " 1 -");
    semaphore s{a, "free permit", 5};
    hold p = co_await s.async_try_acquire();
    EXPECT_TRUE(static_cast<bool>(p));
    co_await h.async_release();
    co_await p.async_release();
    EXPECT_TRUE(is_free(probe, "free"));
    EXPECT_TRUE(is_free(probe, "free permit"));
  };
  w.run(body);
}

TEST_F(BoundedWork, AWritersReleaseLetsAllReadersIn) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    client b{w.ctx.get_executor(), steady_config(server())};
    shared_mutex mine{a, "book"}, theirs{b, "book"};
    hold h = co_await mine.async_acquire();
    std::vector<hold> readers;
    for (int i = 0; i < 300; ++i)
      theirs.async_acquire_shared([&](error_code, hold got) { readers.push_back(std::move(got)); });
    auto const stand = in_lines("book", 300);
    co_await until(stand, "the readers in line");
    co_await h.async_release();
    auto const all = [&] { return readers.size() == 300; };
    co_await until(all, "all readers are in");
    EXPECT_EQ(probe.integer({"ZCARD", lock_key("book") + ":e"}), 300) << "this many have a set of ends";
    for (hold& one : readers) {
      EXPECT_TRUE(static_cast<bool>(one));
      co_await one.async_release();
    }
    EXPECT_TRUE(is_free(probe, "book"));
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("book") + ":e"}), 0);
  };
  w.run(body);
}

TEST_F(BoundedWork, AnOrderTakesItFromAllOwners) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    client b{w.ctx.get_executor(), steady_config(server())};
    semaphore s{a, "many", 1000};
    semaphore t{b, "many", 1000};
    std::vector<hold> owners;
    for (int i = 0; i < 300; ++i) s.async_acquire([&](error_code, hold got) { owners.push_back(std::move(got)); });
    auto const all = [&] { return owners.size() == 300; };
    co_await until(all, "all have it");
    hold large;
    t.async_acquire(1000, [&](error_code, hold got) { large = std::move(got); });
    auto const stands = in_lines("many", 1);
    co_await until(stands, "the large one in line");
    lock_holder one;
    one.fence = owners[123].fence();
    std::uint32_t const from_one = co_await t.async_force_release(one);
    EXPECT_EQ(from_one, 1u);
    auto const lost = [&] { return !owners[123].valid(); };
    co_await until(lost, "the one has lost it");
    std::uint32_t const from_all = co_await t.async_force_release();
    EXPECT_EQ(from_all, 299u);
    auto const has_it = [&] { return static_cast<bool>(large); };
    co_await until(has_it, "the large one has it");
    auto const none = [&] {
      return std::none_of(owners.begin(), owners.end(), [](hold const& h) { return h.valid(); });
    };
    co_await until(none, "all are told");
    co_await large.async_release();
  };
  w.run(body);
}

// 100 owners are taken by one script: behind the last of 200 there is nothing more to take, but there are many to let
// in.
TEST_F(BoundedWork, P4AnOrderLetsAllInThatWaited) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    client b{w.ctx.get_executor(), steady_config(server())};
    semaphore s{a, "two hundred", 200};
    semaphore t{b, "two hundred", 200};
    std::vector<hold> owners, next;
    for (int i = 0; i < 200; ++i) s.async_acquire([&](error_code, hold got) { owners.push_back(std::move(got)); });
    auto const all = [&] { return owners.size() == 200; };
    co_await until(all, "all have it");
    for (int i = 0; i < 90; ++i) t.async_acquire([&](error_code, hold got) { next.push_back(std::move(got)); });
    auto const stand = in_lines("two hundred", 90);
    co_await until(stand, "the others in line");
    std::uint32_t const from = co_await t.async_force_release();
    EXPECT_EQ(from, 200u);
    auto const have_it = [&] { return next.size() == 90; };
    co_await until(have_it, "all in line have it");
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
