// The reentrant read/write lock: levels that read and that write in one hold, and the way down from writer to reader.

#include "integration/child.hpp"
#include "integration/fixture.hpp"
#include "support/tcp_proxy.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace conch::test {
namespace {

class ReentrantSharedMutex : public with_server<ReentrantSharedMutex> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }

 protected:
  std::vector<std::string> both() { return {server().url(), "memory://"}; }

  /// Waits until this many clients are queued, wherever the lock is.
  static asio::awaitable<void> lined_up(reentrant_shared_mutex const& m, std::uint64_t count) {
    auto const end = steady::now() + 15s;
    lock_status line = co_await m.async_inspect();
    while (line.waiting != count && steady::now() < end) line = co_await m.async_inspect();
    EXPECT_EQ(line.waiting, count);
  }
};

TEST_F(ReentrantSharedMutex, WritesInAWriteAndReadsInAWriteWithoutAMessage) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client c{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "nested"};
      reentrant_shared_mutex same{c, "nested"};
      owner me;
      EXPECT_FALSE(m.held_by(me));
      reentrant_hold first = co_await m.async_acquire(me);
      EXPECT_TRUE(m.held_by(me));
      EXPECT_TRUE(m.written_by(me));
      auto const scripts = c.stats().scripts;
      reentrant_hold write = co_await same.async_acquire(me);
      reentrant_hold read = co_await m.async_acquire_shared(me);
      reentrant_hold tried = co_await m.async_try_acquire(me);
      reentrant_hold tried_read = co_await same.async_try_acquire_shared(me);
      EXPECT_EQ(c.stats().scripts, scripts);
      EXPECT_EQ(first.depth(), 5u);
      for (reentrant_hold const* level : {&write, &read, &tried, &tried_read}) {
        EXPECT_TRUE(level->valid());
        EXPECT_EQ(level->fence(), first.fence());
        EXPECT_EQ(level->deadline(), first.deadline());
        EXPECT_EQ(level->depth(), 5u);
      }
      bool was_held = co_await first.async_release();
      EXPECT_TRUE(was_held);
      auto again = co_await first.async_release(as_tuple);
      EXPECT_EQ(std::get<0>(again), errc::not_held);
      was_held = co_await read.async_release();
      EXPECT_TRUE(was_held);
      tried_read = {};
      tried = {};
      EXPECT_EQ(write.depth(), 1u);
      EXPECT_EQ(c.stats().scripts, scripts);
      EXPECT_TRUE(m.written_by(me));
      was_held = co_await write.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_EQ(c.stats().releases, 1u);
      EXPECT_FALSE(m.held_by(me));
      EXPECT_FALSE(m.written_by(me));
    }
    EXPECT_TRUE(is_free(probe, "nested"));
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, ReadsInAReadAndInAWriteAlsoPastAWriterThatWaits) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      for (bool const writes : {false, true}) {
        SCOPED_TRACE(url + (writes ? ", writes" : ", reads"));
        client c{w.ctx.get_executor(), url};
        client d{w.ctx.get_executor(), url};
        reentrant_shared_mutex m{c, "past"};
        shared_mutex others{d, "past"};
        owner me;
        reentrant_hold outer;
        if (writes) {
          outer = co_await m.async_acquire(me);
        } else {
          outer = co_await m.async_acquire_shared(me);
        }
        hold writer;
        others.async_acquire([&](error_code ec, hold h) {
          EXPECT_FALSE(ec) << ec.message();
          writer = std::move(h);
        });
        co_await lined_up(m, 1);
        auto const scripts = c.stats().scripts;
        reentrant_hold inner = co_await m.async_acquire_shared(me);
        EXPECT_TRUE(inner.valid());
        EXPECT_EQ(inner.depth(), 2u);
        EXPECT_EQ(c.stats().scripts, scripts);
        owner you;
        reentrant_hold none = co_await m.async_try_acquire_shared(you);  // another owner does not overtake
        EXPECT_FALSE(none);
        bool was_held = co_await outer.async_release();
        EXPECT_TRUE(was_held);
        EXPECT_FALSE(writer);
        was_held = co_await inner.async_release();
        EXPECT_TRUE(was_held);
        auto const granted = [&] { return writer.valid(); };
        co_await until(granted, "the writer");
        co_await writer.async_release();
      }
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheLastLevelThatWritesMakesAReaderAndLetsReadersIn) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      for (bool const dropped : {false, true}) {
        SCOPED_TRACE(url + (dropped ? ", dropped" : ", released"));
        client c{w.ctx.get_executor(), url};
        client d{w.ctx.get_executor(), url};
        reentrant_shared_mutex m{c, "down"};
        shared_mutex others{d, "down"};
        owner me;
        reentrant_hold outer = co_await m.async_acquire(me);
        reentrant_hold read = co_await m.async_acquire_shared(me);
        reentrant_hold inner = co_await m.async_acquire(me);
        hold reader, writer;
        others.async_acquire_shared([&](error_code, hold h) { reader = std::move(h); });
        co_await lined_up(m, 1);
        others.async_acquire([&](error_code, hold h) { writer = std::move(h); });
        co_await lined_up(m, 2);
        std::int64_t const fence = read.fence();
        bool was_held = co_await outer.async_release();
        EXPECT_TRUE(was_held);
        lock_status status = co_await m.async_inspect();
        EXPECT_TRUE(status.writer()) << "a level that writes is left";
        EXPECT_FALSE(reader);
        if (dropped) {
          inner = {};
        } else {
          was_held = co_await inner.async_release();
          EXPECT_TRUE(was_held);
        }
        EXPECT_TRUE(m.held_by(me));
        EXPECT_FALSE(m.written_by(me));
        auto const together = [&] { return reader.valid(); };
        co_await until(together, "the reader in line");
        EXPECT_TRUE(read.valid());
        EXPECT_EQ(read.fence(), fence);
        EXPECT_EQ(read.depth(), 1u);
        status = co_await m.async_inspect();
        EXPECT_EQ(status.readers(), 2u);
        EXPECT_EQ(status.waiting, 1u);
        EXPECT_FALSE(writer);
        co_await reader.async_release();
        EXPECT_FALSE(writer);
        was_held = co_await read.async_release();
        EXPECT_TRUE(was_held);
        auto const last = [&] { return writer.valid(); };
        co_await until(last, "the writer");
        EXPECT_GT(writer.fence(), fence);
        co_await writer.async_release();
      }
    }
    EXPECT_TRUE(is_free(probe, "down"));
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheAnswerOfTheServerEndsTheReleaseThatMakesAReader) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    reentrant_shared_mutex m{c, "answered"};
    owner me;
    reentrant_hold write = co_await m.async_acquire(me);
    reentrant_hold read = co_await m.async_acquire_shared(me);
    server().stop();
    std::optional<bool> was_held;
    write.async_release([&](error_code ec, bool held) {
      EXPECT_FALSE(ec) << ec.message();
      was_held = held;
    });
    EXPECT_FALSE(write);
    EXPECT_FALSE(m.written_by(me)) << "from the call on";
    co_await pause_for(20ms);
    EXPECT_FALSE(was_held.has_value());
    server().cont();
    auto const told = [&] { return was_held.has_value(); };
    co_await until(told, "the answer");
    EXPECT_TRUE(*was_held);
    hold other = co_await shared_mutex{c, "answered"}.async_try_acquire_shared(asio::use_awaitable);
    EXPECT_TRUE(other.valid());
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, LevelsMayEndInAnyOrder) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      client c{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "any order"};
      owner me;
      std::vector<std::size_t> order{0, 1, 2, 3};  // the even ones write
      std::uint64_t released = 0;
      do {
        for (bool const dropped : {false, true}) {
          std::vector<reentrant_hold> levels;
          for (std::size_t i = 0; i < order.size(); ++i) {
            reentrant_hold one;
            if (i % 2 == 0) {
              one = co_await m.async_acquire(me);
            } else {
              one = co_await m.async_acquire_shared(me);
            }
            levels.push_back(std::move(one));
          }
          std::int64_t const fence = levels[0].fence();
          std::size_t writes = 2;
          for (std::size_t ended = 0; ended < order.size(); ++ended) {
            reentrant_hold& level = levels[order[ended]];
            if (order[ended] % 2 == 0) --writes;
            if (dropped) {
              level = reentrant_hold{};
            } else {
              bool const was_held = co_await level.async_release();
              EXPECT_TRUE(was_held);
            }
            EXPECT_FALSE(level);
            EXPECT_EQ(m.written_by(me), writes != 0);
            EXPECT_EQ(m.held_by(me), ended + 1 < order.size());
            for (std::size_t left = ended + 1; left < order.size(); ++left) {
              EXPECT_TRUE(levels[order[left]].valid());
              EXPECT_EQ(levels[order[left]].depth(), order.size() - ended - 1);
              EXPECT_EQ(levels[order[left]].fence(), fence);
            }
            if (ended + 1 == order.size()) continue;
            lock_status const status = co_await m.async_inspect();  // behind what the level's end has sent
            EXPECT_EQ(status.writer(), writes != 0);
            EXPECT_EQ(status.held, 1u);
          }
          ++released;
          auto const given_back = [&] { return c.stats().releases == released && c.stats().cleanups_pending == 0; };
          co_await until(given_back, "one release for all levels");
        }
      } while (std::next_permutation(order.begin(), order.end()));
      EXPECT_EQ(c.stats().held, 0u);
      EXPECT_EQ(c.stats().waiting, 0u);
    }
    EXPECT_TRUE(is_free(probe, "any order"));
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, AnOwnerThatOnlyReadsIsRefusedToWrite) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      client c{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "refused"};
      owner me;
      for (bool const was_writer : {false, true}) {
        SCOPED_TRACE(url + (was_writer ? ", was a writer" : ", was a reader"));
        reentrant_hold write, read;
        if (was_writer) write = co_await m.async_acquire(me);
        read = co_await m.async_acquire_shared(me);
        if (was_writer) co_await write.async_release();
        auto const scripts = c.stats().scripts;
        acquire_options const briefly{.wait = 50ms}, at_once{.wait = 0ms};
        auto refused = co_await m.async_acquire(me, as_tuple);
        EXPECT_EQ(std::get<0>(refused), errc::would_deadlock);
        EXPECT_EQ(std::get<0>(refused), condition::invalid_request);
        EXPECT_NE(std::get<0>(refused).message().find("release all levels that read"), std::string::npos)
            << std::get<0>(refused).message();
        EXPECT_FALSE(std::get<1>(refused));
        refused = co_await m.async_acquire(me, briefly, as_tuple);
        EXPECT_EQ(std::get<0>(refused), errc::would_deadlock);
        refused = co_await m.async_acquire(me, at_once, as_tuple);
        EXPECT_EQ(std::get<0>(refused), errc::would_deadlock);
        refused = co_await m.async_try_acquire(me, as_tuple);
        EXPECT_EQ(std::get<0>(refused), errc::would_deadlock);
        EXPECT_FALSE(std::get<1>(refused));
        EXPECT_EQ(c.stats().scripts, scripts);
        EXPECT_TRUE(read.valid());
        EXPECT_EQ(read.depth(), 1u);
        co_await read.async_release();
        write = co_await m.async_acquire(me);  // what the words say
        EXPECT_TRUE(write.valid());
        co_await write.async_release();
      }
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, ANestedLevelKeepsTheLeaseOfTheFirst) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    reentrant_shared_mutex m{c, "lease"};
    owner me;
    acquire_options const brief{.lease = 10s, .renew = false}, longer{.lease = 60s, .renew = true, .max_hold = 1ms};
    reentrant_hold write = co_await m.async_acquire(me, brief);
    time_point const deadline = write.deadline();
    EXPECT_LE(deadline, clock::now() + 10s);
    reentrant_hold read = co_await m.async_acquire_shared(me, longer);
    reentrant_hold again = co_await m.async_acquire(me, longer);
    EXPECT_EQ(read.deadline(), deadline);
    EXPECT_EQ(again.deadline(), deadline);
    bool const held = co_await read.async_extend(20s);  // for all levels
    EXPECT_TRUE(held);
    EXPECT_GT(write.deadline(), deadline + 5s);
    EXPECT_EQ(write.deadline(), again.deadline());
    co_await write.async_release();
    co_await again.async_release();
    EXPECT_GT(read.deadline(), deadline + 5s) << "a reader keeps it";
    EXPECT_TRUE(read.valid());
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheGuardOfAWriterIsRefusedOnceItOnlyReads) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    reentrant_shared_mutex m{c, "guarded"};
    owner me;
    reentrant_hold write = co_await m.async_acquire(me);
    reentrant_hold read = co_await m.async_acquire_shared(me);
    write_guard const guard = write.guard();
    EXPECT_EQ(read.guard(), guard);
    EXPECT_EQ(guard.least_share, 1'000'000u);
    auto const set = [&](write_guard const& by) { return probe.command(guarded_set(by, "written", "x")); };
    EXPECT_EQ(set(guard), "OK");
    co_await write.async_release();
    EXPECT_NE(set(guard).find(not_owner_error), std::string::npos);
    EXPECT_EQ(read.guard().least_share, 1u);
    EXPECT_FALSE(write.guard());
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, IsTheSharedMutexOfThatNameAndOfNoOtherKind) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client c{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "same"};
      shared_mutex plain{c, "same"};
      reentrant_mutex other_kind{c, "same"};
      owner me;
      lock_status status = co_await m.async_inspect();
      EXPECT_EQ(status.kind, lock_status::kind_of_lock::shared_mutex);
      reentrant_hold write = co_await m.async_acquire(me);
      hold none = co_await plain.async_try_acquire_shared();
      EXPECT_FALSE(none);
      auto const wrong = co_await other_kind.async_acquire(me, as_tuple);  // and no level of this one
      EXPECT_EQ(std::get<0>(wrong), errc::wrong_type) << std::get<0>(wrong).message();
      EXPECT_FALSE(other_kind.held_by(me));
      EXPECT_EQ(write.depth(), 1u);
      co_await write.async_release();
      hold reads = co_await plain.async_acquire_shared();
      reentrant_hold too = co_await m.async_try_acquire_shared(me);
      EXPECT_TRUE(too.valid());
      EXPECT_GT(too.fence(), reads.fence());
      co_await too.async_release();
      reentrant_hold alone = co_await m.async_try_acquire(me);
      EXPECT_FALSE(alone);
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheSameIdElsewhereIsAnotherOwner) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client here{w.ctx.get_executor(), url};
      client there{w.ctx.get_executor(), url};
      reentrant_shared_mutex a{here, "far"};
      reentrant_shared_mutex b{there, "far"};
      owner const one{"order 17"};
      owner const copy = one;
      owner const same_id{"order 17"};
      EXPECT_EQ(one, same_id);
      reentrant_hold mine = co_await a.async_acquire(one);
      reentrant_hold nested = co_await a.async_acquire(copy);
      EXPECT_EQ(nested.depth(), 2u);
      reentrant_hold none = co_await a.async_try_acquire(same_id);
      EXPECT_FALSE(none);
      none = co_await b.async_try_acquire(one);  // by another client
      EXPECT_FALSE(none);
      none = co_await b.async_try_acquire_shared(same_id);
      EXPECT_FALSE(none);
      EXPECT_FALSE(b.held_by(one));
      EXPECT_FALSE(a.held_by(same_id));
      co_await mine.async_release();
      co_await nested.async_release();
      reentrant_hold theirs = co_await b.async_try_acquire(same_id);
      EXPECT_TRUE(theirs.valid());
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, BothViewsNestUnderWithLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      client c{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "with"};
      owner const me;
      auto mine = m.for_owner(me);
      auto reading = mine.readers();
      auto const inmost = [&](reentrant_hold& h) -> asio::awaitable<std::uint32_t> {
        EXPECT_TRUE(m.written_by(me));
        co_return h.depth();
      };
      auto const write_again = [&](reentrant_hold&) -> asio::awaitable<std::uint32_t> {
        std::uint32_t const depth = co_await with_lock(mine, inmost);
        co_return depth;
      };
      auto const read_within = [&](reentrant_hold&) -> asio::awaitable<std::uint32_t> {
        std::uint32_t const depth = co_await with_lock(reading, write_again);
        co_return depth;
      };
      std::uint32_t const depth = co_await with_lock(mine, read_within);
      EXPECT_EQ(depth, 3u);
      EXPECT_FALSE(m.held_by(me));
      auto const write_in_read = [&](reentrant_hold&) -> asio::awaitable<error_code> {
        error_code why;
        try {
          co_await with_lock(mine, inmost);
        } catch (boost::system::system_error const& e) {
          why = e.code();
        }
        co_return why;
      };
      error_code const why = co_await with_lock(reading, write_in_read);
      EXPECT_EQ(why, errc::would_deadlock);
      reentrant_hold tried = co_await mine.async_try_acquire();
      EXPECT_TRUE(tried.valid());
      reentrant_hold tried_read = co_await reading.async_try_acquire();
      EXPECT_EQ(tried_read.depth(), 2u);
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, IsNotSupportedOverAQuorum) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.quorum.servers = {"unix:///nowhere/1", "unix:///nowhere/2", "unix:///nowhere/3"};
    client c{w.ctx.get_executor(), settings};
    reentrant_shared_mutex m{c, "votes"};
    owner me;
    for (int i = 0; i < 2; ++i) {  // the first leaves nothing that the second would wait for
      auto told = co_await m.async_acquire(me, as_tuple);
      EXPECT_EQ(std::get<0>(told), errc::not_supported) << std::get<0>(told).message();
      told = co_await m.async_try_acquire_shared(me, as_tuple);
      EXPECT_EQ(std::get<0>(told), errc::not_supported);
    }
    EXPECT_FALSE(m.held_by(me));
  };
  w.run(body);
}

// ---- losses ---------------------------------------------------------------------------------------

TEST_F(ReentrantSharedMutex, P9ALossEndsAllLevels) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    reentrant_shared_mutex m{c, "lost"};
    owner me;
    reentrant_hold outer = co_await m.async_acquire(me);
    reentrant_hold read = co_await m.async_acquire_shared(me);
    reentrant_hold inner = co_await m.async_acquire(me);
    probe.command({"DEL", lock_key("lost")});
    auto const told = co_await read.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    EXPECT_FALSE(outer.valid());
    EXPECT_FALSE(inner.valid());
    EXPECT_FALSE(m.held_by(me));
    EXPECT_FALSE(m.written_by(me));
    reentrant_hold anew = co_await m.async_acquire(me);  // no level of what was lost
    EXPECT_EQ(anew.depth(), 1u);
    EXPECT_EQ(outer.depth(), 3u);
    bool was_held = co_await inner.async_release();
    EXPECT_FALSE(was_held);
    was_held = co_await outer.async_release();  // the last that wrote: nothing is left to be turned into a reader
    EXPECT_FALSE(was_held);
    reentrant_hold nested = co_await m.async_acquire_shared(me);
    EXPECT_EQ(nested.depth(), 2u);
    read = {};
    EXPECT_TRUE(anew.valid());
    EXPECT_TRUE(m.written_by(me));
    lock_status const status = co_await m.async_inspect();
    EXPECT_TRUE(status.writer());
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheReleaseThatMakesAReaderMayBeTheFirstToHearOfALoss) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    reentrant_shared_mutex m{c, "first to hear"};
    owner me;
    reentrant_hold write = co_await m.async_acquire(me);
    reentrant_hold read = co_await m.async_acquire_shared(me);
    probe.command({"DEL", lock_key("first to hear")});
    auto told = co_await write.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(told), error_code{}) << std::get<0>(told).message();
    EXPECT_FALSE(std::get<1>(told));
    EXPECT_FALSE(read.valid());
    auto const why = co_await read.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(why), errc::lost);
    told = co_await read.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(told), error_code{});
    EXPECT_FALSE(std::get<1>(told));
    EXPECT_EQ(c.stats().held, 0u);
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, AServerThatIsAwayHearsOfTheReaderWhenItIsBack) {
  tcp_proxy proxy{server().port()};
  auto const body = [&]() -> asio::awaitable<void> {
    for (bool const dropped : {false, true}) {
      SCOPED_TRACE(dropped ? "dropped" : "released");
      config settings = quick(proxy.url(), 30s);
      settings.offline_timeout = 1s;  // the first connection needs some of it, too
      client c{w.ctx.get_executor(), settings};
      client d{w.ctx.get_executor(), steady_config(server())};
      reentrant_shared_mutex m{c, "away"};
      shared_mutex others{d, "away"};
      owner me;
      reentrant_hold write = co_await m.async_acquire(me);
      reentrant_hold read = co_await m.async_acquire_shared(me);
      hold reader;
      others.async_acquire_shared([&](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        reader = std::move(h);
      });
      auto const waits = in_lines("away", 1);
      co_await until(waits, "the reader in line");
      proxy.refuse(true);
      proxy.reset();
      if (dropped) {
        write = {};
        co_await pause_for(150ms);  // past offline_timeout
      } else {
        auto const told = co_await write.async_release(as_tuple);
        EXPECT_EQ(std::get<0>(told), errc::unreachable) << std::get<0>(told).message();
      }
      EXPECT_FALSE(write);
      EXPECT_FALSE(m.written_by(me));
      EXPECT_TRUE(read.valid());
      EXPECT_FALSE(reader);
      reentrant_hold nested = co_await m.async_acquire_shared(me);
      EXPECT_EQ(nested.depth(), 2u);
      auto const refused = co_await m.async_try_acquire(me, as_tuple);
      EXPECT_EQ(std::get<0>(refused), errc::would_deadlock);
      proxy.refuse(false);
      auto const together = [&] { return reader.valid(); };
      co_await until(together, "the other reader");
      EXPECT_TRUE(read.valid());
      co_await nested.async_release();
      bool const was_held = co_await read.async_release();
      EXPECT_TRUE(was_held);
      co_await reader.async_release();
      EXPECT_TRUE(is_free(probe, "away"));
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheLastLevelMayEndWhileItsReaderIsBeingMade) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (bool const dropped : {false, true}) {
      client c{w.ctx.get_executor(), quick(server(), 30s)};
      reentrant_shared_mutex m{c, "both at once"};
      owner me;
      reentrant_hold write = co_await m.async_acquire(me);
      reentrant_hold read = co_await m.async_acquire_shared(me);
      std::vector<bool> answers;
      auto const told = [&](error_code ec, bool was_held) {
        EXPECT_FALSE(ec) << ec.message();
        answers.push_back(was_held);
      };
      write.async_release(told);
      if (dropped) {
        read = {};
      } else {
        read.async_release(told);
      }
      std::size_t const expected = dropped ? 1 : 2;
      auto const all = [&] { return answers.size() == expected; };
      co_await until(all, "the answers");
      EXPECT_EQ(std::count(answers.begin(), answers.end(), true), static_cast<std::ptrdiff_t>(expected));
      EXPECT_FALSE(m.held_by(me));
      auto const free = [&] { return is_free(probe, "both at once") && c.stats().cleanups_pending == 0; };
      co_await until(free, "nothing left");
    }
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, TheEndOfTheClientEndsLevelsAndWaits) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      owner me, you;
      reentrant_hold write, read, third;
      error_code at_server, behind;
      {
        client c{w.ctx.get_executor(), url};
        reentrant_shared_mutex m{c, "closed"};
        write = co_await m.async_acquire(me);
        read = co_await m.async_acquire_shared(me);
        third = co_await m.async_acquire(me);
        m.async_acquire(you, [&](error_code ec, reentrant_hold) { at_server = ec; });
        m.async_acquire_shared(you, [&](error_code ec, reentrant_hold) { behind = ec; });
        co_await lined_up(m, 1);
      }
      auto const ended = [&] { return at_server && behind; };
      co_await until(ended, "the waits");
      EXPECT_EQ(at_server, errc::closed);
      EXPECT_EQ(behind, errc::closed);
      auto const lost = [&] { return !read.valid(); };
      co_await until(lost, "the levels");
      auto told = co_await third.async_release(as_tuple);
      EXPECT_EQ(std::get<0>(told), error_code{});
      EXPECT_FALSE(std::get<1>(told));
      write = {};
      told = co_await read.async_release(as_tuple);
      EXPECT_EQ(std::get<0>(told), error_code{});
      EXPECT_FALSE(std::get<1>(told));
    }
    auto const free = [&] { return is_free(probe, "closed"); };
    co_await until(free, "given back");
  };
  w.run(body);
}

TEST_F(ReentrantSharedMutex, LevelsOutliveTheContext) {
  for (std::string const& url : both()) {
    owner const me, you;
    int completed = 0;
    {
      reentrant_hold write, read;  // end in this order: the writer would become a reader
      {
        world inside;
        client c{inside.ctx.get_executor(), url};
        reentrant_shared_mutex m{c, "outlives"};
        m.async_acquire(me, [&](error_code, reentrant_hold h) { write = std::move(h); });
        inside.run_until([&] { return write.valid(); }, "granted");
        m.async_acquire_shared(me, [&](error_code, reentrant_hold h) { read = std::move(h); });
        inside.run_until([&] { return read.valid(); }, "nested");
        auto const never = [&](error_code, reentrant_hold) { ++completed; };
        m.async_acquire(you, never);
        m.async_acquire_shared(you, never);  // behind the first, in the owner's line
        m.async_acquire(you, never);
      }
      write = {};
      EXPECT_FALSE(write);
      EXPECT_TRUE(read);
    }
    EXPECT_EQ(completed, 0);
  }
  probe.command({"DEL", lock_key("outlives"), queue_key("outlives")});
}

TEST_F(ReentrantSharedMutex, P6AReleaseThatIsNeverAwaitedLeavesItsLevelAllTheSame) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), "memory://"};
    reentrant_shared_mutex m{c, "forgotten"};
    owner me, you;
    reentrant_hold write = co_await m.async_acquire(me);
    reentrant_hold read = co_await m.async_acquire_shared(me);
    { auto const never_started = write.async_release(); }
    EXPECT_FALSE(m.written_by(me));
    acquire_options const patience{.wait = 5s};
    auto next = co_await m.async_acquire_shared(you, patience, as_tuple);
    EXPECT_FALSE(std::get<0>(next)) << std::get<0>(next).message();
    EXPECT_TRUE(read.valid());
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
