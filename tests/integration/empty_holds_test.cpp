// Holds that are empty or were moved from, and locks that were moved from. No server: they ask for nothing.

#include "integration/fixture.hpp"

#include <conch/conch.hpp>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace conch::test {
namespace {

/// Where and how the operations of empty holds end: on the thread of the client, later, with not_held.
class ends {
 public:
  explicit ends(asio::io_context& ctx) : ctx_{ctx} {}

  template <class... Results>
  auto of(std::string what) {
    ++left_;
    return [this, what = std::move(what), mine = left_](error_code ec, Results const&...) {
      EXPECT_EQ(ec, errc::not_held) << what << ": " << ec.message();
      EXPECT_EQ(std::this_thread::get_id(), thread_) << what << " ends on another thread";
      EXPECT_FALSE(initiating_) << what << " ends in the initiating function";
      --left_;
    };
  }

  void all_of(hold& h, std::string const& what) {
    initiating_ = true;
    h.async_release(of<bool>(what + ": release"));
    h.async_extend(2s, of<bool>(what + ": extend"));
    h.async_detach(of<std::string>(what + ": detach"));
    h.async_lost(of<>(what + ": lost"));
    h.async_requested(of<>(what + ": requested"));
    h.async_endangered(of<>(what + ": endangered"));
    initiating_ = false;
  }
  template <class Other>
  void some_of(Other& h, std::string const& what) {
    initiating_ = true;
    h.async_release(of<bool>(what + ": release"));
    h.async_lost(of<>(what + ": lost"));
    h.async_requested(of<>(what + ": requested"));
    h.async_endangered(of<>(what + ": endangered"));
    initiating_ = false;
  }

  void expect_all() {
    ctx_.restart();
    auto const end = steady::now() + 10s;
    while (left_ > 0 && steady::now() < end) ctx_.run_one_for(1s);
    EXPECT_EQ(left_, 0) << "operations that have not ended";
  }

 private:
  asio::io_context& ctx_;
  std::thread::id const thread_ = std::this_thread::get_id();
  bool initiating_ = false;
  int left_ = 0;
};

/// Runs the context until the operation has ended; its result.
template <class Result, class Start>
Result result_of(asio::io_context& ctx, Start const& start) {
  std::optional<Result> got;
  start([&](error_code, Result r) { got.emplace(std::move(r)); });
  auto const end = steady::now() + 10s;
  while (!got && steady::now() < end) ctx.run_one_for(1s);
  if (!got) throw std::runtime_error{"the operation has not ended"};
  return std::move(*got);
}

TEST(EmptyHolds, CompleteWhereTheOtherHandlersOfTheirClientRun) {
  asio::io_context ctx{1};
  client c{ctx.get_executor(), "memory://empty holds"};
  mutex m{c, "a"}, other{c, "b"};
  multi_lock both{{m, other}};
  reentrant_mutex again{c, "c"};
  owner const me, somebody;
  ends told{ctx};

  hold held = result_of<hold>(ctx, [&](auto handler) { m.async_acquire(std::move(handler)); });
  hold busy = result_of<hold>(ctx, [&](auto handler) { m.async_try_acquire(std::move(handler)); });
  ASSERT_TRUE(held && !busy);
  told.all_of(busy, "of a busy lock");
  acquire_options const wrong{.lease = 1ns};
  hold refused = result_of<hold>(ctx, [&](auto handler) { m.async_acquire(wrong, std::move(handler)); });
  told.all_of(refused, "of a wrong lease");
  multi_hold not_all = result_of<multi_hold>(ctx, [&](auto handler) { both.async_try_acquire(std::move(handler)); });
  told.some_of(not_all, "of several, one of them busy");
  hold taken = std::move(held);
  told.all_of(held, "moved from");  // NOLINT: that is what it is about
  hold assigned;
  assigned = std::move(taken);
  told.all_of(taken, "assigned from");  // NOLINT
  told.expect_all();
  EXPECT_TRUE(assigned.valid());
  EXPECT_TRUE(result_of<bool>(ctx, [&](auto handler) { assigned.async_release(std::move(handler)); }));

  multi_hold all = result_of<multi_hold>(ctx, [&](auto handler) { both.async_acquire(std::move(handler)); });
  ASSERT_TRUE(all);
  EXPECT_TRUE(result_of<bool>(ctx, [&](auto handler) { all.async_release(std::move(handler)); }));
  told.some_of(all, "several, released");

  reentrant_hold level =
      result_of<reentrant_hold>(ctx, [&](auto handler) { again.async_acquire(me, std::move(handler)); });
  reentrant_hold no_level =
      result_of<reentrant_hold>(ctx, [&](auto handler) { again.async_try_acquire(somebody, std::move(handler)); });
  ASSERT_TRUE(level && !no_level);
  told.some_of(no_level, "a level of a busy lock");
  EXPECT_TRUE(result_of<bool>(ctx, [&](auto handler) { level.async_release(std::move(handler)); }));
  told.some_of(level, "a level, released");
  told.expect_all();
}

TEST(EmptyHolds, ThatNoClientHasMadeNeedAHandlerWithAnExecutor) {
  asio::io_context ctx{1};
  hold h;
  multi_hold several;
  reentrant_hold level;
  int ended = 0;
  auto const handler = [&](error_code ec, bool) {
    EXPECT_EQ(ec, errc::not_held);
    ++ended;
  };
  EXPECT_EQ(error_of([&] { h.async_release(handler); }), errc::not_held);
  EXPECT_EQ(error_of([&] { several.async_release(handler); }), errc::not_held);
  EXPECT_EQ(error_of([&] { level.async_release(handler); }), errc::not_held);
  using erased = asio::any_completion_handler<void(error_code, bool)>;
  EXPECT_EQ(error_of([&] { h.async_release(erased{handler}); }), errc::not_held);
  h.async_release(asio::bind_executor(ctx, handler));
  several.async_release(asio::bind_executor(ctx, handler));
  level.async_release(asio::bind_executor(ctx, handler));
  ctx.run();
  EXPECT_EQ(ended, 3);
}

TEST(EmptyHolds, OfAClientThatIsGoneNeedAHandlerWithAnExecutor) {
  asio::io_context ctx{1};
  hold h;
  {
    client c{ctx.get_executor(), "memory://gone"};
    mutex m{c, "a"};
    hold const held = result_of<hold>(ctx, [&](auto handler) { m.async_acquire(std::move(handler)); });
    h = result_of<hold>(ctx, [&](auto handler) { m.async_try_acquire(std::move(handler)); });
  }
  ctx.restart();
  ctx.run_for(2s);
  auto const nothing = [](error_code, bool) {};
  EXPECT_EQ(error_of([&] { h.async_release(nothing); }), errc::not_held);
}

TEST(MovedFrom, LocksOwnersAndClientsGoOn) {
  asio::io_context ctx{1};
  client made{ctx.get_executor(), "memory://moved from"};
  client c{std::move(made)};
  mutex m{made, "a"};  // NOLINT: that is what it is about
  mutex moved{std::move(m)};
  multi_lock both{{m, moved}};  // NOLINT
  multi_lock const moved_both{std::move(both)};
  owner me{"me"};
  owner const moved_me{std::move(me)};
  EXPECT_EQ(me, moved_me);  // NOLINT
  reentrant_mutex again{c, "b"};
  EXPECT_TRUE(result_of<hold>(ctx, [&](auto handler) { m.async_acquire(std::move(handler)); }));
  EXPECT_TRUE(result_of<multi_hold>(ctx, [&](auto handler) { both.async_acquire(std::move(handler)); }));
  EXPECT_TRUE(result_of<reentrant_hold>(ctx, [&](auto handler) { again.async_acquire(me, std::move(handler)); }));
  EXPECT_EQ(made.id(), c.id());
  std::optional<error_code> closed;
  made.async_close(0s, [&](error_code ec) { closed = ec; });
  auto const end = steady::now() + 10s;
  while (!closed && steady::now() < end) ctx.run_one_for(1s);
  EXPECT_EQ(closed, error_code{});
}

}  // namespace
}  // namespace conch::test
