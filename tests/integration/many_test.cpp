// Very many at once, and a server that takes its time.

#include "integration/fake_server.hpp"

#include "protocol/wire.hpp"
#include "servers/redis/scripts.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <vector>

namespace conch::test {
namespace {

/// Grants and takes back whatever it is asked for, each after a pause.
struct slow_server {
  std::atomic<int> acquired{0}, released{0};
  fake_server fake;

  explicit slow_server(std::chrono::milliseconds pause)
      : fake{[this, pause](fake_server::connection& c, int) {
          c.greet();
          c.subscribe();
          for (;;) {
            auto const words = c.command();
            std::this_thread::sleep_for(pause);
            bool const acquires = words.size() > 1 && words[1] == redis::find_script("acquire").sha1;
            bool const gathered = words.size() > 1 && words[1] == redis::find_script("gathered").sha1;
            auto const fence = std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count() -
                               protocol::fence_epoch_us;
            std::string const granted = ":" + std::to_string(fence) + "\r\n", taken_back = ":1\r\n";
            if (!gathered) {
              ++(acquires ? acquired : released);
              c.write(acquires ? granted : taken_back);
              continue;
            }
            // Longer for several, but not long enough to count as gone.
            std::this_thread::sleep_for(pause * std::min(std::stoi(words[2]) / 3 - 1, 7));
            int const locks = std::stoi(words[2]) / 3,
                      of_them = std::stoi(words[3 + 3 * static_cast<std::size_t>(locks)]);
            std::string answers = "*" + std::to_string(locks) + "\r\n";
            for (int i = 0; i < locks; ++i) {
              ++(i < of_them ? acquired : released);
              answers += i < of_them ? granted : taken_back;
            }
            c.write(answers);
          }
        }} {}
};

class Many : public with_server<Many> {
 protected:
  static config settings(slow_server const& slow) {
    config c = quick(slow.fake.url(), 60s);
    c.command_timeout = 500ms;
    return c;
  }

  static asio::awaitable<std::vector<hold>> acquire(client& c, int count) {
    std::vector<hold> holds;
    for (int i = 0; i < count; ++i) {
      mutex m{c, "lock " + std::to_string(i)};
      m.async_acquire([&holds](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        holds.push_back(std::move(h));
      });
    }
    auto const all = [&] { return holds.size() == static_cast<std::size_t>(count); };
    co_await until(all, "all of them");
    co_return holds;
  }
};

TEST_F(Many, AServerThatTakesLongForAllOfThemButAnswersIsNotLeft) {  // P11
  slow_server slow{20ms};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings(slow)};
    constexpr int count = 60;
    auto holds = co_await acquire(c, count);
    int done = 0, held = 0;
    for (hold& h : holds) {
      h.async_release([&](error_code ec, bool was_held) {
        EXPECT_FALSE(ec) << ec.message();
        ++done;
        held += was_held ? 1 : 0;
      });
    }
    auto const all = [&] { return done == count; };
    co_await until(all, "all given back");
    EXPECT_EQ(held, count);
    EXPECT_EQ(c.stats().disconnects, 0u);
  };
  w.run(body);
}

TEST_F(Many, AClientThatGoesGivesBackForAsLongAsTheServerConfirms) {  // P6
  slow_server slow{40ms};
  constexpr int count = 40;
  auto const body = [&]() -> asio::awaitable<void> {
    auto c = std::make_unique<client>(w.ctx.get_executor(), settings(slow));
    auto const holds = co_await acquire(*c, count);
    c.reset();
    auto const all = [&] { return slow.released == count; };
    co_await until(all, "all given back");
  };
  w.run(body);
}

TEST_F(Many, WhoAwaitsACloseIsToldInTimeAndTheRestGoesOn) {
  slow_server slow{40ms};
  constexpr int count = 40;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings(slow)};
    auto const holds = co_await acquire(c, count);
    auto closed = co_await c.async_close(0s, as_tuple);
    EXPECT_EQ(std::get<0>(closed), errc::timed_out);
    EXPECT_LT(slow.released, count);
    auto const all = [&] { return slow.released == count; };
    co_await until(all, "all given back");
  };
  w.run(body);
}

TEST_F(Many, AClientThatGoesLeavesNothingAtAServerThatHasForgottenTheScripts) {  // P6
  constexpr int count = 5'000;
  auto const body = [&]() -> asio::awaitable<void> {
    auto c = std::make_unique<client>(w.ctx.get_executor(), steady_config(server()));
    auto const holds = co_await acquire(*c, count);
    probe.command({"SCRIPT", "FLUSH"});
    probe.command({"CONFIG", "RESETSTAT"});
    c.reset();
    auto const none = [&] { return probe.integer({"DBSIZE"}) == count; };  // the fences
    co_await until(none, "all given back");
    EXPECT_LE(probe.commandstats()["eval"], 5)
        << "the sources of the two scripts, of one lock and of several, go with a few of 5,000";
  };
  w.run(body);
}

TEST_F(Many, AMultiLockOf150TakesThreeScriptsAndStopsAtABusyOne) {  // P10
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())}, other{w.ctx.get_executor(), steady_config(server())};
    std::vector<mutex> locks;
    for (int i = 0; i < 150; ++i) locks.emplace_back(c, "of many " + std::to_string(1000 + i));
    multi_lock all{locks};
    for (int i = 0; i < 2; ++i) {  // one by one while there is no connection; then with the source of the script
      multi_hold warm = co_await all.async_acquire();
      co_await warm.async_release();
    }
    auto const before = c.stats().scripts;
    multi_hold held = co_await all.async_acquire();
    EXPECT_EQ(c.stats().scripts - before, 3u);
    co_await held.async_release();

    mutex busy{other, "of many 1100"};
    hold rival = co_await busy.async_acquire();
    auto const fence_of_last = probe.command({"GET", fence_key("of many 1149")});
    auto late = co_await all.async_acquire({.wait = short_wait}, as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::timed_out);
    EXPECT_EQ(probe.command({"GET", fence_key("of many 1149")}), fence_of_last)
        << "what is behind the busy one is not touched";
    co_await rival.async_release();
  };
  w.run(body);
}

TEST_F(Many, ThatWatchOneHoldAndAreCancelledAreAllToldOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    mutex m{c, "watched"};
    hold h = co_await m.async_acquire();
    constexpr int count = 1'000;
    std::deque<asio::cancellation_signal> signals(count);
    std::vector<int> told(count);
    int cancelled = 0, ended = 0;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      h.async_lost(asio::bind_cancellation_slot(signals[i].slot(), [&, i](error_code ec) {
        ++told[i];
        ++(ec == asio::error::operation_aborted ? cancelled : ended);
      }));
    }
    for (std::size_t i = 0; i < signals.size(); i += 2) signals[i].emit(asio::cancellation_type::total);
    auto const half = [&] { return cancelled == count / 2; };
    co_await until(half, "half of them");
    for (std::size_t i = 0; i < signals.size(); ++i) EXPECT_EQ(told[i], i % 2 == 0 ? 1 : 0) << i;
    co_await h.async_release();
    auto const all = [&] { return cancelled + ended == count; };
    co_await until(all, "all of them");
    EXPECT_EQ(std::count(told.begin(), told.end(), 1), count);
  };
  w.run(body);
}

TEST_F(Many, QuestionsThatAreCancelledInTheMiddleLeaveTheOthersTheirAnswers) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    mutex m{c, "asked about"};
    hold const h = co_await m.async_acquire();
    constexpr int count = 1'000;
    std::deque<asio::cancellation_signal> signals(count);
    int answered = 0, cancelled = 0;
    for (auto& s : signals) {
      m.async_inspect(asio::bind_cancellation_slot(s.slot(), [&](error_code ec, lock_status const& status) {
        if (ec) {
          EXPECT_EQ(ec, asio::error::operation_aborted);
          ++cancelled;
        } else {
          EXPECT_EQ(status.holders.size(), 1u);
          ++answered;
        }
      }));
    }
    for (std::size_t i = 0; i < signals.size(); i += 2) signals[i].emit(asio::cancellation_type::total);
    auto const all = [&] { return answered + cancelled == count; };
    co_await until(all, "all of them");
    EXPECT_EQ(cancelled, count / 2);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
