// A host with several addresses: they are tried in their order, and one that refuses is passed over.

#include "integration/fixture.hpp"

#include <dlfcn.h>
#include <netdb.h>

#include <algorithm>
#include <string>
#include <string_view>

/// In place of the C library's, in this program: "A_B.addresses.test" has the addresses A and B, in this order.
extern "C" int getaddrinfo(char const* host, char const* service, addrinfo const* hints, addrinfo** found) {
  static auto const real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  constexpr std::string_view ending = ".addresses.test";
  std::string_view const name = host != nullptr ? host : "";
  if (!name.ends_with(ending)) return real(host, service, hints, found);
  std::string const list{name.substr(0, name.size() - ending.size())};
  addrinfo** next = found;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t const end = std::min(list.find('_', at), list.size());
    int const failed = real(list.substr(at, end - at).c_str(), service, hints, next);
    if (failed != 0) return failed;
    while (*next != nullptr) next = &(*next)->ai_next;  // freeaddrinfo frees them one by one
    at = end + 1;
  }
  return 0;
}

namespace conch::test {
namespace {

class Addresses : public with_server<Addresses> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true, .arguments = {"--bind", "127.0.0.1"}}); }

 protected:
  config at(std::string const& host) { return quick("redis://" + host + ".addresses.test:" + std::to_string(server().port())); }
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

TEST_F(Addresses, AlsoAtAReconnect) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = at("127.0.0.2_127.0.0.1");
    settings.lease = 60s;  // a busy machine takes long to connect twenty times
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "addresses again"};
    hold h = co_await m.async_acquire();
    for (unsigned i = 1; i <= 20; ++i) {
      auto const killed = [&] { return probe.integer({"CLIENT", "KILL", "TYPE", "pubsub"}) > 0; };  // it has to have subscribed
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
