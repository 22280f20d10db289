// What must hold for every lock there is and over every kind of server, at each state in which a process can die, a
// server be silent or a caller give up. What only the locks of one holder at a time share is in family_test.cpp;
// docs/proof.md says which test shows what.

#include "integration/child.hpp"
#include "integration/each_server.hpp"
#include "integration/family.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <deque>
#include <variant>
#include <vector>

namespace conch::test {
namespace {

/// A hold, of one lock or of several.
class taken {
 public:
  taken() = default;
  explicit taken(hold h) : what_{std::move(h)} {}
  explicit taken(multi_hold h) : what_{std::move(h)} {}

  bool valid() const {
    return std::visit([](auto const& h) { return h.valid(); }, what_);
  }
  template <class Handler>
  void when_lost(Handler handler) {
    std::visit([&](auto& h) { h.async_lost(std::move(handler)); }, what_);
  }
  asio::awaitable<bool> release() {
    bool was_held = false;
    if (std::holds_alternative<hold>(what_)) {
      was_held = co_await std::get<hold>(what_).async_release();
    } else {
      was_held = co_await std::get<multi_hold>(what_).async_release();
    }
    co_return was_held;
  }

 private:
  std::variant<hold, multi_hold> what_;
};

using taker = std::function<void(error_code, taken)>;

/// For one acquire.
struct request {
  acquire_options how = {};
  lock_options options = {};
  asio::cancellation_slot slot = {};
};

struct any_kind {
  std::string name;  // as conch-lock-holder knows it
  std::size_t locks = 1;
  bool together = false;  // several can have it, if nobody is in their way
};

std::vector<any_kind> const& all_kinds() {
  static std::vector<any_kind> const all{{"mutex"},   {"semaphore"}, {"writer"},         {"reader", 1, true},
                                         {"striped"}, {"reentrant"}, {"multi", 2, false}};
  return all;
}

using server_and_any_kind = std::tuple<kind_of_server, any_kind>;

class EveryKind : public with_each_server<EveryKind, server_and_any_kind> {
 protected:
  void SetUp() override {
    with_each_server::SetUp();
    if (kind().name == "striped") NEEDS(segments);
  }

  any_kind const& kind() { return std::get<1>(GetParam()); }
  bool is_multi() { return kind().locks > 1; }
  bool is_mutex() { return kind().name == "mutex" || is_multi(); }

  std::string name(std::string const& what) { return kind().name + " " + what; }
  std::string childs(std::string const& what) {
    return (kind().name == "mutex" ? "" : "@" + kind().name + "/") + name(what);
  }
  /// Where it is queued, and which client blocks it.
  std::string first(std::string const& what) { return name(what) + (is_multi() ? " a" : ""); }

  void take(client& c, std::string const& what, request r, taker handler) {
    start(kind().name, c, name(what), r, std::move(handler));
  }

  /// Takes it so that nobody else can.
  void block(client& c, std::string const& what, request r, taker handler) {
    std::string const how = kind().name == "reader" ? "writer" : is_multi() ? "mutex" : kind().name;
    start(how, c, first(what), r, std::move(handler));
  }

  asio::awaitable<taken> taken_by(client& c, std::string const& what, request r = {}) { return one(c, what, r, false); }
  asio::awaitable<taken> blocked_by(client& c, std::string const& what, request r = {}) {
    return one(c, what, r, true);
  }

  auto in_lines(std::string const& lock, std::int64_t count) {
    return [this, lock, count] { return in_line(server(), lock) == count; };
  }

  /// So many processes, one behind the other.
  asio::awaitable<void> line_up(std::deque<child>& line, std::string const& what, std::size_t count,
                                std::chrono::milliseconds lease = 30s) {
    while (line.size() < count) {
      line.emplace_back(server().url(), childs(what), lease, 5s);
      auto const waits = in_lines(first(what), static_cast<std::int64_t>(line.size()));
      co_await until(waits, "the child in line");
    }
  }

  bool all_free(std::string const& what) {
    return is_free(server(), first(what)) && (!is_multi() || is_free(server(), name(what) + " b"));
  }

  /// Nothing left on the server, and nothing owed to it.
  asio::awaitable<void> nothing_left(client& c, std::string const& what) {
    auto const free = [&] { return all_free(what) && c.stats().cleanups_pending == 0; };
    co_await until(free, "nothing left of " + what);
    EXPECT_EQ(c.stats().held, 0u);
    EXPECT_EQ(c.stats().waiting, 0u);
  }

  asio::awaitable<void> connect(client& c) {
    taken connects = co_await taken_by(c, "connects");
    co_await connects.release();
  }

 private:
  static void start(std::string const& how, client& c, std::string const& lock, request r, taker handler) {
    auto of_one =
        asio::bind_cancellation_slot(r.slot, [handler](error_code ec, hold h) { handler(ec, taken{std::move(h)}); });
    if (how == "mutex") {
      mutex m{c, lock, r.options};
      m.async_acquire(r.how, std::move(of_one));
    } else if (how == "reader") {
      shared_mutex m{c, lock, r.options};
      m.async_acquire_shared(r.how, std::move(of_one));
    } else if (how == "multi") {
      std::vector<mutex> locks;
      for (char const* which : {" b", " a"}) locks.emplace_back(c, lock + which, r.options);
      multi_lock m{std::move(locks)};
      m.async_acquire(r.how, asio::bind_cancellation_slot(
                                 r.slot, [handler](error_code ec, multi_hold h) { handler(ec, taken{std::move(h)}); }));
    } else {
      auto const& others = kinds_of_locks();
      auto const found =
          std::find_if(others.begin(), others.end(), [&](kind_of_lock const& k) { return k.name == how; });
      found->start(c, lock, r.options, r.how, false, std::move(of_one));
    }
  }

  asio::awaitable<taken> one(client& c, std::string what, request r, bool alone) {
    bool done = false;
    error_code failure;
    taken result;
    auto const handler = [&](error_code ec, taken t) {
      done = true;
      failure = ec;
      result = std::move(t);
    };
    alone ? block(c, what, r, handler) : take(c, what, r, handler);
    auto const told = [&] { return done; };
    co_await until(told, "an answer to the acquire of " + what);
    if (failure) throw boost::system::system_error{failure};
    co_return std::move(result);
  }
};

std::string name_of(testing::TestParamInfo<server_and_any_kind> const& of) {
  return std::get<1>(of.param).name + "_over_" + std::get<0>(of.param).name;
}

INSTANTIATE_TEST_SUITE_P(Of, EveryKind,
                         testing::Combine(testing::ValuesIn(servers_under_test()), testing::ValuesIn(all_kinds())),
                         name_of);

TEST_P(EveryKind, P4AKilledHolderCostsAtMostItsLease) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    child dead{server().url(), childs("killed"), 600ms};
    dead.wait_for("held");
    dead.kill();
    auto const began = steady::now();
    taken next = co_await blocked_by(c, "killed");
    // A lease of 0.6 s. Whatever else would end the wait does so after this client's own lease, 30 s.
    EXPECT_LT(steady::now() - began, 10s);
    EXPECT_TRUE(next.valid());
    co_await next.release();
    taken all = co_await taken_by(c, "killed");
    EXPECT_LT(steady::now() - began, 10s);
    co_await all.release();
    co_await nothing_left(c, "killed");
  };
  w.run(body);
}

TEST_P(EveryKind, P4AKilledHolderCostsItsOwnLeaseAndNotThatOfTheHolderBefore) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    client other{w.ctx.get_executor(), steady_config(server())};
    taken blocker = co_await blocked_by(c, "short after long");
    std::deque<child> dead;
    co_await line_up(dead, "short after long", 1, 1500ms);
    taken next;
    block(other, "short after long", {}, [&](error_code ec, taken t) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(t);
    });
    auto const both_wait = in_lines(first("short after long"), 2);
    co_await until(both_wait, "both in line, and told of a lease of 30 s");
    co_await blocker.release();
    child& holder = dead.front();
    holder.wait_for("held");
    auto const held = steady::now();
    auto const has_renewed = [&] {
      holder.say("use");
      return holder.wait_for("use") == "use valid" && steady::now() - held > 1500ms;
    };
    co_await until(has_renewed, "a hold that lasts longer than its lease");
    holder.kill();
    auto const began = steady::now();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 10s) << "its own lease is 1.5 s, that of the holder before 30 s";
    co_await next.release();
    co_await nothing_left(c, "short after long");
  };
  w.run(body);
}

TEST_P(EveryKind, P4AKilledNextInLineCostsAtMostItsLease) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    client other{w.ctx.get_executor(), steady_config(server())};
    taken blocker = co_await blocked_by(c, "killed next");
    std::deque<child> dead;
    co_await line_up(dead, "killed next", 1, 1500ms);
    taken next;
    block(other, "killed next", {}, [&](error_code ec, taken t) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(t);
    });
    auto const both_wait = in_lines(first("killed next"), 2);
    co_await until(both_wait, "both in line");
    dead.front().kill();
    auto const began = steady::now();
    co_await blocker.release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 10s);  // the lease of all others is 30 s
    co_await next.release();
    co_await nothing_left(c, "killed next");
  };
  w.run(body);
}

TEST_P(EveryKind, P4AKilledWaiterCostsNothing) {
  NEEDS_A_CONNECTION();
  NEEDS(claims);
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 25s;
    client c{w.ctx.get_executor(), settings};
    client other{w.ctx.get_executor(), settings};
    co_await connect(other);
    taken blocker = co_await blocked_by(c, "killed waiter");
    auto const before = server().listening();
    child dead{server().url(), childs("killed waiter"), 30s, 25s};
    auto const dead_waits = in_lines(first("killed waiter"), 1);
    co_await until(dead_waits, "the child in line");
    taken next;
    block(other, "killed waiter", {}, [&](error_code ec, taken t) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(t);
    });
    auto const both_wait = in_lines(first("killed waiter"), 2);
    co_await until(both_wait, "both in line");
    dead.kill();
    auto const noticed = [&] { return server().listening() == before; };
    co_await until(noticed, "the server to notice");
    auto const began = steady::now();
    co_await blocker.release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 10s);  // a claim is 25 s
    co_await next.release();
  };
  w.run(body);
}

/// Or its session, where there is no claim.
TEST_P(EveryKind, P4AFrozenNextInLineCostsAtMostTheClaim) {
  NEEDS_A_CONNECTION();
  bool const claims = server().can().claims;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 1500ms;
    client c{w.ctx.get_executor(), settings};
    client other{w.ctx.get_executor(), settings};
    taken blocker = co_await blocked_by(c, "frozen next");
    std::deque<child> line;
    co_await line_up(line, "frozen next", 1, claims ? std::chrono::milliseconds{30s} : 1500ms);
    child& frozen = line.front();
    taken next;
    block(other, "frozen next", {}, [&](error_code ec, taken t) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(t);
    });
    auto const both_wait = in_lines(first("frozen next"), 2);
    co_await until(both_wait, "both in line");
    frozen.stop();
    auto const began = steady::now();
    co_await blocker.release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_GE(steady::now() - began, claims ? 1400ms : 1s);  // a session sends something in each sixth of it
    EXPECT_LT(steady::now() - began, 10s);                   // the lease is 30 s
    EXPECT_EQ(c.stats().kicks, claims ? 1u : 0u);
    frozen.cont();
    co_await next.release();
    frozen.wait_for("held");  // it finds its claim over, or its session, and asks again
  };
  w.run(body);
}

// The server believes in their connections. Readers are let in together, and cost one claim together. Sessions end side
// by side.
TEST_P(EveryKind, P4ThreeFrozenNextInLineCostAClaimEach) {
  NEEDS_A_CONNECTION();
  bool const claimed = server().can().claims;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 400ms;
    client c{w.ctx.get_executor(), settings};
    client other{w.ctx.get_executor(), settings};
    taken blocker = co_await blocked_by(c, "frozen line");
    std::deque<child> frozen;
    co_await line_up(frozen, "frozen line", 3, claimed ? std::chrono::milliseconds{30s} : 1500ms);
    taken next;
    block(other, "frozen line", {}, [&](error_code ec, taken t) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(t);
    });
    auto const all_wait = in_lines(first("frozen line"), 4);
    co_await until(all_wait, "all in line");
    for (child& one : frozen) one.stop();
    auto const began = steady::now();
    co_await blocker.release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    int const claims = !claimed ? 0 : kind().together ? 1 : 3;
    if (!claimed) EXPECT_LT(steady::now() - began, 10s);  // the lease of all others is 30 s
    else EXPECT_LT(steady::now() - began, claims * 400ms + 1s);
    EXPECT_GE(steady::now() - began, claims * 350ms);
    std::uint64_t const kicks = c.stats().kicks, checks = other.stats().safety_checks,
                        each = static_cast<std::uint64_t>(claims);
    if (claims < 3 || is_mutex()) {
      EXPECT_EQ(kicks, each);
    } else {
      // The release of a dead owner of a permit tells those in line when the claim ends that it has just given
      // (lua/permit_release.lua). So the first claim is ended by the kick, and each of the others by the kick or by the
      // check of the last in line, whichever is first.
      EXPECT_TRUE(kicks >= 1 && kicks <= each) << kicks;
      EXPECT_TRUE(kicks + checks >= each && checks <= 2 * each) << kicks << " kicks, " << checks << " checks";
    }
    co_await next.release();
  };
  w.run(body);
}

// To the PUBLISH of a releasing client they seem subscribed. Once the first did not take it, the others are checked
// exactly.
TEST_P(EveryKind, P4FiveDeadInLineCostOneClaimWhereAToolWatchesAllChannels) {
  if (!server().is_deceived_by_a_listener()) GTEST_SKIP() << "nobody is deceived by a listener there";
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 1s;
    client c{w.ctx.get_executor(), settings};
    client other{w.ctx.get_executor(), settings};
    taken blocker = co_await blocked_by(c, "watched line");
    std::deque<child> dead;
    co_await line_up(dead, "watched line", 5);
    taken next;
    block(other, "watched line", {}, [&](error_code ec, taken t) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(t);
    });
    auto const all_wait = in_lines(first("watched line"), 6);
    co_await until(all_wait, "all in line");
    for (child& one : dead) one.kill();
    auto const began = steady::now();
    co_await blocker.release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    // One claim, and time for a busy machine; five of them before.
    EXPECT_LT(steady::now() - began, 1s + 2s);
    co_await next.release();
  };
  w.run(body);
}

TEST_P(EveryKind, P9AHolderFrozenForLongerThanItsLeaseIsToldBeforeItGoesOn) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    child frozen{server().url(), childs("frozen"), 600ms};
    frozen.wait_for("held");
    frozen.say("use");
    EXPECT_EQ(frozen.line(), "use valid");
    frozen.stop();
    acquire_options const patience{.wait = 5s};
    taken next = co_await blocked_by(c, "frozen", {patience});
    EXPECT_TRUE(next.valid());
    frozen.say("use");
    frozen.cont();
    std::string one = frozen.line(), two = frozen.line();
    if (two.starts_with("lost")) std::swap(one, two);
    EXPECT_TRUE(one.starts_with("lost")) << one;
    EXPECT_EQ(two, "use invalid");
    frozen.say("release");
    EXPECT_EQ(frozen.line(), "released 0");
    EXPECT_TRUE(next.valid());
    co_await next.release();
  };
  w.run(body);
}

// P11. A wait that ends while the server is silent says so; what it has asked for is taken back in the background.
TEST_P(EveryKind, P11AWaitEndsInTimeAndSaysThatTheServerIsSilent) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    struct one_wait {
      std::string what;
      error_code why = {};
      steady::duration took = {};
      bool told = false;
    };
    client c{w.ctx.get_executor(), steady_config(server())}, fresh{w.ctx.get_executor(), steady_config(server())};
    co_await connect(c);
    taken blocker = co_await blocked_by(c, "silent, in line");
    one_wait asks{"silent"}, stands{"silent, in line"}, connects{"silent, first connection"};
    auto const wait = [&](client& of, one_wait& one, request r) {
      take(of, one.what, r, [&one, began = steady::now()](error_code ec, taken) {
        one.why = ec;
        one.took = steady::now() - began;
        one.told = true;
      });
    };
    client other{w.ctx.get_executor(), steady_config(server())};
    co_await connect(other);
    wait(other, stands, {.how = {.wait = 1500ms}});
    auto const in_line = in_lines(first(stands.what), 1);
    co_await until(in_line, "the waiter in line");
    server().stop();
    wait(c, asks, {.how = {.wait = 500ms}});
    wait(fresh, connects, {.how = {.wait = 500ms}});
    auto const all = [&] { return asks.told && stands.told && connects.told; };
    co_await until(all, "the ends of all waits");
    server().cont();
    for (one_wait const* one : {&asks, &stands, &connects}) {
      EXPECT_EQ(one->why, errc::unreachable) << one->what << ": " << one->why.message();
      EXPECT_GT(one->why.message().size(), make_error_code(errc::unreachable).message().size())
          << one->what << " says no reason";
      // A few usual round trips, and time for a busy machine. A command time-out is 3 s.
      EXPECT_LT(one->took, (one == &stands ? 1500ms : 500ms) + 1500ms) << one->what;
    }
    co_await blocker.release();
    for (one_wait const* one : {&asks, &stands, &connects}) co_await nothing_left(c, one->what);
    co_await nothing_left(other, stands.what);
  };
  w.run(body, 60s);
}

TEST_P(EveryKind, ALivingHoldIsRenewedAndAFixedLeaseEnds) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    taken renewed = co_await taken_by(c, "renewed");
    request const for_once{.options = {.lease = 2s, .renew = false}};
    taken fixed = co_await taken_by(c, "fixed", for_once);
    error_code lost;
    fixed.when_lost([&](error_code ec) { lost = ec; });
    auto const ended = [&] { return lost.failed() && all_free("fixed"); };
    co_await until(ended, "the end of the fixed lease");
    EXPECT_TRUE(renewed.valid());
    EXPECT_EQ(lost, errc::lost) << lost.message();
    EXPECT_FALSE(fixed.valid());
    EXPECT_FALSE(all_free("renewed"));
    bool const was_held = co_await renewed.release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_P(EveryKind, P5TheLineIsServedInOrderAlsoAfterAReconnect) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (bool const cut : {false, true}) {
      if (cut && server().is_here()) break;
      std::string const what = cut ? "cut" : "order";
      std::deque<client> clients;
      for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
      taken blocker = co_await blocked_by(clients[0], what);
      std::vector<std::size_t> order;
      std::deque<taken> holds;
      for (std::size_t i = 1; i < 4; ++i) {
        take(clients[i], what, {}, [&, i](error_code ec, taken t) {
          EXPECT_FALSE(ec) << ec.message();
          order.push_back(i);
          holds.push_back(std::move(t));
        });
        auto const there = in_lines(first(what), static_cast<std::int64_t>(i));
        co_await until(there, "one more in line");
      }
      if (cut) {
        server().cut();
        // A waiter that does not listen yet loses its turn, and is asked for again with its old ticket. Later requests
        // come after it.
        for (client& c : clients) {
          co_await connect(c);
          EXPECT_EQ(c.stats().connects, 2u);
        }
        EXPECT_TRUE(blocker.valid());
      }
      bool const was_held = co_await blocker.release();
      EXPECT_TRUE(was_held);
      for (std::size_t i = 0; i < 3; ++i) {
        auto const served = [&] { return order.size() > i; };
        co_await until(served, "the next");
        EXPECT_TRUE(holds[i].valid());
        if (kind().together) continue;
        EXPECT_EQ(order.back(), i + 1);
        co_await holds[i].release();
      }
      if (!kind().together) continue;
      for (taken& t : holds) co_await t.release();
    }
  };
  w.run(body);
}

TEST_P(EveryKind, P6ATimeOutInAnyStateLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    enum state { not_connected, not_answered, in_line_, granted };
    for (state const at : {not_connected, not_answered, in_line_, granted}) {
      SCOPED_TRACE(static_cast<int>(at));
      bool const silent = at == not_connected || at == not_answered;
      if (silent && server().is_here()) continue;
      std::string const what = "late " + std::to_string(at);
      // a busy server answers within a third of such a lease
      client holder{w.ctx.get_executor(), quick(server(), 9s)};
      client c{w.ctx.get_executor(), quick(server(), 9s)};
      if (at != not_connected) co_await connect(c);
      taken blocker;
      if (at == in_line_) blocker = co_await blocked_by(holder, what);
      if (silent) server().stop();
      acquire_options const briefly{.wait = at == granted ? std::chrono::milliseconds{10s} : 100ms};
      bool done = false;
      error_code code;
      taken got;
      auto const began = steady::now();
      take(c, what, {briefly}, [&](error_code ec, taken t) {
        done = true;
        code = ec;
        got = std::move(t);
      });
      auto const ended = [&] { return done; };
      co_await until(ended, "the end");
      EXPECT_LT(steady::now() - began, 8s);  // offline_timeout is 10 s
      if (silent) server().cont();
      if (at == granted) {
        EXPECT_TRUE(got.valid()) << code.message();
        co_await got.release();
      } else {
        EXPECT_TRUE(code == errc::timed_out || (silent && code == errc::unreachable)) << code.message();
        EXPECT_FALSE(got.valid());
      }
      if (at == in_line_) {
        auto const left = in_lines(first(what), 0);
        co_await until(left, "the line left");
        EXPECT_TRUE(blocker.valid());
        co_await blocker.release();
      }
      co_await nothing_left(c, what);
    }
  };
  w.run(body, 60s);
}

TEST_P(EveryKind, P6ACancellationInAnyStateLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    enum state { not_written, not_answered, in_line_, granted };
    for (auto const type :
         {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
      for (state const at : {not_written, not_answered, in_line_, granted}) {
        std::string const what = "cancelled " + std::to_string(at) + std::to_string(static_cast<int>(type));
        SCOPED_TRACE(what);
        client holder{w.ctx.get_executor(), steady_config(server())};
        client c{w.ctx.get_executor(), steady_config(server())};
        if (at != not_written) co_await connect(c);
        taken blocker;
        if (at == in_line_) blocker = co_await blocked_by(holder, what);
        // the first acquire of a lock may be two requests, of which the second is not sent any more
        if (at == not_answered) {
          taken before = co_await taken_by(c, what);
          co_await before.release();
        }
        asio::cancellation_signal signal;
        bool done = false;
        error_code code;
        taken got;
        request r;
        r.slot = signal.slot();
        take(c, what, r, [&](error_code ec, taken t) {
          done = true;
          code = ec;
          got = std::move(t);
        });
        if (at == in_line_) {
          auto const there = in_lines(first(what), 1);
          co_await until(there, "in line");
        }
        auto const ended = [&] { return done; };
        if (at == granted) co_await until(ended, "granted");
        signal.emit(type);
        co_await until(ended, "the end");
        bool const goes_on = at == not_answered && type == asio::cancellation_type::total;
        if (at == granted || goes_on) {
          EXPECT_TRUE(got.valid()) << code.message();
          co_await got.release();
        } else {
          EXPECT_EQ(code, asio::error::operation_aborted) << code.message();
          EXPECT_FALSE(got.valid());
        }
        if (at == in_line_) co_await blocker.release();
        co_await nothing_left(c, what);
      }
    }
  };
  w.run(body, 60s);
}

TEST_P(EveryKind, P10OneRoundTripEachWayAndOnePushForEachThatIsWoken) {
  NEEDS_A_CONNECTION();
  NEEDS(counts);
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    for (client& c : clients) co_await connect(c);
    std::vector<std::string> ids;
    for (client& c : clients) ids.push_back(c.id());
    auto const locks = static_cast<std::int64_t>(kind().locks);
    server().begin_to_count(ids);
    taken alone = co_await taken_by(clients[0], "counted");
    EXPECT_EQ(server().counted().requests, 1);  // also of several locks
    co_await alone.release();
    EXPECT_EQ(server().counted().requests, 1 + locks);  // side by side: no answer is waited for in between
    EXPECT_EQ(server().counted().pushes, 0);

    taken blocker = co_await blocked_by(clients[0], "counted");
    std::deque<taken> holds;
    for (std::size_t i = 1; i < 4; ++i) {
      take(clients[i], "counted", {}, [&](error_code ec, taken t) {
        EXPECT_FALSE(ec) << ec.message();
        holds.push_back(std::move(t));
      });
    }
    auto const all_wait = in_lines(first("counted"), 3);
    co_await until(all_wait, "all in line");
    server().begin_to_count(ids);
    co_await blocker.release();
    std::size_t const woken = kind().together ? 3 : 1;
    auto const served = [&] { return holds.size() == woken; };
    co_await until(served, "the woken waiters");
    traffic const seen = server().counted();
    EXPECT_EQ(seen.pushes, static_cast<std::int64_t>(woken));
    EXPECT_EQ(seen.requests, locks);  // the release; of several locks also the acquire of the next
    for (std::size_t i = 0; i < 3; ++i) {
      auto const next = [&] { return holds.size() > i; };
      co_await until(next, "the next");
      co_await holds[i].release();
    }
  };
  w.run(body);
}

class DeadMultiLock : public with_each_server<DeadMultiLock> {};

INSTANTIATE_TEST_SUITE_P(Over, DeadMultiLock, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(DeadMultiLock, P4AProcessKilledBetweenItsLocksKeepsWhatItHasForItsLeaseAndNothingElse) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    mutex a{c, "between a"}, b{c, "between b"};
    hold second = co_await b.async_acquire();
    child dead{server().url(), "@multi/between", 2s};
    // Its try of the second may be seen in line, too, and sooner than the first is its own.
    auto const waits = [&] { return server().is_taken("between a") && in_line(server(), "between b") == 1; };
    co_await until(waits, "the child with the first, in line for the second");
    hold busy = co_await a.async_try_acquire();
    EXPECT_FALSE(busy);
    dead.kill();
    auto const began = steady::now();
    hold first = co_await a.async_acquire();
    EXPECT_LT(steady::now() - began, 10s);  // a lease of 2 s; the waiter's own is 30 s
    EXPECT_TRUE(second.valid());
    co_await second.async_release();
    hold again = co_await b.async_acquire();
    EXPECT_LT(steady::now() - began, 12s);
    EXPECT_TRUE(first.valid() && again.valid());
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
