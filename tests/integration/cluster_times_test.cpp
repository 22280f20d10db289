// How long the changes of a Cluster last for waiters and holders. What is printed is the result; only what is promised
// is asserted.

#include "integration/cluster_fixture.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace conch::test {
namespace {

using at_time = steady::time_point;

/// As many channels of these slots have a subscriber at the node.
std::size_t channels(redis_probe& at, std::vector<std::string> const& tags) {
  std::size_t sum = 0;
  for (std::string const& tag : tags) {
    std::string const all = at.command({"PUBSUB", "SHARDCHANNELS", "conch:{" + tag + "}:*"});
    if (all != "[]") sum += static_cast<std::size_t>(std::count(all.begin(), all.end(), ',')) + 1;
  }
  return sum;
}

/// SSUBSCRIBE and the acquire are one write: a client subscribed at the new master is queued there again.
TEST(SlowCluster, A5WaitersAreInLineAgainSoonAfterTheirSubscriptionEnds) {
  constexpr std::size_t locks = 10, clients_of_each = 20, rounds = 20;
  cluster_set all{{.replicas = 3}};
  world w;
  std::vector<std::string> names, tags;
  for (unsigned n = 0; n < locks; ++n) {
    names.push_back(all.name_at(0, n));
    tags.push_back(std::to_string(redis::tag_of_slot(redis::slot_of_lock(names.back()))));
  }
  std::string const watched = "{" + names.front() + "}";
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)};
    std::vector<hold> held;
    for (std::string const& name : names) held.push_back(co_await mutex{holds, name}.async_acquire());
    std::deque<client> waiting;
    std::size_t granted = 0;
    for (std::size_t i = 0; i < clients_of_each; ++i) {
      client& c = waiting.emplace_back(w.ctx.get_executor(), over(all));
      for (std::string const& name : names) {
        mutex{c, name}.async_acquire([&granted](error_code ec, hold got) {
          EXPECT_FALSE(ec) << ec.message();
          ++granted;
          got = {};
        });
      }
    }
    redis_probe at_first{all.node(0)};
    for (std::string const& name : names) {
      auto const all_stand = [&] { return in_line(at_first, name) == static_cast<std::int64_t>(clients_of_each); };
      co_await until(all_stand, "all in line", 60s);
    }
    constexpr std::size_t everybody = locks * (clients_of_each + 1);
    EXPECT_EQ(channels(at_first, tags), everybody);
    std::vector<double> lasted;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::size_t const from = round % 2 == 0 ? 0 : 3, to = 3 - from;
      std::atomic<bool> done = false;
      std::string trouble;
      double after = 0;
      std::thread watch{[&] {
        try {
          redis_probe ear{all.node(from), 60s}, there{all.node(to)};
          ear.command({"SSUBSCRIBE", watched});
          std::jthread const nemesis{[&] { all.fail_over(to); }};
          for (std::string push; push.find("sunsubscribe") == std::string::npos;) push = ear.read_message();
          auto const ended = steady::now();
          for (std::size_t come = 0; come < everybody; come = channels(there, tags)) {
            if (steady::now() > ended + 60s)
              throw std::runtime_error{std::to_string(come) + " of " + std::to_string(everybody) +
                                       " channels come back"};
          }
          after = ms(steady::now() - ended);
        } catch (std::exception const& e) {
          trouble = e.what();
        }
        done = true;
      }};
      auto const over_now = [&] { return done.load(); };
      co_await until(over_now, "the end of the round", 300s);
      watch.join();
      if (!trouble.empty()) throw std::runtime_error{trouble};
      lasted.push_back(after);
    }
    std::sort(lasted.begin(), lasted.end());
    std::printf(
        "A5: %zu waiters of %zu clients in line again after the end of a subscription, %zu CLUSTER FAILOVERs: median "
        "%.1f ms, most %.1f ms\n",
        locks * clients_of_each, clients_of_each, rounds, lasted[rounds / 2], lasted.back());
    for (hold& h : held) {
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
    auto const all_granted = [&] { return granted == locks * clients_of_each; };
    co_await until(all_granted, "all grants", 60s);
  };
  w.run(body, 600s);
}

/// Asks the node for a key again and again, and notes when its answer is one of another kind.
class answer_watch {
 public:
  enum class kind { value, moved, down, none };
  struct change {
    at_time at;
    kind what;
  };

  answer_watch(redis_server& node, std::string key)
      : thread_{[this, &node, key = std::move(key)] { look(node, key); }} {}
  ~answer_watch() {
    ended_ = true;
    thread_.join();
  }
  std::vector<change> changes() const {
    std::lock_guard const guard{mutex_};
    return changes_;
  }
  /// Since when it has answered with a value, if it does.
  std::optional<at_time> well_since() const {
    std::lock_guard const guard{mutex_};
    if (changes_.empty() || changes_.back().what != kind::value) return std::nullopt;
    return changes_.back().at;
  }

 private:
  void look(redis_server& node, std::string const& key) {
    redis_probe probe{node, 10s};
    while (!ended_) {
      kind what = kind::none;
      try {
        std::string const said = probe.command({"GET", key});
        what = said.starts_with("(error) MOVED") ? kind::moved : said.starts_with("(error)") ? kind::down : kind::value;
      } catch (std::runtime_error const&) {
      }
      {
        std::lock_guard const guard{mutex_};
        if (changes_.empty() || changes_.back().what != what) changes_.push_back({steady::now(), what});
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  std::vector<change> changes_;
  mutable std::mutex mutex_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

/// Takes the lock and gives it back, again and again, and notes when it was granted.
asio::awaitable<void> cycles(client& c, std::string name, std::vector<at_time>& grants, bool const& ended,
                             int& running) {
  mutex m{c, name};
  while (!ended) {
    hold h = co_await m.async_acquire();
    grants.push_back(steady::now());
    (void)co_await h.async_release(as_tuple);
    co_await pause_for(1ms);
  }
  --running;
}

TEST(SlowCluster, A6AKilledMastersLocksAreGrantedSoonAfterTheClusterIsUpAgain) {
  constexpr std::size_t rounds = 5;
  for (std::size_t round = 0; round < rounds; ++round) {
    cluster_set all{{.replicas = 3, .node_timeout = 2s}};
    world w;
    auto const body = [&]() -> asio::awaitable<void> {
      std::deque<client> clients;
      std::vector<at_time> grants[3];
      bool ended = false;
      int running = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        client& c = clients.emplace_back(w.ctx.get_executor(), over(all));
        asio::co_spawn(w.ctx, cycles(c, all.name_at(i), grants[i], ended, running), asio::detached);
        ++running;
      }
      auto const all_run = [&] { return !grants[0].empty() && !grants[1].empty() && !grants[2].empty(); };
      co_await until(all_run, "the first grants", 60s);
      answer_watch at_replica{all.node(3), "{" + all.name_at(0) + "}"},
          at_other{all.node(1), "{" + all.name_at(1) + "}"};
      co_await pause_for(300ms);
      auto const killed = steady::now();
      all.node(0).kill();
      auto const is_up_again = [&] { return at_replica.well_since() && at_other.well_since(); };
      co_await until(is_up_again, "the end of CLUSTERDOWN", 60s);
      auto const granted_again = [&] { return grants[0].back() > killed + 1s; };
      co_await until(granted_again, "a grant of the new master", 60s);
      co_await pause_for(300ms);
      ended = true;
      auto const stopped = [&] { return running == 0; };
      co_await until(stopped, "the end of the workers", 60s);
      at_time const up = *at_replica.well_since();
      at_time const first =
          *std::find_if(grants[0].begin(), grants[0].end(), [&](at_time t) { return t > killed + 1s; });
      double down = 0;
      at_time began{};
      for (auto const& [at, what] : at_other.changes()) {
        if (what == answer_watch::kind::down) began = at;
        else if (began != at_time{}) down += ms(at - std::exchange(began, at_time{}));
      }
      double longest[3] = {};
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t g = 1; g < grants[i].size(); ++g)
          longest[i] = std::max(longest[i], ms(grants[i][g] - grants[i][g - 1]));
      }
      std::printf(
          "A6: killed; its slots are served again after %.0f ms, and the first grant there is %.1f ms later. Others "
          "were CLUSTERDOWN for %.0f ms, "
          "and the longest times without a grant there %.0f and %.0f ms\n",
          ms(up - killed), ms(first - up), down, longest[1], longest[2]);
    };
    w.run(body, 300s);
  }
}

}  // namespace
}  // namespace conch::test
