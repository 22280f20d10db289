// The component conch::testing: many seeds, and that a seed repeats.
#include <conch/all.hpp>
#include <conch/testing.hpp>

#include "testing/shared.hpp"

#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <memory>
#include <set>
#include <sstream>
#include <string>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::body;
using conch::testing::explore;
using conch::testing::fencing;
using conch::testing::finding;
using conch::testing::report;
using conch::testing::world;

/// Sells one piece, three times. It checks its hold, and not its fence.
body sell(world& w, std::string process, fencing f) {
  conch::client client{w.executor(process), w.url()};
  conch::mutex lock{client, "stock"};
  auto& stock = w.resource("stock", f);
  conch::acquire_options const two_minutes{.wait = 2min};
  for (int i = 0; i < 3; ++i) {
    auto const acquired = co_await lock.async_acquire(two_minutes, asio::as_tuple(asio::use_awaitable));
    auto const& [ec, h] = acquired;
    if (ec) continue;
    std::int64_t const left = stock.read(h.fence());
    asio::steady_timer think{co_await asio::this_coro::executor, std::chrono::milliseconds{w.random(20)}};
    co_await think.async_wait(asio::use_awaitable);
    if (!h.valid()) continue;
    static_cast<void>(stock.write(h.fence(), left - 1));
  }
}

body sale(world& w, fencing f) {
  w.spawn("second", sell(w, "second", f));
  co_await sell(w, "main", f);
}

std::string trace_of(std::uint64_t seed) {
  world w{seed, {.drawn = conch::testing::faults{}}};
  try {
    w.run([&] { return sale(w, fencing::on); });
  } catch (std::exception const& e) {
    ADD_FAILURE() << e.what() << '\n' << w.trace();
  }
  return w.trace();
}

TEST(TestingExploration, ASeedRepeats) {
  std::set<std::string> different;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::string const first = trace_of(seed);
    EXPECT_EQ(first, trace_of(seed)) << "seed " << seed;
    different.insert(first);
  }
  EXPECT_EQ(different.size(), 50u);
}

TEST(TestingExploration, FindsALateWriteAndSaysWhatLedToIt) {
  report const r = explore(10'000, [](world& w) { return sale(w, fencing::off); });
  ASSERT_FALSE(r);
  EXPECT_EQ(r.kind, finding::late_write) << r;
  EXPECT_EQ(r.schedules, *r.seed);
  EXPECT_NE(r.trace.find("writes what \"stock\" guards"), std::string::npos) << r;
  EXPECT_EQ(r.what.find("something else the second time"), std::string::npos) << r;
  report const again = explore(1, [](world& w) { return sale(w, fencing::off); }, {.first_seed = *r.seed});
  EXPECT_EQ(again.what, r.what);
  EXPECT_EQ(again.trace, r.trace);
}

TEST(TestingExploration, FindsNothingWhereFencesAreChecked) {
  report const r = explore(300, [](world& w) { return sale(w, fencing::on); });
  EXPECT_TRUE(r) << r;
  EXPECT_EQ(r.schedules, 300u);
}

body fail_at(world& w, std::uint64_t seed) {
  w.expect(w.seed() < seed, "the seed is small");
  co_return;
}

TEST(TestingExploration, ReportsTheFirstSeedOfAFailedCheck) {
  report const r = explore(100, [](world& w) { return fail_at(w, 17); });
  ASSERT_FALSE(r);
  EXPECT_EQ(r.seed, 17u);
  EXPECT_EQ(r.kind, finding::failed);
  std::ostringstream text;
  text << r;
  EXPECT_NE(text.str().find("17 schedules: failed with seed 17: the seed is small"), std::string::npos) << text.str();
}

}  // namespace
