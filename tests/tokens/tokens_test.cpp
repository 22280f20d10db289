// Completion tokens, executors, allocators; never inside the initiating function.

#include "integration/fixture.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108600
#include <boost/asio/cancel_after.hpp>
#endif

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace conch::test {

/// Asks an initiation for its executor, as asio::cancel_after does to make its timer, and does not begin.
struct ask_for_executor {
  asio::any_io_executor* seen;
};

}  // namespace conch::test

template <class... Signatures>
class boost::asio::async_result<conch::test::ask_for_executor, Signatures...> {
 public:
  using return_type = void;

  template <class Initiation, class... Args>
  static void initiate(Initiation&& initiation, conch::test::ask_for_executor token, Args&&...) {
    typename std::decay_t<Initiation>::executor_type const executor = initiation.get_executor();
    *token.seen = executor;
  }
};

namespace conch::test {
namespace {

class Tokens : public with_server<Tokens> {};

TEST_F(Tokens, BracesInsideACoAwaitAreSafe) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "braces"};
    for (int i = 0; i < 20; ++i) {
      hold h = co_await m.async_acquire({.wait = 2s});
      EXPECT_TRUE(h.valid());
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      hold again = co_await m.async_acquire({.wait = 2s}, asio::use_awaitable);
      EXPECT_TRUE(again.valid());
      auto r = co_await again.async_release(asio::as_tuple(asio::deferred));
      EXPECT_TRUE(std::get<1>(r));
    }
  };
  w.run(body);
}

TEST_F(Tokens, EveryInitiationTellsItsExecutor) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "executors"};
  semaphore s{c, "executors", 2};
  shared_mutex r{c, "executors"};
  striped_mutex g{c, "executors", 2};
  reentrant_mutex e{c, "executors"};
  reentrant_shared_mutex n{c, "executors"};
  multi_lock all{{m}};
  election o{c, "executors"};
  owner const who;
  hold held;
  multi_hold held_together;
  reentrant_hold level;
  m.async_acquire([&](error_code, hold h) { held = std::move(h); });
  w.run_until([&] { return held.valid(); }, "granted");
  using asked = ask_for_executor;
  struct row {
    char const* what;
    std::function<void(asked)> begin;
  };
  std::vector<row> const of_client{
      {"acquire", [&](asked t) { m.async_acquire(t); }},
      {"acquire, in time", [&](asked t) { m.async_acquire({.wait = 1s}, t); }},
      {"try", [&](asked t) { m.async_try_acquire(t); }},
      {"inspect", [&](asked t) { m.async_inspect(t); }},
      {"force", [&](asked t) { m.async_force_release(t); }},
      {"force one", [&](asked t) { m.async_force_release(lock_holder{}, t); }},
      {"semaphore", [&](asked t) { s.async_acquire(2, t); }},
      {"semaphore, try", [&](asked t) { s.async_try_acquire(t); }},
      {"set permits", [&](asked t) { s.async_set_permits(3, t); }},
      {"writer", [&](asked t) { r.async_acquire(t); }},
      {"reader", [&](asked t) { r.async_acquire_shared(t); }},
      {"downgrade", [&](asked t) { r.async_downgrade(held, t); }},
      {"upgrade", [&](asked t) { r.async_upgrade(held, t); }},
      {"any", [&](asked t) { g.async_acquire_any(t); }},
      {"any but", [&](asked t) { g.async_acquire_any({1}, acquire_options{}, t); }},
      {"reentrant", [&](asked t) { e.async_acquire(who, t); }},
      {"reentrant, try", [&](asked t) { e.async_try_acquire(who, t); }},
      {"reentrant writer", [&](asked t) { n.async_acquire(who, t); }},
      {"reentrant reader", [&](asked t) { n.async_acquire_shared(who, {.wait = 1s}, t); }},
      {"reentrant reader, try", [&](asked t) { n.async_try_acquire_shared(who, t); }},
      {"all", [&](asked t) { all.async_acquire(t); }},
      {"campaign", [&](asked t) { o.async_campaign(t); }},
      {"leader", [&](asked t) { o.async_leader(t); }},
      {"observe", [&](asked t) { o.async_observe(0, 1s, t); }},
      {"lost", [&](asked t) { held.async_lost(t); }},
      {"renewed", [&](asked t) { held.async_renewed(time_point::max(), t); }},
      {"endangered", [&](asked t) { held.async_endangered(t); }},
      {"release", [&](asked t) { held.async_release(t); }},
      {"close", [&](asked t) { c.async_close(1s, t); }},
  };
  for (row const& each : of_client) {
    asio::any_io_executor seen;
    each.begin(asked{&seen});
    EXPECT_TRUE(seen == c.get_executor()) << each.what;
  }
  hold empty;
  std::vector<row> const of_nobody{
      {"lost", [&](asked t) { empty.async_lost(t); }},
      {"renewed", [&](asked t) { empty.async_renewed(time_point::max(), t); }},
      {"endangered", [&](asked t) { empty.async_endangered(t); }},
      {"release", [&](asked t) { empty.async_release(t); }},
      {"all lost", [&](asked t) { held_together.async_lost(t); }},
      {"all renewed", [&](asked t) { held_together.async_renewed(time_point::max(), t); }},
      {"all endangered", [&](asked t) { held_together.async_endangered(t); }},
      {"all released", [&](asked t) { held_together.async_release(t); }},
      {"level lost", [&](asked t) { level.async_lost(t); }},
      {"level renewed", [&](asked t) { level.async_renewed(time_point::max(), t); }},
      {"level endangered", [&](asked t) { level.async_endangered(t); }},
      {"level released", [&](asked t) { level.async_release(t); }},
  };
  for (row const& each : of_nobody) {
    asio::any_io_executor seen;
    each.begin(asked{&seen});
    EXPECT_TRUE(seen == asio::any_io_executor{asio::system_executor{}}) << each.what;
  }
}

#if BOOST_VERSION >= 108600
TEST_F(Tokens, CancelAfterEndsAWait) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "cancel after"};
  hold held;
  error_code why;
  m.async_acquire([&](error_code, hold h) { held = std::move(h); });
  w.run_until([&] { return held.valid(); }, "granted");
  m.async_acquire(asio::cancel_after(20ms, [&](error_code ec, hold) { why = ec; }));
  w.run_until([&] { return why.failed(); }, "cancelled");
  EXPECT_EQ(why, asio::error::operation_aborted);
}
#endif

TEST_F(Tokens, CallbacksAreCalledOnceAndNeverInside) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "callbacks"};
  int calls = 0;
  hold h;
  auto const got = [&](error_code ec, hold mine) {
    EXPECT_FALSE(ec) << ec.message();
    h = std::move(mine);
    ++calls;
  };
  m.async_acquire(got);
  EXPECT_EQ(calls, 0);
  w.run_until([&] { return calls == 1; }, "granted");
  m.async_try_acquire([&](error_code ec, hold empty) {
    EXPECT_FALSE(ec);
    EXPECT_FALSE(empty);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  w.run_until([&] { return calls == 2; }, "busy");
  h.async_lost([&](error_code) { ++calls; });
  h.async_release([&](error_code ec, bool was_held) {
    EXPECT_FALSE(ec);
    EXPECT_TRUE(was_held);
    ++calls;
  });
  EXPECT_EQ(calls, 2);
  w.run_until([&] { return calls == 4; }, "released");
  h.async_release([&](error_code ec, bool) {
    EXPECT_EQ(ec, errc::not_held);
    ++calls;
  });
  h.async_lost([&](error_code ec) {
    EXPECT_EQ(ec, errc::not_held);
    ++calls;
  });
  EXPECT_EQ(calls, 4);
  w.run_until([&] { return calls == 6; }, "both refused");
  c.async_close(1s, [&](error_code ec) {
    EXPECT_FALSE(ec) << ec.message();
    ++calls;
  });
  c.async_close(1s, [&](error_code ec) {
    EXPECT_EQ(ec, errc::closed);
    ++calls;
  });
  m.async_acquire([&](error_code ec, hold) {
    EXPECT_EQ(ec, errc::closed);
    ++calls;
  });
  EXPECT_EQ(calls, 6);
  w.run_until([&] { return calls == 9; }, "closed");
}

TEST_F(Tokens, FuturesWork) {
  auto work = asio::make_work_guard(w.ctx);
  std::thread runner{[&] { w.ctx.run(); }};
  {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "futures"};
    hold h = m.async_acquire(asio::use_future).get();
    EXPECT_TRUE(h.valid());
    std::future<hold> late = m.async_acquire({.wait = 20ms}, asio::use_future);
    EXPECT_EQ(error_of([&] { static_cast<void>(late.get()); }), errc::timed_out);
    std::future<void> lost = h.async_lost(asio::use_future);
    EXPECT_TRUE(h.async_release(asio::use_future).get());
    EXPECT_EQ(error_of([&] { lost.get(); }), asio::error::operation_aborted);
    c.async_close(1s, asio::use_future).get();
  }
  work.reset();
  runner.join();  // nothing keeps the context running any more
}

TEST_F(Tokens, DeferredOperationsStartWhenTheyAreCalled) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "deferred"};
  auto later = m.async_acquire({.wait = 1s});
  w.ctx.poll();
  EXPECT_EQ(c.stats().acquires, 0u);
  bool done = false;
  std::move(later)([&](error_code ec, hold h) {
    EXPECT_FALSE(ec);
    EXPECT_TRUE(h.valid());
    done = true;
  });
  w.run_until([&] { return done; }, "granted");
  EXPECT_EQ(c.stats().acquires, 1u);
}

TEST_F(Tokens, AnOperationOutlivesTheMutexItWasMadeFrom) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    auto m = std::make_unique<mutex>(c, "short-lived");
    auto later = m->async_acquire();
    m.reset();
    hold h = co_await std::move(later);
    EXPECT_TRUE(h.valid());
    auto release = h.async_release();
    h = hold{};
    auto r = co_await std::move(release)(as_tuple);
    (void)r;
    auto const freed = [&] { return is_free(probe, "short-lived"); };
    co_await until(freed, "free");
  };
  w.run(body);
}

TEST_F(Tokens, TheBoundExecutorIsHonoured) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "executor"};
  auto const strand = asio::make_strand(w.ctx);
  int inside = 0;
  hold h;
  m.async_acquire(asio::bind_executor(strand, [&](error_code, hold mine) {
    inside += strand.running_in_this_thread();
    h = std::move(mine);
  }));
  w.run_until([&] { return static_cast<bool>(h); }, "granted");
  bool released = false;
  h.async_lost(asio::bind_executor(strand, [&](error_code) { inside += strand.running_in_this_thread(); }));
  h.async_release(asio::bind_executor(strand, [&](error_code, bool) {
    inside += strand.running_in_this_thread();
    released = true;
  }));
  w.run_until([&] { return released && inside == 3; }, "released on the strand");
  bool closed = false;
  c.async_close(1s, asio::bind_executor(strand, [&](error_code) {
                  inside += strand.running_in_this_thread();
                  closed = true;
                }));
  w.run_until([&] { return closed; }, "closed");
  EXPECT_EQ(inside, 4);
}

TEST_F(Tokens, AnExecutorOfAnotherContextIsKeptBusyUntilTheCompletion) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "foreign"};
  asio::io_context foreign;
  std::thread::id where;
  auto work = asio::make_work_guard(w.ctx);
  std::thread runner{[&] { w.ctx.run(); }};
  hold h;
  m.async_acquire(asio::bind_executor(foreign, [&](error_code ec, hold mine) {
    EXPECT_FALSE(ec);
    where = std::this_thread::get_id();
    h = std::move(mine);
  }));
  foreign.run_for(10s);  // returns when there is nothing to do: not before the completion
  EXPECT_TRUE(h.valid());
  EXPECT_EQ(where, std::this_thread::get_id());
  bool released = false;
  h.async_release(asio::bind_executor(foreign, [&](error_code, bool) { released = true; }));
  foreign.restart();
  foreign.run_for(10s);
  EXPECT_TRUE(released);
  w.ctx.stop();
  runner.join();
}

struct tally {
  int allocated = 0;
  int freed = 0;
};

template <class T>
struct counting_allocator {
  using value_type = T;
  tally* count;

  explicit counting_allocator(tally* t) noexcept : count{t} {}
  template <class U>
  counting_allocator(counting_allocator<U> const& other) noexcept : count{other.count} {}

  T* allocate(std::size_t n) {
    ++count->allocated;
    return std::allocator<T>{}.allocate(n);
  }
  void deallocate(T* p, std::size_t n) {
    ++count->freed;
    std::allocator<T>{}.deallocate(p, n);
  }
  template <class U>
  bool operator==(counting_allocator<U> const& other) const noexcept {
    return count == other.count;
  }
};

TEST_F(Tokens, TheBoundAllocatorIsUsedAndGetsEverythingBackBeforeTheHandlerRuns) {
  tally count;
  counting_allocator<char> const allocator{&count};
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "allocator"};
  hold h;
  bool released = false;
  m.async_acquire(asio::bind_allocator(allocator, [&](error_code, hold mine) {
    EXPECT_GT(count.allocated, 0);  // the handler's box (Asio's any_io_executor itself knows no allocator)
    EXPECT_EQ(count.allocated, count.freed);
    h = std::move(mine);
  }));
  w.run_until([&] { return static_cast<bool>(h); }, "granted");
  int const before = count.allocated;
  h.async_release(asio::bind_allocator(allocator, [&](error_code, bool) {
    EXPECT_EQ(count.allocated, count.freed);
    released = true;
  }));
  w.run_until([&] { return released; }, "released");
  EXPECT_GT(count.allocated, before);
  EXPECT_EQ(count.allocated, count.freed);
}

struct only_movable {
  std::unique_ptr<int> value = std::make_unique<int>(1);
  bool* called;
  void operator()(error_code ec, hold h) {
    EXPECT_FALSE(ec);
    EXPECT_TRUE(h.valid());
    *called = *value == 1;
  }
};

TEST_F(Tokens, HandlersNeedOnlyBeMovable) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "movable"};
  bool called = false;
  m.async_acquire(only_movable{.called = &called});
  w.run_until([&] { return called; }, "granted");
}

TEST_F(Tokens, AHandlerThatThrowsThrowsOutOfRunAndHarmsNothing) {
  client c{w.ctx.get_executor(), server().url()};
  mutex m{c, "throwing"};
  hold h;
  m.async_acquire([&](error_code, hold) { throw std::runtime_error{"from the handler"}; });
  EXPECT_THROW(w.run_until([] { return false; }, "nothing"), std::runtime_error);
  m.async_acquire([&](error_code ec, hold mine) {
    EXPECT_FALSE(ec);
    h = std::move(mine);
  });
  w.run_until([&] { return static_cast<bool>(h); }, "granted after all");
}

TEST_F(Tokens, RunReturnsOnceTheClientIsClosedOrDestroyed) {
  for (bool const closes : {true, false}) {
    asio::io_context ctx;
    auto c = std::make_unique<client>(ctx.get_executor(), server().url());
    mutex m{*c, "run returns"};
    auto const body = [&]() -> asio::awaitable<void> {
      hold h = co_await m.async_acquire();
      co_await h.async_release();
      if (closes) {
        co_await c->async_close(1s);
      } else {
        c.reset();
      }
    };
    asio::co_spawn(ctx, body(), asio::detached);
    ctx.run_for(10s);
    EXPECT_TRUE(ctx.stopped()) << "closes: " << closes;
  }
}

}  // namespace
}  // namespace conch::test
