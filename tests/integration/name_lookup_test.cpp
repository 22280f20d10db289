// Look-ups that hang, come late, or lead elsewhere than before.

#include "integration/fake_names.hpp"
#include "integration/fixture.hpp"

#include <conch/blocking.hpp>

#include <boost/asio/ip/tcp.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace conch::test {
namespace {

class NameLookup : public with_server<NameLookup> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true, .arguments = {"--bind", "127.0.0.1"}}); }

 protected:
  static std::string port() { return std::to_string(server().port()); }
  static config by_name(std::string const& name) { return quick("redis://" + name + ":" + port()); }
  /// Asks for the name five times a second, and does not give up.
  static config impatient(std::string const& name) {
    config c = by_name(name);
    c.connect_timeout = 200ms;
    c.reconnect_max = 50ms;
    c.offline_timeout = 600s;
    return c;
  }
  static std::size_t threads() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, std::filesystem::directory_iterator{}));
  }

  fake_names names;
};

TEST_F(NameLookup, OfAnAddressInNumbersAsksNobody) {
  auto const before = fake_names::questions();
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick("redis://127.0.0.1:" + port())};
    mutex m{c, "numbers"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
  EXPECT_EQ(fake_names::questions(), before);
}

TEST_F(NameLookup, ThatHangsDelaysNoOtherConnection) {
  names.hang("dead.test");
  names.mean("one.test", {"127.0.0.1"});
  redis_server second{{.tcp = true}};
  auto const body = [&]() -> asio::awaitable<void> {
    client lost{w.ctx.get_executor(), by_name("dead.test")};
    mutex never{lost, "behind a dead name"};
    never.async_acquire([](error_code, hold) {});
    auto const hangs = [&] { return names.waiting_for("dead.test") > 0; };
    co_await until(hangs, "a look-up hangs");
    for (std::string const& where : {std::string{"one.test"}, std::string{"127.0.0.1"}}) {
      client c{w.ctx.get_executor(), by_name(where)};
      mutex m{c, "beside a dead name"};
      hold h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid()) << where;
      co_await h.async_release();
    }
    config several =
        quick("redlock://dead.test:" + port() + ",one.test:" + port() + ",127.0.0.1:" + std::to_string(second.port()));
    client c{w.ctx.get_executor(), several};
    mutex m{c, "two of three"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    EXPECT_GT(names.waiting_for("dead.test"), 0u) << "it hangs still";
  };
  w.run(body);
}

TEST_F(NameLookup, OfAnotherComponentThatHangsDelaysNoConnection) {
  names.hang("others.test");
  names.mean("one.test", {"127.0.0.1"});
  auto const body = [&]() -> asio::awaitable<void> {
    asio::ip::tcp::resolver others{w.ctx};
    others.async_resolve("others.test", "80", [](error_code, asio::ip::tcp::resolver::results_type const&) {});
    auto const hangs = [&] { return names.waiting_for("others.test") > 0; };
    co_await until(hangs, "the resolver's thread hangs");
    client c{w.ctx.get_executor(), by_name("one.test")};
    mutex m{c, "beside a resolver"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    EXPECT_EQ(names.waiting_for("others.test"), 1u);
    names.mean("others.test", {});
  };
  w.run(body);
}

TEST_F(NameLookup, ThatHangsKeepsNeitherACloseNorADestructorWaiting) {
  names.hang("dead.test");
  auto const began = steady::now();
  {
    asio::io_context ctx;
    std::optional<client> c{std::in_place, ctx.get_executor(), by_name("dead.test")};
    mutex m{*c, "never"};
    m.async_acquire([](error_code, hold) {});
    while (names.waiting_for("dead.test") == 0) ctx.run_one_for(5ms);
    bool closed = false;
    c->async_close(1s, [&](error_code) { closed = true; });
    while (!closed) ctx.run_one_for(5ms);
    c.reset();
    ctx.run();  // nothing is left to wait for
  }
  {
    config settings = by_name("dead.test");
    settings.single_threaded = false;
    settings.offline_timeout = 0s;
    blocking::client c{settings};
    blocking::mutex m{c, "never"};
    EXPECT_THROW(m.lock(), boost::system::system_error);
  }
  {
    asio::io_context ctx;  // destroyed while the look-up hangs, before its client
    client c{ctx.get_executor(), by_name("dead.test")};
    mutex m{c, "never"};
    m.async_acquire([](error_code, hold) {});
    ctx.run_for(20ms);
  }
  EXPECT_GT(names.waiting_for("dead.test"), 0u);
  EXPECT_LT(steady::now() - began, 15s) << "it hangs until the end of this test";
}

TEST_F(NameLookup, ThatTakesLongerThanAnAttemptIsHeardInTheNext) {
  names.hang("slow.test");
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = by_name("slow.test");
    settings.connect_timeout = 100ms;
    settings.reconnect_max = 50ms;
    settings.offline_timeout = 60s;
    journal log;
    settings.log = log.hook();
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "slow name"};
    bool granted = false;
    m.async_acquire([&](error_code, hold h) { granted = h.valid(); });
    auto const given_up = [&] { return log.contains("no connection within connect_timeout"); };
    co_await until(given_up, "an attempt is given up");
    names.mean("slow.test", {"127.0.0.1"});
    auto const done = [&] { return granted; };
    co_await until(done, "connected");
  };
  w.run(body);
}

TEST_F(NameLookup, ThatHangsTakesTwoThreadsHoweverManyWantIt) {
  names.hang("dead.test");
  auto const before = threads();
  std::vector<std::unique_ptr<client>> clients;
  std::vector<std::unique_ptr<mutex>> locks;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<client>(w.ctx.get_executor(), by_name("dead.test")));
    locks.push_back(std::make_unique<mutex>(*clients.back(), "never"));
    locks.back()->async_acquire([](error_code, hold) {});
  }
  w.ctx.run_for(100ms);
  EXPECT_GE(names.waiting_for("dead.test"), 1u);
  EXPECT_LE(threads(), before + 2);
}

TEST_F(NameLookup, ThatHungTwiceIsAskedForAgainThoughNeitherEnds) {
  names.hang("stuck.test");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), impatient("stuck.test")};
    mutex m{c, "a name that was stuck"};
    bool granted = false;
    m.async_acquire([&](error_code, hold h) { granted = h.valid(); });
    auto const both_hang = [&] { return names.waiting_for("stuck.test") == 2; };
    co_await until(both_hang, "two look-ups hang");
    names.strand("stuck.test", {"127.0.0.1"});
    auto const done = [&] { return granted; };
    co_await until(done, "connected");
    EXPECT_EQ(names.waiting_for("stuck.test"), 2u) << "they hang still";
  };
  w.run(body);
}

// Two seconds, three, four and a half: a name that hangs for an hour has 17 threads, and not 1,800.
TEST_F(NameLookup, ThatHangsIsAskedForAgainAfterLongerAndLongerPausesHoweverFewWantIt) {
  names.hang("stuck.test");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), impatient("stuck.test")};
    mutex m{c, "a name that hangs"};
    m.async_acquire([](error_code, hold) {});
    auto const two_hang = [&] { return names.waiting_for("stuck.test") >= 2; };
    co_await until(two_hang, "two look-ups hang");
    auto const since = std::chrono::steady_clock::now();
    auto const three_hang = [&] { return names.waiting_for("stuck.test") >= 3; };
    co_await until(three_hang, "three look-ups hang");
    EXPECT_GT(std::chrono::steady_clock::now() - since, 2500ms);
  };
  w.run(body);
}

// Else a program that is executed meanwhile would keep the look-up's pipe, and its end would not be seen here.
TEST_F(NameLookup, LeavesNoDescriptorToProgramsThatAreExecuted) {
  names.hang("dead.test");
  auto const inherited = [] {
    std::set<int> all;
    for (auto const& one : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      int const fd = std::stoi(one.path().filename().string());
      int const flags = ::fcntl(fd, F_GETFD);
      if (flags != -1 && (flags & FD_CLOEXEC) == 0) all.insert(fd);
    }
    return all;
  };
  auto const before = inherited();
  client c{w.ctx.get_executor(), by_name("dead.test")};
  mutex m{c, "never"};
  m.async_acquire([](error_code, hold) {});
  auto const hangs = [&] { return names.waiting_for("dead.test") > 0; };
  w.run_until(hangs, "a look-up hangs");
  EXPECT_EQ(inherited(), before);
}

TEST_F(NameLookup, ThatAnswersAgainIsNotSlowedDownByWhatHangs) {
  names.hang("torn.test");
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = impatient("torn.test");
    settings.topology_refresh = 100ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "a name that was torn"};
    bool granted = false;
    m.async_acquire([&](error_code, hold h) { granted = h.valid(); });
    auto const one_hangs = [&] { return names.waiting_for("torn.test") == 1; };
    co_await until(one_hangs, "a look-up hangs");
    names.strand("torn.test", {"127.0.0.1"});
    auto const done = [&] { return granted; };
    co_await until(done, "connected");
    auto const questions = fake_names::questions();
    auto const began = steady::now();
    auto const asked = [&] { return fake_names::questions() >= questions + 20; };
    co_await until(asked, "it is looked up again and again");
    EXPECT_LT(steady::now() - began, 20s) << "a pause of 2 s before each would be 40 s";
  };
  w.run(body);
}

TEST_F(NameLookup, ManyThatHangTakeABoundedNumberOfThreadsAndAddressesInNumbersNone) {
  auto const before = threads();
  std::vector<std::unique_ptr<client>> clients;
  std::vector<std::unique_ptr<mutex>> locks;
  for (int i = 0; i < 100; ++i) {
    std::string const name = "dead" + std::to_string(i) + ".test";
    names.hang(name);
    clients.push_back(std::make_unique<client>(w.ctx.get_executor(), by_name(name)));
    locks.push_back(std::make_unique<mutex>(*clients.back(), "never"));
    locks.back()->async_acquire([](error_code, hold) {});
  }
  auto const all_hang = [&] { return threads() >= before + 40; };
  w.run_until(all_hang, "many look-ups hang");
  w.ctx.run_for(100ms);
  EXPECT_LE(threads(), before + 64);
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick("redis://127.0.0.1:" + port())};
    mutex m{c, "beside many dead names"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(NameLookup, ManyThatHangDelayNoOtherName) {
  names.mean("one.test", {"127.0.0.1"});
  auto const before = threads();
  std::vector<std::unique_ptr<client>> clients;
  std::vector<std::unique_ptr<mutex>> locks;
  auto const ask = [&](int i) {
    std::string const name = "dead" + std::to_string(i) + ".test";
    names.hang(name);
    clients.push_back(std::make_unique<client>(w.ctx.get_executor(), by_name(name)));
    locks.push_back(std::make_unique<mutex>(*clients.back(), "never"));
    locks.back()->async_acquire([](error_code, hold) {});
  };
  for (int i = 0; i < 80; ++i) ask(i);
  w.ctx.run_for(2500ms);  // until they are known to hang
  ask(80);                // one more, so that it is noticed
  auto const all_hang = [&] { return names.waiting_for("dead80.test") > 0; };
  w.run_until(all_hang, "all hang");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), by_name("one.test")};
    mutex m{c, "beside many dead names"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
  EXPECT_GE(names.waiting_for("dead0.test"), 1u) << "it hangs still";
  EXPECT_LE(threads(), before + 81 + 64) << "names that hang get another thread one after the other";
}

TEST_F(NameLookup, WorksInAChildOfAProcessWhoseLookUpHangs) {
  names.hang("dead.test");
  names.mean("one.test", {"127.0.0.1"});
  client lost{w.ctx.get_executor(), by_name("dead.test")};
  mutex never{lost, "never"};
  never.async_acquire([](error_code, hold) {});
  auto const hangs = [&] { return names.waiting_for("dead.test") > 0; };
  w.run_until(hangs, "a look-up hangs");
  pid_t const child = ::fork();
  if (child == 0) {
    asio::io_context ctx;
    client c{ctx.get_executor(), by_name("one.test")};
    mutex m{c, "in a child"};
    bool granted = false;
    m.async_acquire([&](error_code, hold h) { granted = h.valid(); });
    for (auto const end = steady::now() + 20s; !granted && steady::now() < end;) ctx.run_one_for(10ms);
    ::_exit(granted ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(NameLookup, ThatLeadsToAnotherServerMovesTheClientAndEndsItsHolds) {
  redis_server other{{.tcp = true, .arguments = {"--bind", "127.0.0.2", "--port", port()}}};
  names.mean("moving.test", {"127.0.0.1"});
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = by_name("moving.test");
    settings.lease = 60s;
    settings.topology_refresh = 100ms;
    client a{w.ctx.get_executor(), settings};
    mutex of_a{a, "blue and green"};
    hold held = co_await of_a.async_acquire();
    bool told = false;
    held.async_lost([&](error_code) { told = true; });
    names.mean("moving.test", {"127.0.0.2"});
    auto const lost = [&] { return told; };
    co_await until(lost, "the hold at the former server is lost");
    EXPECT_FALSE(held.valid());
    client b{w.ctx.get_executor(), settings};
    mutex of_b{b, "blue and green"};
    hold h = co_await of_b.async_acquire();
    EXPECT_TRUE(h.valid());
    auto const again = co_await of_a.async_try_acquire(as_tuple);
    EXPECT_FALSE(std::get<1>(again)) << "both are at the new one";
  };
  w.run(body);
}

TEST_F(NameLookup, ThatFailsWhileTheConnectionStandsChangesNothing) {
  names.mean("fading.test", {"127.0.0.1"});
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = by_name("fading.test");
    settings.topology_refresh = 100ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "fading name"};
    hold h = co_await m.async_acquire();
    names.mean("fading.test", {});
    auto const before = fake_names::questions();
    auto const asked = [&] { return fake_names::questions() > before + 3; };
    co_await until(asked, "it was looked up again");
    names.hang("fading.test");
    auto const hangs = [&] { return names.waiting_for("fading.test") > 0; };
    co_await until(hangs, "a look-up hangs");
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(c.stats().connects, 1u);
    co_await h.async_release();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
