// One of five servers is ill, in each of the ways in which a server can be: nothing is delayed, and the trouble can be
// seen.

#include "integration/fake_server.hpp"
#include "integration/redlock_fixture.hpp"

#include "support/tcp_proxy.hpp"

#include <functional>
#include <optional>

namespace conch::test {
namespace {

constexpr std::size_t sick = 2;

struct illness_of_one {
  char const* name;
  char const* words;  // in the log
  bool last;          // and those are the last about that server: what comes of it sounds the same
  /// Makes what plays the sick server, if it is not the real one, and its URL.
  std::function<std::string(redlock_servers&, std::shared_ptr<void>& keep)> prepare;
  /// When all clients are connected.
  std::function<void(redlock_servers&, std::shared_ptr<void> const& kept)> strike;
};

void PrintTo(illness_of_one const& one, std::ostream* out) { *out << one.name; }

std::string url_of_the_real_one(redlock_servers& servers, std::shared_ptr<void>&) { return servers[sick].url(); }

std::string plays(std::shared_ptr<void>& keep, fake_server::part p) {
  auto const fake = std::make_shared<fake_server>(std::move(p));
  keep = fake;
  return fake->url();
}

std::string behind_a_proxy(std::shared_ptr<void>& keep) {
  struct far_away {
    redis_server real{redis_server_options{.tcp = true}};
    tcp_proxy way{real.port()};
  };
  auto const both = std::make_shared<far_away>();
  keep = std::shared_ptr<void>{both, &both->way};
  return both->way.url();
}

constexpr std::string_view loading = "-LOADING Redis is loading the dataset in memory\r\n";

illness_of_one const illnesses[] = {
    {"NoSuchHost",
     "no-such-host.invalid",
     true,
     [](auto&, auto&) { return std::string{"redis://no-such-host.invalid:6379"}; },
     {}},
    {"Refused", "onnection refused", true, [](auto&, auto&) { return std::string{"redis://127.0.0.1:1"}; }, {}},
    {"ResetAtOnce", "", true, [](auto&, auto& keep) { return plays(keep, [](fake_server::connection&, int) {}); }, {}},
    {"SilentFromTheStart",
     "no answer to the greeting within connect_timeout",
     true,
     [](auto&, auto& keep) { return plays(keep, [](fake_server::connection& c, int) { c.wait_for_end(); }); },
     {}},
    {"LoadingFromTheStart",
     "LOADING",
     true,
     [](auto&, auto& keep) {
       return plays(keep, [](fake_server::connection& c, int) {
         for (;;) {
           c.command();
           c.write(loading);
         }
       });
     },
     {}},
    {"LoadingWhatIsAsked", "LOADING", false,
     [](auto&, auto& keep) {
       return plays(keep, [](fake_server::connection& c, int) {
         c.greet();
         c.subscribe();
         for (;;) {
           c.command();
           c.write(loading);
         }
       });
     },
     [](auto&, auto const&) {}},
    {"WrongPassword",
     "NOAUTH",
     true,
     [](redlock_servers& servers, auto&) {
       redis_probe{servers[sick]}.command({"CONFIG", "SET", "requirepass", "other"});
       return servers[sick].url();
     },
     {}},
    {"ReplicaFromTheStart",
     "replica",
     true,
     [](redlock_servers& servers, auto&) {
       redis_probe{servers[sick]}.command({"REPLICAOF", "127.0.0.1", "1"});
       return servers[sick].url();
     },
     {}},
    {"BecomesAReplica", "READONLY", false, url_of_the_real_one,
     [](redlock_servers& servers, auto const&) {
       redis_probe{servers[sick]}.command({"REPLICAOF", "127.0.0.1", "1"});
     }},
    {"SlowByEightSeconds", "did not answer in time", false, [](auto&, auto& keep) { return behind_a_proxy(keep); },
     [](auto&, auto const& kept) {
       auto const way = std::static_pointer_cast<tcp_proxy>(kept);
       way->set(tcp_proxy::towards::server, {.delay = 4s});  // a busy client waits twice the time-out of 3 s
       way->set(tcp_proxy::towards::client, {.delay = 4s});
     }},
    {"ResetAgainAndAgain", "", true, [](auto&, auto& keep) { return behind_a_proxy(keep); },
     [](auto&, auto const& kept) {
       auto const way = std::static_pointer_cast<tcp_proxy>(kept);
       way->refuse(true);
       way->reset();
     }},
    {"Killed", "", true, url_of_the_real_one, [](redlock_servers& servers, auto const&) { servers.kill(sick); }},
    {"Hanging", "did not answer in time", false, url_of_the_real_one,
     [](redlock_servers& servers, auto const&) { servers.stop(sick); }},
    {"RestartedEmpty", "", true, url_of_the_real_one,
     [](redlock_servers& servers, auto const&) { servers.restart(sick, false); }},
};

class RedlockTroubleOfOne : public testing::TestWithParam<illness_of_one> {
 protected:
  void SetUp() override {
    url_ = GetParam().prepare(servers, keep_);
    real_ = url_ == servers[sick].url();
  }
  void TearDown() override {
    if (real_) servers.cont(sick);
  }

  config settings(journal* log = nullptr) const {
    config c = servers.calm();
    c.quorum.servers[sick] = url_;
    c.connect_timeout = 2500ms;
    if (log != nullptr) c.log = log->hook();
    return c;
  }
  std::size_t lines_of_the_well(std::string const& name) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < masters; ++i) {
      if (i == sick) continue;
      redis_probe probe{servers.at(i)};
      if (in_line(probe, name) >= 1) ++n;
    }
    return n;
  }

  // Well below what a sick server could make a client wait for: command_timeout is 3 s here, slow is 4 s.
  static constexpr auto at_once = 1500ms;

  redlock_servers servers;
  world w;
  std::shared_ptr<void> keep_;

 private:
  std::string url_;
  bool real_ = false;
};

TEST_P(RedlockTroubleOfOne, DelaysNothingAndCanBeSeen) {
  auto const body = [&]() -> asio::awaitable<void> {
    journal log;
    config const first = settings(&log);
    client one{w.ctx.get_executor(), first}, two{w.ctx.get_executor(), settings()};
    mutex mine{one, "a"}, theirs{two, "a"};
    for (mutex* m : {&mine, &theirs}) {
      hold h = co_await m->async_acquire();
      co_await h.async_release();
    }
    if (GetParam().strike) {
      auto const connected = [&] { return one.stats().servers[sick].connected && two.stats().servers[sick].connected; };
      co_await until(connected, "all are connected");
      GetParam().strike(servers, keep_);
    }
    for (int i = 0; i < 5; ++i) {
      auto const began = steady::now();
      hold h = co_await mine.async_acquire();
      EXPECT_TRUE(h.valid());
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_LT(steady::now() - began, at_once) << "cycle " << i;
    }

    hold h = co_await mine.async_acquire();
    std::optional<hold> next;
    theirs.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = [&] { return lines_of_the_well("a") == masters - 1; };
    co_await until(waits, "the second is queued at all that are well");
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.has_value(); };
    co_await until(granted, "the second has it");
    EXPECT_LT(steady::now() - began, at_once);
    EXPECT_TRUE(next->valid());
    co_await next->async_release();

    std::string const words = GetParam().words;
    auto const seen = [&] {
      statistics const s = one.stats();
      std::string const& shown = s.servers[sick].last_trouble;
      return !shown.empty() && (!GetParam().last || shown.find(words) != std::string::npos) && log.contains(words);
    };
    co_await until(seen, "the trouble is in the statistics and in the log");
    statistics const s = one.stats();
    EXPECT_TRUE(log.contains(s.servers[sick].url)) << "the log names " << s.servers[sick].url;
    for (std::size_t i = 0; i < masters; ++i) {
      if (i == sick) continue;
      EXPECT_TRUE(s.servers[i].connected) << i;
      EXPECT_EQ(s.servers[i].last_trouble, "") << i;
    }
  };
  w.run(body);
}

INSTANTIATE_TEST_SUITE_P(OfFive, RedlockTroubleOfOne, testing::ValuesIn(illnesses),
                         [](auto const& one) { return std::string{one.param.name}; });

}  // namespace
}  // namespace conch::test
