// The component conch::testing: its time, its processes, its servers and its faults.
#include <conch/all.hpp>
#include <conch/testing.hpp>

#include "testing/shared.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::body;
using conch::test::contains;
using conch::test::counter;
using conch::test::hold_three_times;
using conch::test::sleep_for;
using conch::testing::finding;
using conch::testing::violation;
using conch::testing::world;

/// What is wrong in this world; empty: nothing.
std::string wrong(world& w) {
  try {
    w.run();
    return {};
  } catch (violation const& v) {
    return v.what();
  }
}

// ---------------------------------------------------------------------------------------------------------------- time

body sleep_a_day(bool& slept) {
  auto const steady = std::chrono::steady_clock::now();
  auto const system = std::chrono::system_clock::now();
  auto const conchs = conch::clock::now();
  co_await sleep_for(24h);
  slept = std::chrono::steady_clock::now() - steady >= 24h && std::chrono::system_clock::now() - system >= 24h &&
          conch::clock::now() - conchs >= 24h;
}

TEST(TestingTime, IsVirtualForAllClocksAndTimersOfTheThread) {
  auto const began = std::chrono::steady_clock::now();
  {
    world w{1, {.limit = 48h}};
    bool slept = false;
    w.run(sleep_a_day(slept));
    EXPECT_TRUE(slept);
    EXPECT_GE(w.now(), 24h);
    EXPECT_LT(w.now(), 24h + 1s);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1h) << "the time of the system is back";
}

TEST(TestingTime, IsThatOfTheSystemInOtherThreads) {
  world w{1, {.limit = 48h}};
  w.run(sleep_for(24h));
  auto const here = std::chrono::system_clock::now();
  auto there = here;
  std::thread{[&] { there = std::chrono::system_clock::now(); }}.join();
  EXPECT_NE(std::chrono::floor<std::chrono::days>(here), std::chrono::floor<std::chrono::days>(there));
}

TEST(TestingTime, HasOneWorldInAThread) {
  world w{1};
  EXPECT_THROW((world{2}), std::logic_error);
  std::thread{[] { EXPECT_NO_THROW((world{2})); }}.join();
}

TEST(TestingTime, RepeatsTheNumbersOfRandomDevice) {
  auto const number = [](std::uint64_t seed) {
    world w{seed};
    return std::random_device{}();
  };
  EXPECT_EQ(number(1), number(1));
  EXPECT_NE(number(1), number(2));
}

body send_three(asio::experimental::channel<void(boost::system::error_code, int)>& to) {
  for (int i = 1; i <= 3; ++i) {
    co_await sleep_for(1s);
    co_await to.async_send({}, i, asio::use_awaitable);
  }
}

body add_three(asio::experimental::channel<void(boost::system::error_code, int)>& from, int& sum) {
  for (int i = 0; i < 3; ++i) {
    int const one = co_await from.async_receive(asio::use_awaitable);
    sum += one;
  }
}

TEST(TestingTime, RunsChannelsOfTheUser) {
  world w{1};
  asio::experimental::channel<void(boost::system::error_code, int)> channel{w.executor()};
  int sum = 0;
  w.spawn("main", send_three(channel));
  w.spawn("main", add_three(channel, sum));
  w.run();
  EXPECT_EQ(sum, 6);
  EXPECT_GE(w.now(), 3s);
}

// --------------------------------------------------------------------------------------------------------------
// clients

TEST(TestingClients, ExcludeEachOtherOverSimulatedServers) {
  world w{1};
  counter seen;
  for (std::string const process : {"a", "b", "c"}) w.spawn(process, hold_three_times(w, process, w.url(), seen));
  w.run();
  EXPECT_EQ(seen.done, 9);
  EXPECT_EQ(seen.most, 1);
}

body under_lock(conch::hold&, int& count) {
  co_await sleep_for(1min);
  ++count;
}

body with_lock_in_a_quorum(world& w, int& count) {
  conch::config settings;
  settings.quorum.servers = {w.url("a"), w.url("b"), w.url("c")};
  conch::client client{w.executor(), settings};
  conch::mutex stock{client, "stock"};
  w.restart("b");
  auto const work = [&count](conch::hold& h) { return under_lock(h, count); };
  co_await conch::with_lock(stock, work);
}

TEST(TestingClients, VoteOverSeveralSimulatedServers) {
  world w{1};
  int count = 0;
  w.run(with_lock_in_a_quorum(w, count));
  EXPECT_EQ(count, 1);
}

TEST(TestingClients, ExistOnlyInAWorld) {
  asio::io_context context;
  EXPECT_THROW((conch::client{context, "simulated://redis"}), boost::system::system_error);
}

// ---------------------------------------------------------------------------------------------------------------
// faults

body hold_through(world& w, std::function<void(conch::client&, conch::hold&)> fault, std::chrono::nanoseconds then,
                  bool& valid) {
  conch::client client{w.executor(), w.url()};
  conch::mutex stock{client, "stock"};
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  fault(client, h);
  co_await sleep_for(then);
  valid = h.valid();
}

bool is_held_after(std::function<void(world&, conch::client&, conch::hold&)> fault,
                   std::chrono::nanoseconds then = 1min) {
  world w{1};
  bool valid = false;
  w.run([&] {
    return hold_through(
        w, [&](conch::client& c, conch::hold& h) { fault(w, c, h); }, then, valid);
  });
  return valid;
}

TEST(TestingFaults, AHoldOutlivesACutAndARestartWithData) {
  EXPECT_TRUE(is_held_after([](world&, conch::client&, conch::hold&) {}));
  EXPECT_TRUE(is_held_after([](world& w, conch::client& c, conch::hold&) { w.cut(c); }));
  EXPECT_TRUE(is_held_after([](world& w, conch::client&, conch::hold&) { w.restart("redis"); }));
  EXPECT_TRUE(is_held_after([](world& w, conch::client&, conch::hold&) { w.pause(5s); }));
}

TEST(TestingFaults, AHoldIsLostByForceByPausesAndWithTheData) {
  EXPECT_FALSE(is_held_after([](world& w, conch::client&, conch::hold& h) { EXPECT_TRUE(w.lose(h)); }, 100ms));
  EXPECT_FALSE(
      is_held_after([](world& w, conch::client&, conch::hold&) { w.restart("redis", conch::testing::data::lost); }));
  EXPECT_FALSE(is_held_after([](world& w, conch::client&, conch::hold&) { w.pause(40s); }, 0s));
  EXPECT_FALSE(is_held_after([](world& w, conch::client&, conch::hold&) { w.pause("main", 40s); }, 1ms));
}

body tick(int& count) {
  for (;; ++count) co_await sleep_for(1s);
}

body pause_self(world& w, int const& others, int& seen) {
  w.pause(10s);
  seen = others;
  co_return;
}

TEST(TestingFaults, OtherProcessesGoOnWhileOneStandsStillInTheMiddleOfAHandler) {
  world w{1};
  int count = 0, seen = 0;
  asio::co_spawn(w.executor("other"), tick(count), [](std::exception_ptr) {});
  w.run(pause_self(w, count, seen));
  EXPECT_GE(seen, 9);
}

TEST(TestingFaults, APauseNeedsAProcess) {
  world w{1};
  EXPECT_THROW(w.pause(1s), std::logic_error);
}

// -------------------------------------------------------------------------------------------------------------
// findings

/// Checks its hold, is paused, and writes. `refused`: what the resource says to that.
body write_late(world& w, conch::testing::fencing f, bool& refused) {
  conch::client client{w.executor(), w.url()};
  conch::mutex stock{client, "stock"};
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  auto& left = w.resource("stock", f);
  std::int64_t const before = left.read(h.fence());
  if (h.valid()) {
    w.pause(40s);
    refused = !left.write(h.fence(), before + 1);
  }
}

body write_in_time(world& w) {
  conch::client client{w.executor("other"), w.url()};
  conch::mutex stock{client, "stock"};
  co_await sleep_for(1s);
  conch::hold h = co_await stock.async_acquire(asio::use_awaitable);
  w.expect(w.resource("stock").write(h.fence(), 100), "a write of the holder is taken");
}

TEST(TestingFindings, AWriteAfterTheLeaseIsFound) {
  world w{1};
  bool refused = false;
  w.spawn("main", write_late(w, conch::testing::fencing::off, refused));
  std::string const found = wrong(w);
  EXPECT_TRUE(contains(found, "late write with seed 1")) << found << '\n' << w.trace();
  EXPECT_TRUE(contains(found, "although that hold had ended")) << found;
}

TEST(TestingFindings, AWriteAfterTheNextGrantIsFound) {
  world w{1};
  bool refused = false;
  w.spawn("main", write_late(w, conch::testing::fencing::off, refused));
  w.spawn("other", write_in_time(w));
  std::string const found = wrong(w);
  EXPECT_TRUE(contains(found, "late write with seed 1")) << found << '\n' << w.trace();
  EXPECT_TRUE(contains(found, "although another holder had been granted the lock")) << found;
}

TEST(TestingFindings, AResourceWithFencingRefusesALateWrite) {
  world w{1};
  bool refused = false;
  w.spawn("main", write_late(w, conch::testing::fencing::on, refused));
  w.spawn("other", write_in_time(w));
  EXPECT_EQ(wrong(w), "");
  EXPECT_TRUE(refused) << w.trace();
  EXPECT_EQ(w.resource("stock").value(), 100);
}

body lock_both(world& w, std::string process, std::string first, std::string second) {
  conch::client client{w.executor(process), w.url()};
  conch::mutex one{client, first}, two{client, second};
  conch::hold h = co_await one.async_acquire(asio::use_awaitable);
  co_await sleep_for(1s);
  conch::hold i = co_await two.async_acquire(asio::use_awaitable);
}

TEST(TestingFindings, ADeadlockOfLocksIsFound) {
  world w{1};
  w.spawn("p", lock_both(w, "p", "a", "b"));
  w.spawn("q", lock_both(w, "q", "b", "a"));
  std::string const found = wrong(w);
  EXPECT_TRUE(contains(found, "deadlock with seed 1: a body has not ended after 3600 s")) << found;
  EXPECT_TRUE(contains(found, "\"a\" is held by p, and 1 wait in line")) << found;
}

body receive(asio::experimental::channel<void(boost::system::error_code, int)>& from) {
  co_await from.async_receive(asio::use_awaitable);
}

TEST(TestingFindings, ABodyThatNothingWakesIsFound) {
  world w{1};
  asio::experimental::channel<void(boost::system::error_code, int)> channel{w.executor()};
  w.spawn("main", receive(channel));
  std::string const found = wrong(w);
  EXPECT_TRUE(contains(found, "deadlock with seed 1")) << found;
}

body keep(world& w, std::unique_ptr<conch::client>& client, conch::hold& h) {
  client = std::make_unique<conch::client>(w.executor(), w.url());
  conch::mutex stock{*client, "stock"};
  h = co_await stock.async_acquire(asio::use_awaitable);
}

TEST(TestingFindings, ALeakedHoldIsFound) {
  world w{1};
  std::unique_ptr<conch::client> client;
  conch::hold h;
  w.spawn("main", keep(w, client, h));
  std::string const found = wrong(w);
  EXPECT_TRUE(contains(found, "leak with seed 1: all bodies have ended; at redis, \"stock\" is held by main")) << found;
}

body throws() {
  co_await sleep_for(1s);
  throw std::runtime_error{"on purpose"};
}

TEST(TestingFindings, RunThrowsWhatABodyThrows) {
  world w{1};
  EXPECT_THROW(w.run(throws()), std::runtime_error);
}

}  // namespace
