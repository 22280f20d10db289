// What every lock with several owners shares with the mutex, on a real server. Each is set up so that one holder keeps
// all others out (tests/integration/family.cpp). The rest is in every_kind_test.cpp.

#include "integration/family.hpp"

#include <deque>
#include <vector>

namespace conch::test {
namespace {

class Family : public with_each_kind<Family> {};

INSTANTIATE_TEST_SUITE_P(Each, Family, testing::ValuesIn(kinds_of_locks()), kind_name);

TEST_P(Family, P1OneHolderAtATimeSeenFromOutsideAndP2FencesRise) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    std::string const lock = name("exclusive");
    int ended = 0;
    std::int64_t last = 0;
    auto const worker = [&](client& c) -> asio::awaitable<void> {
      for (int i = 0; i < 25; ++i) {
        hold h = co_await kind().acquire(c, lock);
        EXPECT_EQ(probe.integer({"INCR", "inside " + lock}), 1);
        EXPECT_GT(h.fence(), last);
        last = h.fence();
        co_await pause_for(100us);
        EXPECT_EQ(probe.integer({"DECR", "inside " + lock}), 0);
        bool const was_held = co_await h.async_release();
        EXPECT_TRUE(was_held);
      }
    };
    for (client& c : clients) {
      for (int i = 0; i < 2; ++i) {
        asio::co_spawn(w.ctx, worker(c), [&](std::exception_ptr e) {
          EXPECT_FALSE(e);
          ++ended;
        });
      }
    }
    auto const all = [&] { return ended == 8; };
    co_await until(all, "all workers done");
    EXPECT_TRUE(is_free(probe, lock));
  };
  w.run(body);
}

TEST_P(Family, P5ClientsAreServedInTheOrderOfTheirAsking) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    std::string const lock = name("order");
    hold first = co_await kind().acquire(clients[0], lock);
    std::vector<int> order;
    for (int i = 0; i < 9; ++i) {
      kind().acquire(clients[static_cast<std::size_t>(1 + i % 3)], lock, {}, {}, [&, i](error_code ec, hold) {
        EXPECT_FALSE(ec) << ec.message();
        order.push_back(i);
      });
      auto const there = in_lines(lock, i + 1);
      co_await until(there, "one more in line");
    }
    co_await first.async_release();
    auto const all = [&] { return order.size() == 9; };
    co_await until(all, "all served");
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  };
  w.run(body);
}

TEST_P(Family, ATryFindsItBusyAndStandsInNoLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    std::string const lock = name("tried");
    hold h = co_await kind().try_acquire(one, lock);
    CO_ASSERT(h.valid());
    hold same_process = co_await kind().try_acquire(one, lock);
    EXPECT_FALSE(same_process);
    hold other = co_await kind().try_acquire(two, lock);
    EXPECT_FALSE(other);
    EXPECT_EQ(in_line(probe, lock), 0);
    co_await h.async_release();
    other = co_await kind().try_acquire(two, lock);
    EXPECT_TRUE(other.valid());
  };
  w.run(body);
}

TEST_P(Family, P9ALossIsToldAndAReleaseSaysSo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    hold h = co_await kind().acquire(c, name("gone"));
    probe.command({"DEL", lock_key(name("gone"))});
    auto const told = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    EXPECT_FALSE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
  };
  w.run(body);
}

TEST_P(Family, ANameThatIsAMutexIsRefused) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client c{w.ctx.get_executor(), url};
      mutex m{c, name("mixed up")};
      hold h = co_await m.async_acquire();
      auto result = co_await kind().acquire(c, m.name(), {}, {}, as_tuple);
      EXPECT_EQ(std::get<0>(result), errc::wrong_type) << std::get<0>(result).message();
      co_await h.async_release();
      h = co_await kind().acquire(c, m.name());
      auto other = co_await m.async_acquire(as_tuple);
      EXPECT_EQ(std::get<0>(other), errc::wrong_type) << std::get<0>(other).message();
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
  };
  w.run(body);
}

TEST_P(Family, AHashThatIsNoLockIsRefusedAndStaysWhatItWas) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    std::string const lock = name("somebody's");
    probe.command({"HSET", lock_key(lock), "what", "else"});
    auto result = co_await kind().acquire(c, lock, {}, {}, as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::wrong_type) << std::get<0>(result).message();
    EXPECT_EQ(probe.integer({"HLEN", lock_key(lock)}), 1);
    EXPECT_EQ(probe.integer({"EXISTS", queue_key(lock)}), 0);
  };
  w.run(body);
}

TEST_P(Family, TheSameInThisProcess) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), often_renewed("memory://", 2s)};
    client two{w.ctx.get_executor(), often_renewed("memory://", 2s)};
    std::string const lock = name("in memory");
    hold h = co_await kind().acquire(one, lock);
    hold busy = co_await kind().try_acquire(two, lock);
    EXPECT_FALSE(busy);
    hold next;
    kind().acquire(two, lock, {}, {}, [&](error_code, hold got) { next = std::move(got); });
    auto const long_past = h.deadline() + 100ms;
    auto const later = [&] { return clock::now() > long_past; };
    co_await until(later, "the end that it had at first");
    EXPECT_TRUE(h.valid());
    EXPECT_FALSE(next);
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_GT(next.fence(), 0);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
