// The lock server of memory://. What it answers is compared with the rules in
// tests/sim/differential/memory_store_differential_test.cpp; here is what the rules do not say.

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/overloaded.hpp"
#include "servers/memory/store.hpp"
#include "support/in_child.hpp"
#include "support/printed_replies.hpp"

namespace conch::memory {
namespace {

using namespace std::chrono_literals;
using protocol::acquire_reply;
using protocol::release_reply;

constexpr std::int64_t start_us = 1'700'000'000'000'000;

struct grant_queue final : store::listener {
  struct heard {
    std::string name;
    engine::grant_id id;
    std::int64_t fence;
  };

  void on_push(protocol::push const& p) override {
    std::lock_guard const lock{mutex};
    std::visit(overloaded{[&](protocol::pushed_grant const& g) {
                            grants.push_back({std::string{g.name}, g.id, g.fence});
                          },
                          [&](protocol::revocation const& r) {
                            grants.push_back({std::string{r.name}, r.id, 0});
                          },  // as a grant without a fence
                          [&](protocol::request_to_let_go const& r) {
                            requests.push_back({std::string{r.name}, r.id, 0});
                          },
                          [](auto const&) {}},
               p);
  }

  std::deque<heard> take() {
    std::lock_guard const lock{mutex};
    return std::exchange(grants, {});
  }

  std::mutex mutex;
  std::deque<heard> grants, requests;
};

protocol::acquire_command acquire(std::string_view name, engine::grant_id id) {
  return {name, id, true, 30s, 3s, 10min};
}

protocol::release_command release(std::string_view name, engine::grant_id id) {
  return {name, id, false, 30s, 3s, 10min};
}

TEST(MemoryStore, IsUsableInAChildWhateverOtherThreadsDoWhileTheProcessForks) {
  auto const all = store::named("MemoryStore.forked");
  std::atomic<bool> over{false};
  std::thread busy{[&] {
    for (unsigned id = 1; !over; ++id) {
      all->carry_out(acquire("lock", id), "a", start_us);
      all->carry_out(release("lock", id), "a", start_us);
      store::named("MemoryStore.other");
    }
  }};
  for (int i = 0; i < 100; ++i) {
    bool const is_usable = test::is_so_in_child([&] {
      store::named("MemoryStore.of the child")->carry_out(acquire("lock", 1), "b", start_us);
      return all->carry_out(acquire("another", 1), "b", start_us)->fence != 0;
    });
    EXPECT_TRUE(is_usable);
    if (!is_usable) break;
  }
  over = true;
  busy.join();
}

TEST(MemoryStore, IsTheSameForTheSameNameAndStaysWhenNobodyUsesIt) {
  auto const one = store::named("MemoryStore.one");
  EXPECT_EQ(one, store::named("MemoryStore.one"));
  EXPECT_NE(one, store::named("MemoryStore.two"));
  EXPECT_NE(one, store::named(""));

  store::named("MemoryStore.two")->carry_out(acquire("lock", 1), "a", start_us);
  EXPECT_EQ(store::named("MemoryStore.two")->size(), 1u);
}

TEST(MemoryStore, HandsAReleasedLockToTheNextClientInLine) {
  store s;
  grant_queue a, b;
  s.subscribe("a", a);
  s.subscribe("b", b);
  auto const granted = s.carry_out(acquire("lock", 1), "a", start_us);
  ASSERT_TRUE(granted);
  EXPECT_EQ(*granted, (acquire_reply{.what = acquire_reply::kind::granted,
                                     .fence = start_us - protocol::fence_epoch_us,
                                     .server_us = start_us}));
  EXPECT_EQ(s.carry_out(acquire("lock", 9), "b", start_us + 10), (acquire_reply{.what = acquire_reply::kind::queued,
                                                                                .left_ms = 30'000,
                                                                                .ticket = start_us + 10,
                                                                                .server_us = start_us + 10}));
  EXPECT_EQ(
      s.carry_out(release("lock", 1), "a", start_us + 20),
      (release_reply{
          .what = release_reply::kind::released, .was_mine = true, .passed_on = true, .server_us = start_us + 20}));
  EXPECT_TRUE(a.take().empty());
  auto const heard = b.take();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].name, "lock");
  EXPECT_EQ(heard[0].id, 9u);
  EXPECT_GT(heard[0].fence, granted->fence);
}

// A late request from before the ticket was known may have taken a place at the end.
TEST(MemoryStore, TakesTheEarlierOfTwoPlacesInLine) {
  store s;
  grant_queue a, b;
  s.subscribe("a", a);
  s.subscribe("b", b);
  s.carry_out(acquire("lock", 1), "holder", start_us);
  s.carry_out(acquire("lock", 5), "b", start_us + 10);
  auto again = acquire("lock", 9);
  EXPECT_EQ(s.carry_out(again, "a", start_us + 20)->ticket, start_us + 20);
  again.ticket = start_us + 5;
  EXPECT_EQ(s.carry_out(again, "a", start_us + 30)->ticket, start_us + 5);
  again.ticket = start_us + 25;
  EXPECT_EQ(s.carry_out(again, "a", start_us + 40)->ticket, start_us + 5);
  s.carry_out(release("lock", 1), "holder", start_us + 50);
  EXPECT_EQ(a.take().size(), 1u);
  EXPECT_TRUE(b.take().empty());
}

TEST(MemoryStore, PassesOverAClientThatIsNotSubscribed) {
  store s;
  grant_queue b, c;
  s.subscribe("b", b);
  s.subscribe("c", c);
  s.carry_out(acquire("lock", 1), "a", start_us);
  s.carry_out(acquire("lock", 1), "b", start_us + 1);
  s.carry_out(acquire("lock", 1), "c", start_us + 2);
  s.unsubscribe("b");
  s.carry_out(release("lock", 1), "a", start_us + 3);
  EXPECT_TRUE(b.take().empty());
  EXPECT_EQ(c.take().size(), 1u);
}

TEST(MemoryStore, ProvesThatAClientIsHeard) {
  store s;
  grant_queue a;
  EXPECT_EQ(s.carry_out(protocol::prove_publish_command{}, "a", start_us).count, 0);
  s.subscribe("a", a);
  EXPECT_EQ(s.carry_out(protocol::prove_publish_command{}, "a", start_us).count, 1);
  s.unsubscribe("a");
  EXPECT_EQ(s.carry_out(protocol::prove_publish_command{}, "a", start_us).count, 0);
  EXPECT_TRUE(a.take().empty());
}

TEST(MemoryStore, HasNothingToSayAboutConnections) {
  store s;
  EXPECT_EQ(s.carry_out(protocol::ping_command{}, "a", start_us), protocol::session_reply{});
  EXPECT_EQ(s.carry_out(protocol::subscribe_command{}, "a", start_us), protocol::session_reply{});
  EXPECT_EQ(s.carry_out(protocol::kill_command{7, "x"}, "a", start_us), protocol::session_reply{});
  EXPECT_EQ(s.size(), 0u);
}

// As a connection, which puts what comes later behind it.
TEST(MemoryStore, GivesTheReplyOfAnyCommandWhileNobodyElseGetsIn) {
  store s;
  grant_queue b;
  s.subscribe("b", b);
  s.carry_out(acquire("lock", 1), "a", start_us);
  engine::permit const part{engine::permit_kind::semaphore, 5, 1, 0, "-"};
  auto other = acquire("lock", 2);
  other.permit = &part;
  EXPECT_EQ(s.carry_out(other, "b", start_us), std::nullopt) << "a lock of another kind";
  std::thread releases;
  s.carry_out(protocol::command{acquire("lock", 9)}, "b", start_us + 10, [&](auto const& reply) {
    if constexpr (std::is_same_v<std::decay_t<decltype(reply)>, std::optional<acquire_reply>>) {
      EXPECT_EQ(reply->what, acquire_reply::kind::queued);
      releases = std::thread{[&] { s.carry_out(release("lock", 1), "a", start_us + 20); }};
      EXPECT_TRUE(b.take().empty()) << "the store is locked";
    } else {
      ADD_FAILURE() << "the reply of another script";
    }
  });
  releases.join();
  EXPECT_EQ(b.take().size(), 1u);
}

TEST(MemoryStore, DropsWhatHasExpiredWithoutBeingAskedAboutIt) {
  store s;
  std::int64_t now = start_us;
  for (int i = 0; i < 100'000; ++i, now += 1'000'000) {
    s.carry_out(acquire("lock " + std::to_string(i), 1), "a", now);
    // One a second, each remembered for the retention of its fence.
    ASSERT_LE(s.size(), 602u);
  }
  s.carry_out(protocol::ping_command{}, "a", now + 700'000'000);
  EXPECT_EQ(s.size(), 0u);
}

TEST(MemoryStore, RemembersNothingOfQuestionsThatChangedNothing) {
  store s;
  std::vector<protocol::renewal> const items{{"unknown", 1, 1s}};
  EXPECT_EQ(s.carry_out(protocol::renew_command{items}, "a", start_us),
            (protocol::renew_reply{.server_us = start_us, .locks = {{protocol::renew_reply::kind::not_mine}}}));
  EXPECT_EQ(s.carry_out(release("unknown", 1), "a", start_us),
            (release_reply{.what = release_reply::kind::released, .server_us = start_us}));
  auto late = acquire("unknown", 1);
  late.not_after_us = start_us - 1;
  EXPECT_EQ(s.carry_out(late, "a", start_us),
            (acquire_reply{.what = acquire_reply::kind::too_late, .server_us = start_us}));
  EXPECT_EQ(s.size(), 0u);
}

TEST(MemoryStore, KeepsAFenceAfterTheLastReleaseForItsRetention) {
  store s;
  s.carry_out(acquire("lock", 1), "a", start_us);
  s.carry_out(release("lock", 1), "a", start_us + 1);
  EXPECT_EQ(s.size(), 1u);
  s.carry_out(protocol::ping_command{}, "a", start_us + 600'000'000);
  EXPECT_EQ(s.size(), 1u);
  s.carry_out(protocol::ping_command{}, "a", start_us + 600'002'000);
  EXPECT_EQ(s.size(), 0u);
}

// P1, P2, P4: several threads, each a client of its own, pass one lock round.
TEST(MemoryStore, KeepsItsPromisesWhenManyThreadsUseIt) {
  constexpr int clients = 4;
  constexpr int rounds = 300;
  auto const s = store::named("MemoryStore.threads");
  std::atomic<std::int64_t> clock{start_us};
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  std::mutex fences_mutex;
  std::vector<std::int64_t> fences;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, me = "client" + std::to_string(i)] {
      grant_queue grants;
      s->subscribe(me, grants);
      for (std::uint64_t id = 1; id <= rounds; ++id) {
        auto const answer = s->carry_out(acquire("shared", id), me, clock.fetch_add(1));
        std::int64_t fence = answer->fence;
        while (answer->what == acquire_reply::kind::queued) {
          auto const heard = grants.take();
          if (!heard.empty()) {
            EXPECT_EQ(heard.front().id, id);
            fence = heard.front().fence;
            break;
          }
          std::this_thread::yield();
        }
        if (inside.fetch_add(1) != 0) together = true;
        {
          std::lock_guard const lock{fences_mutex};
          fences.push_back(fence);
        }
        inside.fetch_sub(1);
        EXPECT_TRUE(s->carry_out(release("shared", id), me, clock.fetch_add(1))->was_mine);
      }
      s->unsubscribe(me);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_FALSE(together);
  ASSERT_EQ(fences.size(), std::size_t{clients * rounds});
  for (std::size_t i = 1; i < fences.size(); ++i) ASSERT_GT(fences[i], fences[i - 1]);
}

}  // namespace
}  // namespace conch::memory
