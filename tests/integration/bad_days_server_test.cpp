// What a server can do to its clients: be away, come back, forget, be paused, refuse.

#include "integration/fixture.hpp"

#include <map>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

class BadDaysOfTheServer : public testing::Test {
 protected:
  world w;
};

/// The ids of the connections of that client name.
std::vector<std::string> connections(redis_probe& probe, std::string const& name) {
  std::vector<std::string> ids;
  std::istringstream lines{probe.command({"CLIENT", "LIST"})};
  for (std::string one; std::getline(lines, one);) {
    if (one.find(" name=" + name + " ") == std::string::npos) continue;
    ids.push_back(one.substr(3, one.find(' ') - 3));
  }
  return ids;
}

TEST_F(BadDaysOfTheServer, DownAtTheStartItIsUnreachableAfterOfflineTimeout) {
  redis_server server;
  server.kill();
  config settings = quick(server);
  settings.offline_timeout = 300ms;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "down"};
    auto const began = steady::now();
    auto r = co_await m.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::unreachable);
    EXPECT_EQ(std::get<0>(r), condition::unreachable);
    EXPECT_NE(std::get<0>(r).message().find(server.socket_path()), std::string::npos) << std::get<0>(r).message();
    EXPECT_GE(steady::now() - began, 300ms);
    EXPECT_LT(steady::now() - began, 2s);
    auto timed = co_await m.async_acquire({.wait = 50ms}, as_tuple);
    EXPECT_EQ(std::get<0>(timed), errc::unreachable);
    auto tried = co_await m.async_try_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(tried), errc::unreachable);
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, DownAtTheStartItIsWaitedFor) {
  redis_server server;
  server.kill();
  journal log;
  config settings = quick(server);
  settings.log = log.hook();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "late"};
    hold h;
    m.async_acquire([&](error_code ec, hold mine) {
      EXPECT_FALSE(ec) << ec.message();
      h = std::move(mine);
    });
    auto const tried = [&] { return log.contains("cannot connect"); };
    co_await until(tried, "an attempt to connect");
    server.restart(false);
    auto const granted = [&] { return h.valid(); };
    co_await until(granted, "the grant");
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, P5AwayAndBackWithItsDataItStillKnowsHolderAndLine) {
  redis_server server{{.appendonly = true}};
  auto const body = [&]() -> asio::awaitable<void> {
    client holder{w.ctx.get_executor(), steady_config(server)};
    client first{w.ctx.get_executor(), steady_config(server)};
    client second{w.ctx.get_executor(), steady_config(server)};
    mutex held{holder, "back"};
    mutex a{first, "back"};
    mutex b{second, "back"};
    hold h = co_await held.async_acquire();
    std::string order;
    hold mine, theirs;
    a.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      order += 'a';
      mine = std::move(got);
    });
    {
      redis_probe probe{server};
      auto const one = [&] { return in_line(probe, "back") == 1; };
      co_await until(one, "the first in line");
    }
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      order += 'b';
      theirs = std::move(got);
    });
    {
      redis_probe probe{server};
      auto const two = [&] { return in_line(probe, "back") == 2; };
      co_await until(two, "the second in line");
    }
    server.kill();
    auto const noticed = [&] {
      return holder.stats().disconnects + first.stats().disconnects + second.stats().disconnects == 3;
    };
    co_await until(noticed, "three lost connections");
    EXPECT_TRUE(h.valid());
    server.restart(true);
    {
      // A waiter that is not back yet when the lock becomes free is passed over.
      redis_probe probe{server};
      auto const all_back = [&] {
        std::string const channels = probe.command({"PUBSUB", "CHANNELS", "conch:*"});
        std::size_t listening = 0;
        for (auto at = channels.find("conch:"); at != std::string::npos; at = channels.find("conch:", at + 1))
          ++listening;
        return listening == 3;
      };
      co_await until(all_back, "three clients that listen again");
    }
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const got_a = [&] { return static_cast<bool>(mine); };
    co_await until(got_a, "the first one's grant");
    EXPECT_GT(mine.fence(), h.fence());
    co_await mine.async_release();
    auto const got_b = [&] { return static_cast<bool>(theirs); };
    co_await until(got_b, "the second one's grant");
    EXPECT_EQ(order, "ab");
    co_await theirs.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, RestartedEmptyItTellsTheHolderAndServesTheLine) {
  redis_server server;
  auto const body = [&]() -> asio::awaitable<void> {
    client holder{w.ctx.get_executor(), steady_config(server)};
    client waiter{w.ctx.get_executor(), steady_config(server)};
    mutex held{holder, "emptied"};
    mutex wanted{waiter, "emptied"};
    hold h = co_await held.async_acquire();
    hold next;
    wanted.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    {
      redis_probe probe{server};
      auto const one = [&] { return in_line(probe, "emptied") == 1; };
      co_await until(one, "in line");
    }
    server.restart(false);
    // The first to come back has it: the waiter asks anew, or the holder learns of its loss; both within a reconnect.
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the waiter's grant");
    EXPECT_GT(next.fence(), h.fence());
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
    bool const theirs = co_await next.async_release();
    EXPECT_TRUE(theirs);
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, ForgottenScriptsAreSentAgainAtEveryStep) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), often_renewed(server)};
    client two{w.ctx.get_executor(), often_renewed(server)};
    mutex a{one, "scripts"};
    mutex b{two, "scripts"};
    hold h = co_await a.async_acquire();
    for (int i = 0; i < 4; ++i) {  // renewals
      probe.command({"SCRIPT", "FLUSH"});
      auto const renewals = one.stats().renewals;
      auto const renewed = [&] { return one.stats().renewals > renewals; };
      co_await until(renewed, "a renewal");
    }
    probe.command({"SCRIPT", "FLUSH"});
    hold busy = co_await b.async_try_acquire();
    EXPECT_FALSE(busy);
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const queued = [&] { return in_line(probe, "scripts") == 1; };
    co_await until(queued, "in line");
    probe.command({"SCRIPT", "FLUSH"});
    bool const was_held = co_await h.async_release();  // hands over
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "handed over");
    probe.command({"SCRIPT", "FLUSH"});
    auto r = co_await a.async_acquire({.wait = short_wait}, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::timed_out);
    EXPECT_EQ(in_line(probe, "scripts"), 0);
    probe.command({"SCRIPT", "FLUSH"});
    bool const theirs = co_await next.async_release();
    EXPECT_TRUE(theirs);
    EXPECT_EQ(one.stats().losses + two.stats().losses, 0u);
    EXPECT_EQ(one.stats().disconnects + two.stats().disconnects, 0u);
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, P1ScriptsForgottenUnderLoadLoseNoIncrement) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), steady_config(server)};
    client two{w.ctx.get_executor(), steady_config(server)};
    int inside = 0, done = 0, running = 0;
    auto const worker = [&](client& c) -> asio::awaitable<void> {
      mutex m{c, "load"};
      for (int i = 0; i < 20; ++i) {
        hold h = co_await m.async_acquire();
        EXPECT_EQ(++inside, 1);
        co_await asio::post(asio::use_awaitable);
        --inside;
        ++done;
        co_await h.async_release();
      }
      --running;
    };
    for (int i = 0; i < 40; ++i) {
      ++running;
      asio::co_spawn(w.ctx, worker(i % 2 == 0 ? one : two), asio::detached);
    }
    while (running > 0) {
      probe.command({"SCRIPT", "FLUSH"});
      co_await pause_for(1ms);
    }
    EXPECT_EQ(done, 800);
    EXPECT_EQ(one.stats().losses + two.stats().losses, 0u);
    EXPECT_TRUE(is_free(probe, "load"));
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, FlushallIsToldAtTheNextRenewalAndForgetsNoWaiter) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), often_renewed(server, 3s)};
    client two{w.ctx.get_executor(), often_renewed(server, 3s)};
    mutex a{one, "flushed"};
    mutex b{two, "flushed"};
    hold h = co_await a.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const queued = [&] { return in_line(probe, "flushed") == 1; };
    co_await until(queued, "in line");
    auto const began = steady::now();
    probe.command({"FLUSHALL"});
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_LT(steady::now() - began, 2s);  // a renewal each 50 ms; at the deadline it would be after 2.7 s
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the waiter's grant");
    EXPECT_GT(next.fence(), h.fence());
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, P5TenThousandWaitersOfOneLockSurviveAClosedConnectionInOrder) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    client holder{w.ctx.get_executor(), settings};
    settings.client_name = "crowd";
    client crowd{w.ctx.get_executor(), settings};
    mutex held{holder, "one"};
    mutex wanted{crowd, "one"};
    hold h = co_await held.async_acquire();
    std::vector<int> order;
    auto const waiter = [&](int i) -> asio::awaitable<void> {
      hold mine = co_await wanted.async_acquire();
      order.push_back(i);
      co_await mine.async_release();
    };
    for (int i = 0; i < 10'000; ++i) asio::co_spawn(w.ctx, waiter(i), asio::detached);
    auto const queued = [&] { return in_line(probe, "one") == 1; };
    co_await until(queued, "in line");
    auto ids = connections(probe, "crowd");
    CO_ASSERT(ids.size() == 1);
    probe.command({"CLIENT", "KILL", "ID", ids[0]});
    auto const back = [&] { return crowd.stats().connects == 2 && in_line(probe, "one") == 1; };
    co_await until(back, "reconnected, in line again");
    co_await h.async_release();
    auto const some = [&] { return order.size() > 500; };
    co_await until(some, "some served");
    ids = connections(probe, "crowd");  // and once more, while they are being served
    CO_ASSERT(ids.size() == 1);
    probe.command({"CLIENT", "KILL", "ID", ids[0]});
    auto const all = [&] { return order.size() == 10'000; };
    co_await until(all, "all served", 60s);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(crowd.stats().failures, 0u);
    auto const freed = [&] { return is_free(probe, "one"); };
    co_await until(freed, "free");
  };
  w.run(body, 90s);
}

TEST_F(BadDaysOfTheServer, P5TenThousandWaitersOfManyLocksSurviveAClosedConnectionInOrder) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    constexpr int locks = 1000;
    config settings = steady_config(server);
    client holder{w.ctx.get_executor(), settings};
    settings.client_name = "crowd";
    client crowd{w.ctx.get_executor(), settings};
    std::vector<mutex> wanted;
    std::vector<hold> held;
    for (int i = 0; i < locks; ++i) {
      wanted.emplace_back(crowd, "many" + std::to_string(i));
      mutex{holder, "many" + std::to_string(i)}.async_acquire([&](error_code ec, hold h) {
        EXPECT_FALSE(ec);
        held.push_back(std::move(h));
      });
    }
    auto const all_held = [&] { return held.size() == locks; };
    co_await until(all_held, "1000 held");
    std::vector<std::vector<int>> order(locks);
    int served = 0;
    auto const waiter = [&](int i) -> asio::awaitable<void> {
      auto const lock = static_cast<std::size_t>(i % locks);
      hold mine = co_await wanted[lock].async_acquire();
      order[lock].push_back(i);
      ++served;
      co_await mine.async_release();
    };
    for (int i = 0; i < 10'000; ++i) asio::co_spawn(w.ctx, waiter(i), asio::detached);
    auto const queued = [&] { return in_line(probe, "many" + std::to_string(locks - 1)) == 1; };
    co_await until(queued, "in line");
    auto const ids = connections(probe, "crowd");
    CO_ASSERT(ids.size() == 1);
    probe.command({"CLIENT", "KILL", "ID", ids[0]});
    auto const back = [&] { return crowd.stats().connects == 2; };
    co_await until(back, "reconnected");
    held.clear();
    auto const all = [&] { return served == 10'000; };
    co_await until(all, "all served", 60s);
    for (auto const& one : order) EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
    EXPECT_EQ(crowd.stats().failures, 0u);
    EXPECT_EQ(crowd.stats().disconnects, 1u);
  };
  w.run(body, 90s);
}

TEST_F(BadDaysOfTheServer, AConnectionThatAnOperatorEndsIsInTheLogWithItsReason) {
  redis_server server;
  redis_probe probe{server};
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    settings.client_name = "ended";
    settings.log = log.hook();
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "kept"};
    hold h = co_await m.async_acquire();
    auto const ids = connections(probe, "ended");
    CO_ASSERT(ids.size() == 1);
    probe.command({"CLIENT", "KILL", "ID", ids[0]});
    auto const back = [&] { return c.stats().connects == 2; };
    co_await until(back, "reconnected");
    EXPECT_TRUE(h.valid());
    EXPECT_TRUE(log.contains("lost the connection to " + settings.url + ": read: End of file\n")) << *log.text;
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, AHolderWhoseConnectionIsClosedKeepsItsLock) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = often_renewed(server);
    settings.client_name = "cut";
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "kept"};
    hold h = co_await m.async_acquire();
    for (unsigned i = 1; i <= 5; ++i) {
      auto const ids = connections(probe, "cut");
      CO_ASSERT(ids.size() == 1);
      probe.command({"CLIENT", "KILL", "ID", ids[0]});
      auto const back = [&] { return c.stats().connects == i + 1 && connections(probe, "cut").size() == 1; };
      co_await until(back, "reconnected");
      EXPECT_TRUE(h.valid());
    }
    auto const renewals = c.stats().renewals;
    auto const renewed = [&] { return c.stats().renewals > renewals + 1; };
    co_await until(renewed, "renewals go on");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(c.stats().losses, 0u);
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, P8AReleaseWhoseConnectionIsClosedIsRepeated) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    settings.client_name = "cut";
    settings.command_timeout = 8s;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "unanswered"};
    hold h = co_await m.async_acquire();
    // The server reads the release, puts it off, and then closes the connection.
    probe.command({"CLIENT", "PAUSE", "300", "WRITE"});
    bool was_held = false, answered = false;
    h.async_release([&](error_code ec, bool held) {
      EXPECT_FALSE(ec) << ec.message();
      was_held = held;
      answered = true;
    });
    auto const arrived = [&] {
      return probe.command({"INFO", "clients"}).find("blocked_clients:1") != std::string::npos;
    };
    co_await until(arrived, "the release at the server");
    for (std::string const& id : connections(probe, "cut")) probe.command({"CLIENT", "KILL", "ID", id});
    auto const done = [&] { return answered; };
    co_await until(done, "the answer");
    EXPECT_TRUE(was_held);
    EXPECT_TRUE(is_free(probe, "unanswered"));
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, StandingStillForLessThanALeaseCostsNoHold) {
  redis_server server;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server, 6s);
    settings.stop_margin = 100ms;
    settings.renew_every = 500ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "paused"};
    hold h = co_await m.async_acquire();
    error_code lost;
    h.async_lost([&](error_code ec) { lost = ec; });
    server.stop();
    co_await pause_for(2500ms);  // a command_timeout, and more
    EXPECT_TRUE(h.valid());
    server.cont();
    auto const before = h.deadline();
    auto const renewed = [&] { return h.deadline() > before; };
    co_await until(renewed, "a renewal");
    EXPECT_FALSE(lost) << lost.message();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, P3StandingStillForMoreThanALeaseEndsTheHoldByTheLocalClock) {
  redis_server server;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server, 3s);
    settings.stop_margin = 700ms;
    client c{w.ctx.get_executor(), settings};
    client other{w.ctx.get_executor(), settings};
    mutex m{c, "stopped"};
    mutex theirs{other, "stopped"};
    hold h = co_await m.async_acquire();
    hold next;
    theirs.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    {
      redis_probe probe{server};
      auto const queued = [&] { return in_line(probe, "stopped") == 1; };
      co_await until(queued, "in line");
    }
    server.stop();
    auto const deadline = h.deadline();
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_LE(clock::now(), deadline);  // of which it was told 0.7 s before
    EXPECT_FALSE(next);
    auto const began = steady::now();
    auto released = co_await h.async_release(as_tuple);
    EXPECT_FALSE(std::get<0>(released));
    EXPECT_FALSE(std::get<1>(released));
    EXPECT_LT(steady::now() - began, 900ms);  // nothing to wait for: a command_timeout is 1 s
    auto const past = [&] { return clock::now() > deadline + 100ms; };
    co_await until(past, "the end of the lease");
    server.cont();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the waiter's grant");
    EXPECT_GT(next.fence(), h.fence());
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, AReleaseWithoutAnAnswerIsUnreachableAndGoesOn) {
  redis_server server;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server, 6s)};
    mutex m{c, "unanswered release"};
    hold h = co_await m.async_acquire();
    server.stop();
    auto const began = steady::now();
    auto r = co_await h.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::unreachable);
    EXPECT_FALSE(h.valid());
    EXPECT_GE(steady::now() - began, 1990ms);  // command_timeout
    EXPECT_LT(steady::now() - began, 5s);      // the lease is 6 s
    server.cont();
    redis_probe probe{server};
    auto const freed = [&] { return is_free(probe, "unanswered release") && c.stats().cleanups_pending == 0; };
    co_await until(freed, "given back all the same");
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, BusyWithALongScriptItIsAskedAgain) {
  redis_server server{{.arguments = {"--busy-reply-threshold", "30"}}};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), steady_config(server)};
    mutex a{one, "busy"};
    hold h = co_await a.async_acquire();
    co_await h.async_release();
    client fresh{w.ctx.get_executor(), steady_config(server)};
    mutex b{fresh, "busy too"};
    std::thread endless{[&] { redis_probe{server}.command({"EVAL", "while true do end", "0"}); }};
    redis_probe probe{server};
    auto const busy = [&] { return probe.command({"GET", "x"}).starts_with("(error) BUSY"); };
    co_await until(busy, "BUSY");
    hold mine, theirs;
    a.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      mine = std::move(got);
    });
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      theirs = std::move(got);
    });
    co_await pause_for(200ms);
    EXPECT_FALSE(mine);
    EXPECT_FALSE(theirs);
    probe.command({"SCRIPT", "KILL"});
    auto const granted = [&] { return mine.valid() && theirs.valid(); };
    co_await until(granted, "granted after all");
    endless.join();
    co_await mine.async_release();
    co_await theirs.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, LoadingItsDataItIsAskedAgain) {
  redis_server server{
      {.arguments = {"--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"}}};
  bool const ends_itself =
      redis_probe{server}.command({"INFO", "server"}).find("redis_version:8.0.") != std::string::npos;
  if (ends_itself)
    GTEST_SKIP() << "Redis 8.0 ends with an assertion of its own where somebody connects while it loads its data anew";
  auto const body = [&]() -> asio::awaitable<void> {
    redis_probe probe{server};
    config patient = steady_config(server);  // a busy machine loads for longer than usual patience
    patient.lease = 60s;
    patient.command_timeout = 20s;
    patient.offline_timeout = 60s;
    client one{w.ctx.get_executor(), patient};
    mutex a{one, "loading"};
    mutex other{one, "loading too"};
    hold h = co_await a.async_acquire();
    probe.command({"DEBUG", "POPULATE", "400", "key", "200"});
    probe.command({"CONFIG", "SET", "key-load-delay", "2500"});  // a second: a busy machine must come to see it
    std::jthread const reload{[&] { redis_probe{server, 60s}.command({"DEBUG", "RELOAD"}); }};
    auto const loading = [&] { return probe.command({"GET", "x"}).starts_with("(error) LOADING"); };
    co_await until(loading, "LOADING");
    hold mine;
    other.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      mine = std::move(got);
    });
    client fresh{w.ctx.get_executor(), patient};
    mutex third{fresh, "loading three"};
    hold theirs;
    third.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      theirs = std::move(got);
    });
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return mine.valid() && theirs.valid(); };
    co_await until(granted, "granted after all");
    EXPECT_TRUE(is_free(probe, "loading"));
    co_await mine.async_release();
    co_await theirs.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfTheServer, WithoutMemoryItRefusesNewLocksButLosesNoneThatIsHeld) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), often_renewed(server)};
    client two{w.ctx.get_executor(), often_renewed(server)};
    mutex a{one, "memory"};
    mutex b{two, "memory"};
    mutex other{one, "more memory"};
    hold h = co_await a.async_acquire();
    hold quiet = co_await other.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const queued = [&] { return in_line(probe, "memory") == 1; };
    co_await until(queued, "in line");
    probe.command({"CONFIG", "SET", "maxmemory", "1"});
    auto r = co_await mutex{one, "no room"}.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::server_refused) << std::get<0>(r).message();
    EXPECT_NE(std::get<0>(r).message().find("OOM"), std::string::npos) << std::get<0>(r).message();
    auto const renewals = one.stats().renewals;
    auto const renewed = [&] { return one.stats().renewals > renewals + 2; };
    co_await until(renewed, "renewals go on");
    EXPECT_TRUE(h.valid());
    bool const was_held = co_await quiet.async_release();  // needs no memory
    EXPECT_TRUE(was_held);
    h = hold{};  // nor does handing over
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the waiter's grant");
    auto const confirmations = two.stats().renewals;
    auto const confirmed = [&] { return two.stats().renewals > confirmations + 2; };
    co_await until(confirmed, "and what is handed over is confirmed and renewed");
    EXPECT_TRUE(next.valid());
    probe.command({"CONFIG", "SET", "maxmemory", "0"});
    co_await next.async_release();
    auto const clean = [&] { return is_free(probe, "memory") && is_free(probe, "more memory"); };
    co_await until(clean, "free");
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
