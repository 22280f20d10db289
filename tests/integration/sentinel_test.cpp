// The lock at a master that Sentinels name: real Sentinels, real failovers.

#include "integration/sentinel_fixture.hpp"

#include <conch/stats.hpp>

namespace conch::test {
namespace {

/// Default times, so that a failover does not look like a lost lock.
config through(std::string url, journal const* log = nullptr) {
  config c;
  c.url = std::move(url);
  c.single_threaded = true;
  c.offline_timeout = 60s;
  if (log != nullptr) c.log = log->hook();
  return c;
}

TEST(Sentinel, ALockIsAtTheMasterThatOneOfThemNames) {
  sentinel_set all{{.replicas = 1}};
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), through(all.url({1}), &log)};
    mutex m{c, "m"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    redis_probe probe{all.server(0)};
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("m")}), 1);
    auto const others = [&] {
      return connections(all.sentinel(0), "conch") == 1 && connections(all.sentinel(2), "conch") == 1;
    };
    co_await until(others, "connections to the Sentinels that the first one named");
    EXPECT_TRUE(log.contains("the master 'm' is at 127.0.0.1:" + std::to_string(all.server(0).port()))) << *log.text;
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(c.stats().master_switches, 0u);
  };
  w.run(body, 60s);
}

TEST(Sentinel, D17AllAreOffALiveOldMasterAtOnceAndNoHoldIsLost) {
  sentinel_set all;
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through(all.url(), &log);
    settings.client_name = "locks";
    client holds{w.ctx.get_executor(), settings}, waits{w.ctx.get_executor(), settings};
    mutex a{holds, "kept"}, b{waits, "kept"};
    semaphore s{holds, "permits", 2};
    hold first = co_await a.async_acquire();
    hold permit = co_await s.async_acquire();
    hold second;
    b.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      second = std::move(h);
    });
    redis_probe at_old{all.server(0)};
    auto const in_line_there = [&] { return in_line(at_old, "kept") == 1; };
    co_await until(in_line_there, "the waiter in line");
    EXPECT_EQ(connections(all.server(0), "locks"), 2u);

    switch_watch watch{all};
    all.fail_over();
    time_point const before = first.deadline(), before_permit = permit.deadline();
    auto const gone = [&] { return watch.seen() && connections(all.server(0), "locks") == 0; };
    co_await until(gone, "the last client off the old master", 60s);
    auto const off = steady::now() - watch.first();
    std::printf("A3: nobody at the old master %.0f ms after the first +switch-master\n", ms(off));
    EXPECT_LT(off, 5s) << "by itself the old master would cut them after 10 s";

    auto const renewed = [&] { return first.deadline() > before && permit.deadline() > before_permit; };
    co_await until(renewed, "renewals at the new master", 8s);  // the next of themselves come after 10 s

    EXPECT_TRUE(first.valid());
    EXPECT_TRUE(permit.valid());
    std::size_t const now_master = all.master();
    EXPECT_NE(now_master, 0u);
    redis_probe at_new{all.server(now_master)};
    auto const in_line_here = [&] { return in_line(at_new, "kept") == 1; };
    co_await until(in_line_here, "the waiter in line at the new master");
    EXPECT_EQ(holds.stats().losses, 0u);
    EXPECT_EQ(holds.stats().master_switches, 1u);
    EXPECT_EQ(holds.stats().failover.count, 1u);
    std::int64_t const fence = first.fence();
    bool const was_held = co_await first.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return second.valid(); };
    co_await until(served, "the grant of the waiter");
    EXPECT_GT(second.fence(), fence);
  };
  w.run(body, 180s);
}

/// A Sentinel ends all connections to a server that it makes a replica, also those of a test. Then the answer is
/// `otherwise`.
template <class Ask, class Answer>
Answer in_spite_of_its_sentinels(Ask const& ask, Answer otherwise) {
  try {
    return ask();
  } catch (std::runtime_error const&) {
    return otherwise;
  }
}

TEST(Sentinel, D17NobodyGoesBackToAMasterThatStoodStillAndGoesOn) {
  sentinel_set all{{.down_after = 1s}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through(all.url());
    settings.client_name = "locks";
    client holds{w.ctx.get_executor(), settings}, asks{w.ctx.get_executor(), settings};
    mutex a{holds, "kept"}, b{asks, "asked for"};
    hold kept = co_await a.async_acquire();
    hold warm = co_await b.async_acquire();  // so its connection is there, and the next acquire is written at once
    co_await warm.async_release();
    redis_probe at_old{all.server(0), 30s};
    at_old.command({"PUBLISH", "mark", "x"});  // is replicated: WAIT is for all before it
    EXPECT_EQ(at_old.command({"WAIT", "2", "5000"}), "2");
    all.server(0).stop();
    switch_watch watch{all};
    time_point const before = kept.deadline();
    // It is in the buffer of the paused master.
    std::vector<std::int64_t> granted;
    hold got;
    b.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      granted.push_back(h.fence());
      got = std::move(h);
    });
    auto const moved = [&] { return watch.seen() && kept.deadline() > before && !granted.empty(); };
    co_await until(moved, "the hold renewed and the acquire granted at the new master", 90s);
    std::size_t const now_master = all.master();
    EXPECT_NE(now_master, 0u);
    EXPECT_EQ(connections(all.server(now_master), "locks"), 2u);
    auto const runs_there = holds.stats().master_switches + asks.stats().master_switches;

    all.server(0).cont();
    // What was in its buffers before this is done, whatever came of it.
    auto const on_old = [&] {
      return in_spite_of_its_sentinels([&] { return connections(all.server(0), "locks"); }, std::size_t{0});
    };
    in_spite_of_its_sentinels([&] { return at_old.command({"PING"}); }, std::string{});
    auto const off = [&] { return on_old() == 0; };
    co_await until(off, "the last connection off the old master", 30s);
    // It takes itself for the master until the Sentinels tell it: nobody asks it anything.
    auto const demoted = [&] {
      return in_spite_of_its_sentinels(
          [&] {
            return redis_probe{all.server(0), 10s}.command({"ROLE"}).starts_with("[slave");
          },
          false);
    };
    while (!demoted()) {
      EXPECT_EQ(on_old(), 0u);
      co_await pause_for(50ms);
    }
    EXPECT_EQ(granted.size(), 1u) << "the grant in the buffer has no owner";
    EXPECT_TRUE(got.valid());
    EXPECT_TRUE(kept.valid());
    EXPECT_EQ(holds.stats().losses + asks.stats().losses, 0u);
    EXPECT_EQ(holds.stats().master_switches + asks.stats().master_switches, runs_there);
    bool const was_held = co_await got.async_release();
    EXPECT_TRUE(was_held);
    bool const was_kept = co_await kept.async_release();
    EXPECT_TRUE(was_kept);
  };
  w.run(body, 180s);
}

/// One client with a coroutine that waits for the lock, and notes when it had it.
struct waiter {
  waiter(world& w, config const& settings, std::string const& name) : c{w.ctx.get_executor(), settings}, m{c, name} {}

  template <class Told>
  void wait(Told told) {
    m.async_acquire([this, told](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      token = h.fence();
      told();  // the hold is given back behind it
    });
  }

  client c;
  mutex m;
  std::int64_t token = 0;
};

/// A2. The master is killed while a lock is held there and others wait for it.
void kill_the_master_and_serve(std::size_t waiters) {
  sentinel_set all{{.down_after = 1s}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config const settings = through(all.url());
    client holds{w.ctx.get_executor(), settings};
    mutex m{holds, "served"};
    hold held = co_await m.async_acquire();
    std::vector<std::unique_ptr<waiter>> line;
    std::vector<std::size_t> served;
    std::optional<steady::time_point> first_served;
    redis_probe at_old{all.server(0)};
    for (std::size_t i = 0; i < waiters; ++i) {
      line.push_back(std::make_unique<waiter>(w, settings, "served"));
      line.back()->wait([&served, &first_served, i] {
        if (!first_served) first_served = steady::now();
        served.push_back(i);
      });
      auto const in_line_there = [&] { return in_line(at_old, "served") == static_cast<std::int64_t>(i + 1); };
      co_await until(in_line_there, "a waiter in line");
    }
    at_old.command({"WAIT", "2", "5000"});
    std::int64_t const before = held.fence();
    switch_watch watch{all};
    all.server(0).kill();
    // it waits for the new master, for command_timeout at most
    auto const released = co_await held.async_release(as_tuple);
    error_code const ec = std::get<0>(released);
    EXPECT_TRUE(!ec || ec == errc::unreachable) << ec.message();
    auto const all_served = [&] { return served.size() == waiters; };
    co_await until(all_served, "all waiters served", 120s);
    auto const after = std::chrono::duration<double, std::milli>(*first_served - watch.first());
    std::size_t const out_of_order = static_cast<std::size_t>(std::count_if(
        served.begin(), served.end(), [&, n = std::size_t{0}](std::size_t who) mutable { return who != n++; }));
    std::printf("A2: first grant %.0f ms after the first +switch-master; %zu waiters, %zu not at their own place\n",
                after.count(), waiters, out_of_order);
    EXPECT_TRUE(watch.seen());
    EXPECT_LT(after, 10s) << "at once, and not by a safety check";
    std::int64_t last = before;
    for (std::size_t const who : served) {
      EXPECT_GT(line[who]->token, last) << "P2";
      last = line[who]->token;
    }
  };
  w.run(body, 240s);
}

TEST(Sentinel, P4WhoWaitsIsServedAtTheNewMasterWhenTheOldOneIsKilled) { kill_the_master_and_serve(5); }

TEST(SlowSentinel, P4TwoHundredAreServedAtTheNewMasterWhenTheOldOneIsKilled) { kill_the_master_and_serve(200); }

/// What the lock is for: it refuses who shows a smaller token than it has seen.
struct resource {
  std::int64_t value = 0, seen = 0, refused = 0;

  bool admits(std::int64_t token) {
    if (token < seen) return ++refused, false;
    seen = token;
    return true;
  }
};

asio::awaitable<void> count_at(client* c, resource* r, std::int64_t* written, bool const* ended) {
  mutex m{*c, "counted"};
  while (!*ended) {
    auto got = co_await m.async_acquire(as_tuple);
    EXPECT_FALSE(std::get<0>(got)) << std::get<0>(got).message();
    hold& mine = std::get<1>(got);
    if (r->admits(mine.fence())) {
      std::int64_t const read = r->value;
      co_await pause_for(2ms);
      if (mine.valid() && r->admits(mine.fence())) {
        r->value = read + 1;
        ++*written;
      }
    }
    auto released = co_await mine.async_release(as_tuple);
    (void)released;  // it may have been lost
  }
}

TEST(SlowSentinel, P2TwentyFailoversWithALiveOldMasterLoseNoIncrement) {
  sentinel_set all;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through(all.url());
    settings.client_name = "counts";
    constexpr std::size_t clients = 5, failovers = 20;
    std::vector<std::unique_ptr<client>> each;
    resource r;
    std::int64_t written = 0;
    bool ended = false;
    std::size_t running = clients;
    for (std::size_t i = 0; i < clients; ++i) {
      each.push_back(std::make_unique<client>(w.ctx.get_executor(), settings));
      asio::co_spawn(w.ctx, count_at(each.back().get(), &r, &written, &ended), [&running](std::exception_ptr e) {
        EXPECT_FALSE(e);
        --running;
      });
    }
    double slowest = 0;
    for (std::size_t n = 0; n < failovers; ++n) {
      std::size_t const old = all.master();
      switch_watch watch{all};
      std::thread asks{[&all] { all.fail_over(); }};
      auto const off = [&] { return watch.seen() && connections(all.server(old), "counts") == 0; };
      co_await until(off, "all off the old master", 120s);
      slowest = std::max(slowest, ms(steady::now() - watch.first()));
      asks.join();
      std::int64_t const before = written;
      auto const goes_on = [&] { return written > before + 10; };
      co_await until(goes_on, "increments at the new master", 60s);
    }
    ended = true;
    auto const all_ended = [&] { return running == 0; };
    co_await until(all_ended, "the end", 60s);
    std::uint64_t losses = 0;
    for (auto const& c : each) losses += c->stats().losses;
    std::printf(
        "A3: %zu failovers: nobody at the old master after %.0f ms at most; %lld increments written, counter %lld, "
        "%lld refused, %llu holds lost\n",
        failovers, slowest, static_cast<long long>(written), static_cast<long long>(r.value),
        static_cast<long long>(r.refused), static_cast<unsigned long long>(losses));
    EXPECT_EQ(r.value, written);
    EXPECT_LT(slowest, 8000) << "by itself the old master would cut them after 10 s";
  };
  w.run(body, 900s);
}

TEST(Sentinel, D21AHoldThatTheFailoverHasLostIsToldAtOnce) {
  sentinel_set all{{.replicas = 1, .down_after = 1s}};
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through(all.url(), &log);
    std::optional<steady::time_point> connected, told;
    std::string const there = "connected to redis://127.0.0.1:" + std::to_string(all.server(1).port());
    settings.log = [&, hook = settings.log](log_level level, std::string_view words) {
      hook(level, words);
      if (words == there) connected = steady::now();
    };
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "lost"};
    hold warm = co_await m.async_acquire();
    co_await warm.async_release();
    // What is written now does not reach the replica: it is promoted without the lock.
    all.server(1).stop();
    redis_probe at_old{all.server(0)};
    EXPECT_EQ(at_old.integer({"CLIENT", "KILL", "TYPE", "REPLICA"}), 1);
    hold held = co_await m.async_acquire();
    held.async_lost([&](error_code) { told = steady::now(); });
    all.server(0).kill();
    all.server(1).cont();
    auto const both = [&] { return told && connected; };
    co_await until(both, "the loss", 120s);
    std::printf("A4: the loss is told %.1f ms after the new connection\n", ms(*told - *connected));
    EXPECT_LT(*told - *connected, 5s) << "not at the next renewal, 10 s later";
    EXPECT_FALSE(held.valid());
    hold again = co_await m.async_acquire();
    EXPECT_GT(again.fence(), held.fence()) << "P2";
  };
  w.run(body, 180s);
}

TEST(Sentinel, D20AFailoverOfAnotherMasterDoesNotMoveUs) {
  sentinel_set all{{.replicas = 0, .sentinels = 1}};
  redis_server other{sentinel_set::server_options({})};
  redis_server its_replica{sentinel_set::server_options({"--replicaof", "127.0.0.1 " + std::to_string(other.port())})};
  wait_for_answer(its_replica, {"INFO", "replication"}, {"master_link_status:up"});
  redis_probe sentinel{all.sentinel(0), 10s};
  EXPECT_EQ(sentinel.command({"SENTINEL", "MONITOR", "m2", "127.0.0.1", std::to_string(other.port()), "1"}), "OK");
  wait_for_answer(all.sentinel(0), {"SENTINEL", "MASTER", "m2"}, {"num-slaves, 1"});
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), through(all.url())};
    mutex m{c, "m"};
    hold h = co_await m.async_acquire();
    switch_watch watch{all, "m2"};
    auto const end = steady::now() + 60s;
    while (sentinel.command({"SENTINEL", "FAILOVER", "m2"}) != "OK") {
      EXPECT_LT(steady::now(), end);
      co_await pause_for(20ms);
    }
    auto const seen = [&] { return watch.seen(); };
    co_await until(seen, "the failover of the other", 60s);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(c.stats().master_switches, 0u);
    EXPECT_EQ(c.stats().disconnects, 0u);
  };
  w.run(body, 120s);
}

TEST(Sentinel, SettingsThatDoNotFitAreRefusedByTheirNames) {
  struct row {
    std::string words;
    std::function<void(config&)> change;
  };
  asio::io_context ctx;
  for (auto const& [words, change] : std::vector<row>{
           {"master_name is empty", [](config& c) { c.url = "redis-sentinel://a"; }},
           {"master_name is 'n', and the URL names 'm'", [](config& c) { c.master_name = "n"; }},
           {"master_name must consist", [](config& c) { c.url = "redis-sentinel://a", c.master_name = "a b"; }},
           {"sentinel_username needs sentinel_password", [](config& c) { c.sentinel_username = "u"; }},
           {"sentinel_tls is set, but the Sentinels", [](config& c) { c.sentinel_tls.emplace(); }},
           {"sentinel_tls.key_file needs sentinel_tls.cert_file",
            [](config& c) { c.sentinels_over_tls = true, c.sentinel_tls.emplace().key_file = "k"; }},
           {"tls is set", [](config& c) { c.tls.ca_file = "x"; }},
           {"topology_refresh must be 100 ms to 1 h", [](config& c) { c.topology_refresh = 99ms; }},
           {"topology_refresh must be 100 ms to 1 h", [](config& c) { c.topology_refresh = 1h + 1ns; }},
           {"address_map: 'a'", [](config& c) { c.address_map["a"] = "b:1"; }},
           {"address_map['a:1'] must be host:port, and is 'b'", [](config& c) { c.address_map["a:1"] = "b"; }},
           {"address_map['a:1']", [](config& c) { c.address_map["a:1"] = "b:x"; }},
           {"address_map must have at most 1000",
            [](config& c) {
              for (int i = 1; i < 1002; ++i) c.address_map["a:" + std::to_string(i)] = "b:1";
            }},
           {"master_name is set, and the URL does not begin",
            [](config& c) { c.url = "redis://a", c.master_name = "m"; }},
           {"sentinel_password is set, and the URL", [](config& c) { c.url = "redis://a", c.sentinel_password = "p"; }},
           {"address_map is set, and the URL", [](config& c) { c.url = "redis://a", c.address_map["a:1"] = "b:1"; }},
           {"quorum.servers", [](config& c) { c.quorum.servers = {"redis-sentinel://a?sentinelMasterId=m"}; }},
       }) {
    config c;
    c.url = "redis-sentinel://a?sentinelMasterId=m";
    change(c);
    std::string what;
    error_code const ec = error_of([&] { client one{ctx.get_executor(), c}; }, &what);
    EXPECT_EQ(ec, errc::invalid_config) << words;
    EXPECT_NE(what.find(words), std::string::npos) << what;
  }
  config good;
  good.url = "redis-sentinel://a";
  good.master_name = "m";
  good.address_map["[::1]:1"] = "b:1";
  good.sentinels_over_tls = true;
  good.tls.ca_file = "x";
  EXPECT_FALSE(error_of([&] { client one{ctx.get_executor(), good}; }));
}

TEST(Sentinel, D20ANameThatNoneOfThemKnowsIsAnErrorAtOnce) {
  sentinel_set all{{.replicas = 0, .sentinels = 2}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through(all.url());
    settings.url.back() = 'x';
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "m"};
    auto const began = steady::now();
    auto got = co_await m.async_acquire(as_tuple);
    error_code const ec = std::get<0>(got);
    EXPECT_EQ(ec, errc::server_refused);
    EXPECT_NE(ec.message().find("the master 'x'"), std::string::npos) << ec.message();
    EXPECT_NE(ec.message().find("does not know this name"), std::string::npos) << ec.message();
    EXPECT_LT(steady::now() - began, 20s) << "no time-out";
  };
  w.run(body, 60s);
}

TEST(Sentinel, ThatAreAllGoneChangeNothingWhileTheMasterAnswers) {
  sentinel_set all{{.replicas = 0, .sentinels = 2}};
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through(all.url(), &log);
    settings.offline_timeout = 300ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "m"};
    hold h = co_await m.async_acquire();
    auto const both = [&] {
      return connections(all.sentinel(0), "conch") == 1 && connections(all.sentinel(1), "conch") == 1;
    };
    co_await until(both, "connections to both");
    all.sentinel(0).kill();
    all.sentinel(1).kill();
    std::string const words = "no Sentinel can be reached; still using the master 'm'";
    auto const told = [&] { return log.contains(words); };
    co_await until(told, "the line in the log");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    hold again = co_await m.async_acquire();
    EXPECT_TRUE(again.valid());
    co_await again.async_release();
    co_await pause_for(500ms);  // several attempts to reach them
    EXPECT_EQ(log.text->find(words), log.text->rfind(words)) << "once";

    all.server(0).kill();
    auto got = co_await m.async_acquire(as_tuple);
    error_code const ec = std::get<0>(got);
    EXPECT_EQ(ec, errc::unreachable);
    EXPECT_NE(ec.message().find("the master 'm' is at 127.0.0.1:"), std::string::npos) << ec.message();
    EXPECT_NE(ec.message().find("says redis-sentinel://127.0.0.1:"), std::string::npos) << ec.message();
  };
  w.run(body, 60s);
}

TEST(Sentinel, ThatCannotBeReachedAreNamedInTheError) {
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through("redis-sentinel://127.0.0.1:1,127.0.0.1:2?sentinelMasterId=m");
    settings.offline_timeout = 100ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "m"};
    auto got = co_await m.async_acquire(as_tuple);
    error_code const ec = std::get<0>(got);
    EXPECT_EQ(ec, errc::unreachable);
    for (std::string const said :
         {"redis-sentinel://127.0.0.1:1: Connection refused", "redis-sentinel://127.0.0.1:2: Connection refused"}) {
      EXPECT_NE(ec.message().find(said), std::string::npos) << ec.message();
    }
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
