// Guarded writes: the server checks the owner of the lock and writes in one step. `user` stands for a program's own
// connection.

#include "integration/family.hpp"
#include "integration/places.hpp"

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace conch::test {
namespace {

bool is_refused(std::string const& answer) { return answer.starts_with("(error) " + std::string{not_owner_error}); }

// ------------------------------------------------------------------------------------------------- of every kind of
// lock

class GuardOfEachKind : public with_each_kind<GuardOfEachKind> {
 protected:
  std::string resource(std::string const& what) { return "resource:{" + name(what) + "}"; }
  std::string set(write_guard const& g, std::string const& what, std::string const& value) {
    return user.command(guarded_set(g, resource(what), value));
  }
  std::string value(std::string const& what) { return user.command({"GET", resource(what)}); }
  /// What the server keeps of the grant.
  std::string kept(write_guard const& g) {
    return user.command(g.least_share == 0 ? std::vector<std::string>{"GET", g.key}
                                           : std::vector<std::string>{"HGET", g.key, g.id});
  }
  bool claimed(write_guard const& g) { return kept(g).find(" c") != std::string::npos; }

  redis_probe user{server()};
};

TEST_P(GuardOfEachKind, LetsAWriteThroughWhileTheLockIsHeld) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("held"));
    write_guard const g = h.guard();
    CO_ASSERT(g);
    EXPECT_EQ(g.key, lock_key(name("held")));
    EXPECT_TRUE(g.id.starts_with(c.id() + ".")) << g.id;
    EXPECT_EQ(g.fence, h.fence());
    EXPECT_EQ(set(g, "held", "first"), "OK");
    EXPECT_EQ(set(h.guard(), "held", "second"), "OK");
    EXPECT_EQ(value("held"), "second");
  };
  w.run(body);
}

TEST_P(GuardOfEachKind, RefusesAWriteAfterTheRelease) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("released"));
    write_guard const g = h.guard();
    EXPECT_EQ(set(g, "released", "in time"), "OK");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_FALSE(h.guard());
    EXPECT_TRUE(is_refused(set(g, "released", "late")));
    EXPECT_EQ(value("released"), "in time");
  };
  w.run(body);
}

TEST_P(GuardOfEachKind, RefusesAWriteAfterAnOperatorTookTheLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)}, admin{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("forced"));
    write_guard const g = h.guard();
    mutex const as_operator{admin, name("forced")};
    std::uint32_t const from = co_await as_operator.async_force_release(asio::use_awaitable);
    EXPECT_EQ(from, 1u);
    EXPECT_TRUE(is_refused(set(g, "forced", "late")));
    auto const lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    EXPECT_FALSE(h.guard());
  };
  w.run(body);
}

TEST_P(GuardOfEachKind, RefusesAWriteOfAHolderThatStoodStillForLongerThanItsLease) {
  auto const acquire = [&](client& c, hold& to) -> asio::awaitable<void> {
    acquire_options const brief{.lease = 300ms, .renew = false};
    to = co_await kind().acquire(c, name("still"), brief, lock_options{}, asio::use_awaitable);
  };
  client c{w.ctx.get_executor(), quick(server(), 300ms)};
  hold h;
  auto const first = [&]() -> asio::awaitable<void> { co_await acquire(c, h); };
  w.run(first);
  write_guard const g = h.guard();
  ASSERT_TRUE(g);
  // Nothing of this client runs until another one has the lock.
  world elsewhere;
  client other{elsewhere.ctx.get_executor(), quick(server(), 30s)};
  hold next;
  auto const second = [&]() -> asio::awaitable<void> { next = co_await kind().acquire(other, name("still")); };
  elsewhere.run(second);
  EXPECT_EQ(set(next.guard(), "still", "in time"), "OK");
  EXPECT_TRUE(is_refused(set(g, "still", "late")));
  EXPECT_EQ(value("still"), "in time");
  EXPECT_GT(next.guard().fence, g.fence);
}

TEST_P(GuardOfEachKind, RefusesAWriteAfterTheLeaseAlthoughNobodyElseCame) {
  client c{w.ctx.get_executor(), quick(server(), 300ms)};
  hold h;
  auto const first = [&]() -> asio::awaitable<void> {
    acquire_options const brief{.lease = 300ms, .renew = false};
    h = co_await kind().acquire(c, name("expired"), brief, lock_options{}, asio::use_awaitable);
  };
  w.run(first);
  write_guard const g = h.guard();
  ASSERT_TRUE(g);
  auto const bound = steady::now() + 15s;
  while (!is_refused(set(g, "expired", "x"))) ASSERT_LT(steady::now(), bound);
  EXPECT_FALSE(h.valid());  // the client was told nothing, and knows it by its clock
}

TEST_P(GuardOfEachKind, LetsAWriteThroughUnderAClaimAndUnderItsConfirmation) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), quick(server(), 18s)}, b{w.ctx.get_executor(), quick(server(), 18s)};
    hold first = co_await kind().acquire(a, name("claimed"));
    hold second;
    auto const wait = [&]() -> asio::awaitable<void> { second = co_await kind().acquire(b, name("claimed")); };
    asio::co_spawn(w.ctx, wait(), asio::detached);
    auto const waits = [&] { return in_line(probe, name("claimed")) == 1; };
    co_await until(waits, "a waiter");
    write_guard const old = first.guard();
    bool const was_held = co_await first.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return second.valid(); };
    co_await until(granted, "handed over");
    write_guard const g = second.guard();
    EXPECT_TRUE(claimed(g)) << kept(g);
    EXPECT_EQ(set(g, "claimed", "by a claim"), "OK");
    EXPECT_TRUE(is_refused(set(old, "claimed", "late")));
    auto const confirmed = [&] { return !claimed(g); };
    co_await until(confirmed, "confirmed");
    EXPECT_EQ(set(g, "claimed", "by a hold"), "OK");
    EXPECT_EQ(g, second.guard());
  };
  w.run(body);
}

TEST_P(GuardOfEachKind, OfAnEarlierGrantOfTheSameClientIsRefused) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("again"));
    write_guard const old = h.guard();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    hold again = co_await kind().acquire(c, name("again"));
    EXPECT_NE(again.guard().id, old.id);
    EXPECT_TRUE(is_refused(set(old, "again", "late")));
    EXPECT_EQ(set(again.guard(), "again", "in time"), "OK");
  };
  w.run(body);
}

TEST_P(GuardOfEachKind, ComparesTheFenceAndNotOnlyTheId) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("fence"));
    write_guard g = h.guard();
    g.fence += 4095 - g.fence % 4096;  // the same grant
    EXPECT_EQ(set(g, "fence", "x"), "OK");
    ++g.fence;
    EXPECT_TRUE(is_refused(set(g, "fence", "x")));
    g.fence -= 2 * 4096;
    EXPECT_TRUE(is_refused(set(g, "fence", "x")));
    g = h.guard();
    g.id.pop_back();
    EXPECT_TRUE(is_refused(set(g, "fence", "x")));
  };
  w.run(body);
}

TEST_P(GuardOfEachKind, RefusesAWriteWhereTheKeyIsGoneOrHoldsSomethingElse) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    hold h = co_await kind().acquire(c, name("foreign"));
    write_guard const g = h.guard();
    for (std::vector<std::string> const& instead :
         std::vector<std::vector<std::string>>{{"SET", g.key, "nonsense"},
                                               {"RPUSH", g.key, "x"},
                                               {"HSET", g.key, "sums", "x", g.id, "nonsense"},
                                               {"SET", g.key, ""}}) {
      probe.command({"DEL", g.key});
      EXPECT_TRUE(is_refused(set(g, "foreign", "x")));
      probe.command(instead);
      EXPECT_TRUE(is_refused(set(g, "foreign", "x"))) << instead[0];
    }
    EXPECT_EQ(value("foreign"), "(nil)");
  };
  w.run(body);
}

INSTANTIATE_TEST_SUITE_P(Kind, GuardOfEachKind, testing::ValuesIn(every_kind()), kind_name);

// ------------------------------------------------------------------------------------------------------------ the
// others

class Guard : public with_server<Guard> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }

 protected:
  std::string set(write_guard const& g, std::string const& value) {
    return user.command(guarded_set(g, "resource", value));
  }

  redis_probe user{server()};
};

TEST_F(Guard, IsEmptyWhereThereIsNoHold) {
  EXPECT_FALSE(hold{}.guard());
  EXPECT_FALSE(reentrant_hold{}.guard());
  EXPECT_EQ(write_guard{}.grant(), "");
  EXPECT_FALSE(write_guard{}.owns(" 0 h"));
  EXPECT_EQ(error_of([] { guarded_set(write_guard{}, "key", "value"); }), errc::not_held);
  EXPECT_EQ(error_of([] { guarded_command({.key = "conch:{x}", .id = "x.1", .fence = 4096}, {"PING"}); }),
            errc::invalid_config);
  std::vector<std::string> const too_many(7003, "x");
  EXPECT_EQ(error_of([&] { guarded_command({.key = "conch:{x}", .id = "x.1", .fence = 4096}, too_many); }),
            errc::invalid_config);
}

TEST_F(Guard, IsNotThereInMemoryAndOverSeveralServers) {
  auto const body = [&]() -> asio::awaitable<void> {
    config several;
    several.quorum.servers = {server().url()};
    for (config const& settings : {config{.url = "memory://"}, several}) {
      client c{w.ctx.get_executor(), settings};
      mutex m{c, "elsewhere"};
      hold h = co_await m.async_acquire();
      EXPECT_EQ(error_of([&] { h.guard(); }), errc::not_supported);
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_FALSE(h.guard());
    }
  };
  w.run(body);
}

TEST_F(Guard, IsSharedByHoldsThatAreHandedOnInMemoryAndByNoOthers) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (bool const in_memory : {true, false}) {
      config settings = quick(server(), 30s);
      settings.local_slice = in_memory ? duration{30s} : duration{0};
      client c{w.ctx.get_executor(), settings};
      mutex m{c, in_memory ? "handed on" : "handed over"};
      hold first = co_await m.async_acquire();
      hold second;
      auto const wait = [&]() -> asio::awaitable<void> { second = co_await m.async_acquire(); };
      asio::co_spawn(w.ctx, wait(), asio::detached);
      auto const waits = [&] { return c.stats().waiting == 1; };
      co_await until(waits, "a waiter");
      write_guard const old = first.guard();
      bool const was_held = co_await first.async_release();
      EXPECT_TRUE(was_held);
      auto const granted = [&] { return second.valid(); };
      co_await until(granted, "the next hold");
      EXPECT_EQ(second.guard().id == old.id, in_memory);
      EXPECT_GT(second.guard().fence, old.fence);
      EXPECT_EQ(set(second.guard(), "x"), "OK");
      EXPECT_EQ(is_refused(set(old, "x")), !in_memory);
    }
  };
  w.run(body);
}

TEST_F(Guard, OfAnOwnerEndsWithItsLeaseWhileOthersKeepTheLock) {
  client c{w.ctx.get_executor(), quick(server(), 300ms)};
  hold brief, lasting;
  auto const both = [&]() -> asio::awaitable<void> {
    semaphore permits{c, "two", 2};
    acquire_options const for_long{.lease = 60s, .renew = false}, for_short{.lease = 300ms, .renew = false};
    lasting = co_await permits.async_acquire(1, for_long);
    brief = co_await permits.async_acquire(1, for_short);
  };
  w.run(both);
  write_guard const ends = brief.guard(), stays = lasting.guard();
  auto const bound = steady::now() + 15s;
  while (!is_refused(set(ends, "x"))) ASSERT_LT(steady::now(), bound);
  EXPECT_NE(probe.command({"HGET", ends.key, ends.id}), "(nil)");  // no script has removed it yet
  EXPECT_EQ(set(stays, "x"), "OK");
}

TEST_F(Guard, OfAWriterIsRefusedOnceItHasBecomeAReader) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    shared_mutex m{c, "downgraded"};
    hold h = co_await m.async_acquire();
    write_guard const writing = h.guard();
    EXPECT_EQ(set(writing, "x"), "OK");
    co_await m.async_downgrade(h);
    EXPECT_TRUE(is_refused(set(writing, "late")));
    EXPECT_EQ(h.guard().least_share, 1u);
    EXPECT_EQ(h.guard().id, writing.id);
    EXPECT_EQ(set(h.guard(), "by a reader"), "OK");
  };
  w.run(body);
}

TEST_F(Guard, IsThatOfTheLevelsOfAReentrantMutexAndOfEachMemberOfAMultiLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    reentrant_mutex nests{c, "levels"};
    owner const me;
    reentrant_hold outer = co_await nests.async_acquire(me, asio::use_awaitable);
    reentrant_hold inner = co_await nests.async_acquire(me, asio::use_awaitable);
    write_guard const g = outer.guard();
    EXPECT_EQ(inner.guard(), g);
    co_await inner.async_release();
    EXPECT_EQ(set(g, "x"), "OK");
    co_await outer.async_release();
    EXPECT_TRUE(is_refused(set(g, "late")));

    std::vector<mutex> members{mutex{c, "member 1"}, mutex{c, "member 2"}};
    multi_lock all{members};
    multi_hold h = co_await all.async_acquire();
    CO_ASSERT(h.holds().size() == 2);
    EXPECT_EQ(h.holds()[0].guard().key, lock_key("member 1"));
    EXPECT_EQ(h.holds()[1].guard().key, lock_key("member 2"));
    EXPECT_EQ(set(h.holds()[1].guard(), "x"), "OK");
  };
  w.run(body);
}

TEST_F(Guard, RunsAnyCommandWithOneKeyAndAnswersWhatItAnswers) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "any } % name"};
    hold h = co_await m.async_acquire();
    write_guard const g = h.guard();
    EXPECT_EQ(g.key, "conch:{any %7D %25 name}");
    std::string const hash = user.command(guarded_command(g, {"SET", "by hash", "x"}, script_by::sha1));
    EXPECT_TRUE(hash == "OK" || hash.starts_with("(error) NOSCRIPT")) << hash;
    EXPECT_EQ(user.command(guarded_set(g, "counter", "5", {"PX", "60000"})), "OK");
    EXPECT_GT(probe.integer({"PTTL", "counter"}), 0);
    EXPECT_EQ(user.command(guarded_set(g, "counter", "6", {"NX"}, script_by::sha1)), "(nil)");
    EXPECT_EQ(user.command(guarded_command(g, {"INCRBY", "counter", "-2"}, script_by::sha1)), "3");
    EXPECT_TRUE(user.command(guarded_command(g, {"RPUSH", "counter", "x"})).starts_with("(error) WRONGTYPE"));
    std::vector<std::string> many{"RPUSH", "list"};
    many.resize(7002, "x");
    EXPECT_EQ(user.command(guarded_command(g, many)), "7000");
  };
  w.run(body);
}

TEST_F(Guard, LetsAScriptOfTheUserDecide) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "scripted"};
    hold h = co_await m.async_acquire();
    write_guard const g = h.guard();
    std::string const mine = std::string{guard_prelude()} + R"(
      if not conch_is_owner(KEYS[1], ARGV[1]) then return 'too late' end
      redis.call('SET', KEYS[2], ARGV[2])
      return redis.call('RPUSH', KEYS[3], ARGV[2]))";
    std::vector<std::string> const call{"EVAL", mine, "3", g.key, "row", "log of rows", g.grant(), "x"};
    EXPECT_EQ(user.command(call), "1");
    std::vector<std::string> wrong = call;
    wrong[6] = "";
    EXPECT_EQ(user.command(wrong), "too late");
    co_await h.async_release();
    EXPECT_EQ(user.command(call), "too late");
    EXPECT_EQ(probe.integer({"LLEN", "log of rows"}), 1);
  };
  w.run(body);
}

TEST_F(Guard, RefusesAWriteAfterTheServerLostItsData) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "lost data"};
    hold h = co_await m.async_acquire();
    write_guard const g = h.guard();
    EXPECT_EQ(set(g, "x"), "OK");
    probe.command({"FLUSHALL"});
    EXPECT_TRUE(h.valid());  // it is not told yet
    EXPECT_TRUE(is_refused(set(g, "late")));
    EXPECT_EQ(probe.command({"GET", "resource"}), "(nil)");
  };
  w.run(body);
}

// ------------------------------------------------------------------------------------------------------ WATCH and
// MULTI

class GuardedTransaction : public Guard {
 protected:
  /// The way of the guide. `between`: what happens after the check.
  template <class Between>
  std::string write(write_guard const& g, std::string const& value, Between const& between) {
    user.command({"WATCH", g.key});
    if (!g.owns(user.command({"GET", g.key}))) {
      user.command({"UNWATCH"});
      return "refused";
    }
    between();
    user.command({"MULTI"});
    user.command({"SET", "resource", value});
    std::string const done = user.command({"EXEC"});
    return done == "(nil)" ? "aborted" : done;
  }
};

TEST_F(GuardedTransaction, IsDoneWhileTheMutexIsHeldAndAbortedByEachChangeOfItsKey) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "watched"};
    hold h = co_await m.async_acquire();
    write_guard const g = h.guard();
    auto const nothing = [] {};
    EXPECT_EQ(write(g, "x", nothing), "[OK]");
    // A renewal aborts one that was about to be done: it can be repeated.
    EXPECT_EQ(write(g, "x", [&] { probe.command({"PEXPIRE", g.key, "40000"}); }), "aborted");
    EXPECT_EQ(write(g, "x", nothing), "[OK]");
    EXPECT_EQ(write(g, "late", [&] { probe.command({"DEL", g.key}); }), "aborted");
    EXPECT_EQ(write(g, "late", nothing), "refused");
    EXPECT_EQ(probe.command({"GET", "resource"}), "x");
  };
  w.run(body);
}

TEST_F(GuardedTransaction, IsAbortedWhenTheLeaseEndsAfterTheCheck) {
  client c{w.ctx.get_executor(), quick(server(), 2s)};
  for (bool const granted_again : {false, true}) {
    hold h, other;
    auto const acquire = [&]() -> asio::awaitable<void> {
      mutex m{c, granted_again ? "watched by two" : "watched until it expires"};
      acquire_options const brief{.lease = 2s, .renew = false};
      h = co_await m.async_acquire(brief);
    };
    w.run(acquire);
    write_guard const g = h.guard();
    auto const expires = [&] {
      auto const bound = steady::now() + 15s;
      while (probe.integer({"EXISTS", g.key}) == 1 && steady::now() < bound) {
      }
      if (granted_again) probe.command({"SET", g.key, "another.1 99 h", "PX", "60000"});
    };
    EXPECT_EQ(write(g, "late", expires), "aborted");
    EXPECT_EQ(write(g, "late", [] {}), "refused");
  }
}

TEST_F(GuardedTransaction, IsForAMutexOnly) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore permits{c, "not watched", 2};
    hold h = co_await permits.async_acquire(1, asio::use_awaitable);
    write_guard const g = h.guard();
    EXPECT_FALSE(g.owns(g.grant() + " h"));
    EXPECT_FALSE(g.owns(user.command({"HGET", g.key, g.id})));
  };
  w.run(body);
}

// -------------------------------------------------------------------------------------------------------------- the
// rights

/// The second ACL SETUSER of docs/servers/redis.md: the user of the application's own connection.
std::vector<std::string> rights_of_guide() {
  std::ifstream file{redis_page};
  std::string const guide{std::istreambuf_iterator<char>{file}, {}};
  auto const begin = guide.find("ACL SETUSER shop");
  auto const end = guide.find("```", begin);
  if (end == std::string::npos) throw std::runtime_error{"no ACL SETUSER shop in docs/servers/redis.md"};
  std::istringstream words{guide.substr(begin, end - begin)};
  std::vector<std::string> command;
  bool in_selector = false;
  for (std::string word; words >> word;) {
    if (in_selector) {
      command.back() += ' ' + word;
    } else {
      command.push_back(word == ">PASSWORD" ? ">pw" : word);
    }
    in_selector = (in_selector || word.starts_with('(')) && !word.ends_with(')');
  }
  return command;
}

TEST_F(Guard, NeedsTheRightsOfTheGuideAndGivesNoneToTheLocks) {
  if (probe.command({"ACL", "SETUSER", "selects", "(+get)"}) != "OK")
    GTEST_SKIP() << "a server without selectors (before 7.0)";
  ASSERT_EQ(probe.command(rights_of_guide()), "OK");
  redis_probe shop{server()};
  ASSERT_EQ(shop.command({"AUTH", "shop", "pw"}), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "of the shop"};
    semaphore permits{c, "of the shop too", 2};
    hold h = co_await m.async_acquire();
    hold permit = co_await permits.async_acquire(1, asio::use_awaitable);
    for (write_guard const& g : {h.guard(), permit.guard()}) {
      EXPECT_EQ(shop.command(guarded_set(g, "shop:7", "x")), "OK");
      EXPECT_EQ(shop.command(guarded_set(g, "shop:7", "x", {}, script_by::sha1)), "OK");
      EXPECT_EQ(shop.command(guarded_command(g, {"RPUSH", "shop:8", "x"})).substr(0, 7) == "(error)", false);
      EXPECT_TRUE(shop.command(guarded_set(g, g.key, "stolen")).starts_with("(error)"));
      EXPECT_TRUE(shop.command(guarded_set(g, "other:7", "x")).starts_with("(error)"));
      for (std::string const script :
           {"return redis.call('DEL', KEYS[1])", "return redis.call('SET', KEYS[1], 'x')",
            "return redis.call('PEXPIRE', KEYS[1], 1)", "return redis.call('HDEL', KEYS[1], 'sums')",
            "return redis.call('PUBLISH', 'conch:x', 'x')"}) {
        EXPECT_TRUE(shop.command({"EVAL", script, "1", g.key}).starts_with("(error)")) << script;
      }
      for (std::vector<std::string> const& command :
           std::vector<std::vector<std::string>>{{"DEL", g.key},
                                                 {"SET", g.key, "x"},
                                                 {"RPUSH", g.key, "x"},
                                                 {"SET", "other:7", "x"},
                                                 {"FLUSHALL"},
                                                 {"PUBLISH", "conch:x", "x"}}) {
        EXPECT_TRUE(shop.command(command).starts_with("(error) NOPERM")) << command[0];
      }
      EXPECT_EQ(shop.command(guarded_set(g, "shop:7", "still")), "OK");
    }
    write_guard const g = h.guard();
    EXPECT_EQ(shop.command({"WATCH", g.key}), "OK");
    EXPECT_TRUE(g.owns(shop.command({"GET", g.key})));
    EXPECT_EQ(shop.command({"MULTI"}), "OK");
    EXPECT_EQ(shop.command({"SET", "shop:7", "x"}), "QUEUED");
    EXPECT_EQ(shop.command({"EXEC"}), "[OK]");
  };
  w.run(body);
}

TEST_F(Guard, SaysThatARightIsMissingInsteadOfRefusing) {
  ASSERT_EQ(probe.command({"ACL", "SETUSER", "blind", "on", ">pw", "~*", "+eval", "+set", "+time"}), "OK");
  redis_probe blind{server()};
  ASSERT_EQ(blind.command({"AUTH", "blind", "pw"}), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{c, "not readable"};
    semaphore permits{c, "not readable either", 2};
    hold h = co_await m.async_acquire();
    hold permit = co_await permits.async_acquire(1, asio::use_awaitable);
    for (write_guard const& g : {h.guard(), permit.guard()}) {
      std::string const answer = blind.command(guarded_set(g, "key", "x"));
      EXPECT_TRUE(answer.starts_with("(error)") && !is_refused(answer)) << answer;
    }
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
