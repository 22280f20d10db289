#include "base/timer_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace conch::engine {
namespace {

using namespace std::chrono_literals;

constexpr time_point start{1'000s};

/// Notes when it fires, and does what it is told then.
struct alarm {
  alarm(int n, std::vector<int>& out) : number{n}, fired{out} {}

  int number;
  std::vector<int>& fired;
  std::function<void(time_point)> also;
  time_point told{};
  timer t{this, [](alarm& a, time_point now) {
            a.fired.push_back(a.number);
            a.told = now;
            if (a.also) a.also(now);
          }};
};

using numbers = std::vector<int>;

TEST(TimerQueue, HasNothingToWaitForWhenEmpty) {
  timer_queue q;
  EXPECT_EQ(q.next(), timer_queue::never);
  q.run(start);
}

TEST(TimerQueue, FiresWhatIsDueEarliestFirstAndNothingElse) {
  numbers fired;
  alarm a{1, fired}, b{2, fired}, c{3, fired}, d{4, fired};
  timer_queue q;
  q.arm(a.t, start + 3s);
  q.arm(b.t, start + 1s);
  q.arm(c.t, start + 2s);
  q.arm(d.t, start + 3s + 1ns);
  EXPECT_EQ(q.next(), start + 1s);
  q.run(start + 1s - 1ns);
  EXPECT_TRUE(fired.empty());
  q.run(start + 3s);
  EXPECT_EQ(fired, (numbers{2, 3, 1}));
  EXPECT_EQ(q.next(), start + 3s + 1ns);
}

TEST(TimerQueue, FiresATimerOnceAndTellsItTheTime) {
  numbers fired;
  alarm a{1, fired};
  timer_queue q;
  q.arm(a.t, start);
  EXPECT_TRUE(a.t.armed());
  EXPECT_EQ(a.t.at(), start);
  q.run(start + 5s);
  EXPECT_FALSE(a.t.armed());
  EXPECT_EQ(a.told, start + 5s);
  q.run(start + 10s);
  EXPECT_EQ(fired, numbers{1});
}

TEST(TimerQueue, MovesATimerThatIsArmedAgain) {
  numbers fired;
  alarm a{1, fired}, b{2, fired}, c{3, fired};
  timer_queue q;
  q.arm(a.t, start + 1s);
  q.arm(b.t, start + 2s);
  q.arm(c.t, start + 3s);
  q.arm(a.t, start + 4s);  // later
  q.arm(c.t, start);       // earlier
  EXPECT_EQ(q.next(), start);
  q.run(start + 4s);
  EXPECT_EQ(fired, (numbers{3, 2, 1}));
}

TEST(TimerQueue, NeverFiresACancelledTimer) {
  numbers fired;
  alarm a{1, fired}, b{2, fired};
  timer_queue q;
  q.arm(a.t, start);
  q.arm(b.t, start);
  a.t.cancel();
  EXPECT_FALSE(a.t.armed());
  a.t.cancel();
  q.run(start);
  EXPECT_EQ(fired, numbers{2});
}

TEST(TimerQueue, LosesATimerThatIsDestroyed) {
  numbers fired;
  timer_queue q;
  auto a = std::make_optional<alarm>(1, fired);
  q.arm(a->t, start);
  a.reset();
  EXPECT_EQ(q.next(), timer_queue::never);
  q.run(start);
  EXPECT_TRUE(fired.empty());
}

TEST(TimerQueue, DisarmsItsTimersWhenItIsDestroyed) {
  numbers fired;
  alarm a{1, fired};
  {
    timer_queue q;
    q.arm(a.t, start);
  }
  EXPECT_FALSE(a.t.armed());
  timer_queue other;
  other.arm(a.t, start);
  other.run(start);
  EXPECT_EQ(fired, numbers{1});
}

TEST(TimerQueue, LetsAnActionCancelWhatIsDueAtTheSameTime) {
  numbers fired;
  alarm a{1, fired}, b{2, fired};
  timer_queue q;
  q.arm(a.t, start);
  q.arm(b.t, start + 1ns);
  a.also = [&](time_point) { b.t.cancel(); };
  q.run(start + 1s);
  EXPECT_EQ(fired, numbers{1});
}

TEST(TimerQueue, LetsAnActionArmForNowAndForLater) {
  numbers fired;
  alarm a{1, fired}, b{2, fired};
  timer_queue q;
  q.arm(a.t, start);
  a.also = [&](time_point now) {
    if (fired.size() == 1) q.arm(b.t, now);  // in this same run
    if (fired.size() == 1) q.arm(a.t, now + 1s);
  };
  q.run(start);
  EXPECT_EQ(fired, (numbers{1, 2}));
  EXPECT_EQ(q.next(), start + 1s);
}

TEST(TimerQueue, LetsAnActionDestroyItsTimer) {
  numbers fired;
  auto a = std::make_unique<alarm>(1, fired);
  timer_queue q;
  q.arm(a->t, start);
  a->also = [&](time_point) { std::exchange(a, nullptr).reset(); };
  q.run(start);
  EXPECT_EQ(fired, numbers{1});
  EXPECT_EQ(q.next(), timer_queue::never);
}

TEST(TimerQueue, FiresTheUrgentOnesFirstAndSoManyOfEach) {
  numbers fired;
  auto const note = [](numbers& out, time_point) { out.push_back(1); };
  auto const note_urgent = [](numbers& out, time_point) { out.push_back(2); };
  timer_queue q;
  std::deque<timer> all;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back(&fired, note);
    q.arm(all.back(), start + std::chrono::milliseconds{i});
    all.emplace_back(&fired, note_urgent, timer::rank::first);
    q.arm(all.back(), start + std::chrono::milliseconds{10 + i});
  }
  EXPECT_EQ(q.next(), start);
  EXPECT_EQ(q.next_urgent(), start + std::chrono::milliseconds{10});
  time_point const now = start + std::chrono::milliseconds{20};
  q.run(now, 2);
  EXPECT_EQ(fired, (numbers{2, 2, 1, 1}));
  EXPECT_LE(q.next(), now) << "there is more";
  q.run(now, 2);
  EXPECT_EQ(fired, (numbers{2, 2, 1, 1, 2, 1}));
  EXPECT_EQ(q.next(), timer_queue::never);
}

// Against the plainest thing that could work: looking through all of them.
TEST(TimerQueue, KeepsItsOrderThroughAnyChanges) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    auto const pick = [&](int from, int to) { return std::uniform_int_distribution{from, to}(random); };
    numbers fired;
    timer_queue q;
    std::deque<std::unique_ptr<alarm>> all;
    for (int n = 0; n < 40; ++n) all.push_back(std::make_unique<alarm>(n, fired));
    std::vector<std::optional<time_point>> due(all.size());
    time_point now = start;
    for (int step = 0; step < 2000; ++step) {
      auto const n = static_cast<std::size_t>(pick(0, 39));
      switch (pick(0, 5)) {
        case 0:
          all[n]->t.cancel();
          due[n].reset();
          break;
        case 1: {
          all[n] = std::make_unique<alarm>(static_cast<int>(n), fired);
          due[n].reset();
          break;
        }
        case 2: {
          now += std::chrono::milliseconds{pick(0, 30)};
          fired.clear();
          q.run(now);
          time_point before{};
          for (int const f : fired) {
            auto& at = due[static_cast<std::size_t>(f)];
            ASSERT_TRUE(at && *at <= now && *at >= before) << "seed " << seed << " step " << step;
            before = *at;
            at.reset();
          }
          break;
        }
        default: due[n] = now + std::chrono::milliseconds{pick(-5, 60)}; q.arm(all[n]->t, *due[n]);
      }
      time_point first = timer_queue::never;
      for (auto const& at : due) first = std::min(first, at.value_or(timer_queue::never));
      if (first > now) {
        ASSERT_EQ(q.next(), first) << "seed " << seed << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace conch::engine
