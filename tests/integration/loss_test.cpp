// Losing a hold: which callers are told, when, and what the hold reports afterwards; what ends a hold by itself.

#include "integration/each_server.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <memory>
#include <string>
#include <vector>

namespace conch::test {
namespace {

class Loss : public with_each_server<Loss> {};

INSTANTIATE_TEST_SUITE_P(Over, Loss, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(Loss, P9EveryWaiterIsToldWhenTheLockIsGone) {
  NEEDS_A_CONNECTION();
  NEEDS(tells_of_loss);
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    mutex m{c, "told"};
    hold h = co_await m.async_acquire();
    std::vector<error_code> told;
    for (int i = 0; i < 3; ++i) {
      h.async_lost([&](error_code ec) { told.push_back(ec); });
    }
    server().forget("told");
    auto const all = [&] { return told.size() == 3; };
    co_await until(all, "three told");
    for (error_code const ec : told) EXPECT_EQ(ec, errc::lost) << ec.message();
    EXPECT_FALSE(h.valid());
    EXPECT_EQ(h.deadline(), time_point::min());
    auto late = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::lost);
    EXPECT_EQ(c.stats().losses, 1u);
    EXPECT_EQ(c.stats().held, 0u);
    auto r = co_await h.async_release(as_tuple);
    EXPECT_FALSE(std::get<0>(r));
    EXPECT_FALSE(std::get<1>(r));
    late = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::not_held);
  };
  w.run(body);
}

TEST_P(Loss, WaitingForALossCanBeCancelledAndLeavesTheHoldAlone) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "unwatched"};
    hold h = co_await m.async_acquire();
    for (auto const type :
         {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
      asio::cancellation_signal cancel;
      error_code first, second;
      int told = 0;
      h.async_lost(asio::bind_cancellation_slot(cancel.slot(), [&](error_code ec) { first = ec, ++told; }));
      h.async_lost([&](error_code ec) { second = ec; });
      cancel.emit(type);
      EXPECT_EQ(told, 0);  // never inside
      auto const one = [&] { return told == 1; };
      co_await until(one, "the cancelled one told");
      EXPECT_EQ(first, asio::error::operation_aborted);
      EXPECT_FALSE(second);
      EXPECT_TRUE(h.valid());
      cancel.emit(type);  // nothing any more
    }
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

/// What an observer, and the log, are told of the danger of one hold.
struct danger_seen final : observer {
  void on_endangered(lock_event const& e, duration left) override {
    EXPECT_GT(left, duration::zero());
    EXPECT_NE(e.fence, 0);
    told.emplace_back("endangered");
  }
  void on_safe_again(lock_event const&) override { told.emplace_back("safe again"); }
  void on_lost(lock_event const&, error_code, duration) override { told.emplace_back("lost"); }
  bool has(std::string const& what) const { return !told.empty() && told.back() == what; }

  std::vector<std::string> told, lines;
};

/// A renewal may fail for other reasons on a busy machine: the times are long.
config watched(lock_server const& server, std::shared_ptr<danger_seen> const& by) {
  config c = often_renewed(server);
  c.observer = by;
  c.log = [by](log_level level, std::string_view line) {
    if (level <= log_level::warning && line.starts_with("lock ")) by->lines.emplace_back(line);
  };
  return c;
}

TEST_P(Loss, P9IsWarnedOfBeforeAndARenewalThatSucceedsWithdrawsTheWarning) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    auto const saw = std::make_shared<danger_seen>();
    client c{w.ctx.get_executor(), watched(server(), saw)};
    mutex m{c, "in danger"};
    hold h = co_await m.async_acquire();
    for (int round = 1; round <= 2; ++round) {
      server().stop();
      auto const warned = co_await h.async_endangered(as_tuple);
      bool const is_valid = h.valid();
      auto const at_once = co_await h.async_endangered(as_tuple);
      server().cont();
      EXPECT_FALSE(std::get<0>(warned)) << std::get<0>(warned).message();
      EXPECT_FALSE(std::get<0>(at_once));
      EXPECT_TRUE(is_valid);
      co_await h.async_renewed(h.deadline());
      auto const safe = [&] { return c.stats().endangered == 0 && saw->has("safe again"); };
      co_await until(safe, "safe again");
      EXPECT_EQ(c.stats().warnings, static_cast<std::uint64_t>(round));
    }
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(saw->told, (std::vector<std::string>{"endangered", "safe again", "endangered", "safe again"}));
    CO_ASSERT(saw->lines.size() == 4);
    EXPECT_TRUE(saw->lines[0].starts_with("lock \"in danger\" will be lost in ")) << saw->lines[0];
    EXPECT_EQ(saw->lines[1], "lock \"in danger\" is renewed again, and no longer in danger");
  };
  w.run(body, 90s);
}

TEST_P(Loss, P9IsWarnedOfBeforeItComes) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    auto const saw = std::make_shared<danger_seen>();
    client c{w.ctx.get_executor(), watched(server(), saw)};
    mutex m{c, "beyond help"};
    hold h = co_await m.async_acquire();
    server().stop();
    auto const warned = co_await h.async_endangered(as_tuple);
    auto const lost = co_await h.async_lost(as_tuple);
    server().cont();
    EXPECT_FALSE(std::get<0>(warned)) << std::get<0>(warned).message();
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    auto const told = [&] { return saw->has("lost"); };
    co_await until(told, "the observer told");
    EXPECT_EQ(saw->told, (std::vector<std::string>{"endangered", "lost"}));
    EXPECT_EQ(saw->lines.size(), 1u);
    EXPECT_EQ(c.stats().endangered, 0u);
    EXPECT_EQ(c.stats().losses, 1u);
    auto const late = co_await h.async_endangered(as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::lost);
  };
  w.run(body, 90s);
}

TEST_P(Loss, WaitingForADangerEndsWithTheHoldOrByACancellation) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "no danger"};
    hold h = co_await m.async_acquire();
    asio::cancellation_signal cancel;
    error_code first, second;
    h.async_endangered(asio::bind_cancellation_slot(cancel.slot(), [&](error_code ec) { first = ec; }));
    h.async_endangered([&](error_code ec) { second = ec; });
    cancel.emit(asio::cancellation_type::total);
    auto const one = [&] { return static_cast<bool>(first); };
    co_await until(one, "the cancelled one told");
    EXPECT_EQ(first, asio::error::operation_aborted);
    EXPECT_FALSE(second);
    co_await h.async_release();
    auto const both = [&] { return static_cast<bool>(second); };
    co_await until(both, "the other one told");
    EXPECT_EQ(second, asio::error::operation_aborted);
    auto const after = co_await h.async_endangered(as_tuple);
    EXPECT_EQ(std::get<0>(after), errc::not_held);
  };
  w.run(body);
}

TEST_P(Loss, AReleaseEndsTheWaitForALoss) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "released first"};
    std::vector<error_code> told;
    hold h = co_await m.async_acquire();
    h.async_lost([&](error_code ec) { told.push_back(ec); });
    h.async_lost([&](error_code ec) { told.push_back(ec); });
    co_await h.async_release();
    {
      hold dropped = co_await m.async_acquire();
      dropped.async_lost([&](error_code ec) { told.push_back(ec); });
    }
    auto const all = [&] { return told.size() == 3; };
    co_await until(all, "three told");
    for (error_code const ec : told) EXPECT_EQ(ec, asio::error::operation_aborted) << ec.message();
  };
  w.run(body);
}

TEST_P(Loss, AFixedLeaseEndsByItselfAndIsToldBeforeItsDeadline) {
  NEEDS(own_leases);
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 4s);
    settings.stop_margin = 900ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "fixed", {.renew = false}};
    hold h = co_await m.async_acquire();
    auto const deadline = h.deadline();
    auto r = co_await h.async_lost(as_tuple);
    auto const told = clock::now();
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_LT(told, deadline);
    EXPECT_GT(told, deadline - 950ms);
    EXPECT_EQ(c.stats().renewals, 0u);
  };
  w.run(body);
}

TEST_P(Loss, AFixedLeaseStartsAnewForTheNextLocalOwner) {
  NEEDS(own_leases);
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 3s)};
    mutex m{c, "fixed line", {.renew = false}};
    hold first = co_await m.async_acquire();
    error_code failure;
    hold second;
    m.async_acquire([&](error_code ec, hold h) { failure = ec, second = std::move(h); });
    co_await pause_for(200ms);  // of the first one's lease
    auto const before = clock::now();
    co_await first.async_release();
    auto const granted = [&] { return static_cast<bool>(second); };
    co_await until(granted, "the second one");
    EXPECT_FALSE(failure);
    EXPECT_GE(second.deadline(), before + 2900ms);
    auto lost = co_await second.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
  };
  w.run(body);
}

TEST_P(Loss, MaxHoldStopsTheWatchdog) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = often_renewed(server(), 2s);
    settings.max_hold = 2500ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "stuck"};
    auto const began = clock::now();
    hold h = co_await m.async_acquire();
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_GT(clock::now() - began, 2450ms);
    EXPECT_LT(clock::now() - began, 10s);  // max_hold and one lease, and some room
    mutex other{c, "less stuck", {.max_hold = 100ms}};
    hold second = co_await other.async_acquire();
    auto const again = clock::now();
    r = co_await second.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_LT(clock::now() - again, 10s);
  };
  w.run(body);
}

TEST_P(Loss, AReleaseThatTheServerRefusesToRecogniseSaysFalse) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "unrecognised"};
    hold h = co_await m.async_acquire();
    server().forget("unrecognised");
    EXPECT_TRUE(h.valid());  // nobody can know yet
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
