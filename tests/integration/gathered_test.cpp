// What a client sends in one turn of its event loop: one script for several locks, to each its own answer.
#include "integration/cluster_fixture.hpp"
#include "integration/fixture.hpp"
#include "integration/places.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace conch::test {
namespace {

/// The acquires of several locks that begin together, and what has become of them.
struct several {
  struct one {
    error_code ec;
    hold h;
    bool done = false;
  };

  several(client& c, std::vector<std::string> const& names) {
    for (std::string const& name : names) {
      one& into = of[name];
      mutex{c, name}.async_acquire([&into](error_code ec, hold h) {
        into.ec = ec;
        into.h = std::move(h);
        into.done = true;
      });
    }
  }
  bool all_done(std::vector<std::string> const& names) const {
    return std::all_of(names.begin(), names.end(), [this](auto const& name) { return of.at(name).done; });
  }

  std::map<std::string, one> of;
};

std::vector<std::string> numbered(std::string const& prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

long scripts_of(redis_probe& probe) {
  auto const all = probe.commandstats();
  auto const calls = [&](char const* name) {
    auto const found = all.find(name);
    return found == all.end() ? 0 : found->second;
  };
  return calls("evalsha") + calls("eval");
}

class Gathered : public with_server<Gathered> {
 protected:
  /// So that no source is sent any more.
  asio::awaitable<void> know_the_scripts(client& c) {
    for (int i = 0; i < 3; ++i) {
      several all{c, numbered("known ", 4)};
      auto const done = [&] { return all.all_done(numbered("known ", 4)); };
      co_await until(done, "all of them");
      for (auto& [name, one] : all.of) one.h = {};
      auto const free = [&] {
        auto const names = numbered("known ", 4);
        return std::all_of(names.begin(), names.end(), [&](auto const& name) {
          return probe.integer({"EXISTS", lock_key(name)}) == 0;
        });
      };
      co_await until(free, "all given back");
    }
  }
};

TEST_F(Gathered, LocksAskedForAndGivenBackInOneTurnAreTwoScriptsAtMost) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    co_await know_the_scripts(c);
    auto const names = numbered("turn ", 12);
    long const before = scripts_of(probe);
    several all{c, names};
    auto const done = [&] { return all.all_done(names); };
    co_await until(done, "all of them");
    EXPECT_LE(scripts_of(probe) - before, 2) << "the first goes ahead, the others are one script";
    for (auto& [name, one] : all.of) {
      EXPECT_FALSE(one.ec) << one.ec.message();
      EXPECT_TRUE(one.h.valid()) << name;
      EXPECT_EQ(probe.integer({"EXISTS", lock_key(name)}), 1) << name;
    }
    long const then = scripts_of(probe);
    for (auto& [name, one] : all.of) one.h = {};
    auto const free = [&] {
      return std::all_of(names.begin(), names.end(), [&](auto const& name) {
        return probe.integer({"EXISTS", lock_key(name)}) == 0;
      });
    };
    co_await until(free, "all given back");
    EXPECT_LE(scripts_of(probe) - then, 2);
  };
  w.run(body);
}

TEST_F(Gathered, EachLockHasItsOwnAnswer) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    co_await know_the_scripts(c);
    mutex taken_by_other{other, "own 5"};
    hold taken = co_await taken_by_other.async_acquire();
    probe.command({"HSET", lock_key("own 3"), "what", "else"});
    long const before = scripts_of(probe);
    several all{c, numbered("own ", 8)};
    auto const answered = [&] {
      return all.all_done({"own 0", "own 1", "own 2", "own 3", "own 4", "own 6", "own 7"}) &&
             in_line(probe, "own 5") == 1;
    };
    co_await until(answered, "an answer of each");
    EXPECT_LE(scripts_of(probe) - before, 3) << "and the clean-up of the one that failed";
    for (auto const& [name, one] : all.of) {
      if (name == "own 3") {
        EXPECT_EQ(one.ec, errc::wrong_type) << one.ec.message();
      } else if (name == "own 5") {
        EXPECT_FALSE(one.done) << "it is queued";
      } else {
        EXPECT_TRUE(one.h.valid()) << name << ": " << one.ec.message();
      }
    }
    EXPECT_EQ(probe.command({"HGET", lock_key("own 3"), "what"}), "else");
    co_await taken.async_release();
    auto const handed = [&] { return all.of.at("own 5").done; };
    co_await until(handed, "the lock that was taken");
    EXPECT_TRUE(all.of.at("own 5").h.valid());
  };
  w.run(body);
}

TEST_F(Gathered, AReleaseWithOthersPassesItsLockOn) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    co_await know_the_scripts(c);
    auto const names = numbered("pass ", 5);
    several mine{c, names};
    auto const done = [&] { return mine.all_done(names); };
    co_await until(done, "all of them");
    several theirs{other, {"pass 1", "pass 3"}};
    auto const stand = [&] { return in_line(probe, "pass 1") == 1 && in_line(probe, "pass 3") == 1; };
    co_await until(stand, "two in line");
    long const before = scripts_of(probe);
    for (auto& [name, one] : mine.of) one.h = {};
    auto const handed = [&] { return theirs.all_done({"pass 1", "pass 3"}); };
    co_await until(handed, "the next in line");
    EXPECT_LE(scripts_of(probe) - before, 2);
    EXPECT_TRUE(theirs.of.at("pass 1").h.valid());
    EXPECT_TRUE(theirs.of.at("pass 3").h.valid());
    auto const free = [&] {
      return probe.integer({"EXISTS", lock_key("pass 0"), lock_key("pass 2"), lock_key("pass 4")}) == 0;
    };
    co_await until(free, "the others given back");
  };
  w.run(body);
}

TEST_F(Gathered, AServerThatHasForgottenTheScriptsGetsThemAgain) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    co_await know_the_scripts(c);
    for (int round = 0; round < 3; ++round) {
      probe.command({"SCRIPT", "FLUSH"});
      auto const names = numbered("forgotten " + std::to_string(round) + " ", 6);
      several all{c, names};
      auto const done = [&] { return all.all_done(names); };
      co_await until(done, "all of them");
      for (auto const& [name, one] : all.of) EXPECT_TRUE(one.h.valid()) << name << ": " << one.ec.message();
    }
  };
  w.run(body);
}

// A user that may not use one of the keys.
class GatheredRights : public with_server<GatheredRights> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }
};

TEST_F(GatheredRights, AKeyThatOneMayNotTouchIsRefusedAlone) {
  auto const body = [&]() -> asio::awaitable<void> {
    EXPECT_EQ(
        probe.command({"ACL", "SETUSER", "some", "on", ">pw", "resetkeys", "~conch:{mine-*", "allchannels", "+@all"}),
        "OK");
    client c{w.ctx.get_executor(), "redis://some:pw@127.0.0.1:" + std::to_string(server().port())};
    mutex warm{c, "mine-already"};
    (void)co_await warm.async_acquire();
    std::vector<std::string> const names{"mine-1", "mine-2", "theirs", "mine-3"};
    several all{c, names};
    auto const done = [&] { return all.all_done(names); };
    co_await until(done, "an answer of each");
    EXPECT_EQ(all.of.at("theirs").ec, errc::access_denied) << all.of.at("theirs").ec.message();
    for (char const* name : {"mine-1", "mine-2", "mine-3"})
      EXPECT_TRUE(all.of.at(name).h.valid()) << name << ": " << all.of.at(name).ec.message();
  };
  w.run(body);
}

TEST(GatheredInACluster, OnlyWhatSharesASlot) {
  cluster_set cluster;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), over(cluster)};
    std::string const at_first = cluster.name_at(0);
    // Four in one slot, by a hash of their own that is found by trying; and as many of other slots of that node.
    std::vector<std::string> together, apart;
    unsigned const slot = redis::slot_of_lock(at_first);
    for (int i = 0; together.size() < 4; ++i) {
      std::string const name = "n" + std::to_string(i);
      if (redis::slot_of_lock(name) == slot) together.push_back(name);
    }
    redis_probe node{cluster.node(0)};
    for (int round = 0; round < 3; ++round) {
      several all{c, together};
      auto const done = [&] { return all.all_done(together); };
      co_await until(done, "all of one slot");
      for (auto const& [name, one] : all.of) EXPECT_TRUE(one.h.valid()) << name << ": " << one.ec.message();
      for (auto& [name, one] : all.of) one.h = {};
      auto const free = [&] {
        return std::all_of(together.begin(), together.end(), [&](auto const& name) {
          return node.integer({"EXISTS", lock_key(name)}) == 0;
        });
      };
      co_await until(free, "all given back");
    }
    long const before = scripts_of(node);
    several all{c, together};
    auto const done = [&] { return all.all_done(together); };
    co_await until(done, "all of one slot");
    EXPECT_LE(scripts_of(node) - before, 2);
    for (int i = 0; i < 8; ++i) apart.push_back("other " + std::to_string(i));
    several others{c, apart};
    auto const others_done = [&] { return others.all_done(apart); };
    co_await until(others_done, "all of other slots");
    for (auto const& [name, one] : others.of) EXPECT_TRUE(one.h.valid()) << name << ": " << one.ec.message();
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
