// The shared mutex: readers together, writers alone, nobody starved.

#include "integration/child.hpp"
#include "integration/fixture.hpp"

#include <deque>
#include <vector>

namespace conch::test {
namespace {

class SharedMutex : public with_server<SharedMutex> {};

TEST_F(SharedMutex, ReadersNeverMeetAWriterSeenFromOutside) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    int ended = 0;
    std::int64_t most = 0;
    // A writer counts as 1000.
    auto const worker = [&](client& c, int seed) -> asio::awaitable<void> {
      shared_mutex m{c, "recorded"};
      for (int i = 0; i < 24; ++i) {
        bool const writes = (i + seed) % 6 == 0;
        hold h;
        if (writes) {
          h = co_await m.async_acquire();
        } else {
          h = co_await m.async_acquire_shared();
        }
        std::string const size = writes ? "1000" : "1";
        std::int64_t const inside = probe.integer({"INCRBY", "inside", size});
        if (writes) {
          EXPECT_EQ(inside, 1000);
        } else {
          EXPECT_LT(inside, 1000);
          most = std::max(most, inside);
        }
        co_await pause_for(200us);
        probe.integer({"DECRBY", "inside", size});
        co_await h.async_release();
      }
    };
    for (int i = 0; i < 8; ++i) {
      asio::co_spawn(w.ctx, worker(clients[static_cast<std::size_t>(i % 4)], i), [&](std::exception_ptr e) {
        EXPECT_FALSE(e);
        ++ended;
      });
    }
    auto const all = [&] { return ended == 8; };
    co_await until(all, "all workers done");
    EXPECT_GT(most, 1);
    EXPECT_TRUE(is_free(probe, "recorded"));
  };
  w.run(body);
}

TEST_F(SharedMutex, P5AdjacentReadersAreAdmittedTogetherAndNobodyOvertakes) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    client b{w.ctx.get_executor(), steady_config(server())};
    shared_mutex first{a, "order"};
    shared_mutex m{b, "order"};
    hold writer = co_await first.async_acquire();
    std::string order;
    std::deque<hold> holds;
    std::int64_t there = 0;
    for (char const who : std::string{"rrwrrw"}) {
      auto const told = [&order, &holds, who](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        order += who;
        holds.push_back(std::move(h));
      };
      if (who == 'r') {
        m.async_acquire_shared(told);
      } else {
        m.async_acquire(told);
      }
      auto const one_more = in_lines("order", ++there);
      co_await until(one_more, "one more in line");
    }
    co_await writer.async_release();
    auto const seen = [&](std::string const& so_far) { return [&order, so_far] { return order == so_far; }; };
    auto const two_readers = seen("rr");
    co_await until(two_readers, "both readers");
    EXPECT_LT(holds[0].fence(), holds[1].fence());
    hold none = co_await first.async_try_acquire_shared();  // a writer waits
    EXPECT_FALSE(none);
    co_await holds[0].async_release();
    EXPECT_EQ(order, "rr");
    co_await holds[1].async_release();
    auto const one_writer = seen("rrw");
    co_await until(one_writer, "the writer");
    EXPECT_LT(holds[1].fence(), holds[2].fence());
    co_await holds[2].async_release();
    auto const more_readers = seen("rrwrr");
    co_await until(more_readers, "two more readers");
    co_await holds[3].async_release();
    co_await holds[4].async_release();
    auto const all = seen("rrwrrw");
    co_await until(all, "the last writer");
  };
  w.run(body);
}

TEST_F(SharedMutex, P4ADeadReaderDelaysAWriterByItsLeaseAtMost) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    shared_mutex m{c, "dead reader"};
    child dead{server(), "@reader/dead reader", 2s};
    dead.wait_for("held");
    hold mine = co_await m.async_acquire_shared();
    dead.kill();
    auto const began = steady::now();
    hold writer;
    m.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      writer = std::move(h);
    });
    auto const there = in_lines("dead reader", 1);
    co_await until(there, "the writer in line");
    bool const was_held = co_await mine.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return writer.valid(); };
    co_await until(granted, "the writer");
    EXPECT_LT(steady::now() - began, 10s);  // a lease of 2 s; the waiter's own is 30 s
  };
  w.run(body);
}

TEST_F(SharedMutex, BothSidesCanBeHeldByWithLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    shared_mutex m{c, "with"};
    auto const inner = [&](hold& h) -> asio::awaitable<bool> { co_return h.valid(); };
    auto reading = m.readers();
    auto const outer = [&](hold& h) -> asio::awaitable<bool> {
      bool const both = co_await with_lock(reading, inner);
      co_return h.valid() && both;
    };
    bool const together = co_await with_lock(reading, outer);
    EXPECT_TRUE(together);
    bool const alone = co_await with_lock(m, inner);
    EXPECT_TRUE(alone);
    EXPECT_TRUE(is_free(probe, "with"));
  };
  w.run(body);
}

TEST_F(SharedMutex, ADowngradeLetsTheReadersInAndNoWriterComesBetween) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      SCOPED_TRACE(url);
      client a{w.ctx.get_executor(), url};
      client b{w.ctx.get_executor(), url};
      shared_mutex mine{a, "downgraded"};
      shared_mutex others{b, "downgraded"};
      hold writer = co_await mine.async_acquire();
      std::string order;
      std::deque<hold> holds;
      std::uint64_t there = 0;
      for (char const who : std::string{"rrwr"}) {
        auto const told = [&order, &holds, who](error_code ec, hold h) {
          EXPECT_FALSE(ec) << ec.message();
          order += who;
          holds.push_back(std::move(h));
        };
        if (who == 'r') {
          others.async_acquire_shared(told);
        } else {
          others.async_acquire(told);
        }
        ++there;
        lock_status line;
        auto const end = steady::now() + 10s;
        while (line.waiting != there && steady::now() < end) line = co_await mine.async_inspect();
      }
      auto const fence = writer.fence();
      auto const before = a.stats().scripts;
      co_await mine.async_downgrade(writer);
      EXPECT_LE(a.stats().scripts - before, 2u);  // a second time with its source
      auto const two_readers = [&] { return order == "rr"; };
      co_await until(two_readers, "the readers at the head of the line");
      EXPECT_TRUE(writer.valid());
      EXPECT_EQ(writer.fence(), fence);
      lock_status const status = co_await mine.async_inspect();
      EXPECT_EQ(status.held, 3u);
      EXPECT_EQ(status.taken, 3u);
      EXPECT_EQ(status.waiting, 2u);  // a writer, and a reader behind it
      auto const scripts = a.stats().scripts;
      co_await mine.async_downgrade(writer);  // a reader stays one, without a message
      EXPECT_EQ(a.stats().scripts, scripts);
      bool const was_held = co_await writer.async_release();
      EXPECT_TRUE(was_held);
      co_await holds[0].async_release();
      EXPECT_EQ(order, "rr");
      co_await holds[1].async_release();
      auto const then_writer = [&] { return order == "rrw"; };
      co_await until(then_writer, "the writer");
      EXPECT_GT(holds[2].fence(), holds[1].fence());
      co_await holds[2].async_release();
      auto const all = [&] { return order == "rrwr"; };
      co_await until(all, "the last reader");
    }
  };
  w.run(body);
}

TEST_F(SharedMutex, ADowngradedHoldIsRenewedAndEndsAsAReaders) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server(), 2s)};
    shared_mutex m{c, "downgraded renewed"};
    hold h = co_await m.async_acquire();
    co_await m.async_downgrade(h);
    auto const long_past = h.deadline() + 100ms;
    auto const later = [&] { return clock::now() > long_past; };
    co_await until(later, "the end that it had at first");
    EXPECT_TRUE(h.valid());
    hold other = co_await m.async_try_acquire_shared();
    EXPECT_TRUE(other.valid());
    hold writer = co_await m.async_try_acquire();
    EXPECT_FALSE(writer);
    co_await h.async_release();
    co_await other.async_release();
    EXPECT_TRUE(is_free(probe, "downgraded renewed"));
  };
  w.run(body);
}

TEST_F(SharedMutex, ADowngradeOfWhatIsNotAWritersHoldSaysSo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    shared_mutex m{c, "not a writer"};
    hold empty;
    auto answer = co_await m.async_downgrade(empty, as_tuple);
    EXPECT_EQ(std::get<0>(answer), errc::not_held);
    shared_mutex other{c, "another"};
    hold elsewhere = co_await other.async_acquire();
    answer = co_await m.async_downgrade(elsewhere, as_tuple);
    EXPECT_EQ(std::get<0>(answer), errc::not_held);
    hold h = co_await m.async_acquire();
    probe.command({"DEL", lock_key("not a writer")});
    answer = co_await m.async_downgrade(h, as_tuple);  // the first to be told
    EXPECT_EQ(std::get<0>(answer), errc::lost);
    auto const told = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    answer = co_await m.async_downgrade(h, as_tuple);
    EXPECT_EQ(std::get<0>(answer), errc::lost);
    co_await h.async_release();
    answer = co_await m.async_downgrade(h, as_tuple);
    EXPECT_EQ(std::get<0>(answer), errc::not_held);
  };
  w.run(body);
}

TEST_F(SharedMutex, AnUpgradeIsRefusedAndTheReaderStaysOne) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    shared_mutex m{c, "upgraded"};
    hold reader = co_await m.async_acquire_shared();
    auto const answer = co_await m.async_upgrade(reader, as_tuple);
    EXPECT_EQ(std::get<0>(answer), errc::would_deadlock) << std::get<0>(answer).message();
    EXPECT_EQ(std::get<0>(answer), condition::invalid_request);
    EXPECT_TRUE(reader.valid());
    hold tried = co_await m.async_try_acquire();  // what a user may try instead: it does not wait for itself
    EXPECT_FALSE(tried);
    hold second = co_await m.async_try_acquire_shared();
    EXPECT_TRUE(second.valid());
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
