// A lock in a coroutine of Boost.Cobalt: use_op, a race with a timer, and a hold that is given back by its end.

#include "integration/fixture.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/cobalt/op.hpp>
#include <boost/cobalt/promise.hpp>
#include <boost/cobalt/race.hpp>
#include <boost/cobalt/spawn.hpp>
#include <boost/cobalt/task.hpp>
#include <boost/cobalt/this_thread.hpp>

#include <exception>

namespace conch::test {
namespace {

namespace cobalt = boost::cobalt;

class Cobalt : public testing::Test {
 protected:
  world w;
  client c{w.ctx.get_executor(), "memory://"};
  mutex m{c, "cobalt"}, other{c, "others"};

  void run(cobalt::task<void> task) {
    bool done = false;
    std::exception_ptr thrown;
    cobalt::this_thread::set_executor(w.ctx.get_executor());  // a promise takes it from there
    cobalt::spawn(w.ctx, std::move(task), [&](std::exception_ptr e) {
      thrown = e;
      done = true;
    });
    w.run_until([&] { return done; }, "the end of the task");
    if (thrown) std::rethrow_exception(thrown);
  }
};

cobalt::task<void> takes_and_gives_back(mutex& m) {
  hold h = co_await m.async_acquire(cobalt::use_op);
  EXPECT_TRUE(h.valid());
  bool const was_held = co_await h.async_release(cobalt::use_op);
  EXPECT_TRUE(was_held);
}

TEST_F(Cobalt, UseOp) { run(takes_and_gives_back(m)); }

cobalt::task<void> loses_against_a_timer(mutex& m) {
  hold h = co_await m.async_acquire(cobalt::use_op);
  asio::steady_timer soon{co_await cobalt::this_coro::executor, 5ms};
  auto const first = co_await cobalt::race(m.async_acquire(cobalt::use_op), soon.async_wait(cobalt::use_op));
  EXPECT_EQ(first.index(), 1u);
}

TEST_F(Cobalt, ARaceWithATimer) {
  run(loses_against_a_timer(m));
  run(takes_and_gives_back(m));  // the one that lost has not taken it
}

cobalt::promise<std::int64_t> token_of(mutex& m) {
  hold h = co_await m.async_acquire(cobalt::use_op);
  co_return h.fence();
}

cobalt::task<void> waits_for_promises(mutex& m) {
  std::int64_t const before = co_await token_of(m);
  std::int64_t const after = co_await token_of(m);
  EXPECT_LT(before, after);
}

TEST_F(Cobalt, InAPromise) { run(waits_for_promises(m)); }

}  // namespace
}  // namespace conch::test
