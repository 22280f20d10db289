// A host with several addresses: they are tried in their order, and one that refuses or says nothing is passed over.

#include "integration/fixture.hpp"
#include "integration/silent_port.hpp"

#include <string>

namespace conch::test {
namespace {

class Addresses : public with_server<Addresses> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true, .arguments = {"--bind", "127.0.0.1"}}); }

 protected:
  config at(std::string const& host) {
    return quick("redis://" + host + ".addresses.test:" + std::to_string(server().port()));
  }
};

TEST_F(Addresses, OneThatRefusesIsPassedOver) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (char const* host : {"127.0.0.1", "127.0.0.2_127.0.0.1", "127.0.0.2_127.0.0.3_127.0.0.1_127.0.0.4"}) {
      client c{w.ctx.get_executor(), at(host)};
      mutex m{c, "addresses"};
      hold h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid()) << host;
      EXPECT_EQ(c.stats().connects, 1u) << host;
      co_await h.async_release();
    }
  };
  w.run(body);
}

TEST_F(Addresses, OneThatSaysNothingIsPassedOverAndNotTriedFirstAgain) {
  silent_port const silence{"127.0.0.2", server().port()};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = at("127.0.0.2_127.0.0.1");
    settings.lease = 60s;
    settings.connect_timeout = 2s;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "silent address"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    auto const cut_at = steady::now();
    auto const killed = [&] { return probe.integer({"CLIENT", "KILL", "TYPE", "pubsub"}) > 0; };
    co_await until(killed, "its connection is cut");
    auto const back = [&] { return c.stats().connects == 2; };
    co_await until(back, "reconnected");
    EXPECT_LT(steady::now() - cut_at, 1s) << "the share of the silent address";
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

TEST_F(Addresses, AlsoAtAReconnect) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = at("127.0.0.2_127.0.0.1");
    settings.lease = 60s;  // a busy machine takes long to connect twenty times
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "addresses again"};
    hold h = co_await m.async_acquire();
    for (unsigned i = 1; i <= 20; ++i) {
      // it has to have subscribed
      auto const killed = [&] { return probe.integer({"CLIENT", "KILL", "TYPE", "pubsub"}) > 0; };
      co_await until(killed, "its connection is cut");
      auto const back = [&] { return c.stats().connects == i + 1; };
      co_await until(back, "reconnected");
      EXPECT_TRUE(h.valid());
    }
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_F(Addresses, WhenAllRefuseItIsUnreachableWithTheReason) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = at("127.0.0.2_127.0.0.3");
    settings.offline_timeout = 200ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "addresses"};
    auto const r = co_await m.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::unreachable);
    EXPECT_NE(std::get<0>(r).message().find("refused"), std::string::npos) << std::get<0>(r).message();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
