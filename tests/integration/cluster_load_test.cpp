// A counter under locks of a real Cluster, while its masters change and its slots move. Fences guard it: an increment
// counts if no later hold has read or written since.

#include "integration/cluster_fixture.hpp"

#include <conch/stats.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

/// What a lock guards.
struct guarded {
  std::string name;
  std::int64_t last = 0;  // the greatest fence that has come
  std::int64_t value = 0, accepted = 0, refused = 0, overlaps = 0, late = 0;
  hold const* inside = nullptr;
  steady::time_point granted = steady::now();
  steady::duration longest{};  // without a grant

  bool enter(std::int64_t fence) {
    if (fence < last) return ++refused, false;
    last = fence;
    return true;
  }
};

/// Increments again and again until the end.
asio::awaitable<void> increments(client& c, guarded& g, bool const& ended) {
  mutex m{c, g.name};
  while (!ended) {
    hold h = co_await m.async_acquire();
    auto const now = steady::now();
    g.longest = std::max(g.longest, now - g.granted);
    g.granted = now;
    if (g.inside != nullptr && g.inside->valid()) ++g.overlaps;
    g.inside = &h;
    std::int64_t const fence = h.fence();
    if (g.enter(fence)) {
      std::int64_t const read = g.value;
      co_await pause_for(1ms);
      if (g.enter(fence)) {
        g.value = read + 1;
        ++g.accepted;
      }
    }
    if (g.inside == &h) g.inside = nullptr;
    // A failover of which nothing comes holds its master up for longer than the caller of a release waits.
    auto released = co_await h.async_release(as_tuple);
    if (std::get<0>(released)) ++g.late;
    co_await pause_for(1ms);
  }
}

struct crowd {
  crowd(world& w, cluster_set& all, std::size_t locks_of_each, std::size_t nodes) {
    for (std::size_t i = 0; i < 8; ++i) clients.emplace_back(w.ctx.get_executor(), over(all));
    for (std::size_t node = 0; node < nodes; ++node) {
      for (unsigned n = 0; n < locks_of_each; ++n) locks.push_back({.name = all.name_at(node, n)});
    }
  }
  void start(world& w) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      for (guarded& g : locks) {
        asio::co_spawn(w.ctx, increments(clients[i], g, ended), [this, &g](std::exception_ptr e) {
          --running;
          try {
            if (e) std::rethrow_exception(e);
          } catch (std::exception const& why) {
            ++failed;
            trouble = g.name + ": " + why.what();
          }
        });
        ++running;
      }
    }
  }
  std::uint64_t losses() const {
    std::uint64_t sum = 0;
    for (client const& c : clients) sum += c.stats().losses;
    return sum;
  }
  void report(std::string const& what) const {
    std::int64_t counted = 0, missing = 0, refused = 0, overlaps = 0, late = 0;
    steady::duration longest{};
    for (guarded const& g : locks) {
      counted += g.accepted;
      missing += g.accepted - g.value;
      refused += g.refused;
      overlaps += g.overlaps;
      late += g.late;
      longest = std::max(longest, g.longest);
    }
    std::printf(
        "%s: %lld increments, %lld missing, %lld refused by their fences, %lld overlaps, %llu holds lost, %lld "
        "releases without an answer in time, "
        "longest time without a grant %.0f ms\n",
        what.c_str(), static_cast<long long>(counted), static_cast<long long>(missing), static_cast<long long>(refused),
        static_cast<long long>(overlaps), static_cast<unsigned long long>(losses()), static_cast<long long>(late),
        ms(longest));
    EXPECT_EQ(missing, 0);
    EXPECT_EQ(overlaps, 0);
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(losses(), 0u);
    EXPECT_EQ(failed, 0) << trouble;
    EXPECT_GT(counted, 0);
  }

  std::deque<client> clients;
  std::deque<guarded> locks;
  bool ended = false;
  int running = 0, failed = 0;
  std::string trouble{};
};

/// Holds are kept, and increments go on, while `nemesis` does its worst in a thread of its own.
void count_during(std::string const& what, cluster_set& all, crowd& workers, world& w,
                  std::function<void()> const& nemesis) {
  auto const body = [&]() -> asio::awaitable<void> {
    client keeps{w.ctx.get_executor(), over(all)};
    std::vector<hold> kept;
    for (guarded const& g : workers.locks) {
      semaphore s{keeps, "kept " + g.name, 2};
      kept.push_back(co_await s.async_acquire());
      mutex beside{keeps, g.name + " too"};
      kept.push_back(co_await beside.async_acquire());
    }
    workers.start(w);
    std::atomic<bool> done = false;
    std::string trouble;
    std::thread thread{[&] {
      try {
        nemesis();
      } catch (std::exception const& e) {
        trouble = e.what();
      }
      done = true;
    }};
    auto const over_now = [&] { return done.load(); };
    auto const since = steady::now();
    co_await until(over_now, "the end of it", 600s);
    thread.join();
    std::printf("%s took %.1f s\n", what.c_str(), ms(steady::now() - since) / 1000);
    EXPECT_EQ(trouble, "");
    co_await pause_for(1s);
    workers.ended = true;
    auto const stopped = [&] { return workers.running == 0; };
    co_await until(stopped, "the end of the workers", 120s);
    for (hold const& h : kept) EXPECT_TRUE(h.valid());
    EXPECT_EQ(keeps.stats().losses, 0u);
  };
  w.run(body, 900s);
  workers.report(what);
}

/// 500 slots of the first two masters, those of the locks among them, each with its owner.
std::vector<std::pair<unsigned, std::size_t>> slots_with(crowd const& workers) {
  std::vector<std::pair<unsigned, std::size_t>> slots;
  std::size_t const of_each = workers.locks.size() / 2;
  for (std::size_t i = 0; i < workers.locks.size(); ++i)
    slots.emplace_back(redis::slot_of_lock(workers.locks[i].name), i / of_each);
  for (unsigned slot = 0; slots.size() < 500; ++slot) {
    bool const there = std::any_of(slots.begin(), slots.end(), [&](auto const& one) { return one.first == slot; });
    if (!there) slots.emplace_back(slot, 0);
  }
  std::sort(slots.begin(), slots.end());
  return slots;
}

TEST(SlowCluster, A5TwentyFailoversUnderLoadLoseNothing) {
  cluster_set all{{.replicas = 3}};
  world w;
  crowd workers{w, all, 3, 3};
  count_during("20 CLUSTER FAILOVERs", all, workers, w, [&] {
    for (std::size_t round = 0; round < 20; ++round) {
      std::size_t const shard = round % 3;
      all.fail_over(round / 3 % 2 == 0 ? shard + 3 : shard);
    }
  });
}

TEST(SlowCluster, A7SlotsReshardedToAndFroUnderLoadLoseNothing) {
  cluster_set all;
  world w;
  crowd workers{w, all, 6, 2};
  auto const slots = slots_with(workers);
  count_during("500 slots to and fro", all, workers, w, [&] {
    for (auto const& [slot, from] : slots) all.move_slot(slot, (from + 1) % 3);
    for (auto const& [slot, from] : slots) all.move_slot(slot, from);
  });
}

/// The first two masters exchange slots of theirs, a part at a time.
TEST(ClusterMovesAtOnce, UnderLoadLoseNothing) {
  cluster_set all;
  if (!all.can_move_at_once()) GTEST_SKIP() << "a server without CLUSTER MIGRATESLOTS (Valkey 9 has it)";
  world w;
  crowd workers{w, all, 6, 2};
  std::vector<unsigned> of[2];
  for (auto const& [slot, from] : slots_with(workers)) of[from].push_back(slot);
  count_during("500 slots to and fro, many at once", all, workers, w, [&] {
    for (bool const back : {false, true}) {
      for (std::size_t const from : {0u, 1u}) {
        constexpr std::size_t part = 50;
        for (std::size_t i = 0; i < of[from].size(); i += part) {
          auto const first = of[from].begin() + static_cast<std::ptrdiff_t>(i);
          std::vector<unsigned> const those{first,
                                            first + static_cast<std::ptrdiff_t>(std::min(part, of[from].size() - i))};
          all.move_at_once(those, back ? from : (from + 1) % 3);
          all.settle();
        }
      }
    }
  });
}

}  // namespace
}  // namespace conch::test
