// Locks for threads: what the standard library promises of a lock, and what a std::mutex cannot do.

#include "integration/fixture.hpp"

#include <conch/blocking.hpp>

#include <boost/asio/use_future.hpp>

#include <atomic>
#include <condition_variable>
#include <future>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <vector>

namespace conch::test {
namespace {

using blocking::detail::saturated;
using blocking::detail::time_left;

static_assert(std::is_constructible_v<std::unique_lock<blocking::mutex>, blocking::mutex&, std::chrono::seconds>);
static_assert(std::is_constructible_v<std::unique_lock<blocking::mutex>, blocking::mutex&,
                                      std::chrono::system_clock::time_point>);
static_assert(
    std::is_constructible_v<std::shared_lock<blocking::shared_mutex>, blocking::shared_mutex&, std::chrono::hours>);
static_assert(std::is_constructible_v<std::scoped_lock<blocking::mutex, blocking::shared_mutex>, blocking::mutex&,
                                      blocking::shared_mutex&>);
static_assert(!std::is_copy_constructible_v<blocking::mutex> && !std::is_move_constructible_v<blocking::client>);
static_assert(noexcept(std::declval<blocking::mutex&>().unlock()) && noexcept(
    std::declval<blocking::shared_mutex&>().unlock_shared()));

static_assert(saturated(2s) == duration{2s} && saturated(std::chrono::duration<double>{1.5}) == duration{1500ms});
static_assert(saturated(std::chrono::hours::max()) == duration::max() &&
              saturated(std::chrono::hours::min()) == duration::min());
static_assert(saturated(duration::max()) == duration::max() && saturated(duration::min()) == duration::min());
static_assert(saturated(std::chrono::duration<double>{std::numeric_limits<double>::infinity()}) == duration::max());
static_assert(saturated(std::chrono::duration<double>{std::numeric_limits<double>::quiet_NaN()}) == duration::min());
static_assert(time_left(duration{3s}, duration{1s}) == duration{2s} &&
              time_left(duration{1s}, duration{3s}) == duration{-2s});
static_assert(time_left(duration::min(), duration{1s}) == duration::min() &&
              time_left(duration::max(), duration{-1s}) == duration::max());

/// Waits for an event that can only be looked at.
template <class Reached>
void eventually(Reached const& reached, std::string const& what, std::chrono::milliseconds bound = 15s) {
  auto const end = steady::now() + bound;
  while (!reached()) {
    if (steady::now() > end) throw std::runtime_error{"never seen: " + what};
    std::this_thread::sleep_for(2ms);
  }
}

/// The same for a future: its value, or what it throws.
template <class T>
T soon(std::future<T>& f, std::string const& what) {
  if (f.wait_for(15s) != std::future_status::ready) {
    ADD_FAILURE() << "never seen: " << what;
    std::abort();  // its destructor would wait forever
  }
  return f.get();
}

template <class F>
auto in_a_thread(F f) {
  return std::async(std::launch::async, std::move(f));
}

/// A function that is told of losses, and what it was told.
struct told {
  std::mutex mutex;
  std::vector<std::pair<error_code, std::int64_t>> losses;

  blocking::lost_callback callback() {
    return [this](error_code why, std::int64_t fence) {
      std::lock_guard const guard{mutex};
      losses.emplace_back(why, fence);
    };
  }
  std::size_t count() {
    std::lock_guard const guard{mutex};
    return losses.size();
  }
};

class Blocking : public with_server<Blocking> {
 protected:
  static config settings(std::string url, std::chrono::milliseconds lease = 10s) {
    config c = quick(std::move(url), lease);
    c.single_threaded = false;
    return c;
  }
  static config settings() { return settings(server().url()); }

  static std::uint32_t take_away(blocking::client& by, std::string const& name) {
    return mutex{by.async(), name}.async_force_release(asio::use_future).get();
  }

  void wait_in_line(std::string const& name, std::int64_t count) {
    eventually([&] { return in_line(probe, name) == count; }, std::to_string(count) + " in line");
  }

  void wait_until_free(std::string const& name) {
    eventually([&] { return is_free(probe, name); }, "the lock is free");
  }
};

// ------------------------------------------------------------------------------------------------ lock, try, time-outs

TEST_F(Blocking, TheLockIsHeldFromLockToUnlock) {
  blocking::client c{settings()};
  blocking::mutex m{c, "held"};
  EXPECT_EQ(m.name(), "held");
  EXPECT_FALSE(m.valid());
  EXPECT_EQ(m.fence(), 0);
  EXPECT_EQ(m.deadline(), time_point::min());

  m.lock();
  EXPECT_TRUE(m.valid());
  EXPECT_GT(m.deadline(), clock::now());
  EXPECT_FALSE(is_free(probe, "held"));
  auto const first = m.fence();
  EXPECT_GT(first, 0);

  m.unlock();
  EXPECT_FALSE(m.valid());
  EXPECT_EQ(m.fence(), 0);
  wait_until_free("held");

  m.lock();
  EXPECT_GT(m.fence(), first);
  m.unlock();
}

TEST_F(Blocking, AnUnlockWithoutAHoldDoesNothing) {
  blocking::client c{settings()};
  blocking::mutex m{c, "nothing to unlock"};
  m.unlock();
  ASSERT_TRUE(m.try_lock());
  m.unlock();
  m.unlock();
  wait_until_free("nothing to unlock");
  EXPECT_TRUE(m.try_lock());
}

TEST_F(Blocking, TryLockIsFalseWhileSomebodyHoldsIt) {
  blocking::client one{settings()}, two{settings()};
  blocking::mutex here{one, "tried"}, same{one, "tried"}, there{two, "tried"};
  ASSERT_TRUE(here.try_lock());
  EXPECT_FALSE(here.try_lock());
  EXPECT_FALSE(same.try_lock());
  EXPECT_FALSE(there.try_lock());
  EXPECT_EQ(one.stats().tries_busy, 2u);
  EXPECT_EQ(two.stats().tries_busy, 1u);
  EXPECT_TRUE(here.valid());
  EXPECT_FALSE(there.valid());
  here.unlock();
  wait_until_free("tried");
  EXPECT_TRUE(there.try_lock());
}

TEST_F(Blocking, TryLockForWaitsSoLongAndNoLonger) {
  blocking::client one{settings()}, two{settings()};
  blocking::mutex holder{one, "timed"}, waiter{two, "timed"};
  holder.lock();
  EXPECT_FALSE(waiter.try_lock());  // it is connected now
  auto const began = steady::now();
  EXPECT_FALSE(waiter.try_lock_for(50ms));
  EXPECT_GE(steady::now() - began, 50ms);
  EXPECT_FALSE(waiter.try_lock_until(std::chrono::system_clock::now() + 50ms));
  EXPECT_FALSE(waiter.valid());
  EXPECT_EQ(in_line(probe, "timed"), 0) << "it has left the line";

  auto waits = in_a_thread([&] { return waiter.try_lock_until(steady::now() + 15s); });
  wait_in_line("timed", 1);
  holder.unlock();
  EXPECT_TRUE(soon(waits, "the waiter has the lock"));
  waiter.unlock();
}

TEST_F(Blocking, ATimeThatHasPassedIsOneCompleteAttempt) {
  blocking::client c{settings()};
  blocking::mutex m{c, "past"}, other{c, "past"};
  auto const each = [&](auto const& attempt) {
    EXPECT_TRUE(attempt(m));
    EXPECT_FALSE(attempt(other));
    m.unlock();
    wait_until_free("past");
  };
  each([](auto& l) { return l.try_lock_for(0s); });
  each([](auto& l) { return l.try_lock_for(std::chrono::hours::min()); });
  each([](auto& l) { return l.try_lock_until(std::chrono::system_clock::time_point::min()); });
  each([](auto& l) { return l.try_lock_until(steady::now() - 1h); });
}

TEST_F(Blocking, EveryDurationAndEveryClockIsTaken) {
  blocking::client one{settings()}, two{settings()};
  blocking::mutex holder{one, "how long"}, waiter{two, "how long"};
  auto const each = [&](auto attempt) {
    holder.lock();
    auto waits = in_a_thread([&] { return attempt(waiter); });
    wait_in_line("how long", 1);
    holder.unlock();
    EXPECT_TRUE(soon(waits, "the waiter has the lock"));
    waiter.unlock();
  };
  each([](auto& l) { return l.try_lock_for(std::chrono::hours::max()); });
  each([](auto& l) { return l.try_lock_for(std::chrono::duration<float>{1e30F}); });
  each([](auto& l) { return l.try_lock_until(std::chrono::system_clock::time_point::max()); });
  each([](auto& l) {
    return l.try_lock_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::max());
  });
  each([](auto& l) { return l.try_lock_until(steady::time_point::max()); });
  each([](auto& l) { return l.try_lock_until(clock::now() + 15s); });
}

TEST_F(Blocking, AnUnreachableServerIsAnErrorAndNotBusy) {
  config nowhere = settings("unix:///nowhere/conch.sock");
  nowhere.offline_timeout = 50ms;
  blocking::client c{nowhere};
  blocking::mutex m{c, "unreachable"};
  EXPECT_EQ(error_of([&] { m.lock(); }), errc::unreachable);
  EXPECT_EQ(error_of([&] { static_cast<void>(m.try_lock()); }), errc::unreachable);
  EXPECT_EQ(error_of([&] { static_cast<void>(m.try_lock_for(15s)); }), errc::unreachable);
  EXPECT_FALSE(m.valid());
}

TEST_F(Blocking, WhatIsWrongIsRefusedWhenItIsMade) {
  config alone = settings();
  alone.single_threaded = true;
  std::string what;
  EXPECT_EQ(error_of([&] { blocking::client{alone}; }, &what), errc::invalid_config);
  EXPECT_NE(what.find("single_threaded"), std::string::npos) << what;
  EXPECT_EQ(error_of([&] { blocking::client{"http://redis"}; }), errc::invalid_url);
  blocking::client c{settings()};
  EXPECT_EQ(error_of([&] { (blocking::mutex{c, ""}); }), errc::invalid_name);
  EXPECT_EQ(error_of([&] { (blocking::shared_mutex{c, "lease", {.lease = 1ms}}); }), errc::invalid_config);
}

TEST_F(Blocking, TheOptionsAreThoseOfTheLock) {
  blocking::client c{settings()};
  blocking::mutex m{c, "brief", {.lease = 2s, .renew = false}};
  m.lock();
  EXPECT_LE(m.deadline(), clock::now() + 2s);
}

// ------------------------------------------------------------------------------------------- the standard's own locks

TEST_F(Blocking, TheLocksOfTheStandardLibraryWork) {
  blocking::client c{settings()};
  blocking::mutex m{c, "std 1"}, other{c, "std 2"};
  blocking::shared_mutex s{c, "std 3"};
  {
    std::lock_guard const guard{m};
    EXPECT_TRUE(m.valid());
  }
  {
    std::unique_lock lock{m, 15s};
    EXPECT_TRUE(lock.owns_lock());
    std::unique_lock const same{m, 1ms};
    EXPECT_FALSE(same.owns_lock());
    std::unique_lock moved{std::move(lock)};
    moved.unlock();
    EXPECT_TRUE(moved.try_lock_until(std::chrono::system_clock::now() + 15s));
  }
  {
    std::scoped_lock const all{m, other, s};
    EXPECT_TRUE(m.valid() && other.valid() && s.valid());
  }
  {
    std::shared_lock const reads{s};
    std::shared_lock const too{s, 15s};
    EXPECT_TRUE(too.owns_lock());
    EXPECT_FALSE(s.try_lock());
  }
  wait_until_free("std 3");
  std::lock(m, other);
  EXPECT_EQ(std::try_lock(s, m), 1);
  m.unlock();
  other.unlock();
  for (char const* name : {"std 1", "std 2", "std 3"}) wait_until_free(name);
}

TEST_F(Blocking, AConditionVariableWaitsWithTheLockGivenBack) {
  blocking::client c{settings()};
  blocking::mutex m{c, "condition"};
  std::condition_variable_any changed;
  bool ready = false;
  auto waits = in_a_thread([&] {
    std::unique_lock lock{m};
    changed.wait(lock, [&] { return ready; });
    return m.valid();
  });
  {
    std::lock_guard const guard{m};
    ready = true;
  }
  changed.notify_all();
  EXPECT_TRUE(soon(waits, "it was notified, and has the lock again"));
}

TEST_F(Blocking, ThreadsOfTwoClientsAreNeverInsideTogether) {
  constexpr int threads = 4, rounds = 50;
  blocking::client one{settings()}, two{settings()};
  blocking::mutex first{one, "crowd"}, second{two, "crowd"};
  std::atomic<int> inside{0}, together{0}, done{0};
  std::atomic<std::int64_t> last_fence{0};
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads * 2; ++i) {
      all.emplace_back([&, i] {
        blocking::mutex& m = i % 2 == 0 ? first : second;
        for (int round = 0; round < rounds; ++round) {
          std::lock_guard const guard{m};
          if (inside++ != 0) ++together;
          EXPECT_GT(m.fence(), last_fence.exchange(m.fence()));
          --inside;
          ++done;
        }
      });
    }
  }
  EXPECT_EQ(together, 0);
  EXPECT_EQ(done, threads * 2 * rounds);
  wait_until_free("crowd");
}

TEST_F(Blocking, ScopedLocksInOppositeOrdersDoNotDeadlock) {
  constexpr int rounds = 100;
  blocking::client one{settings()}, two{settings()};
  std::atomic<int> inside{0}, together{0};
  auto const both = [&](blocking::client& c, std::string const& a, std::string const& b) {
    blocking::mutex first{c, a}, second{c, b};
    for (int round = 0; round < rounds; ++round) {
      std::scoped_lock const lock{first, second};
      if (inside++ != 0) ++together;
      EXPECT_TRUE(first.valid() && second.valid());
      --inside;
    }
    return true;
  };
  auto forwards = in_a_thread([&] { return both(one, "left", "right"); });
  auto backwards = in_a_thread([&] { return both(two, "right", "left"); });
  EXPECT_EQ(forwards.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(backwards.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(together, 0);
}

TEST_F(Blocking, ATryAfterOneThatFailedStandsInLineIfItsNameIsTheGreatestOfTheThread) {
  blocking::client one{settings()}, two{settings()};
  blocking::mutex taken{two, "b, tried again"};
  taken.lock();
  auto tries = in_a_thread([&] {
    blocking::mutex first{one, "a, held meanwhile"}, second{one, "b, tried again"};
    first.lock();
    int failed = 0;
    for (; !second.try_lock(); ++failed) {
    }
    second.unlock();
    return failed;
  });
  wait_in_line("b, tried again", 1);
  taken.unlock();
  EXPECT_GT(soon(tries, "it has the lock"), 0);
}

TEST_F(Blocking, ALockMayBeUnlockedByAnotherThread) {
  blocking::client c{settings()};
  blocking::mutex m{c, "passed on"};
  std::unique_lock lock{m};
  auto other = in_a_thread([mine = std::move(lock)]() mutable { mine.unlock(); });
  soon(other, "the other thread has unlocked");
  wait_until_free("passed on");
  EXPECT_TRUE(m.try_lock());
}

TEST_F(Blocking, AThreadThatWouldWaitForItselfIsTold) {
  blocking::client c{settings()};
  blocking::mutex m{c, "twice"};
  blocking::shared_mutex s{c, "twice shared"};
  std::lock_guard const guard{m};
  EXPECT_EQ(error_of([&] { m.lock(); }), errc::would_deadlock);
  EXPECT_EQ(error_of([&] { static_cast<void>(m.lock(std::stop_token{})); }), errc::would_deadlock);
  EXPECT_FALSE(m.try_lock_for(1ms));
  std::shared_lock const reads{s};
  EXPECT_EQ(error_of([&] { s.lock(); }), errc::would_deadlock);
  std::shared_lock const reads_again{s};
  EXPECT_TRUE(m.valid() && s.valid());
}

TEST_F(Blocking, AnObjectThatIsDestroyedGivesBackWhatItHolds) {
  blocking::client c{settings()};
  {
    blocking::shared_mutex s{c, "left locked"};
    s.lock_shared();
    s.lock_shared();
  }
  wait_until_free("left locked");
}

// ------------------------------------------------------------------------------------------------------ shared_mutex

TEST_F(Blocking, ReadersAreInsideTogetherAndAWriterIsAlone) {
  blocking::client one{settings()}, two{settings()};
  blocking::shared_mutex here{one, "prices"}, there{two, "prices"};
  here.lock_shared();
  there.lock_shared();
  auto second = in_a_thread([&] {
    here.lock_shared();
    return here.fence();
  });
  auto const fence_of_second = soon(second, "a second reader through the same object");
  EXPECT_GT(fence_of_second, here.fence()) << "each thread sees its own";
  EXPECT_FALSE(there.try_lock());

  auto writer = in_a_thread([&] {
    there.lock();
    return there.fence();
  });
  wait_in_line("prices", 1);
  EXPECT_FALSE(here.try_lock_shared()) << "a writer stands in front";
  here.unlock_shared();
  here.unlock_shared();
  EXPECT_FALSE(here.valid());
  EXPECT_EQ(in_line(probe, "prices"), 1);
  there.unlock_shared();
  EXPECT_GT(soon(writer, "the writer is alone"), fence_of_second);
  EXPECT_FALSE(here.try_lock_shared_for(1ms));
  EXPECT_FALSE(here.try_lock_shared_until(std::chrono::system_clock::now()));
  there.unlock();
  EXPECT_TRUE(here.try_lock_shared_for(15s));
}

// -------------------------------------------------------------------------------------------------------- stop_token

TEST_F(Blocking, AStopBeforeTheCallSendsNothing) {
  blocking::client c{settings()};
  blocking::mutex m{c, "stopped before"};
  blocking::shared_mutex s{c, "stopped before, too"};
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(m.lock(stop.get_token()));
  EXPECT_FALSE(m.try_lock_for(15s, stop.get_token()));
  EXPECT_FALSE(m.try_lock_until(steady::now() + 15s, stop.get_token()));
  EXPECT_FALSE(s.lock_shared(stop.get_token()));
  EXPECT_FALSE(s.try_lock_shared_for(15s, stop.get_token()));
  EXPECT_EQ(c.stats().scripts, 0u);
  EXPECT_FALSE(m.valid());
}

TEST_F(Blocking, AStopEndsAWaitAndLeavesTheLine) {
  blocking::client one{settings()}, two{settings()};
  blocking::mutex holder{one, "stopped"}, waiter{two, "stopped"};
  std::lock_guard const guard{holder};
  for (bool const with_limit : {false, true}) {
    std::stop_source stop;
    auto waits = in_a_thread(
        [&] { return with_limit ? waiter.try_lock_for(1h, stop.get_token()) : waiter.lock(stop.get_token()); });
    wait_in_line("stopped", 1);
    stop.request_stop();
    EXPECT_FALSE(soon(waits, "the wait has ended"));
    wait_in_line("stopped", 0);
  }
  EXPECT_TRUE(holder.valid());
}

TEST_F(Blocking, AStopEndsAWaitForASilentServer) {
  redis_server silent;
  config patient = settings(silent.url());
  patient.offline_timeout = 1h;
  blocking::client c{patient};
  blocking::mutex m{c, "silent"};
  m.lock();
  m.unlock();
  silent.stop();
  std::stop_source stop;
  auto const scripts = c.stats().scripts;
  auto waits = in_a_thread([&] { return m.lock(stop.get_token()); });
  eventually([&] { return c.stats().scripts > scripts || c.stats().waiting > 0; }, "it asks");
  stop.request_stop();
  EXPECT_FALSE(soon(waits, "the wait has ended without the server"));
  silent.cont();
  EXPECT_TRUE(m.try_lock_for(15s));
}

TEST_F(Blocking, AGrantThatMeetsAStopIsTakenOrGivenBack) {
  blocking::client one{settings()}, two{settings()};
  blocking::mutex holder{one, "races"}, waiter{two, "races"};
  int taken = 0;
  for (int round = 0; round < 100; ++round) {
    holder.lock();
    std::stop_source stop;
    auto waits = in_a_thread([&] { return waiter.lock(stop.get_token()); });
    wait_in_line("races", 1);
    auto stops = in_a_thread([&] { stop.request_stop(); });
    holder.unlock();
    bool const is_taken = soon(waits, "granted or stopped");
    EXPECT_EQ(waiter.valid(), is_taken);
    EXPECT_EQ(waiter.fence() != 0, is_taken);
    taken += is_taken ? 1 : 0;
    if (is_taken) waiter.unlock();
    soon(stops, "the stop is requested");
  }
  RecordProperty("taken", taken);
  wait_until_free("races");
}

// -------------------------------------------------------------------------------------------------------------- loss

TEST_F(Blocking, ALossIsToldAndUnlockingAfterItIsNoError) {
  blocking::client c{settings()}, operator_{settings()};
  blocking::mutex m{c, "lost"};
  told t;
  m.on_lost(t.callback());
  m.lock();
  auto const fence = m.fence();
  EXPECT_EQ(take_away(operator_, "lost"), 1u);
  eventually([&] { return t.count() == 1; }, "the loss is told");
  EXPECT_EQ(t.losses[0].first, errc::lost);
  EXPECT_EQ(t.losses[0].second, fence);
  EXPECT_FALSE(m.valid());
  EXPECT_EQ(m.fence(), fence) << "until it is unlocked";
  m.unlock();
  EXPECT_EQ(m.fence(), 0);
  m.lock();
  EXPECT_GT(m.fence(), fence);
  m.unlock();
  m.on_lost({});
  EXPECT_EQ(t.count(), 1u);
}

TEST_F(Blocking, ADangerIsToldAndItsEnd) {
  redis_server away;
  config c = often_renewed(away);
  c.single_threaded = false;
  blocking::client through{c};
  blocking::mutex m{through, "in danger"};
  std::mutex guard;
  std::vector<std::pair<bool, std::int64_t>> seen;
  auto const count = [&] {
    std::lock_guard const guarded{guard};
    return seen.size();
  };
  m.lock();
  m.on_endangered([&](bool is_endangered, std::int64_t fence) {
    std::lock_guard const guarded{guard};
    seen.emplace_back(is_endangered, fence);
  });
  auto const fence = m.fence();
  for (std::size_t round = 1; round <= 2; ++round) {
    away.stop();
    eventually([&] { return count() == 2 * round - 1; }, "the danger is told");
    EXPECT_TRUE(m.valid());
    away.cont();
    eventually([&] { return count() == 2 * round; }, "its end is told");
  }
  m.unlock();
  m.on_endangered({});
  EXPECT_EQ(seen,
            (std::vector<std::pair<bool, std::int64_t>>{{true, fence}, {false, fence}, {true, fence}, {false, fence}}));
}

TEST_F(Blocking, TheFunctionMayBeSetWhileTheLockIsHeld) {
  blocking::client c{settings()};
  blocking::shared_mutex s{c, "set late"};
  told t;
  s.lock_shared();
  s.lock_shared();
  s.on_lost(t.callback());
  s.on_lost(t.callback());
  EXPECT_EQ(take_away(c, "set late"), 2u);
  eventually([&] { return t.count() == 2; }, "both losses are told");
  told after;
  s.on_lost(after.callback());
  s.unlock_shared();
  s.unlock_shared();
  EXPECT_EQ(t.count(), 2u) << "once for each hold";
}

TEST_F(Blocking, WhatIsUnlockedIsNotLost) {
  blocking::client c{settings()};
  blocking::mutex unlocked{c, "unlocked"}, other{c, "other"};
  told of_unlocked, of_other;
  unlocked.on_lost(of_unlocked.callback());
  other.on_lost(of_other.callback());
  unlocked.lock();
  other.lock();
  unlocked.unlock();
  EXPECT_EQ(take_away(c, "other"), 1u);
  eventually([&] { return of_other.count() == 1; }, "the loss of the other is told");
  EXPECT_EQ(of_unlocked.count(), 0u);
}

TEST_F(Blocking, AnUnlockAfterALossDoesNotTouchTheHoldOfTheNextThread) {
  blocking::client c{settings()};
  blocking::mutex m{c, "next"};
  told t;
  m.on_lost(t.callback());
  m.lock();
  take_away(c, "next");
  eventually([&] { return t.count() == 1; }, "the loss is told");
  std::promise<void> unlocked;
  auto next = in_a_thread([&] {
    std::lock_guard const guard{m};
    auto const fence = m.fence();
    unlocked.get_future().wait();
    return m.valid() && m.fence() == fence;
  });
  eventually(
      [&] {
        return mutex{c.async(), "next"}.async_inspect(asio::use_future).get().locked();
      },
      "the next thread has it");
  m.unlock();
  EXPECT_FALSE(m.try_lock()) << "the next thread still has it";
  unlocked.set_value();
  EXPECT_TRUE(soon(next, "the next thread has ended"));
}

TEST_F(Blocking, TheFunctionMayUnlockAndStopButNotWait) {
  blocking::client c{settings()};
  blocking::mutex m{c, "in the callback"}, other{c, "another"};
  std::promise<error_code> waited;
  std::stop_source stop;
  m.on_lost([&](error_code, std::int64_t) {
    m.unlock();
    m.on_lost({});
    stop.request_stop();
    waited.set_value(error_of([&] { static_cast<void>(other.try_lock_for(1h)); }));
  });
  m.lock();
  take_away(c, "in the callback");
  auto told_of_wait = waited.get_future();
  EXPECT_EQ(soon(told_of_wait, "the loss is told"), errc::would_deadlock);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_TRUE(other.try_lock());
  EXPECT_EQ(m.fence(), 0);
}

TEST_F(Blocking, TheFunctionIsNotCalledAnyMoreWhenItWasTakenBack) {
  blocking::client c{settings()};
  for (int round = 0; round < 50; ++round) {
    blocking::mutex m{c, "taken back"};
    auto alive = std::make_unique<std::atomic<int>>(0);
    m.on_lost([at = alive.get()](error_code, std::int64_t) { ++*at; });
    m.lock();
    auto operates = mutex{c.async(), "taken back"}.async_force_release(asio::use_future);
    if (round % 2 == 0) m.on_lost({});  // meets the loss, or comes before it
    m.unlock();
    if (round % 2 != 0) m.on_lost({});
    alive.reset();  // what is called later is seen by a sanitizer
    operates.get();
  }
}

// -------------------------------------------------------------------------------------------------- end of the client

TEST_F(Blocking, AClientThatIsDestroyedEndsTheWaitsAndReleasesTheHolds) {
  blocking::client other{settings()};
  blocking::mutex taken{other, "of another"};
  taken.lock();
  auto c = std::make_unique<blocking::client>(settings());
  blocking::mutex held{*c, "still held"}, waited{*c, "of another"};
  blocking::shared_mutex read{*c, "still read"};
  told t;
  held.on_lost(t.callback());
  held.lock();
  read.lock_shared();
  auto waits = in_a_thread([&] { return error_of([&] { waited.lock(); }); });
  wait_in_line("of another", 1);

  c.reset();
  EXPECT_EQ(soon(waits, "the wait has ended"), errc::closed);
  EXPECT_EQ(in_line(probe, "of another"), 0);
  EXPECT_TRUE(is_free(probe, "still held"));
  EXPECT_TRUE(is_free(probe, "still read"));
  ASSERT_EQ(t.count(), 1u);
  EXPECT_EQ(t.losses[0].first, errc::closed);
  EXPECT_FALSE(held.valid());
  EXPECT_EQ(error_of([&] { waited.lock(); }), errc::closed);
  EXPECT_EQ(error_of([&] { static_cast<void>(waited.try_lock()); }), errc::closed);
  held.unlock();
  held.on_lost(t.callback());
  EXPECT_EQ(held.fence(), 0);
}

TEST_F(Blocking, AClientMayBeDestroyedWhileThreadsUseIt) {
  for (int round = 0; round < 20; ++round) {
    auto c = std::make_unique<blocking::client>(settings());
    blocking::mutex m{*c, "in use"};
    blocking::shared_mutex s{*c, "in use, shared"};
    std::atomic<int> begun{0};
    std::vector<std::future<error_code>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(in_a_thread([&] {
        return error_of([&] {
          for (;; ++begun) {
            std::scoped_lock const both{m, s};
            s.on_lost([](error_code, std::int64_t) {});
          }
        });
      }));
    }
    eventually([&] { return begun > round; }, "they have begun");
    c.reset();
    for (auto& one : all) EXPECT_EQ(soon(one, "it has ended"), errc::closed);
  }
}

TEST_F(Blocking, AClientMayBeDestroyedInItsOwnCallback) {
  auto c = std::make_unique<blocking::client>(settings());
  blocking::mutex m{*c, "destroys"};
  blocking::mutex also{*c, "destroyed"};
  also.lock();
  std::promise<void> destroyed;
  m.on_lost([&](error_code, std::int64_t) {
    c.reset();
    destroyed.set_value();
  });
  m.lock();
  mutex as_operator{c->async(), "destroys"};
  as_operator.async_force_release([](error_code, std::uint32_t) {});
  auto done = destroyed.get_future();
  soon(done, "the client is destroyed");
  wait_until_free("destroyed");
  EXPECT_EQ(error_of([&] { also.lock(); }), errc::closed);
}

TEST_F(Blocking, TheEndOfAClientDoesNotWaitForAServerThatIsSilent) {
  redis_server silent;
  auto c = std::make_unique<blocking::client>(settings(silent.url(), 60s));
  blocking::mutex m{*c, "silent"};
  m.lock();
  silent.stop();
  auto ends = in_a_thread([&] { c.reset(); });
  soon(ends, "the client is destroyed");
  m.unlock();
}

// ----------------------------------------------------------------------------------------------- one client, two ways

TEST_F(Blocking, ThreadsAndCoroutinesOfOneClientShareItsLocks) {
  blocking::client c{settings()};
  blocking::mutex m{c, "both ways"};
  mutex same{c.async(), "both ways"};
  hold h = same.async_acquire(asio::use_future).get();
  EXPECT_FALSE(m.try_lock());
  auto const handed_on = c.stats().scripts;
  auto waits = in_a_thread([&] {
    m.lock();
    return m.fence();
  });
  eventually([&] { return c.stats().waiting == 1; }, "the thread waits behind the coroutine");
  auto const fence = h.fence();
  h.async_release(asio::use_future).get();
  EXPECT_GT(soon(waits, "the thread has the lock"), fence);
  EXPECT_GE(c.stats().scripts, handed_on);
  EXPECT_EQ(c.id(), c.async().id());
  EXPECT_EQ(c.settings().url, server().url());
}

TEST_F(Blocking, ACallInAHandlerOfTheClientWouldDeadlock) {
  blocking::client c{settings()};
  blocking::mutex m{c, "in a handler"};
  std::promise<error_code> seen;
  mutex{c.async(), "some lock"}.async_acquire([&](error_code, hold) { seen.set_value(error_of([&] { m.lock(); })); });
  auto result = seen.get_future();
  EXPECT_EQ(soon(result, "the handler was called"), errc::would_deadlock);
}

TEST_F(Blocking, WhatRunsOnTheClientIsDroppedWithIt) {
  auto const alive = std::make_shared<int>(0);
  {
    blocking::client c{settings()};
    auto const body = [](std::shared_ptr<int> const) -> asio::awaitable<void> { co_await pause_for(1h); };
    asio::co_spawn(c.async().get_executor(), body(alive), asio::detached);
    eventually([&] { return alive.use_count() > 1; }, "it runs");
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST_F(Blocking, AnIdleClientMakesNoConnection) {
  auto const connections = [&] {
    std::string const info = probe.command({"INFO", "stats"});
    std::string const member = "total_connections_received:";
    return std::atoll(info.substr(info.find(member) + member.size()).c_str());
  };
  auto const before = connections();
  {
    blocking::client c{settings()};
    blocking::mutex m{c, "never asked for"};
    blocking::shared_mutex s{c, "neither"};
    EXPECT_FALSE(m.valid() || s.valid());
    m.unlock();
  }
  EXPECT_EQ(connections(), before);
}

TEST_F(Blocking, ItWorksInMemory) {
  blocking::client one{settings("memory://blocking")}, two{settings("memory://blocking")};
  blocking::mutex a{one, "m"}, b{two, "m"};
  std::unique_lock first{a};
  EXPECT_FALSE(b.try_lock());
  first.unlock();
  EXPECT_TRUE(b.try_lock_for(15s));
}

}  // namespace
}  // namespace conch::test
