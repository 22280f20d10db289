// Members of a quorum that are one server under several names: together they have one vote.

#include "integration/fixture.hpp"

#include "support/tcp_proxy.hpp"

#include <memory>

namespace conch::test {
namespace {

class RedlockDoubles : public testing::Test {
 protected:
  static std::string at(std::string const& host, redis_server const& s, std::string const& database = {}) {
    return "redis://" + host + ":" + std::to_string(s.port()) + database;
  }
  config over(std::vector<std::string> urls) {
    config c;
    c.quorum.servers = std::move(urls);
    c.lease = 6s;
    c.quorum.vote_claim = 1500ms;
    c.offline_timeout = 3s;
    c.reconnect_min = 5ms;
    c.reconnect_max = 100ms;
    c.log = log.hook();
    return c;
  }
  std::size_t told() const {
    std::size_t times = 0;
    std::string_view const words = "is the same server as";
    for (auto at = log.text->find(words); at != std::string::npos; at = log.text->find(words, at + 1)) ++times;
    return times;
  }
  /// In which of these databases the lock is owned.
  static int owned(redis_server& s, std::string const& name) {
    redis_probe probe{s};
    int n = 0;
    for (char const* const database : {"0", "1"}) {
      probe.command({"SELECT", database});
      if (probe.command({"GET", lock_key(name)}) != "(nil)") ++n;
    }
    return n;
  }

  /// The other server may be up or down: with two votes of one server it must not be enough.
  void takes_both_servers(std::vector<std::string> urls) {
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), over(std::move(urls))};
      mutex m{c, "a"};
      hold h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid());
      auto const is_told = [&] { return told() == 1; };
      co_await until(is_told, "the log says it");
      co_await h.async_release();
      for (int i = 0; i < 3; ++i) {
        h = co_await m.async_acquire();
        EXPECT_EQ(owned(doubled, "a"), 1);
        EXPECT_EQ(owned(other, "a"), 1);
        co_await h.async_release();
      }
      other.kill();
      auto const [ec, none] = co_await m.async_acquire({.wait = 30s}, as_tuple);
      EXPECT_EQ(ec, errc::unreachable) << ec.message();
      EXPECT_NE(ec.message().find("is the same server as"), std::string::npos) << ec.message();
      EXPECT_NE(ec.message().find(std::to_string(other.port())), std::string::npos) << ec.message();
      other.restart(false);
      h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid());
      co_await h.async_release();
      EXPECT_EQ(told(), 1u) << *log.text;
    };
    w.run(body, 60s);
  }

  redis_server doubled{redis_server_options{.tcp = true}}, other{redis_server_options{.tcp = true}};
  journal log;
  world w;
};

TEST_F(RedlockDoubles, TwoNamesOfOneAddressHaveOneVote) {
  takes_both_servers({at("127.0.0.1", doubled), at("localhost", doubled), at("127.0.0.1", other)});
}

TEST_F(RedlockDoubles, TwoDatabasesHaveOneVote) {
  takes_both_servers({at("127.0.0.1", doubled), at("localhost", doubled, "/1"), at("127.0.0.1", other)});
}

TEST_F(RedlockDoubles, AProxyAndItsServerHaveOneVote) {
  tcp_proxy way{doubled.port()};
  takes_both_servers(
      {at("127.0.0.1", doubled), "redis://127.0.0.1:" + std::to_string(way.port()), at("127.0.0.1", other)});
}

/// Then the address tells.
TEST_F(RedlockDoubles, AreFoundWhereTheUserMayNotAskForTheRun) {
  redis_probe{doubled}.command({"ACL", "SETUSER", "default", "-info"});
  takes_both_servers({at("127.0.0.1", doubled), at("localhost", doubled, "/1"), at("127.0.0.1", other)});
}

TEST_F(RedlockDoubles, OneServerUnderThreeNamesGrantsNothingAndSaysWhy) {
  tcp_proxy way{doubled.port()};
  std::vector<std::string> const urls{at("127.0.0.1", doubled), at("localhost", doubled, "/1"),
                                      "redis://127.0.0.1:" + std::to_string(way.port())};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), over(urls)};
    mutex m{c, "a"};
    auto const [ec, none] = co_await m.async_acquire({.wait = 30s}, as_tuple);
    EXPECT_EQ(ec, errc::unreachable) << ec.message();
    EXPECT_NE(ec.message().find("name each server once"), std::string::npos) << ec.message();
    auto const [tried, nothing] = co_await m.async_try_acquire(as_tuple);
    EXPECT_EQ(tried, errc::unreachable) << tried.message();
    EXPECT_EQ(told(), 2u) << *log.text;
    auto const given_back = [&] { return owned(doubled, "a") == 0; };
    co_await until(given_back, "the only vote is given back");
  };
  w.run(body, 60s);
}

/// The vote that was given before is still there after a restart that keeps the data.
TEST_F(RedlockDoubles, ARestartDoesNotMakeTwoOfOne) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(),
             over({at("127.0.0.1", doubled), at("localhost", doubled, "/1"), at("127.0.0.1", other)})};
    mutex m{c, "a"}, b{c, "b"};
    hold h = co_await m.async_acquire();
    doubled.kill();
    doubled.restart(true);
    auto const both = [&] { return c.stats().servers[0].connected && c.stats().servers[1].connected; };
    co_await until(both, "both names are connected again, or their end is not noticed yet");
    hold g = co_await b.async_acquire();
    EXPECT_EQ(owned(other, "b"), 1);
    // A connection asks again for what its predecessor asked, before it is known to lead to the same server.
    auto const once = [&] { return owned(doubled, "b") == 1; };
    co_await until(once, "the second vote of that server is given back");
    co_await g.async_release();
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
