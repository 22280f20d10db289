// The rules of a lock (src/rules/lock.hpp), by themselves. That the scripts and memory:// follow them is compared in
// tests/sim/differential.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rules/lock.hpp"
#include "support/printed_replies.hpp"

namespace conch::rules {
namespace {

using namespace std::chrono_literals;
using protocol::acquire_reply;
using protocol::release_reply;
using what = push::kind;

constexpr us start = 1'700'000'000'000'000;
constexpr ms claim = 3'000, retention = 600'000;

struct heard {
  push::kind what;
  std::string client;
  engine::grant_id id;
  std::int64_t fence = 0, chosen = 0;
  ms left = 0;

  bool operator==(heard const&) const = default;
  friend void PrintTo(heard const& h, std::ostream* out) {
    *out << h.client << '.' << h.id.count << " hears " << static_cast<int>(h.what) << " fence " << h.fence << " left "
         << h.left;
  }
};

struct all_clients final : audience {
  bool send(push const& p) override {
    if (!is_listening(p.to.client())) return false;
    pushes.push_back({p.what, std::string{p.to.client()}, p.to.number, p.fence, p.chosen, p.left});
    return true;
  }
  bool is_listening(std::string_view client) const override { return !deaf.contains(client); }

  std::vector<heard> take() { return std::exchange(pushes, {}); }

  std::set<std::string, std::less<>> deaf;
  std::vector<heard> pushes;
};

/// A lock and a clock.
struct table {
  lock l;
  all_clients clients;
  us now = start;

  moment at(std::string_view client) { return {now, client, clients, claim, retention}; }
  acquire_reply acquire(std::string_view client, std::uint64_t id, engine::permit const* share = nullptr,
                        bool waits = true, std::int64_t ticket = 0) {
    protocol::acquire_command c{
        .name = "lock", .id = id, .wait = waits, .lease = 30s, .claim = 3s, .retention = 10min, .ticket = ticket};
    c.permit = share;
    auto const reply = rules::acquire(l, at(client), c);
    return reply.value_or(acquire_reply{});
  }
  release_reply release(std::string_view client, std::uint64_t id, engine::permit const* share = nullptr) {
    protocol::release_command c{.name = "lock", .id = id, .lease = 30s, .claim = 3s, .retention = 10min};
    c.permit = share;
    return rules::release(l, at(client), c).value_or(release_reply{});
  }
  bool renew(std::string_view client, std::uint64_t id, bool of_mutex = true) {
    return rules::renew(l, at(client), {"lock", id, 30s}, of_mutex);
  }
};

engine::permit share(engine::permit_kind kind, std::uint32_t limit, std::uint32_t weight, std::string unwanted = "-") {
  return {kind, limit, weight, 0, std::move(unwanted)};
}

TEST(Rules, AMutexHasOneOwnerAndTheOthersStandInLineByTicket) {
  table t;
  auto const first = t.acquire("a", 1);
  EXPECT_EQ(first.what, acquire_reply::kind::granted);
  EXPECT_EQ(first.fence, start - protocol::fence_epoch_us);
  EXPECT_EQ(t.acquire("b", 1).ticket, start);
  EXPECT_EQ(t.acquire("c", 1).ticket, start + 1) << "never two places";
  EXPECT_EQ(t.acquire("d", 1, nullptr, false).what, acquire_reply::kind::busy);
  EXPECT_EQ(t.l.line.size(), 2u);
  auto const released = t.release("a", 1);
  EXPECT_TRUE(released.was_mine && released.passed_on && released.more_in_line);
  EXPECT_EQ(t.clients.take(), (std::vector<heard>{{what::granted, "b", 1, first.fence + 1, 0, claim}}));
}

TEST(Rules, WhoeverAsksTwiceIsRenewedOrKeepsItsPlace) {
  table t;
  auto const first = t.acquire("a", 1);
  t.now += 10'000'000;
  EXPECT_EQ(t.acquire("a", 1).fence, first.fence);
  EXPECT_EQ(t.acquire("b", 1).left_ms, 30'000) << "the lease began anew";
  EXPECT_EQ(t.acquire("b", 1).ticket, t.acquire("b", 1).ticket);
  EXPECT_EQ(t.l.line.size(), 1u);
}

TEST(Rules, OfTwoPlacesTheEarlierCounts) {
  table t;
  t.acquire("a", 1);
  auto const late = t.acquire("b", 1).ticket;
  EXPECT_EQ(t.acquire("b", 1, nullptr, true, late - 50).ticket, late - 50);
  EXPECT_EQ(t.acquire("b", 1, nullptr, true, late + 50).ticket, late - 50);
}

TEST(Rules, WhoeverDoesNotHearIsPassedOver) {
  table t;
  t.acquire("a", 1);
  t.acquire("b", 1);
  t.acquire("c", 1);
  t.clients.deaf.insert("b");
  t.release("a", 1);
  auto const pushes = t.clients.take();
  ASSERT_EQ(pushes.size(), 1u);
  EXPECT_EQ(pushes[0].client, "c");
  EXPECT_TRUE(t.l.line.empty());
}

TEST(Rules, AReleaseWithinTheIntervalLeavesTheRestOfIt) {
  table t;
  t.acquire("a", 1);
  t.acquire("b", 1);
  protocol::release_command const c{
      .name = "lock", .id = 1, .lease = 30s, .claim = 3s, .retention = 10min, .ends_in = 4s};
  auto const reply = rules::release(t.l, t.at("a"), c);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->what, release_reply::kind::released);
  EXPECT_TRUE(reply->was_mine);
  EXPECT_FALSE(reply->passed_on);
  EXPECT_EQ(t.clients.take(), (std::vector<heard>{{what::ends, "b", 1, 0, 0, 4'000}}));
  EXPECT_EQ(t.acquire("b", 1).left_ms, 4'000);
  t.now += 4'000'000;
  EXPECT_NE(t.acquire("b", 1).what, acquire_reply::kind::granted)
      << "a key is there to the end of its last millisecond";
  t.now += 1'000;
  EXPECT_EQ(t.acquire("b", 1).what, acquire_reply::kind::granted);
}

TEST(Rules, APushMakesAClaimAndARenewalAHold) {
  table t;
  t.acquire("a", 1);
  t.acquire("b", 1);
  t.release("a", 1);
  EXPECT_TRUE(t.l.owners.begin()->second.claimed);
  EXPECT_EQ(t.acquire("c", 1).left_ms, claim);
  EXPECT_TRUE(t.renew("b", 1));
  EXPECT_FALSE(t.l.owners.begin()->second.claimed);
  EXPECT_EQ(t.acquire("c", 1).left_ms, 30'000);
  EXPECT_FALSE(t.renew("b", 2));
}

TEST(Rules, AMutexLastsToTheEndOfItsLastMillisecondAndAShareToTheMicrosecond) {
  table mutex;
  mutex.acquire("a", 1);
  mutex.now += 30'000'000 + 999;
  EXPECT_EQ(mutex.acquire("b", 1, nullptr, false).what, acquire_reply::kind::busy);
  mutex.now += 1;
  EXPECT_EQ(mutex.acquire("b", 1, nullptr, false).what, acquire_reply::kind::granted);

  auto const all = share(engine::permit_kind::semaphore, 1, 1);
  table shares;
  shares.acquire("a", 1, &all);
  shares.now += 30'000'000 - 1;
  EXPECT_EQ(shares.acquire("b", 1, &all, false).what, acquire_reply::kind::busy);
  shares.now += 1;
  EXPECT_EQ(shares.acquire("b", 1, &all, false).what, acquire_reply::kind::granted);
}

TEST(Rules, ALargeRequestAtTheHeadIsNotOvertaken) {
  auto const one = share(engine::permit_kind::semaphore, 3, 1), two = share(engine::permit_kind::semaphore, 3, 2);
  table t;
  t.acquire("a", 1, &one);
  t.acquire("a", 2, &one);
  EXPECT_EQ(t.acquire("b", 1, &two).what, acquire_reply::kind::queued);
  EXPECT_EQ(t.acquire("c", 1, &one).what, acquire_reply::kind::queued) << "though it would fit";
  t.release("a", 1, &one);
  auto const pushes = t.clients.take();
  ASSERT_EQ(pushes.size(), 1u);
  EXPECT_EQ(pushes[0].client, "b");
}

TEST(Rules, OfSegmentsWhoeverWantsNoneOfTheFreeOnesIsPassedOver) {
  auto const any = share(engine::permit_kind::segments, 2, 1),
             not_first = share(engine::permit_kind::segments, 2, 1, ",1,");
  table t;
  EXPECT_EQ(t.acquire("a", 1, &any).chosen, 1);
  EXPECT_EQ(t.acquire("a", 2, &any).chosen, 2);
  t.acquire("b", 1, &not_first);
  t.acquire("c", 1, &any);
  t.release("a", 1, &any);
  auto pushes = t.clients.take();
  ASSERT_EQ(pushes.size(), 1u);
  EXPECT_EQ(pushes[0].client, "c");
  EXPECT_EQ(pushes[0].chosen, 1);
  t.release("a", 2, &any);
  pushes = t.clients.take();
  ASSERT_EQ(pushes.size(), 1u);
  EXPECT_EQ(pushes[0].client, "b");
}

TEST(Rules, AReentrantLockIsForOneOwnerAtATime) {
  auto const mine = share(engine::permit_kind::reentrant, 1000, 1, "6d65"),
             yours = share(engine::permit_kind::reentrant, 1000, 1, "796f75");
  table t;
  t.acquire("a", 1, &mine);
  EXPECT_EQ(t.acquire("b", 1, &yours).what, acquire_reply::kind::queued);
  EXPECT_EQ(t.acquire("c", 1, &mine).what, acquire_reply::kind::granted)
      << "the one before it in line wants nothing of what is free";
  t.clients.take();
  t.release("a", 1, &mine);
  EXPECT_TRUE(t.clients.take().empty());
  t.release("c", 1, &mine);
  EXPECT_EQ(t.clients.take().size(), 1u);
}

TEST(Rules, ANameIsOfOneKindAsLongAsItHasOwners) {
  auto const one = share(engine::permit_kind::semaphore, 3, 1);
  table t;
  t.acquire("a", 1);
  EXPECT_EQ(t.acquire("b", 1, &one).what, acquire_reply::kind::malformed);
  t.release("a", 1);
  EXPECT_EQ(t.acquire("b", 1, &one).what, acquire_reply::kind::granted);
}

TEST(Rules, NothingIsKeptOfALockThatNobodyHasButItsFence) {
  table t;
  t.acquire("a", 1);
  t.acquire("b", 1);
  t.release("b", 1);
  t.release("a", 1);
  EXPECT_EQ(t.l.kept, 0);
  EXPECT_EQ(t.l.line_kept, 0);
  EXPECT_EQ(next_end(t.l), t.l.fence_kept);
  end_what_is_over(t.l, t.l.fence_kept);
  EXPECT_EQ(next_end(t.l), 0);
}

TEST(Rules, AllWhoWaitForAFreeLockAreToldWhenItIs) {
  table t;
  t.acquire("a", 1);
  for (std::uint64_t id = 1; id <= 300; ++id)
    EXPECT_FALSE(watch(t.l, t.at("w"), {.name = "lock", .id = id, .lease = 30s}).is_free);
  t.release("a", 1);
  EXPECT_EQ(t.clients.take().size(), 300u);
  EXPECT_TRUE(t.l.watchers.empty());
}

TEST(Rules, ForceTellsTheOwnersAndPassesOn) {
  table t;
  t.acquire("a", 1);
  t.acquire("b", 1);
  auto const reply = force(t.l, t.at("operator"), {.name = "lock", .claim = 3s, .retention = 10min});
  EXPECT_EQ(reply.count, 1);
  auto const pushes = t.clients.take();
  ASSERT_EQ(pushes.size(), 2u);
  EXPECT_EQ(pushes[0].what, what::taken_away);
  EXPECT_EQ(pushes[1].what, what::granted);
  EXPECT_EQ(force(t.l, t.at("operator"), {.name = "lock", .fence = 7}).count, 0);
}

// L1 to L7 for requests in any order, a clock that steps back now and then, and clients that are subscribed or not.
class RulesHold : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RulesHold, AfterEachRequest) {
  std::mt19937_64 random{GetParam()};
  auto const pick = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>{from, to}(random);
  };
  engine::permit const shares[] = {
      share(engine::permit_kind::semaphore, 5, 1), share(engine::permit_kind::shared, 1000, 1),
      share(engine::permit_kind::segments, 3, 1), share(engine::permit_kind::reentrant, 1000, 1)};
  auto const which = GetParam() % 5;
  std::string const clients[] = {"a", "b", "c", "d"};
  table t;
  std::set<std::string> told;  // L4: of the owners
  std::int64_t greatest = 0;   // L3
  int grants = 0;
  auto const granted = [&](std::string const& client, engine::grant_id id, std::int64_t fence) {
    EXPECT_GT(fence, greatest) << "L3";
    greatest = fence;
    told.insert(sender{client, id}.text());
    ++grants;
  };
  for (int step = 0; step < 3000; ++step) {
    t.now += pick(0, 9) == 0 ? pick(0, 40'000'000) : pick(-1'000'000, 3'000'000);
    std::string const& client = clients[pick(0, 3)];
    if (pick(0, 9) == 0 && !t.clients.deaf.erase(client)) t.clients.deaf.insert(client);
    auto const id = static_cast<std::uint64_t>(pick(1, 6));
    engine::permit wants;
    if (which != 0) {
      wants = shares[which - 1];
      if (wants.kind == engine::permit_kind::semaphore) wants.weight = static_cast<std::uint32_t>(id % 4 + 1);
      if (wants.kind == engine::permit_kind::shared && id == 1) wants.weight = 1000;
      if (wants.kind == engine::permit_kind::segments && id % 3 == 0) wants.detail = ",2,";
      if (wants.kind == engine::permit_kind::reentrant) wants.detail = id % 2 == 0 ? "6d65" : "796f75";
    }
    engine::permit const* const permit = which != 0 ? &wants : nullptr;
    bool passed_on = false;
    std::set<std::string> before;
    for (auto const& [number, o] : t.l.owners) before.insert(o.who.text);
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        auto const reply = t.acquire(client, id, permit, pick(0, 3) != 0);
        for (auto const& h : t.clients.pushes) {
          if (h.what == what::granted && h.fence < reply.fence) granted(h.client, h.id, h.fence);
        }
        if (reply.what == acquire_reply::kind::granted && reply.fence > greatest) granted(client, id, reply.fence);
        passed_on = true;
        break;
      }
      case 4:
      case 5:
      case 6:
        t.release(client, id, permit);
        passed_on = true;
        break;
      case 7: t.renew(client, id, which == 0); break;
      case 8: watch(t.l, t.at(client), {.name = "lock", .id = id, .lease = 30s}); break;
      default:
        if (pick(0, 3) != 0) continue;
        passed_on = force(t.l, t.at("operator"), {.name = "lock", .claim = 3s, .retention = 10min}).count > 0;
    }
    for (auto const& h : t.clients.take()) {
      EXPECT_FALSE(t.clients.deaf.contains(h.client));
      if (h.what == what::granted && h.fence > greatest) granted(h.client, h.id, h.fence);
    }
    ASSERT_EQ(broken_rule(t.l, t.now, passed_on), "") << "step " << step;
    for (auto const& [number, o] : t.l.owners) {
      ASSERT_TRUE(told.contains(o.who.text)) << "L4: nobody told " << o.who.text << " at step " << step;
      ASSERT_LE(o.fence, greatest);
    }
  }
  EXPECT_GT(grants, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RulesHold, testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace conch::rules
