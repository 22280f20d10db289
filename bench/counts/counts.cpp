// Executes each scenario a fixed number of times, under callgrind (scripts/counts). Prints its name and that number.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/conch.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "counts/still_world.hpp"
#include "support/redis_probe.hpp"
#include "support/redis_server.hpp"

namespace {

using namespace conch::bench;
namespace asio = boost::asio;

void expect(conch::error_code ec) {
  if (ec) throw std::runtime_error{ec.message()};
}

/// Acquires one lock again and again.
class player {
 public:
  explicit player(conch::client& of, std::string name = "counts") : lock_{of, std::move(name)} {}

  bool holds() const { return static_cast<bool>(held_) && !releasing_; }

  void acquire() {
    lock_.async_acquire([this](conch::error_code ec, conch::hold h) {
      expect(ec);
      held_ = std::move(h);
      if (left_ != 0 || leaves_) release();
    });
  }

  /// Releases, and asks again at once.
  void release() {
    releasing_ = true;
    held_.async_release([this](conch::error_code ec, bool was_held) {
      expect(ec);
      if (!was_held) throw std::runtime_error{"a lock was lost"};
      releasing_ = false;
      held_ = conch::hold{};
      if (leaves_) {
        left_ = 0;
      } else if (left_ == 0 || --left_ != 0) {
        acquire();
      }
    });
  }

  /// Ends after the acquire that is under way, or the present hold.
  void leave() {
    leaves_ = true;
    left_ = 1;
    if (holds()) release();
  }

  /// So many acquires and releases without a pause.
  void run(std::size_t cycles) {
    left_ = cycles;
    acquire();
  }
  bool done() const { return left_ == 0; }

 private:
  conch::mutex lock_;
  conch::hold held_;
  bool releasing_ = false, leaves_ = false;
  std::size_t left_ = 0;
};

class counted {
 public:
  using probes = std::vector<conch::test::redis_probe>;

  counted(std::vector<std::string> urls, probes& of_servers) : urls_{std::move(urls)}, probes_{of_servers} {}

  asio::io_context context{1};
  still_world world{context};

  conch::config settings() const {
    conch::config c;
    c.single_threaded = true;
    if (urls_.size() == 1) {
      c.url = urls_.front();
    } else {
      c.quorum.servers = urls_;
    }
    return c;
  }

  /// Calls `run` twice: to warm up, and to count.
  template <class Run>
  void count(char const* what, std::size_t times, Run run) {
    run();
    world.run_until_idle();
    mark();
    run();
    world.run_until_idle();
    mark();
    std::printf("%s %zu\n", what, times);
    std::fflush(stdout);
  }

 private:
  void mark() {
    // The servers write down what they have counted before each ECHO.
    for (auto& one : probes_) one.command({"ECHO", "counts"});
    conch_counts_mark();
  }

  asio::executor_work_guard<asio::io_context::executor_type> working_{context.get_executor()};
  std::vector<std::string> urls_;
  probes& probes_;
};

void cycles(counted& c, char const* what, std::size_t times) {
  conch::client client{c.context.get_executor(), c.settings()};
  player one{client};
  c.count(what, times, [&] {
    one.run(times);
    c.world.run_until([&] { return one.done(); });
  });
}

/// The same with this many locks at once: a client sends what it asks in one turn of its event loop as a few scripts.
void cycles_together(counted& c, char const* what, std::size_t locks, std::size_t times) {
  conch::client client{c.context.get_executor(), c.settings()};
  std::vector<player> all;
  all.reserve(locks);
  for (std::size_t i = 0; i < locks; ++i) all.emplace_back(client, "counts:" + std::to_string(i));
  c.count(what, locks * times, [&] {
    for (player& one : all) one.run(times);
    c.world.run_until(
        [&] { return std::all_of(all.begin(), all.end(), [](player const& one) { return one.done(); }); });
  });
}

/// Between two clients; each acquires again at once.
void hand_overs(counted& c, char const* what, std::size_t times) {
  conch::client first{c.context.get_executor(), c.settings()}, second{c.context.get_executor(), c.settings()};
  player one{first}, two{second};
  one.acquire();
  c.world.run_until([&] { return one.holds(); });
  two.acquire();
  c.world.run_until_idle();
  player *holder = &one, *waiter = &two;
  c.count(what, times, [&] {
    for (std::size_t i = 0; i < times; ++i) {
      holder->release();
      c.world.run_until([&] { return waiter->holds(); });
      c.world.run_until_idle();  // the other one is in line again
      std::swap(holder, waiter);
    }
  });
  holder->leave();
  waiter->leave();
  c.world.run_until([&] { return one.done() && two.done(); });
}

/// Inside one client.
void local_hand_overs(counted& c, char const* what, std::size_t times, bool single_threaded = true) {
  conch::config settings = c.settings();
  settings.single_threaded = single_threaded;
  conch::client client{c.context.get_executor(), settings};
  player one{client}, two{client};
  c.count(what, times, [&] {
    one.run(times / 2);
    two.run(times / 2);
    c.world.run_until([&] { return one.done() && two.done(); });
  });
}

/// With 100 locks that one client holds.
void renewals(counted& c, char const* what, std::size_t times) {
  constexpr std::size_t locks = 100;
  conch::client client{c.context.get_executor(), c.settings()};
  std::vector<conch::hold> holds;
  for (std::size_t i = 0; i < locks; ++i) {
    conch::mutex{client, "counts:" + std::to_string(i)}.async_acquire([&](conch::error_code ec, conch::hold h) {
      expect(ec);
      holds.push_back(std::move(h));
    });
  }
  c.world.run_until([&] { return holds.size() == locks; });
  c.count(what, times, [&] {
    auto const until = client.stats().renewals + times * locks;
    c.world.run_until([&] { return client.stats().renewals >= until; });
  });
  if (client.stats().losses != 0) throw std::runtime_error{"holds were lost"};
}

}  // namespace

int main() try {
  if (std::getenv("CONCH_COUNTS_CLOCK") == nullptr) throw std::runtime_error{"run scripts/counts"};
  std::vector<std::unique_ptr<conch::test::redis_server>> servers;
  std::vector<std::string> urls;
  counted::probes probes;
  for (int i = 0; i < 3; ++i) {
    // Its regular work is not counted, but a little is that wakes the server for it.
    conch::test::redis_server_options quiet;
    quiet.arguments = {"--hz", "1", "--dynamic-hz", "no", "--jemalloc-bg-thread", "no"};
    servers.push_back(std::make_unique<conch::test::redis_server>(quiet));
    urls.push_back("unix://" + servers.back()->socket_path());
    probes.emplace_back(urls.back(), std::chrono::minutes{1});
  }
  auto const with = [&](std::vector<std::string> chosen) {
    auto c = std::make_unique<counted>(std::move(chosen), probes);
    for (auto const& one : servers) c->world.await(one->pid());
    return c;
  };
  {
    auto const redis = with({urls.front()});
    cycles(*redis, "redis/cycle", 200);
    hand_overs(*redis, "redis/hand-over", 100);
    renewals(*redis, "redis/renewal-of-100", 10);
    local_hand_overs(*redis, "redis/local-hand-over", 1000);
    local_hand_overs(*redis, "redis/local-hand-over-of-threads", 1000, false);
    cycles_together(*redis, "redis/cycle-of-100", 100, 5);
  }
  {
    auto const quorum = with(urls);
    cycles(*quorum, "quorum-of-3/cycle", 100);
    hand_overs(*quorum, "quorum-of-3/hand-over", 100);
  }
  {
    auto const memory = with({"memory://counts"});
    cycles(*memory, "memory/cycle", 1000);
    hand_overs(*memory, "memory/hand-over", 500);
    renewals(*memory, "memory/renewal-of-100", 50);
    local_hand_overs(*memory, "memory/local-hand-over", 1000);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_counts: %s\n", error.what());
  return 1;
}
