// A hold that changes its client: async_detach, and async_adopt elsewhere.

#include "integration/family.hpp"

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace conch::test {
namespace {

/// What a hold can be adopted by, each so that one holder keeps all others out.
struct adoptable {
  std::string name;
  std::function<void(client&, std::string const&, bool once, told)> acquire;
  std::function<void(client&, std::string const&, std::string, told)> adopt;
  std::uint32_t permits = 1;  // as async_inspect shows them
};

std::vector<adoptable> const& adoptables() {
  static auto const start = [](auto lock, bool once, told handler) {
    if (once) {
      lock.async_try_acquire(std::move(handler));
    } else {
      lock.async_acquire(std::move(handler));
    }
  };
  static std::vector<adoptable> const all{
      {"mutex",
       [](client& c, std::string const& n, bool once, told h) {
         start(mutex{c, n}, once, std::move(h));
       },
       [](client& c, std::string const& n, std::string text, told h) {
         mutex{c, n}.async_adopt(std::move(text), std::move(h));
       }},
      {"semaphore",
       [](client& c, std::string const& n, bool once, told h) {
         if (once) {
           semaphore{c, n, 3}.async_try_acquire(std::move(h));
         } else {
           semaphore{c, n, 3}.async_acquire(3, std::move(h));
         }
       },
       [](client& c, std::string const& n, std::string text, told h) {
         semaphore{c, n, 3}.async_adopt(std::move(text), std::move(h));
       },
       3},
      {"writer",
       [](client& c, std::string const& n, bool once, told h) {
         start(shared_mutex{c, n}, once, std::move(h));
       },
       [](client& c, std::string const& n, std::string text, told h) {
         shared_mutex{c, n}.async_adopt(std::move(text), std::move(h));
       },
       1'000'000},
      {"striped",
       [](client& c, std::string const& n, bool once, told h) {
         start(striped_mutex{c, n, 1}, once, std::move(h));
       },
       [](client& c, std::string const& n, std::string text, told h) {
         striped_mutex{c, n, 1}.async_adopt(std::move(text), std::move(h));
       }},
  };
  return all;
}

struct outcome {
  error_code ec;
  hold h;
};

struct at_place {
  adoptable kind;
  bool in_memory;
};

class Adoption : public with_server<Adoption, testing::TestWithParam<at_place>> {
 protected:
  std::string name(std::string const& what) { return GetParam().kind.name + " " + what; }
  config settings(std::chrono::milliseconds lease = 30s) {
    return quick(GetParam().in_memory ? "memory://adoption" : server().url(), lease);
  }

  asio::awaitable<hold> acquire(client& c, std::string what, bool once = false) {
    return asio::async_initiate<asio::use_awaitable_t<> const, void(error_code, hold)>(
        [](auto handler, adoptable const* k, client* at, std::string n, bool try_only) {
          k->acquire(*at, n, try_only, std::move(handler));
        },
        asio::use_awaitable, &GetParam().kind, &c, name(what), once);
  }

  asio::awaitable<outcome> adopt(client& c, std::string what, std::string text) {
    auto answer = co_await asio::async_initiate<decltype(as_tuple) const, void(error_code, hold)>(
        [](auto handler, adoptable const* k, client* at, std::string n, std::string from) {
          k->adopt(*at, n, std::move(from), std::move(handler));
        },
        as_tuple, &GetParam().kind, &c, name(what), std::move(text));
    co_return outcome{std::get<0>(answer), std::move(std::get<1>(answer))};
  }

  asio::awaitable<lock_status> status(client& c, std::string what) {
    mutex of_any_kind{c, name(what)};
    co_return co_await of_any_kind.async_inspect(asio::use_awaitable);
  }
};

TEST_P(Adoption, PassesTheHoldToAnotherClientWithAGreaterToken) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings()}, second{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(first, "passed");
    std::int64_t const fence = h.fence();
    std::uint32_t const segment = h.segment();
    std::string const text = co_await h.async_detach();
    EXPECT_FALSE(h.valid());
    outcome o = co_await adopt(second, "passed", text);
    CO_ASSERT(!o.ec);
    EXPECT_TRUE(o.h.valid());
    EXPECT_GT(o.h.fence(), fence);
    EXPECT_EQ(o.h.fence() / 4096, fence / 4096) << "the grant is the same";
    EXPECT_EQ(o.h.segment(), segment);
    EXPECT_GT(o.h.deadline(), clock::now() + 25s);
    lock_status const is = co_await status(second, "passed");
    CO_ASSERT(is.holders.size() == 1);
    EXPECT_EQ(is.holders[0].client, second.id());
    EXPECT_EQ(is.holders[0].permits, GetParam().kind.permits);
    EXPECT_EQ(is.taken, GetParam().kind.permits);
    auto told = co_await h.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_held) << "it is the other client's";
    bool const was_held = co_await o.h.async_release();
    EXPECT_TRUE(was_held);
    hold next = co_await acquire(first, "passed");
    EXPECT_GT(next.fence(), fence + 4096);
  };
  w.run(body);
}

TEST_P(Adoption, ExactlyOneOfThoseThatTryGetsIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(first, "once");
    std::string const text = co_await h.async_detach();
    int adopted = 0, lost = 0;
    std::vector<hold> kept;
    std::vector<std::unique_ptr<client>> clients;
    for (int i = 0; i != 4; ++i) clients.push_back(std::make_unique<client>(w.ctx.get_executor(), settings()));
    for (int i = 0; i != 8; ++i) {
      GetParam().kind.adopt(*clients[static_cast<std::size_t>(i % 4)], name("once"), text,
                            [&](error_code ec, hold got) {
                              if (ec == errc::lost) ++lost;
                              if (!ec && got) ++adopted;
                              kept.push_back(std::move(got));
                            });
    }
    auto const all = [&] { return kept.size() == 8; };
    co_await until(all, "eight answers");
    EXPECT_EQ(adopted, 1);
    EXPECT_EQ(lost, 7);
  };
  w.run(body);
}

TEST_P(Adoption, KeepsEverybodyElseOutInBetween) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings()}, second{w.ctx.get_executor(), settings()},
        third{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(first, "between");
    hold waited;
    GetParam().kind.acquire(first, name("between"), false, [&](error_code, hold got) { waited = std::move(got); });
    std::string const text = co_await h.async_detach();
    hold none = co_await acquire(third, "between", true);
    EXPECT_FALSE(none) << "a try of another client";
    hold ours = co_await acquire(first, "between", true);
    EXPECT_FALSE(ours) << "a try of the client that let it go";
    EXPECT_FALSE(waited) << "one that waits there";
    outcome o = co_await adopt(second, "between", text);
    CO_ASSERT(!o.ec);
    EXPECT_FALSE(waited);
    bool const was_held = co_await o.h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return waited.valid(); };
    co_await until(granted, "the one that waits");
  };
  w.run(body);
}

TEST_P(Adoption, OneThatNobodyTakesEndsWithItsLease) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings(400ms)}, second{w.ctx.get_executor(), settings(400ms)};
    hold h = co_await acquire(first, "ends");
    time_point const before = clock::now();
    std::string const text = co_await h.async_detach();
    hold next = co_await acquire(second, "ends");
    EXPECT_GE(clock::now(), before + 395ms) << "nobody has renewed or released it";
    outcome o = co_await adopt(second, "ends", text);
    EXPECT_EQ(o.ec, errc::lost);
    EXPECT_TRUE(next.valid());
  };
  w.run(body);
}

TEST_P(Adoption, OneThatAnOperatorTakesAwayIsLost) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings()}, second{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(first, "forced");
    std::string const text = co_await h.async_detach();
    mutex const of_any_kind{second, name("forced")};
    std::uint32_t const from = co_await of_any_kind.async_force_release(asio::use_awaitable);
    EXPECT_EQ(from, 1u);
    outcome o = co_await adopt(second, "forced", text);
    EXPECT_EQ(o.ec, errc::lost);
  };
  w.run(body);
}

TEST_P(Adoption, GoesOnFromClientToClient) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings()}, second{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(first, "on and on");
    std::int64_t fence = h.fence();
    for (int i = 0; i != 5; ++i) {
      std::string const text = co_await h.async_detach();
      client& next = i % 2 == 0 ? second : first;
      outcome o = co_await adopt(next, "on and on", text);
      CO_ASSERT(!o.ec);
      EXPECT_EQ(o.h.fence(), fence + 1);
      fence = o.h.fence();
      h = std::move(o.h);
    }
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_P(Adoption, ACancelledOneLeavesNothingBehind) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), settings()}, second{w.ctx.get_executor(), settings()};
    hold warm = co_await acquire(first, "warm");
    // the server knows the script from here on
    outcome const adopted = co_await adopt(second, "warm", co_await warm.async_detach());
    EXPECT_FALSE(adopted.ec) << adopted.ec.message();
    hold h = co_await acquire(first, "cancelled");
    std::string const text = co_await h.async_detach();
    asio::cancellation_signal stop;
    error_code told_of;
    bool done = false;
    GetParam().kind.adopt(second, name("cancelled"), text,
                          asio::bind_cancellation_slot(stop.slot(), [&](error_code ec, hold) {
                            told_of = ec;
                            done = true;
                          }));
    stop.emit(asio::cancellation_type::terminal);
    auto const answered = [&] { return done; };
    co_await until(answered, "the end of the cancelled operation");
    EXPECT_EQ(told_of, asio::error::operation_aborted);
    hold next = co_await acquire(first, "cancelled");
    EXPECT_TRUE(next.valid()) << "at once, and not after 30 s";
  };
  w.run(body, 20s);
}

TEST_P(Adoption, SaysWhatIsWrongWithTheTextWithoutAMessage) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(c, "text");
    std::string const text = co_await h.async_detach();
    auto const scripts = c.stats().scripts;
    outcome o = co_await adopt(c, "text", "conch");
    EXPECT_EQ(o.ec, errc::invalid_config);
    o = co_await adopt(c, "text", text + " ");
    EXPECT_EQ(o.ec, errc::invalid_config);
    o = co_await adopt(c, "another", text);
    EXPECT_EQ(o.ec, errc::invalid_config);
    EXPECT_NE(o.ec.message().find(name("another")), std::string::npos) << o.ec.message();
    std::string other_kind = text;
    other_kind[7] = text[7] == 'm' ? 'g' : 'm';
    o = co_await adopt(c, "text", other_kind);
    EXPECT_EQ(o.ec, errc::invalid_config);
    EXPECT_EQ(c.stats().scripts, scripts);
    o = co_await adopt(c, "text", text);
    EXPECT_FALSE(o.ec) << "the text is as good as before";
  };
  w.run(body);
}

TEST_P(Adoption, WhatIsEmptyReleasedOrLostCannotBeDetached) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()}, admin{w.ctx.get_executor(), settings()};
    hold empty;
    auto told = co_await empty.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_held);
    hold h = co_await acquire(c, "gone");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    told = co_await h.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_held);
    hold taken = co_await acquire(c, "gone");
    mutex const of_any_kind{admin, name("gone")};
    co_await of_any_kind.async_force_release(asio::use_awaitable);
    told = co_await taken.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    EXPECT_TRUE(std::get<1>(told).empty());
  };
  w.run(body);
}

TEST_P(Adoption, EndsTheWatchersOfTheHold) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    hold h = co_await acquire(c, "watched");
    error_code told_of;
    bool done = false;
    h.async_lost([&](error_code ec) {
      told_of = ec;
      done = true;
    });
    std::string const text = co_await h.async_detach();
    auto const ended = [&] { return done; };
    co_await until(ended, "the end of async_lost");
    EXPECT_EQ(told_of, asio::error::operation_aborted) << "it is not lost";
  };
  w.run(body);
}

TEST_P(Adoption, OutlivesTheClientThatLetItGo) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::string text;
    {
      client first{w.ctx.get_executor(), settings()};
      hold h = co_await acquire(first, "outlives");
      text = co_await h.async_detach();
      co_await first.async_close(1s);
    }
    client second{w.ctx.get_executor(), settings()};
    outcome o = co_await adopt(second, "outlives", text);
    EXPECT_FALSE(o.ec);
    EXPECT_TRUE(o.h.valid());
  };
  w.run(body);
}

std::vector<at_place> everywhere() {
  std::vector<at_place> all;
  for (adoptable const& kind : adoptables()) {
    all.push_back({kind, false});
    all.push_back({kind, true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Adoption, testing::ValuesIn(everywhere()),
                         [](testing::TestParamInfo<at_place> const& of) {
                           return of.param.kind.name + (of.param.in_memory ? "InMemory" : "OnRedis");
                         });

// ---------------------------------------------------------------------------------------------------- what is of Redis
// alone

class AdoptionOnRedis : public with_server<AdoptionOnRedis> {};

TEST_F(AdoptionOnRedis, AGuardOfTheFirstClientIsRefusedAfterTheAdoption) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), quick(server(), 30s)}, second{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{first, "guarded"}, there{second, "guarded"};
    hold h = co_await m.async_acquire();
    write_guard const before = h.guard();
    std::string const text = co_await h.async_detach();
    EXPECT_FALSE(h.guard());
    hold adopted = co_await there.async_adopt(text);
    std::string const late = probe.command(guarded_set(before, "resource:{guarded}", "late"));
    EXPECT_TRUE(late.starts_with("(error) " + std::string{not_owner_error})) << late;
    EXPECT_EQ(probe.command(guarded_set(adopted.guard(), "resource:{guarded}", "in time")), "OK");
  };
  w.run(body);
}

TEST_F(AdoptionOnRedis, AReadersShareIsPassedOnBesideTheOthers) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), quick(server(), 30s)}, second{w.ctx.get_executor(), quick(server(), 30s)};
    shared_mutex m{first, "readers"}, there{second, "readers"};
    hold one = co_await m.async_acquire_shared();
    hold two = co_await m.async_acquire_shared();
    std::string const text = co_await one.async_detach();
    hold adopted = co_await there.async_adopt(text);
    lock_status status = co_await there.async_inspect();
    EXPECT_EQ(status.readers(), 2u);
    hold writer = co_await there.async_try_acquire();
    EXPECT_FALSE(writer);
    bool held = co_await two.async_release();
    EXPECT_TRUE(held);
    held = co_await adopted.async_release();
    EXPECT_TRUE(held);
    EXPECT_TRUE(is_free(probe, "readers"));
  };
  w.run(body);
}

TEST_F(AdoptionOnRedis, OneOfManyOwnersIsPassedOnAndStaysInTheSetOfEnds) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), quick(server(), 30s)}, second{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore s{first, "many", 1000}, there{second, "many", 1000};
    std::vector<hold> all;
    for (int i = 0; i != 250; ++i) {
      hold one = co_await s.async_acquire(1);
      all.push_back(std::move(one));
    }
    std::string const ends = lock_key("many") + ":e";
    EXPECT_EQ(probe.integer({"ZCARD", ends}), 250);
    std::string const text = co_await all[7].async_detach();
    hold adopted = co_await there.async_adopt(text);
    EXPECT_EQ(probe.integer({"ZCARD", ends}), 250);
    EXPECT_EQ(probe.integer({"HLEN", lock_key("many")}), 251);
    lock_status const status = co_await there.async_inspect();
    EXPECT_EQ(status.taken, 250u);
    bool const was_held = co_await adopted.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(probe.integer({"ZCARD", ends}), 249);
  };
  w.run(body);
}

TEST_F(AdoptionOnRedis, ReleasesWhatCannotBeDetached) {
  auto const body = [&]() -> asio::awaitable<void> {
    redis_server own{redis_server_options{}};
    config slow = quick(own, 3s);
    slow.command_timeout = 200ms;
    client first{w.ctx.get_executor(), slow};
    mutex m{first, "unreachable"};
    hold h = co_await m.async_acquire();
    own.stop();
    auto told = co_await h.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::unreachable);
    EXPECT_TRUE(std::get<1>(told).empty());
    EXPECT_FALSE(h.valid());
    own.cont();
    client second{w.ctx.get_executor(), quick(own, 30s)};
    mutex there{second, "unreachable"};
    hold next = co_await there.async_acquire();
    EXPECT_TRUE(next.valid());
  };
  w.run(body);
}

TEST_F(AdoptionOnRedis, IsAdoptedWhileCoroutinesOfThatClientWaitForIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client first{w.ctx.get_executor(), quick(server(), 30s)}, second{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{first, "restart"}, there{second, "restart"};
    hold h = co_await m.async_acquire();
    hold waited;
    there.async_acquire([&](error_code, hold got) { waited = std::move(got); });
    co_await until(in_lines("restart", 1), "the waiter of the second client in line");
    std::string const text = co_await h.async_detach();
    hold adopted = co_await there.async_adopt(text);
    EXPECT_FALSE(waited);
    bool const was_held = co_await adopted.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return waited.valid(); };
    co_await until(granted, "the grant of the waiter");
    EXPECT_GT(waited.fence(), adopted.fence());
  };
  w.run(body);
}

TEST_F(AdoptionOnRedis, IsNotOfferedOverSeveralServers) {
  auto const body = [&]() -> asio::awaitable<void> {
    redis_server a{redis_server_options{}};
    config several = quick(server(), 30s);
    several.quorum.servers = {a.url()};
    several.claim = 30s;
    client c{w.ctx.get_executor(), several};
    mutex m{c, "quorum"};
    hold h = co_await m.async_acquire();
    auto told = co_await h.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_supported);
    EXPECT_TRUE(h.valid()) << "the hold stays as it is";
    auto adopted = co_await m.async_adopt("conch1:m:1:30000:20480000000003:c.7:quorum", as_tuple);
    EXPECT_EQ(std::get<0>(adopted), errc::not_supported);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
