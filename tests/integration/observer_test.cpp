// config::observer: what becomes of each acquire and each hold, of every kind of lock, wherever it lives. And
// config::top_k, which counts it.

#include "integration/family.hpp"
#include "integration/redlock_fixture.hpp"

#include <conch/observer.hpp>

#include <algorithm>
#include <map>
#include <vector>

namespace conch::test {
namespace {

using lines = std::vector<std::string>;

/// Writes down what it is told. One client at a time: its calls come one after the other.
class recorder : public observer {
 public:
  void on_waiting(lock_event const& e) override { add(e, "waiting"); }
  void on_queued(lock_event const& e) override { add(e, "queued"); }
  void on_retried(lock_event const& e, retry_reason why) override {
    add(e, "retried " + std::to_string(static_cast<int>(why)));
  }
  void on_granted(lock_event const& e, grant_path how, duration waited) override {
    char const* const paths[]{"answered", "pushed", "handed off"};
    EXPECT_GE(waited, duration::zero());
    fences[std::string{e.name}].push_back(e.fence);
    add(e, std::string{"granted "} + paths[static_cast<int>(how)]);
  }
  void on_not_granted(lock_event const& e, error_code why, duration) override {
    add(e, why ? "failed: " + why.message() : "busy");
  }
  void on_released(lock_event const& e, duration) override { add(e, "released"); }
  void on_lost(lock_event const& e, error_code why, duration) override {
    add(e, why == errc::closed ? "lost: closed" : "lost");
  }
  void on_detached(lock_event const& e, duration) override { add(e, "detached"); }

  lines of(std::string const& name) const {
    auto const found = all.find(name);
    return found == all.end() ? lines{} : found->second;
  }
  /// All of them, with commas.
  std::string story(std::string const& name) const {
    std::string text;
    for (std::string const& line : of(name)) text += (text.empty() ? "" : ", ") + line;
    return text;
  }
  bool has(std::string const& name, std::string const& line) const {
    lines const those = of(name);
    return std::find(those.begin(), those.end(), line) != those.end();
  }

  std::map<std::string, lines> all;
  std::map<std::string, std::vector<std::int64_t>> fences;
  std::map<std::string, std::vector<lock_event>> events;  // their names are not to be read

 private:
  void add(lock_event const& e, std::string what) {
    EXPECT_NE(e.acquire, 0u);
    EXPECT_LE(e.at, clock::now());
    if (!e.note.empty()) what += " (" + std::string{e.note} + ')';
    all[std::string{e.name}].push_back(std::move(what));
    events[std::string{e.name}].push_back(e);
  }
};

struct at_work {
  explicit at_work(config c) : saw{std::make_shared<recorder>()}, settings{std::move(c)} { settings.observer = saw; }
  std::shared_ptr<recorder> saw;
  config settings;
};

class Observer : public with_server<Observer> {
 protected:
  asio::awaitable<void> seen(recorder const& by, std::string name, std::string what) {
    auto const all = [&] { return by.story(name).size() >= what.size(); };
    co_await until(all, "what becomes of " + name);
    EXPECT_EQ(by.story(name), what);
  }
};

class ObserverOfEachKind : public with_each_kind<ObserverOfEachKind> {
 protected:
  lock_kind its_kind() {
    static std::map<std::string, lock_kind> const kinds{{"mutex", lock_kind::mutex},
                                                        {"semaphore", lock_kind::semaphore},
                                                        {"writer", lock_kind::shared_mutex},
                                                        {"striped", lock_kind::striped_mutex},
                                                        {"reentrant", lock_kind::reentrant_mutex}};
    return kinds.at(kind().name);
  }

  asio::awaitable<void> hold_wait_and_try(config other_settings, at_work& mine, std::string what) {
    client other{w.ctx.get_executor(), other_settings};
    client c{w.ctx.get_executor(), mine.settings};
    hold free_one = co_await kind().acquire(c, what);
    std::int64_t const first = free_one.fence();
    co_await free_one.async_release();
    hold theirs = co_await kind().acquire(other, what);
    hold none = co_await kind().try_acquire(c, what);
    EXPECT_FALSE(none);
    hold got;
    kind().acquire(c, what, acquire_options{}, {}, [&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      got = std::move(h);
    });
    recorder const& saw = *mine.saw;
    auto const queued = [&] { return saw.has(what, "queued"); };
    co_await until(queued, "that it is in line");
    co_await theirs.async_release();
    auto const granted = [&] { return got.valid(); };
    co_await until(granted, "the grant");
    std::int64_t const second = got.fence();
    got = hold{};  // its destructor releases it
    auto const all = [&] { return saw.of(what).size() >= 9; };
    co_await until(all, "all that became of it");
    EXPECT_EQ(saw.story(what),
              "waiting, granted answered, released, waiting, busy, waiting, queued, granted pushed, released");
    EXPECT_EQ(saw.fences.at(what).front(), first);
    EXPECT_EQ(saw.fences.at(what).back(), second);
    auto const& events = saw.events.at(what);
    EXPECT_EQ(events[0].acquire, events[2].acquire);
    EXPECT_EQ(events[5].acquire, events[8].acquire);
    EXPECT_EQ(events[0].fence, 0);
    EXPECT_EQ(events[8].fence, second);
    for (lock_event const& e : events) {
      EXPECT_EQ(e.kind, its_kind()) << kind().name;
      EXPECT_EQ(e.shared, kind().name == "semaphore" || kind().name == "striped") << kind().name;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Of, ObserverOfEachKind, testing::ValuesIn(every_kind()), kind_name);

TEST_P(ObserverOfEachKind, IsToldOfHoldsWaitsAndTries) {
  at_work mine{quick(server(), 9s)};
  auto const body = [&]() -> asio::awaitable<void> {
    co_await hold_wait_and_try(quick(server(), 9s), mine, name("observed"));
  };
  w.run(body);
}

TEST_P(ObserverOfEachKind, IsToldTheSameInMemory) {
  std::string const url = "memory://observed " + kind().name;
  at_work mine{quick(url, 9s)};
  auto const body = [&]() -> asio::awaitable<void> {
    co_await hold_wait_and_try(quick(url, 9s), mine, name("observed"));
  };
  w.run(body);
}

TEST_F(Observer, IsToldTheNote) {
  at_work mine{steady_config(server())};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), mine.settings};
    mutex m{c, "noted"};
    acquire_options with_note;
    with_note.note = "order 17";
    hold h = co_await m.async_acquire(with_note);
    co_await h.async_release();
    co_await seen(*mine.saw, "noted", "waiting (order 17), granted answered (order 17), released (order 17)");
  };
  w.run(body);
}

TEST_F(Observer, OfAQuorumIsToldOnceAndNotByEachServer) {
  redlock_servers servers;
  at_work mine{servers.calm()};
  auto const body = [&]() -> asio::awaitable<void> {
    client other{w.ctx.get_executor(), servers.calm()};
    client c{w.ctx.get_executor(), mine.settings};
    mutex theirs{other, "quorum"};
    mutex m{c, "quorum"};
    hold held = co_await theirs.async_acquire();
    hold got;
    m.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      got = std::move(h);
    });
    auto const queued = [&] { return mine.saw->has("quorum", "queued"); };
    co_await until(queued, "that it is in line");
    co_await held.async_release();
    auto const granted = [&] { return got.valid(); };
    co_await until(granted, "the grant");
    std::int64_t const fence = got.fence();
    co_await got.async_release();
    auto const done = [&] { return mine.saw->has("quorum", "released"); };
    co_await until(done, "the release");
    lines told = mine.saw->of("quorum");
    std::erase_if(told, [](std::string const& one) { return one.starts_with("retried"); });
    EXPECT_EQ(told.size(), 4u);
    EXPECT_EQ(told[0], "waiting");
    EXPECT_EQ(told[1], "queued");
    EXPECT_TRUE(told[2].starts_with("granted")) << told[2];
    EXPECT_EQ(told[3], "released");
    EXPECT_EQ(mine.saw->fences.at("quorum").size(), 1u);
    EXPECT_EQ(mine.saw->fences.at("quorum").front(), fence);
  };
  w.run(body);
}

TEST_F(Observer, TheLevelsOfAnOwnerAreOneHoldAndAMultiLockIsEachOfItsLocks) {
  at_work mine{quick(server(), 9s)};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), mine.settings};
    reentrant_shared_mutex m{c, "levels"};
    owner const me;
    reentrant_hold outer = co_await m.async_acquire_shared(me);
    reentrant_hold inner = co_await m.async_acquire_shared(me);
    co_await inner.async_release();
    co_await outer.async_release();
    co_await seen(*mine.saw, "levels", "waiting, granted answered, released");
    EXPECT_TRUE(mine.saw->events.at("levels").front().shared) << "a reader";

    std::vector<mutex> locks;
    locks.emplace_back(c, "one");
    locks.emplace_back(c, "two");
    multi_lock both{std::move(locks)};
    multi_hold h = co_await both.async_acquire();
    co_await h.async_release();
    co_await seen(*mine.saw, "one", "waiting, granted answered, released");
    co_await seen(*mine.saw, "two", "waiting, granted answered, released");
  };
  w.run(body);
}

TEST_F(Observer, IsToldOfALossAndOfATimeOut) {
  at_work mine{quick(server(), 9s)};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), mine.settings};
    client other{w.ctx.get_executor(), quick(server(), 9s)};
    mutex m{c, "forced"};
    mutex theirs{other, "forced"};
    hold h = co_await m.async_acquire();
    co_await theirs.async_force_release();
    co_await h.async_lost(as_tuple);
    co_await seen(*mine.saw, "forced", "waiting, granted answered, lost");
    co_await h.async_release(as_tuple);
    hold again = co_await theirs.async_acquire();
    auto r = co_await m.async_acquire({.wait = short_wait}, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::timed_out);
    auto const told = [&] { return mine.saw->of("forced").size() >= 6; };
    co_await until(told, "the time-out");
    lines const all = mine.saw->of("forced");
    EXPECT_EQ(all[3], "waiting");
    EXPECT_TRUE(all.back().starts_with("failed: ")) << all.back();
  };
  w.run(body);
}

TEST_F(Observer, AnAcquireThatSurvivesALostConnectionIsRetried) {
  at_work mine{quick(server(), 9s)};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), mine.settings};
    client other{w.ctx.get_executor(), quick(server(), 9s)};
    mutex m{c, "reconnect"};
    mutex theirs{other, "reconnect"};
    hold held = co_await theirs.async_acquire();
    hold got;
    m.async_acquire([&](error_code, hold h) { got = std::move(h); });
    auto const queued = [&] { return mine.saw->has("reconnect", "queued"); };
    co_await until(queued, "that it is in line");
    probe.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    auto const retried = [&] { return mine.saw->has("reconnect", "retried 0"); };
    co_await until(retried, "that it was asked for again");
    co_await held.async_release();
    auto const granted = [&] { return got.valid(); };
    co_await until(granted, "the grant");
    co_await got.async_release();
  };
  w.run(body);
}

/// Throws whatever it is told.
class thrower : public recorder {
 public:
  void on_waiting(lock_event const& e) override {
    recorder::on_waiting(e);
    throw std::runtime_error{"boom"};
  }
  void on_granted(lock_event const& e, grant_path how, duration waited) override {
    recorder::on_granted(e, how, waited);
    throw 7;
  }
  void on_released(lock_event const& e, duration held) override {
    recorder::on_released(e, held);
    throw std::runtime_error{"at the end"};
  }
};

TEST_F(Observer, AnExceptionGoesToTheLogAndHarmsNothing) {
  for (bool const single_threaded : {true, false}) {
    journal log;
    auto const saw = std::make_shared<thrower>();
    config settings = quick("memory://thrower");
    settings.single_threaded = single_threaded;
    settings.observer = saw;
    settings.log = log.hook();
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings};
      mutex m{c, "thrown"};
      for (int i = 0; i < 3; ++i) {
        hold h = co_await m.async_acquire();
        EXPECT_TRUE(h.valid());
        co_await h.async_release();
      }
      co_await seen(*saw, "thrown",
                    "waiting, granted answered, released, waiting, granted answered, released, waiting, granted "
                    "answered, released");
    };
    w.run(body);
    EXPECT_TRUE(log.contains("the observer has thrown: boom")) << *log.text;
    EXPECT_TRUE(log.contains("the observer threw something other than a std::exception")) << *log.text;
    EXPECT_TRUE(log.contains("the observer has thrown: at the end")) << *log.text;
  }
}

TEST_F(Observer, MayCloseTheClientAndAcquire) {
  class closer : public recorder {
   public:
    void on_granted(lock_event const& e, grant_path how, duration waited) override {
      recorder::on_granted(e, how, waited);
      (void)c->stats();
      c->async_close(0ms, [this](error_code ec) {
        EXPECT_FALSE(ec) << ec.message();
        closed = true;
      });
      mutex{*c, "after"}.async_acquire([this](error_code ec, hold) { after = ec; });
    }
    client* c = nullptr;
    bool closed = false;
    error_code after;
  };
  auto const saw = std::make_shared<closer>();
  config settings = quick(server(), 9s);
  settings.observer = saw;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings};
    saw->c = &c;
    mutex m{c, "closed"};
    hold h = co_await m.async_acquire();
    co_await h.async_lost(as_tuple);
    auto const closed = [&] { return saw->closed; };
    co_await until(closed, "the end of the close");
    co_await seen(*saw, "closed", "waiting, granted answered, lost: closed");
    EXPECT_EQ(saw->after, errc::closed);
    EXPECT_TRUE(is_free(probe, "closed"));
  };
  w.run(body);
}

TEST_F(Observer, MayDestroyTheClient) {
  class destroyer : public recorder {
   public:
    void on_released(lock_event const& e, duration held) override {
      recorder::on_released(e, held);
      c.reset();
    }
    std::unique_ptr<client> c;
  };
  auto const saw = std::make_shared<destroyer>();
  std::weak_ptr<observer> const alive = saw;
  config settings = quick(server(), 9s);
  settings.observer = saw;
  auto const body = [&]() -> asio::awaitable<void> {
    saw->c = std::make_unique<client>(w.ctx.get_executor(), settings);
    mutex m{*saw->c, "destroyed"};
    hold h = co_await m.async_acquire();
    co_await h.async_release();
    auto const gone = [&] { return saw->c == nullptr; };
    co_await until(gone, "the end of the client");
  };
  w.run(body);
  EXPECT_EQ(saw->of("destroyed").back(), "released");
}

// Its calls come from handlers of their own: the caller may hold a mutex that the observer wants as well.
TEST_F(Observer, IsNeverCalledFromWithinACallOfTheClient) {
  class jealous : public recorder {
   public:
    void on_waiting(lock_event const& e) override {
      EXPECT_FALSE(in_call);
      recorder::on_waiting(e);
    }
    void on_released(lock_event const& e, duration held) override {
      EXPECT_FALSE(in_call);
      recorder::on_released(e, held);
    }
    bool in_call = false;
  };
  for (bool const single_threaded : {true, false}) {
    auto const saw = std::make_shared<jealous>();
    config settings = quick("memory://jealous");
    settings.single_threaded = single_threaded;
    settings.observer = saw;
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings};
      mutex m{c, "jealous"};
      hold h;
      saw->in_call = true;
      m.async_acquire([&](error_code, hold got) { h = std::move(got); });
      saw->in_call = false;
      auto const granted = [&] { return h.valid(); };
      co_await until(granted, "the grant");
      saw->in_call = true;
      h = hold{};
      saw->in_call = false;
      co_await seen(*saw, "jealous", "waiting, granted answered, released");
    };
    w.run(body);
  }
}

TEST_F(Observer, IsKeptUntilTheLastHoldAndGoesWithTheContext) {
  std::weak_ptr<observer> alive;
  hold kept;
  {
    asio::io_context ctx;
    {
      auto const saw = std::make_shared<recorder>();
      alive = saw;
      config settings = quick("memory://kept");
      settings.observer = saw;
      client c{ctx.get_executor(), settings};
      mutex{c, "kept"}.async_acquire([&](error_code, hold h) {
        kept = std::move(h);
        ctx.stop();  // with events that nobody was told of
      });
      ctx.run();
      EXPECT_TRUE(kept.valid());
    }
    EXPECT_FALSE(alive.expired());
  }
  kept = hold{};
  EXPECT_TRUE(alive.expired());
}

TEST_F(Observer, EventsAreToldBeforeTheContextHasNothingToDo) {
  auto const saw = std::make_shared<recorder>();
  asio::io_context ctx;
  {
    config settings = quick("memory://rest");
    settings.observer = saw;
    client c{ctx.get_executor(), settings};
    bool granted = false;
    mutex{c, "rest"}.async_acquire([&](error_code, hold h) { granted = h.valid(); });
    while (!granted && ctx.run_one_for(10s) != 0) {
    }
  }
  ctx.restart();
  ctx.run();
  EXPECT_EQ(saw->story("rest"), "waiting, granted answered, released");
}

TEST_F(Observer, TopKCountsTheLocksThatAreWaitedForMost) {
  config settings = quick(server(), 9s);
  settings.top_k = 1;
  auto const body = [&]() -> asio::awaitable<void> {
    client other{w.ctx.get_executor(), quick(server(), 9s)};
    client c{w.ctx.get_executor(), settings};
    mutex fast{c, "fast"};
    hold quickly = co_await fast.async_acquire();
    co_await quickly.async_release();
    mutex theirs{other, "slow"};
    mutex m{c, "slow"};
    hold held = co_await theirs.async_acquire();
    auto r = co_await m.async_acquire({.wait = short_wait}, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::timed_out);
    co_await held.async_release();
    hold h = co_await m.async_acquire();
    co_await h.async_release();
    auto const locks = c.stats().locks;
    CO_ASSERT(locks.size() == 1);
    EXPECT_EQ(locks[0].name, "slow");
    EXPECT_EQ(locks[0].grants, 1u);
    EXPECT_EQ(locks[0].refusals, 1u);
    EXPECT_GE(locks[0].wait, short_wait);
    EXPECT_NE(to_prometheus(c.stats()).find("conch_lock_grants_total{lock=\"slow\"} 1\n"), std::string::npos);
    EXPECT_TRUE(other.stats().locks.empty());
    EXPECT_EQ(to_prometheus(other.stats()).find("slow"), std::string::npos);
  };
  w.run(body);
}

TEST_F(Observer, TopKHasABound) {
  config settings = quick("memory://bound");
  settings.top_k = 101;
  std::string what;
  EXPECT_EQ(error_of([&] { client{w.ctx.get_executor(), settings}; }, &what), errc::invalid_config);
  EXPECT_NE(what.find("top_k must be 0 to 100, got 101"), std::string::npos) << what;
}

}  // namespace
}  // namespace conch::test
