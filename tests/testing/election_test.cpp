// conch::election in many worlds: candidates that are paused, cut off and lose the office, and one who looks on.
#include <conch/all.hpp>
#include <conch/testing.hpp>

#include "testing/shared.hpp"

#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::body;
using conch::testing::explore;
using conch::testing::fencing;
using conch::testing::report;
using conch::testing::world;

conch::config settings_of(world& w, std::string process) {
  conch::config c;
  c.url = w.url();
  c.label = std::move(process);
  return c;
}

/// Leads three times, for some seconds each, and writes down its terms.
body stand(world& w, std::string process) {
  conch::client client{w.executor(process), settings_of(w, process)};
  conch::election office{client, "office"};
  auto& terms = w.resource("office", fencing::on);
  conch::acquire_options with_note;
  with_note.note = process;
  for (int i = 0; i < 3; ++i) {
    auto elected = co_await office.async_campaign(with_note, asio::as_tuple(asio::use_awaitable));
    auto& [ec, mine] = elected;
    if (ec) continue;
    static_cast<void>(terms.write(mine.term(), mine.term()));
    asio::steady_timer work{co_await asio::this_coro::executor, std::chrono::milliseconds{w.random(5000)}};
    co_await work.async_wait(asio::use_awaitable);
    co_await mine.async_resign(asio::as_tuple(asio::use_awaitable));
  }
}

/// Looks on until its client is gone, and checks what it sees.
class onlooker : public std::enable_shared_from_this<onlooker> {
 public:
  onlooker(world& w, conch::election office) : world_{w}, office_{std::move(office)} {}

  void look(std::int64_t known) {
    office_.async_observe(known, [self = shared_from_this(), known](conch::error_code why, conch::leader const& now) {
      if (why == conch::errc::closed) return;
      if (why) return self->look(known);
      self->see(known, now);
      self->look(now.term);
    });
  }
  int leaders() const { return leaders_; }

 private:
  void see(std::int64_t known, conch::leader const& now) {
    world_.note(now ? "sees the leader " + now.label : "sees no leader");
    world_.expect(now.term != known, "it is told of news only");
    world_.expect(!now || now.term > last_, "terms grow");
    world_.expect(now.note.empty() || now.note == now.label, "label and note are those of one leader");
    if (!now) return;
    last_ = now.term;
    ++leaders_;
  }

  world& world_;
  conch::election const office_;
  std::int64_t last_ = 0;
  int leaders_ = 0;
};

body elect(world& w, std::shared_ptr<int> seen) {
  conch::client client{w.executor("main"), settings_of(w, "onlooker")};
  conch::election const office{client, "office"};
  auto const looks_on = std::make_shared<onlooker>(w, office);
  looks_on->look(0);
  w.spawn("second", stand(w, "second"));
  co_await stand(w, "main");
  *seen += looks_on->leaders();
}

TEST(TestingElection, WhoLooksOnSeesLeadersWithGrowingTerms) {
  auto const seen = std::make_shared<int>(0);
  report const r = explore(500, [seen](world& w) { return elect(w, seen); });
  EXPECT_TRUE(r) << r;
  EXPECT_GT(*seen, 1000) << "in 500 worlds with up to 6 leaders each";
}

}  // namespace
