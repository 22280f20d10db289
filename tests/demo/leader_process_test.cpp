// examples/15_leader.cpp as two processes: at most one of them leads, whatever happens to the leader.

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <conch/clock.hpp>
#include <conch/mutex.hpp>

#include "demo/program.hpp"
#include "support/redis_server.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// A line "NAME leads with fence FENCE, at TIME" or "NAME steps down, at TIME".
struct said {
  explicit said(std::string const& line) {
    auto const number = [&](std::string const& behind) {
      auto const found = line.find(behind);
      return found == std::string::npos ? 0 : std::stoll(line.substr(found + behind.size()));
    };
    fence = number("fence ");
    at = time_point{duration{number(", at ")}};
  }
  std::int64_t fence = 0;
  time_point at;
};

class Leader : public testing::Test {
 protected:
  program candidate(std::string const& name, milliseconds lease) {
    return program{{CONCH_LEADER, server_.url(), name, std::to_string(lease.count())}};
  }

  said leads(program& p, std::string const& name) { return said{p.wait_for(name + " leads", 60s)}; }

  /// The candidate has connected, and is queued.
  void wait_until_one_is_in_line() {
    auto const end = std::chrono::steady_clock::now() + 30s;
    while (probe_.integer({"ZCARD", "conch:{example:leader}:q"}) != 1) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error{"nobody is in line"};
      std::this_thread::sleep_for(2ms);
    }
  }

  static milliseconds between(time_point from, time_point to) {
    return std::chrono::duration_cast<milliseconds>(to - from);
  }

  redis_server server_;
  redis_probe probe_{server_};
};

TEST_F(Leader, ThatIsToldToEndHandsOverAtOnce) {
  constexpr milliseconds lease = 60s;  // longer than all of the test: so what is measured is not an expiry
  program a = candidate("a", lease);
  said const first = leads(a, "a");
  program b = candidate("b", lease);
  wait_until_one_is_in_line();
  a.signal(SIGTERM);
  said const down{a.wait_for("a steps down")};
  said const second = leads(b, "b");
  EXPECT_EQ(a.wait_for_end(), 0);
  EXPECT_LE(down.at, second.at);  // never both
  EXPECT_GT(second.fence, first.fence);
  RecordProperty("handed over after, ms", std::to_string(between(down.at, second.at).count()));
  EXPECT_LT(between(down.at, second.at), 10s);
  b.signal(SIGTERM);
  EXPECT_EQ(b.wait_for_end(), 0);
  EXPECT_EQ(probe_.integer({"EXISTS", "conch:{example:leader}", "conch:{example:leader}:q"}), 0);
}

TEST_F(Leader, ThatIsAskedForItsOfficeHandsOver) {
  constexpr milliseconds lease = 60s;
  program a = candidate("a", lease);
  said const first = leads(a, "a");
  program b = candidate("b", lease);
  wait_until_one_is_in_line();
  boost::asio::io_context ctx;
  client c{ctx.get_executor(), server_.url()};
  mutex const office{c, "example:leader"};
  std::uint32_t asked = 0;
  office.async_request_release([&](error_code ec, std::uint32_t holders) {
    EXPECT_FALSE(ec) << ec.message();
    asked = holders;
    c.async_close(1s, [](error_code) {});
  });
  ctx.run();
  EXPECT_EQ(asked, 1u);
  said const down{a.wait_for("a steps down")};
  said const second = leads(b, "b");
  EXPECT_LE(down.at, second.at);
  EXPECT_GT(second.fence, first.fence);
  for (program* p : {&a, &b}) {
    p->signal(SIGTERM);
    EXPECT_EQ(p->wait_for_end(), 0);
  }
}

TEST_F(Leader, ThatIsKilledIsFollowedWhenItsLeaseHasEnded) {
  constexpr milliseconds lease = 2s;
  program a = candidate("a", lease);
  said const first = leads(a, "a");
  program b = candidate("b", lease);
  wait_until_one_is_in_line();
  time_point const killed = clock::now();
  a.signal(SIGKILL);
  said const second = leads(b, "b");
  EXPECT_EQ(a.wait_for_end(), 128 + SIGKILL);
  EXPECT_LT(killed, second.at);
  EXPECT_GT(second.fence, first.fence);
  RecordProperty("followed after, ms", std::to_string(between(killed, second.at).count()));
  // The lease, at most a third of it to the next safety check, and what a busy machine takes.
  EXPECT_LT(between(killed, second.at), lease + lease / 3 + 5s);
}

TEST_F(Leader, ThatIsAskedToStepDownCampaignsAgain) {
  constexpr milliseconds lease = 60s;
  program a = candidate("a", lease);
  said const first = leads(a, "a");
  program b = candidate("b", lease);
  wait_until_one_is_in_line();
  a.signal(SIGUSR1);
  said const down{a.wait_for("a steps down")};
  said const second = leads(b, "b");
  EXPECT_LE(down.at, second.at);
  wait_until_one_is_in_line();
  b.signal(SIGTERM);
  said const end{b.wait_for("b steps down")};
  said const again = leads(a, "a");
  EXPECT_LE(end.at, again.at);
  EXPECT_LT(first.fence, second.fence);
  EXPECT_LT(second.fence, again.fence);
}

TEST_F(Leader, ThatStoodStillFindsThatItLeadsNoMore) {
  constexpr milliseconds lease = 1s;
  program a = candidate("a", lease);
  said const first = leads(a, "a");
  program b = candidate("b", lease);
  wait_until_one_is_in_line();
  a.signal(SIGSTOP);
  said const second = leads(b, "b");
  a.signal(SIGCONT);
  a.wait_for("a has lost the office");
  a.wait_for("a campaigns again");
  wait_until_one_is_in_line();
  b.signal(SIGTERM);
  said const down{b.wait_for("b steps down")};
  said const again = leads(a, "a");
  EXPECT_LE(down.at, again.at);
  EXPECT_LT(first.fence, second.fence);
  EXPECT_LT(second.fence, again.fence);
}

}  // namespace
}  // namespace conch::test
