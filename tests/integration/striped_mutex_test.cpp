// The segmented lock: any free segment, each exclusive; bodies that move on.

#include "integration/child.hpp"
#include "integration/fixture.hpp"

#include <deque>
#include <map>
#include <set>
#include <vector>

namespace conch::test {
namespace {

class StripedMutex : public with_server<StripedMutex> {};

TEST_F(StripedMutex, SegmentsAreExclusiveSeenFromOutsideAndTheirFencesRise) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    int ended = 0;
    std::map<std::uint32_t, std::int64_t> last;
    auto const worker = [&](client& c) -> asio::awaitable<void> {
      striped_mutex m{c, "recorded", 3};
      for (int i = 0; i < 25; ++i) {
        hold h = co_await m.async_acquire_any();
        EXPECT_GE(h.segment(), 1u);
        EXPECT_LE(h.segment(), 3u);
        EXPECT_GT(h.fence(), last[h.segment()]);
        last[h.segment()] = h.fence();
        std::string const inside = "inside " + std::to_string(h.segment());
        EXPECT_EQ(probe.integer({"INCR", inside}), 1);
        co_await pause_for(200us);
        probe.integer({"DECR", inside});
        co_await h.async_release();
      }
    };
    for (client& c : clients) {
      for (int i = 0; i < 2; ++i) {
        asio::co_spawn(w.ctx, worker(c), [&](std::exception_ptr e) {
          EXPECT_FALSE(e);
          ++ended;
        });
      }
    }
    auto const all = [&] { return ended == 8; };
    co_await until(all, "all workers done");
    EXPECT_EQ(last.size(), 3u);
    EXPECT_TRUE(is_free(probe, "recorded"));
  };
  w.run(body);
}

TEST_F(StripedMutex, AllSegmentsCanBeHeldAtOnceAndTheNextWaitsForTheFirstThatIsFree) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    striped_mutex m{c, "full", 4};
    std::vector<hold> holds;
    std::set<std::uint32_t> taken;
    for (int i = 0; i < 4; ++i) {
      hold h = co_await m.async_try_acquire_any();
      CO_ASSERT(h.valid());
      taken.insert(h.segment());
      holds.push_back(std::move(h));
    }
    EXPECT_EQ(taken, (std::set<std::uint32_t>{1, 2, 3, 4}));
    hold none = co_await m.async_try_acquire_any();
    EXPECT_FALSE(none);
    hold next;
    m.async_acquire_any([&](error_code, hold h) { next = std::move(h); });
    auto const there = [&] { return in_line(probe, "full") == 1; };
    co_await until(there, "in line");
    std::uint32_t const freed = holds[2].segment();
    co_await holds[2].async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_EQ(next.segment(), freed);
  };
  w.run(body);
}

TEST_F(StripedMutex, WhoeverWantsNoneOfTheFreeSegmentsIsPassedOver) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    striped_mutex m{c, "picky", 2};
    std::vector<std::uint32_t> const not_one(1, 1u);
    std::vector<std::uint32_t> const not_two(1, 2u);
    acquire_options const patient;
    hold one = co_await m.async_acquire_any(not_two, patient);
    hold two = co_await m.async_acquire_any(not_one, patient);
    EXPECT_EQ(one.segment(), 1u);
    EXPECT_EQ(two.segment(), 2u);
    hold picky, easy;
    m.async_acquire_any(not_one, patient, [&](error_code, hold h) { picky = std::move(h); });
    auto const first = [&] { return in_line(probe, "picky") == 1; };
    co_await until(first, "one in line");
    m.async_acquire_any([&](error_code, hold h) { easy = std::move(h); });
    auto const second = [&] { return in_line(probe, "picky") == 2; };
    co_await until(second, "two in line");
    co_await one.async_release();
    auto const served = [&] { return easy.valid(); };
    co_await until(served, "the second in line");
    EXPECT_EQ(easy.segment(), 1u);
    EXPECT_FALSE(picky);
    co_await two.async_release();
    auto const both = [&] { return picky.valid(); };
    co_await until(both, "the first in line");
    EXPECT_EQ(picky.segment(), 2u);
    std::vector<std::uint32_t> all(not_one);
    all.push_back(2);
    auto nothing = co_await m.async_acquire_any(all, patient, as_tuple);
    EXPECT_EQ(std::get<0>(nothing), errc::invalid_config);
    EXPECT_TRUE(std::get<0>(nothing).message().starts_with("invalid configuration: `but` names all of the 2 segments"))
        << std::get<0>(nothing).message();
  };
  w.run(body);
}

TEST_F(StripedMutex, WithAnySegmentMovesOnAndReleasesFirst) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client c{w.ctx.get_executor(), url};
      striped_mutex m{c, "moving", 5};
      std::vector<std::uint32_t> visits;
      int enough_at = 3;
      auto visit = [&](hold& h) -> asio::awaitable<segment_verdict> {
        EXPECT_EQ(c.stats().held, 1u);
        visits.push_back(h.segment());
        co_return static_cast<int>(visits.size()) == enough_at ? segment_verdict::done : segment_verdict::not_enough;
      };
      bool found = co_await with_any_segment(m, visit);
      EXPECT_TRUE(found);
      EXPECT_EQ(visits.size(), 3u);
      EXPECT_EQ((std::set<std::uint32_t>{visits.begin(), visits.end()}.size()), 3u);
      visits.clear();
      enough_at = 99;
      found = co_await with_any_segment(m, visit);
      EXPECT_FALSE(found);  // all were too small
      EXPECT_EQ((std::set<std::uint32_t>{visits.begin(), visits.end()}), (std::set<std::uint32_t>{1, 2, 3, 4, 5}));
      EXPECT_EQ(visits.size(), 5u);
      EXPECT_EQ(c.stats().held, 0u);
    }
    EXPECT_TRUE(is_free(probe, "moving"));
  };
  w.run(body);
}

TEST_F(StripedMutex, TheTimeOfWithAnySegmentIsForAllVisitsTogether) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    striped_mutex m{c, "hurried", 2};
    hold kept = co_await m.async_acquire_any();
    auto visit = [&](hold&) -> asio::awaitable<segment_verdict> { co_return segment_verdict::not_enough; };
    acquire_options const briefly{.wait = short_wait};
    error_code ended;
    try {
      co_await with_any_segment(m, briefly, visit);
    } catch (boost::system::system_error const& e) {
      ended = e.code();
    }
    EXPECT_EQ(ended, errc::timed_out) << ended.message();
    EXPECT_EQ(in_line(probe, "hurried"), 0);
  };
  w.run(body);
}

TEST_F(StripedMutex, TheSegmentOfAKilledProcessComesBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    striped_mutex m{c, "crashed", 2};
    std::vector<std::uint32_t> const but{1};  // the child's object has no other
    hold mine = co_await m.async_acquire_any(but, acquire_options{});
    child dead{server(), "@striped/crashed", 600ms};
    dead.wait_for("held");
    dead.kill();
    hold back = co_await m.async_acquire_any(acquire_options{2s});
    EXPECT_TRUE(back.valid());
    EXPECT_NE(back.segment(), mine.segment());
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
