// The simulated Cluster by itself: which node has a slot, what moves with it, and what a failover keeps. A client of a
// few lines asks there, and follows what it is told.
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <string>
#include <vector>

namespace conch::sim {
namespace {

using kind = fault_plan::kind;
using words = std::vector<std::string>;

constexpr std::size_t shards = 3, in_shard = 2;  // a master and a replica each

plan quiet_cluster() {
  plan p;
  p.names = 2;
  p.shards = static_cast<int>(shards);
  p.replicas = in_shard - 1;
  p.first_shards = {0, 1};
  p.latency = 100 * microsecond;
  p.replication_delay = 5 * millisecond;
  return p;
}

fault_plan fault(kind what, nanos at, nanos length, nanos length2 = 0, nanos told = 0, int variant = 0) {
  fault_plan f;
  f.what = what;
  f.at = at;
  f.length = length;
  f.length2 = length2;
  f.told = told;
  f.variant = variant;
  return f;
}

/// Asks nodes, at times.
class visitor {
 public:
  explicit visitor(plan p) : plan_{std::move(p)}, world_{plan_, true} {}

  world& in() { return world_; }
  void at(nanos when, std::function<void()> what) {
    world_.at(when, [this, what = std::move(what)] {
      ++visits_;
      what();
    });
  }
  void run() {
    world_.run();
    EXPECT_NE(visits_, 0);
  }

  value ask(std::size_t node, words const& argv, bool asking = false) {
    return world_.ask_node(node, std::vector<std::string_view>{argv.begin(), argv.end()}, asking);
  }

  /// Wherever it is sent to. What does not get better elsewhere is the answer; and "in circles" that it is sent on too
  /// often.
  value follow(std::size_t node, words const& argv) {
    bool asking = false;
    for (int hop = 0; hop < 5; ++hop) {
      value const answer = ask(node, argv, asking);
      std::string const code{answer.is_error() ? answer.error_code() : ""};
      if (code != "MOVED" && code != "ASK") return answer;
      asking = code == "ASK";
      node = named_in(answer);
    }
    return value::error("in circles");
  }

  static std::size_t named_in(value const& redirect) {
    auto const at = redirect.text.rfind("node");
    std::size_t number = nobody;
    if (at != std::string::npos)
      std::from_chars(redirect.text.data() + at + 4, redirect.text.data() + redirect.text.size(), number);
    return number;
  }

  static words acquire(int name, std::string const& id, std::string const& how, std::int64_t ticket = 0) {
    return {"EVAL",
            std::string{mutated_source("acquire")},
            "3",
            key_of(name),
            key_of(name) + ":q",
            key_of(name) + ":f",
            id,
            how,
            "400",
            "200",
            "30000",
            std::to_string(ticket),
            "0"};
  }
  static words release(int name, std::string const& id) {
    return {"EVAL",
            std::string{mutated_source("release")},
            "3",
            key_of(name),
            key_of(name) + ":q",
            key_of(name) + ":f",
            id,
            "0",
            "400",
            "200",
            "30000",
            ""};
  }
  static words renew(int name, std::string const& id) {
    return {"EVAL", std::string{mutated_source("renew")}, "1", key_of(name), id, "400"};
  }

  /// The fence of a grant: a number alone, or {1 fence now}.
  static std::int64_t fence_of(value const& answer) {
    return answer.is(value::kind::integer) ? answer.integer : answer.items.at(1).integer;
  }
  std::int64_t owner_fence(int name) {
    keys_of_lock const keys = world_.keys_of(name);
    value const lock = keys.with(key_of(name)).peek(key_of(name));
    return lock.is(value::kind::bulk) ? std::stoll(lock.text.substr(lock.text.find(' ') + 1)) : 0;
  }

  static constexpr std::size_t nobody = 99;

 private:
  plan const plan_;
  world world_;
  int visits_ = 0;
};

TEST(ClusterWorld, EachNodeNamesTheMasterThatHasASlot) {
  visitor v{quiet_cluster()};
  v.at(0, [&] {
    for (int name = 0; name < 2; ++name) {
      std::size_t const owner = static_cast<std::size_t>(name) * in_shard;
      ASSERT_EQ(v.in().decides(name), owner);
      for (std::size_t node = 0; node < v.in().nodes(); ++node) {
        value const said = v.ask(node, {"GET", key_of(name)});
        EXPECT_EQ(visitor::named_in(said), node == owner ? visitor::nobody : owner) << describe(said);
      }
    }
  });
  v.run();
}

TEST(ClusterWorld, ASlotThatMovesKeyByKeyTakesItsFenceAndItsLineAlong) {
  plan p = quiet_cluster();
  p.faults = {fault(kind::move_slot, 10 * millisecond, 50 * millisecond, 5 * millisecond, 10 * millisecond)};
  visitor v{p};
  std::int64_t fence = 0;
  bool put_off = false, renewed_elsewhere = false;
  v.at(millisecond, [&] { fence = visitor::fence_of(v.follow(0, visitor::acquire(0, "a.1", "try"))); });
  for (nanos when = 11 * millisecond; when < 60 * millisecond; when += millisecond) {
    v.at(when, [&] {
      EXPECT_EQ(v.owner_fence(0), fence);  // wherever the key is
      value const asked = v.follow(0, visitor::acquire(0, "b.1", "try"));
      ASSERT_TRUE(asked.is_error()) << describe(asked);
      EXPECT_EQ(asked.error_code(), "TRYAGAIN");
      put_off = true;
      // A renewal has one key, and is carried out where that is.
      value const renewed = v.follow(0, visitor::renew(0, "a.1 " + std::to_string(fence)));
      ASSERT_FALSE(renewed.is_error()) << describe(renewed);
      EXPECT_EQ(renewed.items.at(1).integer, 1);
      renewed_elsewhere = renewed_elsewhere || v.ask(0, visitor::renew(0, "a.1")).is_error();
    });
  }
  v.at(62 * millisecond, [&] {
    EXPECT_EQ(v.in().decides(0), in_shard);
    // The former owner does not know yet that it has ended.
    EXPECT_EQ(v.ask(0, {"GET", key_of(0)}).error_code(), "ASK");
    EXPECT_EQ(v.owner_fence(0), fence);
    value const waits = v.follow(in_shard, visitor::acquire(0, "a.2", "wait!"));
    ASSERT_FALSE(waits.is_error()) << describe(waits);
    EXPECT_EQ(waits.items.at(0).integer, 0) << describe(waits);
  });
  v.at(80 * millisecond, [&] {
    for (std::size_t node = 0; node < v.in().nodes(); ++node) {
      value const said = v.ask(node, {"GET", key_of(0)});
      EXPECT_EQ(visitor::named_in(said), node == in_shard ? visitor::nobody : in_shard)
          << node << ": " << describe(said);
    }
    EXPECT_FALSE(v.follow(0, visitor::release(0, "a.1")).is_error());
    value const next = v.follow(0, visitor::acquire(0, "b.2", "try"));
    ASSERT_FALSE(next.is_error()) << describe(next);
    EXPECT_GT(visitor::fence_of(next), fence);
  });
  v.run();
  EXPECT_TRUE(put_off);
  EXPECT_TRUE(renewed_elsewhere);
}

TEST(ClusterWorld, ASlotThatMovesAtOnceIsNeverHalfThere) {
  plan p = quiet_cluster();
  p.faults = {fault(kind::move_at_once, 10 * millisecond, 5 * millisecond, 0, 20 * millisecond, 1)};
  visitor v{p};
  std::int64_t fence = 0;
  v.at(millisecond, [&] { fence = visitor::fence_of(v.follow(2, visitor::acquire(0, "a.1", "try"))); });
  v.at(12 * millisecond, [&] { EXPECT_EQ(v.in().decides(0), 0u); });
  v.at(15 * millisecond + 2, [&] {
    EXPECT_EQ(v.in().decides(0), 2 * in_shard);
    EXPECT_EQ(v.in().model_of(0).key_count(), 0u);
    EXPECT_EQ(visitor::named_in(v.ask(0, {"GET", key_of(0)})), 2 * in_shard);
    EXPECT_EQ(v.owner_fence(0), fence);
    EXPECT_FALSE(v.follow(0, visitor::release(0, "a.1")).is_error());
    EXPECT_GT(visitor::fence_of(v.follow(0, visitor::acquire(0, "b.1", "try"))), fence);
  });
  v.run();
}

/// The replica of the new owner has what has moved, too.
TEST(ClusterWorld, AFailoverInGoodOrderKeepsAll) {
  plan p = quiet_cluster();
  p.faults = {fault(kind::move_slot, 10 * millisecond, 10 * millisecond, 0),
              fault(kind::fail_over, 30 * millisecond, 0, 2 * millisecond, millisecond)};
  visitor v{p};
  std::int64_t fence = 0;
  v.at(millisecond, [&] { fence = visitor::fence_of(v.follow(0, visitor::acquire(0, "a.1", "try"))); });
  // The last thing before it, and long before the replica would have known of it.
  v.at(30 * millisecond - 1, [&] {
    EXPECT_EQ(v.in().decides(0), in_shard);
    EXPECT_FALSE(v.follow(0, visitor::release(0, "a.1")).is_error());
    fence = visitor::fence_of(v.follow(0, visitor::acquire(0, "a.2", "try")));
  });
  v.at(30 * millisecond + 1, [&] {
    EXPECT_EQ(v.in().decides(0), in_shard + 1);
    EXPECT_EQ(v.owner_fence(0), fence);
    EXPECT_LT(v.in().promoted_at(1), 0);  // nothing is lost
  });
  v.at(40 * millisecond, [&] {
    for (std::size_t node = 0; node < v.in().nodes(); ++node) {
      value const said = v.ask(node, {"GET", key_of(0)});
      EXPECT_EQ(visitor::named_in(said), node == in_shard + 1 ? visitor::nobody : in_shard + 1)
          << node << ": " << describe(said);
    }
  });
  v.run();
}

TEST(ClusterWorld, AReplicaThatTakesOverInBadOrderMayHaveMissedSomething) {
  plan p = quiet_cluster();
  fault_plan f = fault(kind::promotion, 10 * millisecond, 0, 30 * millisecond, 5 * millisecond);
  f.master_is = fault_plan::master_state::well;
  p.faults = {f};
  visitor v{p};
  v.at(10 * millisecond - 1, [&] { EXPECT_FALSE(v.follow(0, visitor::acquire(0, "a.1", "try")).is_error()); });
  v.at(20 * millisecond, [&] {
    EXPECT_EQ(v.in().decides(0), 1u);
    EXPECT_EQ(v.in().promoted_at(0), 10 * millisecond);
    EXPECT_EQ(v.owner_fence(0), 0);
    EXPECT_FALSE(v.ask(0, {"GET", key_of(0)}).is_error());  // the former master does not know
    EXPECT_EQ(visitor::named_in(v.ask(4, {"GET", key_of(0)})), 1u);
  });
  v.at(50 * millisecond, [&] { EXPECT_EQ(visitor::named_in(v.ask(0, {"GET", key_of(0)})), 1u); });
  v.run();
}

TEST(ClusterWorld, NodesThatNameEachOtherDoSoForAWhile) {
  plan p = quiet_cluster();
  p.faults = {fault(kind::misdirect, 10 * millisecond, 20 * millisecond, 0, 0, 1)};
  visitor v{p};
  v.at(15 * millisecond, [&] {
    EXPECT_EQ(v.follow(2, {"GET", key_of(0)}).text, "in circles");
    EXPECT_FALSE(v.follow(0, {"GET", key_of(0)}).is_error());
  });
  v.at(31 * millisecond, [&] { EXPECT_FALSE(v.follow(2, {"GET", key_of(0)}).is_error()); });
  v.run();
}

TEST(ClusterWorld, AClusterThatIsDownServesNoKey) {
  plan p = quiet_cluster();
  p.faults = {fault(kind::cluster_down, 10 * millisecond, 20 * millisecond)};
  visitor v{p};
  v.at(15 * millisecond, [&] {
    EXPECT_EQ(v.follow(2, {"GET", key_of(0)}).error_code(), "CLUSTERDOWN");
    EXPECT_FALSE(v.follow(2, {"GET", key_of(1)}).is_error());  // another shard
  });
  v.at(31 * millisecond, [&] { EXPECT_FALSE(v.follow(2, {"GET", key_of(0)}).is_error()); });
  v.run();
}

}  // namespace
}  // namespace conch::sim
