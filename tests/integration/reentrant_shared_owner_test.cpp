// Acquires of one owner at the same time, for a reentrant_shared_mutex: the line of the owner, time-outs, cancellation
// and threads.

#include "integration/fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

/// What one acquire came to.
struct outcome {
  bool done = false;
  error_code ec;
  reentrant_hold h;

  auto handler() {
    return [this](error_code why, reentrant_hold got) {
      EXPECT_FALSE(done);
      done = true;
      ec = why;
      h = std::move(got);
    };
  }
};

class OneOwner : public with_server<OneOwner> {
 protected:
  std::vector<std::string> both() { return {server().url(), "memory://"}; }

  static asio::awaitable<void> lined_up(named_lock const& m, std::uint64_t count) {
    auto const end = steady::now() + 15s;
    lock_status line = co_await m.async_inspect();
    while (line.waiting != count && steady::now() < end) line = co_await m.async_inspect();
    EXPECT_EQ(line.waiting, count);
  }

  static asio::awaitable<void> over(outcome const& o, std::string what) {
    auto const done = [&] { return o.done; };
    co_await until(done, std::move(what));
  }

  asio::awaitable<void> nothing_left(client& c, std::string name) {
    auto const free = [&] { return is_free(probe, name) && c.stats().cleanups_pending == 0; };
    co_await until(free, "nothing left of " + name);
    EXPECT_EQ(c.stats().held, 0u);
    EXPECT_EQ(c.stats().waiting, 0u);
  }
};

TEST_F(OneOwner, ThatAsksToWriteReadsAndWritesInThatOnceItIsGranted) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client c{w.ctx.get_executor(), url};
      client d{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "write first"};
      shared_mutex others{d, "write first"};
      owner me;
      hold reading = co_await others.async_acquire_shared();
      outcome write, read, again;
      m.async_acquire(me, write.handler());
      m.async_acquire_shared(me, read.handler());  // in the server's line it would wait for its own writer
      m.async_acquire(me, again.handler());
      co_await lined_up(m, 1);
      EXPECT_EQ(c.stats().waiting, 1u) << "one of an owner stands in the server's line";
      EXPECT_FALSE(write.done || read.done || again.done);
      co_await reading.async_release();
      co_await over(write, "the writer");
      co_await over(read, "its reader");
      co_await over(again, "its second writer");
      EXPECT_TRUE(write.h.valid() && read.h.valid() && again.h.valid())
          << write.ec.message() << read.ec.message() << again.ec.message();
      EXPECT_EQ(write.h.depth(), 3u);
      EXPECT_EQ(read.h.fence(), write.h.fence());
      write.h = {};
      again.h = {};
      lock_status const status = co_await m.async_inspect();
      EXPECT_EQ(status.readers(), 1u);
      co_await read.h.async_release();
    }
  };
  w.run(body);
}

TEST_F(OneOwner, ThatAsksToReadIsRefusedToWriteOnceItReads) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client c{w.ctx.get_executor(), url};
      client d{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "read first"};
      shared_mutex others{d, "read first"};
      owner me;
      hold writing = co_await others.async_acquire();
      outcome read, write, again;
      m.async_acquire_shared(me, read.handler());
      m.async_acquire(me, write.handler());
      m.async_acquire_shared(me, again.handler());
      co_await lined_up(m, 1);
      EXPECT_FALSE(write.done) << "it might still be granted";
      co_await writing.async_release();
      co_await over(read, "the reader");
      co_await over(write, "the writer");
      co_await over(again, "the second reader");
      EXPECT_EQ(write.ec, errc::would_deadlock);
      EXPECT_FALSE(write.h);
      EXPECT_TRUE(read.h.valid() && again.h.valid());
      EXPECT_EQ(read.h.depth(), 2u);
      EXPECT_EQ(c.stats().waiting, 0u);
    }
  };
  w.run(body);
}

TEST_F(OneOwner, OfAFreeLockReadsAndWritesAtTheSameMomentWithoutAWaitForItself) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    reentrant_shared_mutex m{c, "same moment"};
    for (bool const writes_first : {true, false}) {
      owner me;
      outcome write, read;
      if (writes_first) m.async_acquire(me, write.handler());
      m.async_acquire_shared(me, read.handler());
      if (!writes_first) m.async_acquire(me, write.handler());
      co_await over(read, "the reader");
      co_await over(write, "the writer");
      EXPECT_TRUE(read.h.valid());
      EXPECT_EQ(write.h.valid(), writes_first);
      EXPECT_EQ(write.ec, writes_first ? error_code{} : make_error_code(errc::would_deadlock));
      write.h = {};
      co_await read.h.async_release();
      co_await nothing_left(c, "same moment");
    }
  };
  w.run(body);
}

TEST_F(OneOwner, WhoseFirstAcquireFailsAsksWithTheNext) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (bool const times_out : {false, true}) {
      std::string const name = times_out ? "first is late" : "first is cancelled";
      SCOPED_TRACE(name);
      client c{w.ctx.get_executor(), quick(server(), 30s)};
      client d{w.ctx.get_executor(), quick(server(), 30s)};
      reentrant_shared_mutex m{c, name};
      shared_mutex others{d, name};
      owner me;
      hold reading = co_await others.async_acquire_shared();
      asio::cancellation_signal signal;
      outcome first, second, third;
      acquire_options const first_waits{.wait = times_out ? duration{100ms} : duration{20s}};
      m.async_acquire(me, first_waits, asio::bind_cancellation_slot(signal.slot(), first.handler()));
      m.async_acquire(me, second.handler());
      m.async_acquire(me, third.handler());
      auto const there = in_lines(name, 1);
      co_await until(there, "in line");
      if (!times_out) signal.emit(asio::cancellation_type::partial);
      co_await over(first, "the end of the first");
      EXPECT_EQ(first.ec, times_out ? make_error_code(errc::timed_out) : error_code{asio::error::operation_aborted});
      co_await until(there, "the second in line");
      EXPECT_FALSE(second.done || third.done);
      co_await reading.async_release();
      co_await over(second, "the second");
      co_await over(third, "the third");
      EXPECT_TRUE(second.h.valid() && third.h.valid());
      EXPECT_EQ(second.h.depth(), 2u);
      second.h = {};
      third.h = {};
      co_await nothing_left(c, name);
    }
  };
  w.run(body);
}

TEST_F(OneOwner, P6ATimeOutOrACancellationBehindItsOwnAcquireLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (auto const type : {asio::cancellation_type::none, asio::cancellation_type::terminal,
                            asio::cancellation_type::partial, asio::cancellation_type::total}) {
      bool const times_out = type == asio::cancellation_type::none;
      std::string const name = "behind " + std::to_string(static_cast<unsigned>(type));
      SCOPED_TRACE(name);
      client c{w.ctx.get_executor(), quick(server(), 30s)};
      client d{w.ctx.get_executor(), quick(server(), 30s)};
      reentrant_shared_mutex m{c, name};
      shared_mutex others{d, name};
      owner me;
      hold writing = co_await others.async_acquire();
      asio::cancellation_signal signal;
      outcome first, second, third;
      m.async_acquire(me, first.handler());
      acquire_options const waits{.wait = times_out ? duration{30ms} : duration{20s}};
      m.async_acquire_shared(me, waits, asio::bind_cancellation_slot(signal.slot(), second.handler()));
      m.async_acquire_shared(me, third.handler());
      auto const there = in_lines(name, 1);
      co_await until(there, "in line");
      if (!times_out) signal.emit(type);
      EXPECT_FALSE(second.done && !times_out) << "never inside";
      co_await over(second, "the end of the second");
      EXPECT_EQ(second.ec, times_out ? make_error_code(errc::timed_out) : error_code{asio::error::operation_aborted});
      EXPECT_FALSE(second.h);
      EXPECT_FALSE(first.done || third.done);
      signal.emit(type);  // has nothing to refer to any more
      co_await writing.async_release();
      co_await over(first, "the first");
      co_await over(third, "the third");
      EXPECT_EQ(first.h.depth(), 2u);
      third.h = {};
      co_await first.h.async_release();
      co_await nothing_left(c, name);
    }
  };
  w.run(body);
}

TEST_F(OneOwner, P6ACancellationInAnyStateLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (auto const type :
         {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
      for (bool const writes : {false, true}) {
        for (bool const in_line_first : {false, true}) {
          std::string const name = "cancelled " + std::to_string(static_cast<unsigned>(type)) + (writes ? "w" : "r") +
                                   (in_line_first ? "l" : "");
          SCOPED_TRACE(name);
          client c{w.ctx.get_executor(), quick(server(), 30s)};
          client d{w.ctx.get_executor(), quick(server(), 30s)};
          reentrant_shared_mutex m{c, name};
          shared_mutex others{d, name};
          owner me;
          hold writing = co_await others.async_acquire();
          asio::cancellation_signal signal;
          outcome o;
          auto token = asio::bind_cancellation_slot(signal.slot(), o.handler());
          if (writes) {
            m.async_acquire(me, std::move(token));
          } else {
            m.async_acquire_shared(me, std::move(token));
          }
          if (in_line_first) {
            auto const there = in_lines(name, 1);
            co_await until(there, "in line");
          }
          signal.emit(type);
          EXPECT_FALSE(o.done);
          co_await over(o, "the end");
          EXPECT_EQ(o.ec, asio::error::operation_aborted) << o.ec.message();
          EXPECT_FALSE(m.held_by(me));
          co_await writing.async_release();
          reentrant_hold again = co_await m.async_acquire(me);
          EXPECT_EQ(again.depth(), 1u);
          co_await again.async_release();
          co_await nothing_left(c, name);
        }
      }
    }
  };
  w.run(body, 60s);
}

TEST_F(OneOwner, ThatAsksAnswersItsAttemptsAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client c{w.ctx.get_executor(), url};
      client d{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "attempts"};
      shared_mutex others{d, "attempts"};
      owner me, you;
      hold writing = co_await others.async_acquire();
      reentrant_hold none = co_await m.async_try_acquire(me);  // the server says so
      EXPECT_FALSE(none);
      none = co_await m.async_try_acquire_shared(me);
      EXPECT_FALSE(none);
      outcome first;
      m.async_acquire(me, first.handler());
      co_await lined_up(m, 1);
      auto const scripts = c.stats().scripts;
      acquire_options const at_once{.wait = 0ms};
      none = co_await m.async_try_acquire(me);
      EXPECT_FALSE(none);
      none = co_await m.async_try_acquire_shared(me);
      EXPECT_FALSE(none);
      auto late = co_await m.async_acquire(me, at_once, as_tuple);
      EXPECT_EQ(std::get<0>(late), errc::timed_out);
      late = co_await m.async_acquire_shared(me, at_once, as_tuple);
      EXPECT_EQ(std::get<0>(late), errc::timed_out);
      EXPECT_EQ(c.stats().scripts, scripts);
      late = co_await m.async_acquire_shared(you, at_once, as_tuple);
      EXPECT_EQ(std::get<0>(late), errc::timed_out);
      co_await writing.async_release();
      co_await over(first, "the first");
      late = co_await m.async_acquire_shared(me, at_once, as_tuple);
      EXPECT_TRUE(std::get<1>(late).valid());
      EXPECT_EQ(first.h.depth(), 2u);
      none = co_await m.async_try_acquire_shared(you);
      EXPECT_FALSE(none);
      first.h = {};
      std::get<1>(late) = {};
      reentrant_hold theirs = co_await m.async_try_acquire(you);
      EXPECT_TRUE(theirs.valid());
    }
  };
  w.run(body);
}

TEST_F(OneOwner, WithAWrongLeaseIsToldAndAsksAgain) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), "memory://"};
    reentrant_shared_mutex m{c, "wrong"};
    owner me;
    acquire_options const wrong{.lease = 1ms}, longest{.wait = duration::max()};
    auto told = co_await m.async_acquire(me, wrong, as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::invalid_config);
    EXPECT_FALSE(std::get<1>(told));
    outcome refused, waits;
    m.async_acquire(me, wrong, refused.handler());
    m.async_acquire(me, longest, waits.handler());  // behind it
    co_await over(waits, "the one behind");
    EXPECT_EQ(refused.ec, errc::invalid_config);
    EXPECT_TRUE(waits.h.valid());
    EXPECT_EQ(waits.h.depth(), 1u);
  };
  w.run(body);
}

TEST_F(OneOwner, MayEndBeforeItsAcquiresDo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    outcome write, read;
    {
      reentrant_shared_mutex m{c, "gone owner"};
      owner me;
      m.async_acquire(me, write.handler());
      m.async_acquire_shared(me, read.handler());
    }
    co_await over(write, "the writer");
    co_await over(read, "the reader");
    EXPECT_EQ(write.h.depth(), 2u);
    write.h = {};
    EXPECT_TRUE(read.h.valid());
    co_await read.h.async_release();
    co_await nothing_left(c, "gone owner");
  };
  w.run(body);
}

TEST_F(OneOwner, P6ALevelOfWhichNobodyIsToldIsLeft) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : both()) {
      SCOPED_TRACE(url);
      client c{w.ctx.get_executor(), url};
      reentrant_shared_mutex m{c, "never told"};
      owner me;
      reentrant_hold outer = co_await m.async_acquire(me);
      {
        asio::io_context gone;  // it never runs, and takes the handler with it
        auto const fail = [](error_code, reentrant_hold) { ADD_FAILURE() << "called"; };
        m.async_acquire_shared(me, asio::bind_executor(gone, fail));
        EXPECT_EQ(outer.depth(), 2u);
        co_await asio::post(w.ctx, asio::use_awaitable);  // the handler is on its way to that context now
      }
      EXPECT_EQ(outer.depth(), 1u);
      bool const was_held = co_await outer.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_FALSE(m.held_by(me));
      co_await nothing_left(c, "never told");
    }
  };
  w.run(body);
}

/// Coroutines of one owner and of others on several threads: nobody meets a writer, and nobody waits for himself.
class crowd {
 public:
  crowd(client& c, std::string name) : m_{c, std::move(name)} {}

  /// A task that writes, and reads and writes within; or that reads, and reads within. `writes_only`: nobody else uses
  /// its owner, so none of its turns is refused.
  asio::awaitable<void> work(owner me, int turns, int seed, bool writes_only) {
    for (int i = 0; i < turns; ++i) {
      if (writes_only || (i + seed) % 3 == 0) {
        co_await write(me);
      } else {
        co_await read(me);
      }
    }
    ++ended;
  }

  std::atomic<int> ended{0}, refused{0}, written{0}, read_times{0}, troubles{0};

 private:
  asio::awaitable<void> write(owner me) {
    auto got = co_await m_.async_acquire(me, as_tuple);
    auto& [ec, outer] = got;
    if (ec) {
      ++(ec == errc::would_deadlock ? refused : troubles);
      co_return;
    }
    reentrant_hold within = co_await m_.async_acquire_shared(me);
    reentrant_hold again = co_await m_.async_acquire(me);
    if (!within.valid() || again.fence() != outer.fence() || !m_.written_by(me)) ++troubles;
    std::string const here = me.id();
    enter(here);
    co_await pause_for(50us);
    leave(here);
    bool const was_held = co_await outer.async_release();
    if (!was_held) ++troubles;
    again = {};
    if (!within.valid()) ++troubles;
    ++written;
  }

  asio::awaitable<void> read(owner me) {
    reentrant_hold outer = co_await m_.async_acquire_shared(me);
    reentrant_hold within = co_await m_.async_try_acquire_shared(me);
    if (!outer.valid() || !within.valid() || within.fence() != outer.fence()) ++troubles;
    bool const was_held = co_await outer.async_release();
    if (!was_held || !within.valid()) ++troubles;
    ++read_times;
  }

  /// Writers of one owner may be several: they share its hold.
  void enter(std::string const& who) {
    std::lock_guard const guard{mutex_};
    if (inside_ != 0 && who != writes_) ++troubles;
    writes_ = who;
    ++inside_;
  }
  void leave(std::string const& who) {
    std::lock_guard const guard{mutex_};
    if (writes_ != who) ++troubles;
    --inside_;
  }

  reentrant_shared_mutex m_;
  std::mutex mutex_;
  std::string writes_;
  int inside_ = 0;
};

TEST_F(OneOwner, IsUsedByManyThreads) {
  for (std::string const& url : both()) {
    SCOPED_TRACE(url);
    asio::io_context ctx;
    std::optional<client> c{std::in_place, ctx.get_executor(), url};
    crowd all{*c, "threads"};
    std::vector<owner> const owners(4);
    constexpr int tasks = 19, turns = 30;
    for (int i = 0; i < tasks; ++i) {
      bool const writes_only = i == tasks - 1;
      owner const& me = owners[writes_only ? 3 : static_cast<std::size_t>(i) % 3];
      asio::co_spawn(asio::make_strand(ctx), all.work(me, turns, i / 3, writes_only), [&](std::exception_ptr e) {
        if (e) ++all.troubles;
      });
    }
    auto const end = steady::now() + 60s;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (all.ended + all.troubles < tasks && steady::now() < end) ctx.run_for(5ms);
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(all.ended, tasks);
    EXPECT_EQ(all.troubles, 0);
    EXPECT_GE(all.written, turns);
    EXPECT_EQ(all.written + all.refused + all.read_times, tasks * turns);
    auto const idle = [&] {
      return c->stats().held == 0 && c->stats().waiting == 0 && c->stats().cleanups_pending == 0;
    };
    while (!idle() && steady::now() < end) ctx.run_for(1ms);
    EXPECT_TRUE(idle()) << c->stats().held << " held, " << c->stats().waiting << " waiting";
    c.reset();
  }
  EXPECT_TRUE(is_free(probe, "threads"));
}

}  // namespace
}  // namespace conch::test
