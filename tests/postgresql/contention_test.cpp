// Two clients and a real PostgreSQL server.

#include "integration/fixture.hpp"
#include "support/postgresql_server.hpp"

#include <deque>

namespace conch::test {
namespace {

class Postgresql : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<postgresql_server>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static postgresql_server& server() { return *server_; }

  world w;

 private:
  static inline std::unique_ptr<postgresql_server> server_;
};

TEST_F(Postgresql, ALockGoesFromClientToClient) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = server().url();
    settings.log = [](log_level, std::string_view line) { std::cerr << line << '\n'; };
    client one{w.ctx.get_executor(), settings};
    client two{w.ctx.get_executor(), settings};
    mutex a{one, "passed"}, b{two, "passed"};
    std::int64_t last = 0;
    int inside = 0, done = 0;
    auto const worker = [&](mutex& m) -> asio::awaitable<void> {
      for (int i = 0; i < 50; ++i) {
        hold h = co_await m.async_acquire();
        EXPECT_EQ(++inside, 1);
        EXPECT_GT(h.fence(), last);
        last = h.fence();
        co_await pause_for(2ms);
        --inside;
        bool const was_held = co_await h.async_release();
        EXPECT_TRUE(was_held);
      }
      ++done;
    };
    asio::co_spawn(w.ctx, worker(a), asio::detached);
    asio::co_spawn(w.ctx, worker(b), asio::detached);
    auto const both = [&] { return done == 2; };
    try { co_await until(both, "both", 10s); } catch (...) { std::cerr << last << " done " << done << " pushed " << one.stats().grants_pushed << " replied " << one.stats().grants_replied << " waiting " << one.stats().waiting << " scripts " << one.stats().scripts << "\n"; }
    for (client* c : {&one, &two}) { auto s = c->stats(); std::cerr << "pushed " << s.grants_pushed << " replied " << s.grants_replied << " local " << s.grants_local << " pushes " << s.pushes << " scripts " << s.scripts << " kicks " << s.kicks << '\n'; }
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
