// The table of docs/cancellation.md, every cell on a real server; afterwards nothing is left behind.

#include "integration/each_server.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <random>
#include <vector>

namespace conch::test {
namespace {

using asio::cancellation_type;

struct outcome {
  bool done = false;
  error_code ec;
  hold h;
};

using server_and_type = std::tuple<kind_of_server, cancellation_type>;

template <class Param>
class cancelling : public with_each_server<cancelling<Param>, Param> {
 protected:
  void acquire(mutex& m, outcome& o, acquire_options options = {}) {
    m.async_acquire(options, asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, hold h) {
                      EXPECT_FALSE(o.done);
                      o.done = true;
                      o.ec = ec;
                      o.h = std::move(h);
                    }));
  }

  asio::cancellation_signal signal;
};

class Cancelling : public cancelling<server_and_type> {
 protected:
  cancellation_type type() const { return std::get<1>(GetParam()); }
  std::string name(std::string const& state) { return state + " " + std::to_string(static_cast<int>(type())); }
};

class CancellingTwice : public cancelling<kind_of_server> {};

INSTANTIATE_TEST_SUITE_P(Over, CancellingTwice, testing::ValuesIn(servers_under_test()), server_name);

std::string type_name(testing::TestParamInfo<server_and_type> const& info) {
  auto const& [server, type] = info.param;
  switch (type) {
    case cancellation_type::total: return "Total_" + server.name;
    case cancellation_type::partial: return "Partial_" + server.name;
    default: return "Terminal_" + server.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Cancelling,
                         testing::Combine(testing::ValuesIn(servers_under_test()),
                                          testing::Values(cancellation_type::total, cancellation_type::partial,
                                                          cancellation_type::terminal)),
                         type_name);

TEST_P(Cancelling, NotWrittenYetLeavesAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};  // not connected
    mutex m{c, name("unwritten")};
    outcome o;
    acquire(m, o);
    signal.emit(type());
    EXPECT_FALSE(o.done);  // never inside
    auto const done = [&] { return o.done; };
    co_await until(done, "the end");
    EXPECT_EQ(o.ec, asio::error::operation_aborted);
    EXPECT_TRUE(is_free(server(), m.name()));
    EXPECT_EQ(c.stats().cancellations, 1u);
    EXPECT_EQ(c.stats().waiting, 0u);
  };
  w.run(body);
}

TEST_P(Cancelling, WhileTheServerIsAwayLeavesAtOnce) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server().url_of_none())};
    mutex m{c, name("away")};
    outcome o;
    acquire(m, o);
    co_await pause_for(20ms);  // attempts go on
    auto const began = steady::now();
    signal.emit(type());
    auto const done = [&] { return o.done; };
    co_await until(done, "the end");
    EXPECT_LT(steady::now() - began, 5s);  // offline_timeout is 10 s
    EXPECT_EQ(o.ec, asio::error::operation_aborted);
  };
  w.run(body);
}

TEST_P(Cancelling, WaitingLocallyLeavesAtOnceAndKeepsTheOthersPlaces) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, name("local")};
    hold h = co_await m.async_acquire();
    std::string order;
    m.async_acquire([&](error_code ec, hold) { order += ec ? 'x' : 'a'; });
    outcome o;
    acquire(m, o);
    m.async_acquire([&](error_code ec, hold) { order += ec ? 'x' : 'b'; });
    auto const scripts = c.stats().scripts;
    signal.emit(type());
    auto const done = [&] { return o.done; };
    co_await until(done, "the end");
    EXPECT_EQ(o.ec, asio::error::operation_aborted);
    EXPECT_EQ(c.stats().scripts, scripts);  // no message
    co_await h.async_release();
    auto const both = [&] { return order.size() == 2; };
    co_await until(both, "the others");
    EXPECT_EQ(order, "ab");
    auto const freed = [&] { return is_free(server(), m.name()); };
    co_await until(freed, "free");
  };
  w.run(body);
}

/// Written, and the server does not answer before it is let go on.
TEST_P(Cancelling, WrittenAndNotAnswered) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    mutex m{c, name("written")};
    {
      hold connects = co_await m.async_acquire();
      co_await connects.async_release();
    }
    server().stop();
    outcome o;
    acquire(m, o);
    co_await asio::post(asio::use_awaitable);
    auto const began = steady::now();
    signal.emit(type());
    if (type() == cancellation_type::terminal) {
      auto const done = [&] { return o.done; };
      co_await until(done, "the end");
      EXPECT_LT(steady::now() - began, 2s);  // command_timeout is 3 s
      server().cont();
    } else {
      co_await pause_for(30ms);
      EXPECT_FALSE(o.done);
      server().cont();
      auto const done = [&] { return o.done; };
      co_await until(done, "the end");
    }
    if (type() == cancellation_type::total) {
      EXPECT_FALSE(o.ec) << o.ec.message();  // the grant was already under way
      CO_ASSERT(o.h.valid());
      bool const was_held = co_await o.h.async_release();
      EXPECT_TRUE(was_held);
    } else {
      EXPECT_EQ(o.ec, asio::error::operation_aborted);
    }
    auto const freed = [&] { return is_free(server(), m.name()) && c.stats().cleanups_pending == 0; };
    co_await until(freed, "free");
  };
  w.run(body);
}

TEST_P(Cancelling, InLineLeavesTheLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client other{w.ctx.get_executor(), server().url()};
    client c{w.ctx.get_executor(), server().url()};
    client third{w.ctx.get_executor(), server().url()};
    mutex busy{other, name("queued")};
    mutex m{c, name("queued")};
    mutex later{third, name("queued")};
    hold h = co_await busy.async_acquire();
    outcome o;
    acquire(m, o);
    auto const one = [&] { return in_line(server(), m.name()) == 1; };
    co_await until(one, "in line");
    hold next;
    later.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const two = [&] { return in_line(server(), m.name()) == 2; };
    co_await until(two, "both in line");
    signal.emit(type());
    auto const done = [&] { return o.done; };
    co_await until(done, "the end");
    EXPECT_EQ(o.ec, asio::error::operation_aborted);
    if (type() != cancellation_type::terminal) {
      EXPECT_EQ(in_line(server(), m.name()), 1);  // it had left before it was told
    }
    auto const left = [&] { return in_line(server(), m.name()) == 1 && c.stats().cleanups_pending == 0; };
    co_await until(left, "out of the line");
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next one");
    EXPECT_LT(steady::now() - began, 2500ms);  // a claim is 3 s
    co_await next.async_release();
    EXPECT_TRUE(is_free(server(), m.name()));
  };
  w.run(body);
}

/// The grant is on its way (the server has given the lock, the client does not know yet).
TEST_P(Cancelling, GrantedMeanwhile) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    client other{w.ctx.get_executor(), settings};
    client c{w.ctx.get_executor(), settings};
    mutex busy{other, name("meanwhile")};
    mutex m{c, name("meanwhile")};
    hold h = co_await busy.async_acquire();
    outcome o;
    acquire(m, o);
    auto const one = [&] { return in_line(server(), m.name()) == 1; };
    co_await until(one, "in line");
    // Given back and handed over without this thread letting the context run: the push waits in the socket.
    h = hold{};
    auto const passed = [&] {
      w.ctx.poll_one();
      return o.done || in_line(server(), m.name()) == 0;
    };
    for (int i = 0; i < 1000 && !passed(); ++i) {
    }
    EXPECT_TRUE(passed());
    signal.emit(type());
    auto const done = [&] { return o.done; };
    co_await until(done, "the end");
    if (!o.ec) {
      CO_ASSERT(o.h.valid());
      co_await o.h.async_release();
    } else {
      EXPECT_NE(type(), cancellation_type::total) << "a grant under way was thrown away";
      EXPECT_EQ(o.ec, asio::error::operation_aborted);
    }
    auto const freed = [&] { return is_free(server(), m.name()) && c.stats().cleanups_pending == 0; };
    co_await until(freed, "free");
  };
  w.run(body);
}

TEST_P(Cancelling, GrantedIsTooLateAndTheHoldIsDelivered) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    // else a slow machine hands it back to the server, and the cancellation is in time
    settings.local_slice = settings.lease;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, name("granted")};
    hold first = co_await m.async_acquire();
    outcome o;
    acquire(m, o);
    bool released = false;
    first.async_release([&](error_code, bool) { released = true; });  // handed on: the completion is posted, not run
    EXPECT_FALSE(o.done);
    signal.emit(type());
    auto const done = [&] { return o.done && released; };
    co_await until(done, "the end");
    EXPECT_FALSE(o.ec) << o.ec.message();
    CO_ASSERT(o.h.valid());
    signal.emit(type());  // the slot is its next operation's now
    EXPECT_TRUE(o.h.valid());
    co_await o.h.async_release();
    EXPECT_TRUE(is_free(server(), m.name()));
  };
  w.run(body);
}

TEST_P(Cancelling, ATryAndATimedWait) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    client other{w.ctx.get_executor(), steady_config(server())};
    mutex m{c, name("timed")};
    mutex busy{other, name("timed")};
    hold h = co_await busy.async_acquire();
    outcome timed;
    acquire(m, timed, {.wait = 10s});
    auto const one = [&] { return in_line(server(), m.name()) == 1; };
    co_await until(one, "in line");
    signal.emit(type());
    auto const done = [&] { return timed.done; };
    co_await until(done, "the end");
    EXPECT_EQ(timed.ec, asio::error::operation_aborted);
    auto const left = [&] { return in_line(server(), m.name()) == 0; };
    co_await until(left, "out of the line");

    server().stop();
    outcome tried;
    mutex free_one{c, name("tried")};
    free_one.async_try_acquire(asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, hold got) {
      tried.done = true;
      tried.ec = ec;
      tried.h = std::move(got);
    }));
    co_await asio::post(asio::use_awaitable);
    signal.emit(type());
    server().cont();
    auto const over = [&] { return tried.done; };
    co_await until(over, "the try's end");
    if (tried.ec) {
      EXPECT_EQ(tried.ec, asio::error::operation_aborted);
    }
    tried.h = hold{};
    auto const freed = [&] { return is_free(server(), free_one.name()); };
    co_await until(freed, "free");
    co_await h.async_release();
  };
  w.run(body);
}

/// A stronger cancellation may follow a weaker one.
TEST_P(CancellingTwice, TotalThenTerminalDoesNotWaitForTheServer) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    for (bool const partial : {false, true}) {
      client c{w.ctx.get_executor(), steady_config(server())};
      mutex m{c, "stronger"};
      {
        hold connects = co_await m.async_acquire();
        co_await connects.async_release();
      }
      server().stop();
      outcome o;
      acquire(m, o);
      co_await asio::post(asio::use_awaitable);
      signal.emit(partial ? cancellation_type::partial : cancellation_type::total);
      co_await pause_for(20ms);
      EXPECT_FALSE(o.done);
      signal.emit(cancellation_type::terminal);
      auto const done = [&] { return o.done; };
      co_await until(done, "the end", 1s);
      EXPECT_EQ(o.ec, asio::error::operation_aborted);
      server().cont();
      auto const freed = [&] { return is_free(server(), m.name()) && c.stats().cleanups_pending == 0; };
      co_await until(freed, "free");
    }
  };
  w.run(body);
}

/// With no answer within one command time-out, total and partial act like terminal.
TEST_P(CancellingTwice, ASilentServerIsWaitedForOneCommandTimeout) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    for (auto const type : {cancellation_type::total, cancellation_type::partial}) {
      client c{w.ctx.get_executor(), quick(server())};
      mutex m{c, "silent"};
      {
        hold connects = co_await m.async_acquire();
        co_await connects.async_release();
      }
      server().stop();
      outcome o;
      acquire(m, o);
      co_await asio::post(asio::use_awaitable);
      auto const began = steady::now();
      signal.emit(type);
      auto const done = [&] { return o.done; };
      co_await until(done, "the end");
      EXPECT_EQ(o.ec, asio::error::operation_aborted);
      EXPECT_LT(steady::now() - began, 5s);  // command_timeout is 0.5 s, offline_timeout 10 s
      server().cont();
      auto const freed = [&] { return is_free(server(), m.name()) && c.stats().cleanups_pending == 0; };
      co_await until(freed, "free");
    }
  };
  w.run(body);
}

/// Cancellations at random moments among clients that pass a lock around.
TEST_P(CancellingTwice, P6AtRandomMomentsNothingLeaks) {
  struct attempt {
    asio::cancellation_signal signal;
    outcome result;
  };
  auto const body = [&]() -> asio::awaitable<void> {
    std::minstd_rand random{7};
    client one{w.ctx.get_executor(), steady_config(server())};
    client two{w.ctx.get_executor(), steady_config(server())};
    mutex a{one, "random"};
    mutex b{two, "random"};
    std::vector<std::unique_ptr<attempt>> all;
    cancellation_type const types[] = {cancellation_type::total, cancellation_type::partial,
                                       cancellation_type::terminal};
    int inside = 0;
    for (int i = 0; i < 1500; ++i) {
      auto& one_of = *all.emplace_back(std::make_unique<attempt>());
      mutex& m = random() % 2 == 0 ? a : b;
      auto const handler = [&inside, &one_of](error_code ec, hold h) {
        one_of.result.done = true;
        one_of.result.ec = ec;
        if (ec) return;
        EXPECT_EQ(++inside, 1);
        EXPECT_TRUE(h.valid());
        --inside;
      };
      m.async_acquire(asio::bind_cancellation_slot(one_of.signal.slot(), handler));
      for (auto n = random() % 4; n > 0; --n) w.ctx.poll_one();
      if (random() % 3 == 0) all[random() % all.size()]->signal.emit(types[random() % 3]);
      if (random() % 3 == 0) all.back()->signal.emit(types[random() % 3]);
      if (i % 50 == 0) co_await pause_for(1ms);
    }
    auto const done = [&] { return std::all_of(all.begin(), all.end(), [](auto const& x) { return x->result.done; }); };
    co_await until(done, "every end");
    for (auto const& x : all) {
      if (x->result.ec) {
        EXPECT_EQ(x->result.ec, asio::error::operation_aborted);
      }
    }
    auto const freed = [&] { return is_free(server(), "random"); };
    co_await until(freed, "free");
    EXPECT_GT(one.stats().cancellations + two.stats().cancellations, 100u);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
