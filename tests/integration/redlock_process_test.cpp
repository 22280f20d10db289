// The next in line for a lock over five servers is another process, and dies or is paused just then.

#include "integration/child.hpp"
#include "integration/redlock_fixture.hpp"

#include <cstdlib>
#include <optional>

namespace conch::test {
namespace {

enum class end_of_the_next { killed, stopped };

class RedlockNextInLine : public testing::TestWithParam<end_of_the_next> {
 protected:
  static constexpr auto lease = 20s, claim = 600ms;

  config settings() const {
    config c = servers.settings(lease);
    c.quorum.vote_claim = claim;
    return c;
  }

  redlock_servers servers;
  world w;
};

std::int64_t fence_in(std::string const& line) { return std::atoll(line.substr(line.find(' ') + 1).c_str()); }

TEST_P(RedlockNextInLine, CostsAClaimAndNotALease) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings()}, three{w.ctx.get_executor(), settings()};
    mutex mine{one, "a"}, theirs{three, "a"};
    hold first = co_await mine.async_acquire();

    child two{servers.list(), "a", lease, claim};
    auto const second_waits = [&] { return servers.lines("a", 1) == masters; };
    co_await until(second_waits, "the other process is queued everywhere");
    std::optional<hold> third;
    theirs.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      third = std::move(got);
    });
    auto const third_waits = [&] { return servers.lines("a", 2) == masters; };
    co_await until(third_waits, "the third stands behind it everywhere");

    GetParam() == end_of_the_next::killed ? two.kill() : two.stop();
    auto const began = steady::now();
    std::int64_t const before = first.fence();
    co_await first.async_release();
    auto const granted = [&] { return third.has_value(); };
    co_await until(granted, "the third has the lock");
    auto const took = steady::now() - began;
    RecordProperty("took_ms", std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    EXPECT_LT(took, 2 * claim) << "one claim, and what a busy machine adds";
    if (GetParam() == end_of_the_next::stopped) {
      EXPECT_GE(took, claim) << "so long the votes were the frozen one's";
    }
    EXPECT_TRUE(third->valid());
    EXPECT_GT(third->fence(), before);
    if (GetParam() == end_of_the_next::killed) co_return;

    // It wakes, finds what it was handed long over, and waits for its turn.
    two.cont();
    time_point const deadline = third->deadline();
    auto const renewed = [&] { return third->deadline() > deadline; };
    co_await until(renewed, "the third's hold is confirmed");
    EXPECT_TRUE(third->valid());
    auto const waits_again = [&] { return servers.lines("a") >= 3; };
    co_await until(waits_again, "it is queued again");
    std::int64_t const thirds = third->fence();
    bool const was_held = co_await third->async_release();
    EXPECT_TRUE(was_held) << "nobody else had it meanwhile";
    EXPECT_GT(fence_in(two.wait_for("held")), thirds);
    two.say("release");
    EXPECT_EQ(two.wait_for("released"), "released 1");
  };
  w.run(body);
}

INSTANTIATE_TEST_SUITE_P(OfFive, RedlockNextInLine, testing::Values(end_of_the_next::killed, end_of_the_next::stopped),
                         [](auto const& one) { return one.param == end_of_the_next::killed ? "Killed" : "Stopped"; });

}  // namespace
}  // namespace conch::test
