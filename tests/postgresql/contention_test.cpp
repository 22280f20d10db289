// Two clients and a real PostgreSQL server.

#include "integration/fixture.hpp"
#include "support/postgresql_server.hpp"

#include <functional>

namespace conch::test {
namespace {

class Postgresql : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<postgresql_server>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static postgresql_server& server() { return *server_; }

  /// Two clients, `rounds` rounds each; the holder calls `inside` with the number of its round. No two are inside
  /// together, nothing is lost, and tokens grow.
  asio::awaitable<void> take_turns(mutex& a, mutex& b, int rounds, std::function<void(int)> inside,
                                   std::chrono::seconds bound) {
    std::int64_t last = 0;
    int owners = 0, done = 0;
    auto const worker = [&](mutex& m) -> asio::awaitable<void> {
      for (int i = 0; i < rounds; ++i) {
        hold h = co_await m.async_acquire();
        EXPECT_EQ(++owners, 1);
        EXPECT_GT(h.fence(), last);
        last = h.fence();
        inside(i);
        co_await pause_for(2ms);
        --owners;
        bool const was_held = co_await h.async_release();
        EXPECT_TRUE(was_held);
      }
      ++done;
    };
    asio::co_spawn(w.ctx, worker(a), asio::detached);
    asio::co_spawn(w.ctx, worker(b), asio::detached);
    auto const both = [&] { return done == 2; };
    co_await until(both, "both", bound);
  }

  world w;

 private:
  static inline std::unique_ptr<postgresql_server> server_;
};

TEST_F(Postgresql, ALockGoesFromClientToClient) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = server().url();
    client one{w.ctx.get_executor(), settings};
    client two{w.ctx.get_executor(), settings};
    mutex a{one, "passed"}, b{two, "passed"};
    for (mutex* each : {&a, &b}) {  // both are connected before they compete
      hold h = co_await each->async_acquire();
      co_await h.async_release();
    }
    auto const nothing = [](int) {};
    co_await take_turns(a, b, 50, nothing, 15s);
    EXPECT_GT(one.stats().grants_pushed + two.stats().grants_pushed, 10u);
  };
  w.run(body, 60s);
}

/// The server ends the connections in the middle of it, again and again.
TEST_F(Postgresql, ALockGoesOnFromClientToClientWhenConnectionsAreEnded) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = server().url();
    settings.reconnect_min = 5ms;
    settings.reconnect_max = 100ms;
    client one{w.ctx.get_executor(), settings};
    client two{w.ctx.get_executor(), settings};
    mutex a{one, "ended"}, b{two, "ended"};
    postgresql_probe operator_{server()};
    auto const end_connections = [&](int round) {
      if (round % 4 == 1)
        operator_.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'conch' and pid <> "
            "pg_backend_pid()");
    };
    co_await take_turns(a, b, 40, end_connections, 60s);
    EXPECT_GT(one.stats().connects, 5u);
    EXPECT_EQ(one.stats().losses + two.stats().losses, 0u);
  };
  w.run(body, 90s);
}

}  // namespace
}  // namespace conch::test
