// Many tasks wait for each other, and never in a circle: none of them is told of a deadlock.

#include "integration/fixture.hpp"

#include <deque>
#include <string>

namespace conch::test {
namespace {

struct WaitChains : testing::Test {
  redis_server server;
  world w;
};

/// All take an outer, then a middle, then an inner lock: waits are long, chains have up to three locks.
class layered_tasks {
 public:
  explicit layered_tasks(std::deque<client>& clients) : clients_{clients} {}

  asio::awaitable<void> run(std::size_t i) {
    client& mine = clients_[i % clients_.size()];
    owner const task;
    acquire_options as;
    as.task = &task;
    {
      hold const outer = co_await take(mine, "outer" + std::to_string(i % 20), as);
      hold const middle = co_await take(mine, "middle" + std::to_string(i % 10), as);
      hold const inner = co_await take(mine, "inner" + std::to_string(i % 5), as);
      co_await pause_for(20ms);
    }
    ++done;
  }

  std::size_t done = 0;

 private:
  static asio::awaitable<hold> take(client& c, std::string name, acquire_options const& as) {
    mutex m{c, std::move(name)};
    auto [why, h] = co_await m.async_acquire(as, as_tuple);
    EXPECT_FALSE(why) << why.message();
    co_return std::move(h);
  }

  std::deque<client>& clients_;
};

TEST_F(WaitChains, OfAThousandTasksThatTakeTheirLocksInOrderNoneIsToldOfADeadlock) {
  constexpr std::size_t tasks = 1000;
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    config detecting = quick(server, 30s);
    detecting.detect_deadlocks = true;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), detecting);
    layered_tasks all{clients};
    auto const begun = steady::now();
    for (std::size_t i = 0; i < tasks; ++i) asio::co_spawn(w.ctx, all.run(i), asio::detached);
    auto const over = [&] { return all.done == tasks; };
    co_await until(over, "all tasks", 120s);
    EXPECT_GT(steady::now() - begun, 2s) << "nobody waited for so long that anybody looked";
  };
  w.run(body, 150s);
}

}  // namespace
}  // namespace conch::test
