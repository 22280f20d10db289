// A user that may publish writes forged messages to the clients' channels: grants, revocations, and nonsense. Without
// the keys it knows no id, and is never believed; if it can read the keys as well, it is believed for one claim at
// most, and with verify_pushes never.

#include "integration/family.hpp"
#include "integration/redlock_fixture.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

namespace conch::test {
namespace {

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// As the server would give it now.
std::int64_t fence_now() { return now_us() - 1'577'836'800'000'000; }

std::string channel_of(std::string const& id) { return "conch:" + id.substr(0, id.find('.')); }

/// KIND and SEGMENT in the push for a permit, or nothing.
std::string permit_of(std::string const& kind) {
  return kind == "mutex"       ? ""
         : kind == "semaphore" ? "s0 "
         : kind == "striped"   ? "g1 "
         : kind == "reentrant" ? "e0 "
                               : "r0 ";
}

std::string a_grant(std::string const& id, std::string const& permit, std::string const& name,
                    std::int64_t fence = fence_now()) {
  return id + ' ' + std::to_string(fence) + ' ' + std::to_string(now_us()) + " 86400000 " + permit + lock_key(name);
}

std::vector<std::string> words_of(std::string list) {
  std::replace_if(
      list.begin(), list.end(), [](char c) { return c == '[' || c == ']' || c == ',' || c == '{' || c == '}'; }, ' ');
  std::istringstream in{list};
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

std::vector<kind_of_lock> with_mutex() {
  std::vector<kind_of_lock> all = kinds_of_locks();
  all.push_back(
      {"mutex", [](client& c, std::string const& name, lock_options o, acquire_options how, bool, told handler) {
         mutex m{c, name, o};
         m.async_acquire(how, std::move(handler));
       }});
  return all;
}

class ForgedPushes : public with_each_kind<ForgedPushes> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }

 protected:
  ForgedPushes() {
    // What a neighbour on the same server may have, without a key.
    probe.command(
        {"ACL", "SETUSER", "forger", "on", "nopass", "resetkeys", "allchannels", "+publish", "+pubsub", "+auth"});
    forger.command({"AUTH", "forger", "any"});
  }

  config settings(bool verify = false) {
    config c = quick(server(), 12s);
    c.claim = 2s;
    c.verify_pushes = verify;
    c.log = log.hook();
    return c;
  }

  struct scene {
    explicit scene(ForgedPushes& t, bool verify = false)
        : owner{t.w.ctx.get_executor(), t.settings(verify)},
          victim{t.w.ctx.get_executor(), t.settings(verify)} {}
    client owner, victim;
    hold held, got;
    bool answered = false;
  };

  /// One holds it, and the other waits for it.
  asio::awaitable<void> set(scene& s, std::string const& what) {
    s.held = co_await kind().acquire(s.owner, name(what));
    kind().acquire(s.victim, name(what), acquire_options{}, lock_options{}, [&s](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      s.got = std::move(h);
      s.answered = true;
    });
    co_await until(in_lines(name(what), 1), "in line");
  }

  /// Whatever was published before, both clients have handled, and what they asked because of it is answered.
  asio::awaitable<void> handled(scene& s) {
    for (client* c : {&s.owner, &s.victim}) {
      for (int i = 0; i < 2; ++i) {
        mutex after{*c, "after " + c->id()};
        hold h = co_await after.async_acquire();
        co_await h.async_release();
      }
    }
  }

  /// The lock is where it was, and goes on as ever.
  asio::awaitable<void> as_if_nothing_had_been(scene& s, std::string const& what) {
    EXPECT_FALSE(s.answered);
    EXPECT_TRUE(s.held.valid());
    EXPECT_EQ(s.owner.stats().losses + s.victim.stats().losses, 0u);
    co_await s.held.async_release();
    auto const granted = [&] { return s.answered; };
    co_await until(granted, "granted in truth");
    EXPECT_TRUE(s.got.valid());
    bool const was_held = co_await s.got.async_release();
    EXPECT_TRUE(was_held);
    auto const clean = [&] {
      return is_free(probe, name(what)) && s.victim.stats().cleanups_pending == 0 &&
             s.owner.stats().cleanups_pending == 0;
    };
    co_await until(clean, "nothing left");
  }

  std::string waiting_id(std::string const& what) {
    return words_of(probe.command({"ZRANGE", queue_key(name(what)), "0", "0"})).at(0);
  }
  std::string holding_id(std::string const& what) {
    if (kind().name == "mutex") return words_of(probe.command({"GET", lock_key(name(what))})).at(0);
    for (std::string const& field : words_of(probe.command({"HKEYS", lock_key(name(what))}))) {
      if (field.find('.') != std::string::npos) return field;
    }
    return {};
  }

  redis_probe forger{server()};
  journal log;
};

TEST_P(ForgedPushes, WithoutTheKeysNoneIsEverBelieved) {
  auto const body = [&]() -> asio::awaitable<void> {
    scene s{*this};
    co_await set(s, "guessed");
    EXPECT_NE(forger.command({"GET", lock_key(name("guessed"))}).find("NOPERM"), std::string::npos);
    auto const channels = words_of(forger.command({"PUBSUB", "CHANNELS", "conch:*"}));
    EXPECT_GE(channels.size(), 2u);
    for (std::string const& channel : channels) {
      for (int n = 1; n <= 100; ++n) {
        for (std::string const nonce : {"", "-00000000001"}) {
          std::string const id = channel.substr(6) + '.' + std::to_string(n) + nonce;
          forger.command({"PUBLISH", channel, a_grant(id, permit_of(kind().name), name("guessed"))});
          forger.command({"PUBLISH", channel, "!" + id + ' ' + lock_key(name("guessed"))});
        }
      }
    }
    co_await handled(s);
    EXPECT_GE(s.victim.stats().pushes_stray, 200u);
    co_await as_if_nothing_had_been(s, "guessed");
  };
  w.run(body);
}

// the rule of SECURITY.md for users that know the ids
TEST_P(ForgedPushes, ByWhoReadsTheKeysAreBelievedForOneClaimAtMost) {
  auto const body = [&]() -> asio::awaitable<void> {
    scene s{*this};
    co_await set(s, "read");
    std::string const id = waiting_id("read");
    probe.command({"PUBLISH", channel_of(id), a_grant(id, permit_of(kind().name), name("read"))});
    auto const believed = [&] { return s.answered; };
    co_await until(believed, "believed");
    EXPECT_LE(s.got.deadline(), clock::now() + 2s) << "of a claim that says a day";
    EXPECT_LE(s.got.fence() / 4096, fence_now() + 2'000'000)
        << "the resource takes the others' tokens again after a claim";
    auto const over = [&] { return !s.got.valid(); };
    co_await until(over, "found out");
    EXPECT_TRUE(s.held.valid()) << "the true holder";
    co_await s.held.async_release();
  };
  w.run(body);
}

TEST_P(ForgedPushes, ThatClaimTooMuchOrFitNoLockAreAskedAgain) {
  auto const body = [&]() -> asio::awaitable<void> {
    scene s{*this};
    co_await set(s, "doubted");
    std::string const id = waiting_id("doubted");
    std::uint64_t doubted = 0;
    std::int64_t const hour = 3'600'000'000;
    std::vector<std::string> bad{a_grant(id, permit_of(kind().name), name("doubted"), fence_now() + hour),
                                 a_grant(id, permit_of(kind().name), name("doubted"), (std::int64_t{1} << 51) - 1)};
    if (kind().name != "mutex") {
      bad.push_back(a_grant(id, "g4000000000 ", name("doubted")));
      bad.push_back(a_grant(id, "g0 ", name("doubted")));
      bad.push_back(a_grant(id, kind().name == "semaphore" ? "r0 " : "s0 ", name("doubted")));
      bad.push_back(a_grant(id, permit_of(kind().name), "another"));
    }
    for (std::string const& text : bad) {
      probe.command({"PUBLISH", channel_of(id), text});
      ++doubted;
      auto const seen = [&] { return s.victim.stats().pushes_doubted == doubted; };
      co_await until(seen, "doubted: " + text);
    }
    co_await handled(s);
    co_await as_if_nothing_had_been(s, "doubted");
  };
  w.run(body);
}

TEST_P(ForgedPushes, AreNeverBelievedWithVerifyPushes) {
  auto const body = [&]() -> asio::awaitable<void> {
    scene s{*this, true};
    co_await set(s, "verified");
    std::string const id = waiting_id("verified");
    for (int i = 0; i < 20; ++i) {
      probe.command({"PUBLISH", channel_of(id), a_grant(id, permit_of(kind().name), name("verified"))});
      co_await handled(s);
    }
    EXPECT_EQ(s.victim.stats().pushes, 20u);
    co_await as_if_nothing_had_been(s, "verified");
  };
  w.run(body);
}

TEST_P(ForgedPushes, ARevocationByWhoReadsTheKeysEndsTheHoldAndTheNextInLineHasIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    scene s{*this};
    co_await set(s, "revoked");
    std::string const id = holding_id("revoked");
    // For another lock, or with another's id: nothing.
    probe.command({"PUBLISH", channel_of(id), "!" + id + ' ' + lock_key("another")});
    probe.command({"PUBLISH", channel_of(id), "!" + id + "x " + lock_key(name("revoked"))});
    probe.command({"PUBLISH", channel_of(id), "!" + id.substr(0, id.find('-')) + ' ' + lock_key(name("revoked"))});
    co_await handled(s);
    EXPECT_TRUE(s.held.valid());
    probe.command({"PUBLISH", channel_of(id), "!" + id + ' ' + lock_key(name("revoked"))});
    auto const passed_on = [&] { return s.answered; };
    co_await until(passed_on, "passed on");
    EXPECT_FALSE(s.held.valid()) << "no two";
    EXPECT_TRUE(s.got.valid());
    co_await s.got.async_release();
  };
  w.run(body);
}

INSTANTIATE_TEST_SUITE_P(Kind, ForgedPushes, testing::ValuesIn(with_mutex()), kind_name);

// ---------------------------------------------------------------------------------------------------------- floods

class ForgedFloods : public with_server<ForgedFloods> {
 protected:
  journal log;
};

TEST_F(ForgedFloods, OfNonsenseAreOneLineInTheLog) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 9s);
    settings.log = log.hook();
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "nonsense"};
    hold h = co_await m.async_acquire();
    probe.command(
        {"EVAL", "for i = 1, 20000 do redis.call('PUBLISH', KEYS[1], 'nonsense ' .. i) end", "1", "conch:" + c.id()});
    co_await h.async_release();
    std::size_t lines = 0;
    for (auto at = log.text->find("ignored a push"); at != std::string::npos;
         at = log.text->find("ignored a push", at + 1))
      ++lines;
    EXPECT_EQ(lines, 1u);
  };
  w.run(body);
}

TEST_F(ForgedFloods, OfGrantsThatNobodyAskedForAreGivenBackAHundredASecond) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 9s);
    settings.log = log.hook();
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "stray"};
    hold h = co_await m.async_acquire();
    auto const began = clock::now();
    std::uint64_t const before = c.stats().scripts;
    probe.command({"EVAL",
                   "for i = 1, 20000 do redis.call('PUBLISH', KEYS[1], ARGV[1] .. i .. '-00000000001 77 ' .. ARGV[2] "
                   ".. ' 3000 conch:{stray' .. i .. '}') end",
                   "1", "conch:" + c.id(), c.id() + ".", std::to_string(now_us())});
    auto const all = [&] { return c.stats().pushes_stray == 20'000; };
    co_await until(all, "all of them");
    auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(clock::now() - began).count() + 2;
    EXPECT_LE(c.stats().scripts - before, static_cast<std::uint64_t>(100 * seconds + 20));
    EXPECT_TRUE(log.contains("another user publishes to our channel")) << *log.text;
    auto const clean = [&] { return c.stats().cleanups_pending == 0; };
    co_await until(clean, "given back");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

// What keeps all others out: resetchannels for all other users. (Before 7.0 a new user may publish everywhere.)
TEST_F(ForgedFloods, NeedTheRightToPublish) {
  probe.command({"ACL", "SETUSER", "neighbour", "on", "nopass", "allkeys", "resetchannels", "+@all"});
  redis_probe neighbour{server()};
  neighbour.command({"AUTH", "neighbour", "any"});
  EXPECT_EQ(neighbour.command({"PING"}), "PONG");
  EXPECT_NE(neighbour.command({"PUBLISH", "conch:0123", "x"}).find("NOPERM"), std::string::npos);
  EXPECT_NE(neighbour.command({"EVAL", "return redis.call('PUBLISH', 'conch:0123', 'x')", "0"}).find("(error)"),
            std::string::npos);
}

// A rolling deployment: two versions of a program with different numbers of segments.
TEST_F(ForgedFloods, ASegmentBeyondOnesOwnNumberIsGivenBackWithAClearError) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 9s)}, d{w.ctx.get_executor(), quick(server(), 9s)};
    striped_mutex more{c, "rolled out", 3}, fewer{d, "rolled out", 2};
    std::vector<std::uint32_t> but{3};
    hold first = co_await more.async_acquire_any(but, acquire_options{});
    hold second = co_await more.async_acquire_any(but, acquire_options{});
    auto const tried = co_await fewer.async_acquire_any(as_tuple);
    EXPECT_EQ(std::get<0>(tried), errc::invalid_config);
    std::string const words = std::get<0>(tried).message();
    EXPECT_NE(words.find("granted segment 3, and this object was made with 2 segments"), std::string::npos) << words;
    auto const given_back = [&] { return d.stats().cleanups_pending == 0; };
    co_await until(given_back, "given back");
    lock_status const seen = co_await more.async_inspect();
    EXPECT_EQ(seen.held, 2u);
    hold beyond = co_await more.async_acquire_any();  // free, it could be given to the other again
    EXPECT_EQ(beyond.segment(), 3u);
    co_await first.async_release();
    hold third = co_await fewer.async_acquire_any();
    EXPECT_LE(third.segment(), 2u);
    co_await third.async_release();
    co_await beyond.async_release();
    co_await second.async_release();
  };
  w.run(body);
}

// ------------------------------------------------------------------------------------------------------- over a quorum

class ForgedVotes : public testing::Test {
 protected:
  /// Somebody holds it, another waits at all servers, and then `forge` publishes.
  template <class Forge, class Judge>
  void stage(bool verify, Forge const& forge, Judge const& judge) {
    auto const body = [&]() -> asio::awaitable<void> {
      config settings = servers.calm();
      settings.quorum.vote_claim = 1500ms;
      settings.verify_pushes = verify;
      client owner{w.ctx.get_executor(), settings}, victim{w.ctx.get_executor(), settings};
      mutex m{owner, "a"}, n{victim, "a"};
      hold held = co_await m.async_acquire();
      auto const confirmed = [&] { return servers.owned("a", 'h') == masters; };
      co_await until(confirmed, "confirmed");
      hold got;
      bool answered = false;
      n.async_acquire([&](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        got = std::move(h);
        answered = true;
      });
      auto const in_all_lines = [&] { return servers.lines("a") == masters; };
      co_await until(in_all_lines, "in line");
      std::uint64_t published = 0;
      for (std::size_t i = 0; i < masters; ++i) {
        redis_probe probe{servers[i]};
        published += forge(probe, victim.id());
      }
      auto const heard = [&] { return victim.stats().pushes >= published; };
      co_await until(heard, "all pushes heard");
      co_await judge(answered, got);
      EXPECT_TRUE(held.valid());
      EXPECT_EQ(owner.stats().losses, 0u);
      bool const was_held = co_await held.async_release();
      EXPECT_TRUE(was_held);
      if (!got) {
        auto const granted = [&] { return answered; };
        co_await until(granted, "granted in truth");
        EXPECT_TRUE(got.valid());
      }
      co_await got.async_release();
    };
    w.run(body);
  }

  static std::uint64_t forge_with_keys(redis_probe& probe, std::string const&) {
    std::string const id = words_of(probe.command({"ZRANGE", queue_key("a"), "0", "0"})).at(0);
    probe.command({"PUBLISH", channel_of(id), a_grant(id, "", "a", fence_now() + 500'000)});
    return 1;
  }

  redlock_servers servers;
  world w;
};

TEST_F(ForgedVotes, WithoutTheKeysAreNeverBelieved) {
  stage(
      false,
      [](redis_probe& probe, std::string const& client) -> std::uint64_t {
        std::int64_t const ticket = now_us();
        for (std::int64_t n = 0; n < 100; ++n) {
          std::string const id = client + '.' + std::to_string(ticket - n) + "001";
          probe.command({"PUBLISH", "conch:" + client, a_grant(id, "", "a")});
          probe.command({"PUBLISH", "conch:" + client, a_grant(client + '.' + std::to_string(n + 1), "", "a")});
        }
        return 200;
      },
      [](bool& answered, hold&) -> asio::awaitable<void> {
        EXPECT_FALSE(answered);
        co_return;
      });
}

TEST_F(ForgedVotes, OfAMajorityByWhoReadsTheKeysAreBelievedForOneVoteClaimAtMost) {
  stage(false, forge_with_keys, [](bool& answered, hold& got) -> asio::awaitable<void> {
    auto const over = [&] { return !got.valid(); };
    if (answered) {
      EXPECT_LE(got.deadline(), clock::now() + 1500ms);
      co_await until(over, "found out");
    }
  });
}

TEST_F(ForgedVotes, AreNeverBelievedWithVerifyPushes) {
  stage(true, forge_with_keys, [](bool& answered, hold&) -> asio::awaitable<void> {
    co_await pause_for(1ms);
    EXPECT_FALSE(answered);
  });
}

}  // namespace
}  // namespace conch::test
