// One shape of waiting and one of holding, for every kind of lock: what generic code relies on.

#include "integration/family.hpp"

#include <conch/print.hpp>

#include <fstream>
#include <sstream>
#include <string>

namespace conch::test {
namespace {

static_assert(lock_hold<hold> && lock_hold<reentrant_hold> && lock_hold<multi_hold>);
static_assert(!lock_hold<int> && !lock_hold<mutex>);
static_assert(lockable<mutex> && lockable<semaphore> && lockable<shared_mutex> && lockable<shared_mutex::shared_view> &&
              lockable<striped_mutex> && lockable<reentrant_mutex::owner_view> &&
              lockable<reentrant_shared_mutex::owner_view> && lockable<reentrant_shared_mutex::reader_view> &&
              lockable<multi_lock>);

/// What async_release says.
struct told_of_release {
  error_code ec;
  bool was_held;
};

template <lock_hold Hold>
asio::awaitable<told_of_release> give_back(Hold& h) {
  auto told = co_await h.async_release(as_tuple);
  co_return told_of_release{std::get<0>(told), std::get<1>(told)};
}

class HowLong : public with_each_kind<HowLong> {};

TEST_P(HowLong, OneAcquireHasALeaseOfItsOwnThatIsNotRenewed) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    lock_options const object{.lease = 30s};
    acquire_options const brief{.lease = 10s, .renew = false};
    time_point const before = clock::now();
    hold h = co_await kind().acquire(c, name("brief"), brief, object, asio::use_awaitable);
    EXPECT_LE(h.deadline(), clock::now() + 10s);
    EXPECT_GT(h.deadline(), before + 9s);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    acquire_options const as_made{};
    hold next = co_await kind().acquire(c, name("brief"), as_made, object, asio::use_awaitable);
    EXPECT_GT(next.deadline(), clock::now() + 15s);
  };
  w.run(body);
}

TEST_P(HowLong, AHoldThatIsNotRenewedEndsWithTheLeaseOfItsAcquire) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 300ms)};
    lock_options const object{.lease = 60s};
    acquire_options const brief{.lease = 300ms, .renew = false};
    hold h = co_await kind().acquire(c, name("ends"), brief, object, asio::use_awaitable);
    auto lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    EXPECT_FALSE(h.valid());
    EXPECT_EQ(c.stats().renewals, 0u);
  };
  w.run(body);
}

TEST_P(HowLong, OneAcquireLimitsItsWatchdog) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 300ms)};
    acquire_options const limited{.max_hold = 1ms};
    hold h = co_await kind().acquire(c, name("limited"), limited, lock_options{}, asio::use_awaitable);
    auto lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
  };
  w.run(body);
}

TEST_P(HowLong, AHoldCanBeGivenAnotherLease) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    acquire_options const brief{.lease = 5s, .renew = false};
    hold h = co_await kind().acquire(c, name("extended"), brief, lock_options{}, asio::use_awaitable);
    EXPECT_LE(h.deadline(), clock::now() + 5s);
    time_point const before = clock::now();
    bool const held = co_await h.async_extend(20s, asio::use_awaitable);
    EXPECT_TRUE(held);
    EXPECT_GT(h.deadline(), before + 19s);
    EXPECT_LE(h.deadline(), clock::now() + 20s);
    std::int64_t const fence = h.fence();
    bool const still = co_await h.async_extend(1s, asio::use_awaitable);
    EXPECT_TRUE(still);
    EXPECT_GT(h.deadline(), before + 19s) << "never moved back";
    EXPECT_EQ(h.fence(), fence);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto told = co_await h.async_extend(1s, as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_held);
  };
  w.run(body);
}

TEST_P(HowLong, AnExtensionOfWhatIsLostSaysSo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("lost"), acquire_options{}, lock_options{}, asio::use_awaitable);
    probe.command({"DEL", lock_key(name("lost"))});
    bool const held = co_await h.async_extend(60s, asio::use_awaitable);
    EXPECT_FALSE(held);
    EXPECT_FALSE(h.valid());
    auto told = co_await h.async_extend(1ms, as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::invalid_config);
    hold empty;
    told = co_await empty.async_extend(1s, as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_held);
  };
  w.run(body);
}

TEST_P(HowLong, AWrongOneIsRefusedWithoutAMessage) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    auto const scripts = c.stats().scripts;
    for (acquire_options const& wrong :
         {acquire_options{.lease = 1ms}, acquire_options{.lease = 48h}, acquire_options{.max_hold = 0s}}) {
      auto told = co_await kind().acquire(c, name("wrong"), wrong, lock_options{}, as_tuple);
      EXPECT_EQ(std::get<0>(told), errc::invalid_config);
      EXPECT_NE(std::get<0>(told).message().find("acquire_options::"), std::string::npos)
          << std::get<0>(told).message();
      EXPECT_FALSE(std::get<1>(told));
    }
    EXPECT_EQ(c.stats().scripts, scripts);
  };
  w.run(body);
}

INSTANTIATE_TEST_SUITE_P(Kind, HowLong, testing::ValuesIn(kinds_of_locks()), kind_name);

/// The threads of this process.
int threads_here() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

/// A thread of asio::system_executor would let go of the coroutine's io_context after the coroutine has ended, and the
/// context with it.
TEST(EmptyHold, EndsOnItsCoroutinesExecutorWithoutAnotherThread) {
  int const before = threads_here();
  ASSERT_GT(before, 0);
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    hold one;
    auto released = co_await one.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(released), errc::not_held);
    auto extended = co_await one.async_extend(1s, as_tuple);
    EXPECT_EQ(std::get<0>(extended), errc::not_held);
    auto detached = co_await one.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(detached), errc::not_held);
    auto lost = co_await one.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::not_held);
    auto requested = co_await one.async_requested(as_tuple);
    EXPECT_EQ(std::get<0>(requested), errc::not_held);
    reentrant_hold level;
    auto left = co_await level.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(left), errc::not_held);
    auto longer = co_await level.async_extend(1s, as_tuple);
    EXPECT_EQ(std::get<0>(longer), errc::not_held);
    auto gone = co_await level.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(gone), errc::not_held);
    auto asked = co_await level.async_requested(as_tuple);
    EXPECT_EQ(std::get<0>(asked), errc::not_held);
    multi_hold several;
    auto all = co_await several.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(all), errc::not_held);
    auto any = co_await several.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(any), errc::not_held);
  };
  w.run(body);
  EXPECT_EQ(threads_here(), before);
}

class Shape : public with_server<Shape> {
 protected:
  template <class Lock>
  asio::awaitable<void> one_signal(client& c, Lock& m, std::string lost_by) {
    auto h = co_await m.async_acquire(asio::use_awaitable);
    EXPECT_TRUE(h.valid());
    EXPECT_GT(h.deadline(), clock::now());
    told_of_release held = co_await give_back(h);
    EXPECT_EQ(held.ec, error_code{});
    EXPECT_TRUE(held.was_held);
    EXPECT_FALSE(h.valid());
    told_of_release twice = co_await give_back(h);
    EXPECT_EQ(twice.ec, errc::not_held);
    EXPECT_FALSE(twice.was_held);

    auto gone = co_await m.async_acquire(asio::use_awaitable);
    mutex as_operator{c, std::move(lost_by)};
    std::uint32_t const from = co_await as_operator.async_force_release(asio::use_awaitable);
    EXPECT_EQ(from, 1u);
    auto lost = co_await gone.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    told_of_release after = co_await give_back(gone);
    EXPECT_EQ(after.ec, error_code{});
    EXPECT_FALSE(after.was_held);
    told_of_release again = co_await give_back(gone);
    EXPECT_EQ(again.ec, errc::not_held);

    decltype(gone) empty;
    EXPECT_FALSE(empty);
    EXPECT_FALSE(empty.valid());
    EXPECT_EQ(empty.deadline(), time_point::min());
    told_of_release nothing = co_await give_back(empty);
    EXPECT_EQ(nothing.ec, errc::not_held);
    auto never = co_await empty.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(never), errc::not_held);
  }
};

TEST_F(Shape, EachKindOfHoldGivesTheSameSignals) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex plain{c, "a mutex"};
    co_await one_signal(c, plain, "a mutex");
    semaphore permits{c, "a semaphore", 2};
    co_await one_signal(c, permits, "a semaphore");
    shared_mutex both{c, "a shared mutex"};
    co_await one_signal(c, both, "a shared mutex");
    auto reading = both.readers();
    co_await one_signal(c, reading, "a shared mutex");
    striped_mutex segments{c, "a striped mutex", 4};
    co_await one_signal(c, segments, "a striped mutex");
    reentrant_mutex nests{c, "a reentrant mutex"};
    auto mine = nests.for_owner(owner{});
    co_await one_signal(c, mine, "a reentrant mutex");
    reentrant_shared_mutex nests_both{c, "a reentrant shared mutex"};
    auto writes = nests_both.for_owner(owner{});
    co_await one_signal(c, writes, "a reentrant shared mutex");
    auto reads = writes.readers();
    co_await one_signal(c, reads, "a reentrant shared mutex");
    std::vector<mutex> members{mutex{c, "member 1"}, mutex{c, "member 2"}};
    multi_lock all{members};
    co_await one_signal(c, all, "member 2");
  };
  w.run(body);
}

TEST_F(Shape, AnOwnersViewNestsUnderWithLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    reentrant_mutex m{c, "a view"};
    auto mine = m.for_owner(owner{});
    auto const inner = [](reentrant_hold& h) -> asio::awaitable<std::uint32_t> { co_return h.depth(); };
    auto const outer = [&](reentrant_hold&) -> asio::awaitable<std::uint32_t> {
      std::uint32_t const depth = co_await with_lock(mine, inner);
      co_return depth;
    };
    std::uint32_t const depth = co_await with_lock(mine, outer);
    EXPECT_EQ(depth, 2u);
    reentrant_hold other = co_await m.for_owner(owner{}).async_try_acquire(asio::use_awaitable);
    EXPECT_TRUE(other);
  };
  w.run(body);
}

TEST_F(Shape, EachMemberOfAMultiHoldHasItsFence) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    std::vector<mutex> members{mutex{c, "z"}, mutex{c, "y"}};
    multi_lock all{members};
    acquire_options const brief{.lease = 10s, .renew = false};
    multi_hold h = co_await all.async_acquire(brief);
    EXPECT_LE(h.deadline(), clock::now() + 10s);
    EXPECT_GT(h.fence("y"), 0);
    EXPECT_EQ(h.fence("y"), h.fence(0));
    EXPECT_EQ(h.fence("z"), h.fence(1));
    EXPECT_EQ(h.fence("x"), 0);
    EXPECT_EQ(h.fence(2), 0);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(h.fence("y"), 0);
    acquire_options const wrong{.lease = 1ms};
    auto told = co_await all.async_acquire(wrong, as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::invalid_config);
  };
  w.run(body);
}

TEST_F(Shape, AStatusSaysWhatIsFreeAndWhoReads) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore permits{c, "status of permits", 5};
    hold two = co_await permits.async_acquire(2, asio::use_awaitable);
    lock_status now = co_await permits.async_inspect();
    EXPECT_EQ(now.available(), 3u);
    EXPECT_FALSE(now.writer());
    EXPECT_EQ(now.readers(), 0u);

    shared_mutex both{c, "status of readers"};
    hold first = co_await both.async_acquire_shared(asio::use_awaitable);
    hold second = co_await both.async_acquire_shared(asio::use_awaitable);
    now = co_await both.async_inspect();
    EXPECT_EQ(now.readers(), 2u);
    EXPECT_FALSE(now.writer());
    first = hold{};
    bool const was_held = co_await second.async_release();
    EXPECT_TRUE(was_held);
    hold alone = co_await both.async_acquire(asio::use_awaitable);
    now = co_await both.async_inspect();
    EXPECT_TRUE(now.writer());
    EXPECT_EQ(now.readers(), 0u);
    EXPECT_EQ(now.available(), 0u);
  };
  w.run(body);
}

TEST_F(Shape, AForcedReleaseByTokenTakesItFromThatHolderOnly) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "by token"};
    hold h = co_await m.async_acquire();
    std::uint32_t from = co_await m.async_force_release(h.fence() + 5000, asio::use_awaitable);
    EXPECT_EQ(from, 0u);
    auto nobody = co_await m.async_force_release(std::int64_t{0}, as_tuple);
    EXPECT_EQ(std::get<0>(nobody), errc::invalid_config);
    lock_holder const made_up;
    nobody = co_await m.async_force_release(made_up, as_tuple);
    EXPECT_EQ(std::get<0>(nobody), errc::invalid_config);
    EXPECT_TRUE(h.valid());
    from = co_await m.async_force_release(h.fence(), asio::use_awaitable);
    EXPECT_EQ(from, 1u);
  };
  w.run(body);
}

TEST_F(Shape, ASemaphoresHoldGivesPermitsBackOneByOne) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    client d{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore s{c, "in parts", 4};
    semaphore t{d, "in parts", 4};
    hold h = co_await s.async_acquire(4, asio::use_awaitable);
    std::int64_t const fence = h.fence();
    hold waiting;
    t.async_acquire(2, [&](error_code, hold got) { waiting = std::move(got); });
    auto const queued = [&] { return in_line(probe, "in parts") == 1; };
    co_await until(queued, "in line");
    co_await s.async_release(h, 1, asio::use_awaitable);
    EXPECT_FALSE(waiting.valid());
    co_await s.async_release(h, 1, asio::use_awaitable);
    auto const granted = [&] { return waiting.valid(); };
    co_await until(granted, "granted what was given back");
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(h.fence(), fence);
    lock_status const now = co_await s.async_inspect();
    EXPECT_EQ(now.taken, 4u);
    EXPECT_EQ(now.held, 2u);

    auto too_many = co_await s.async_release(h, 2, as_tuple);
    EXPECT_EQ(std::get<0>(too_many), errc::invalid_config) << "all of them";
    auto none = co_await s.async_release(h, 0, as_tuple);
    EXPECT_EQ(std::get<0>(none), errc::invalid_config);
    auto others = co_await s.async_release(waiting, 1, as_tuple);
    EXPECT_EQ(std::get<0>(others), errc::not_held) << "of another client";
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto gone = co_await s.async_release(h, 1, as_tuple);
    EXPECT_EQ(std::get<0>(gone), errc::not_held);
    lock_status const after = co_await s.async_inspect();
    EXPECT_EQ(after.taken, 2u);
  };
  w.run(body);
}

TEST_F(Shape, TwoPartsAreGivenBackAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore s{c, "both parts", 5};
    hold h = co_await s.async_acquire(5, asio::use_awaitable);
    int answered = 0;
    auto const count = [&](error_code ec) {
      EXPECT_EQ(ec, error_code{});
      ++answered;
    };
    s.async_release(h, 1, count);
    s.async_release(h, 2, count);
    auto const both = [&] { return answered == 2; };
    co_await until(both, "both answered");
    lock_status const now = co_await s.async_inspect();
    EXPECT_EQ(now.taken, 2u);
  };
  w.run(body);
}

template <class T>
std::string printed(T const& what) {
  std::ostringstream text;
  text << what;
  EXPECT_EQ(text.str(), to_string(what));
  return text.str();
}

TEST_F(Shape, HoldsAndStatusesPrintOnOneLine) {
  EXPECT_EQ(printed(errc::timed_out), "timed_out");
  EXPECT_EQ(printed(errc::would_deadlock), "would_deadlock");
  EXPECT_EQ(printed(static_cast<errc>(1000)), "errc(1000)");
  EXPECT_EQ(printed(lock_kind::mutex), "mutex");
  EXPECT_EQ(printed(lock_kind::striped_mutex), "striped_mutex");
  EXPECT_EQ(printed(hold{}), "empty");
  EXPECT_EQ(printed(reentrant_hold{}), "empty");
  EXPECT_EQ(printed(multi_hold{}), "empty");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "printed"};
    lock_status idle = co_await m.async_inspect();
    EXPECT_EQ(printed(idle), "mutex, 0 of 1 held, 0 waiting");
    hold h = co_await m.async_acquire();
    std::string const fence = "fence " + std::to_string(h.fence());
    EXPECT_EQ(printed(h).find("held, " + fence), 0u) << printed(h);
    lock_status busy = co_await m.async_inspect();
    EXPECT_EQ(printed(busy).find("mutex, 1 of 1 held, 0 waiting: "), 0u) << printed(busy);
    EXPECT_NE(printed(busy).find(", client " + c.id() + " since 20"), std::string::npos) << printed(busy);
    EXPECT_NE(printed(busy).find(fence), std::string::npos) << printed(busy);
    std::uint32_t const from = co_await m.async_force_release();
    EXPECT_EQ(from, 1u);
    auto lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    EXPECT_EQ(printed(h), "not held any more, " + fence);

    reentrant_mutex nests{c, "printed levels"};
    owner me;
    reentrant_hold level = co_await nests.async_acquire(me);
    EXPECT_NE(printed(level).find(", level 1"), std::string::npos) << printed(level);
    std::vector<mutex> members{mutex{c, "printed 1"}, mutex{c, "printed 2"}};
    multi_lock all{members};
    multi_hold both = co_await all.async_acquire();
    EXPECT_EQ(printed(both).find("2 locks: held, fence "), 0u) << printed(both);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
