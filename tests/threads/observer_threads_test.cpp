// An observer of a client that many threads run: its calls come one after the other, each sees what the ones before
// wrote. Meant for
// ThreadSanitizer: of_one_client has no mutex, and plain numbers.

#include <conch/conch.hpp>

#include <boost/asio/thread_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

class of_one_client : public observer {
 public:
  void on_waiting(lock_event const& e) override {
    begin();
    wrong += !open.emplace(e.acquire, e.fence).second;
    ++waiting;
    end();
  }
  void on_granted(lock_event const& e, grant_path, duration) override {
    begin();
    auto const known = open.find(e.acquire);
    wrong += known == open.end() || known->second != 0;
    if (known != open.end()) known->second = e.fence;
    ++granted;
    end();
    if (granted % 64 == 0) throw std::runtime_error{"now and then"};
  }
  void on_not_granted(lock_event const& e, error_code, duration) override {
    begin();
    wrong += open.erase(e.acquire) != 1;
    ++refused;
    end();
  }
  void on_released(lock_event const& e, duration) override { ended(e); }
  void on_lost(lock_event const& e, error_code, duration) override { ended(e); }

  std::map<std::uint64_t, std::int64_t> open;  // fences of the acquires under way
  std::uint64_t waiting = 0, granted = 0, refused = 0, over = 0, wrong = 0;

 private:
  void ended(lock_event const& e) {
    begin();
    auto const known = open.find(e.acquire);
    wrong += known == open.end() || known->second != e.fence || e.fence == 0;
    open.erase(e.acquire);
    ++over;
    end();
  }
  void begin() {
    if (inside_.exchange(true)) ++wrong;
  }
  void end() { inside_ = false; }

  std::atomic<bool> inside_{false};
};

/// Acquires and releases, over and over, on whatever thread it is completed.
class chain : public std::enable_shared_from_this<chain> {
 public:
  chain(client& c, std::string name, int rounds, std::atomic<int>& left)
      : lock_{c, std::move(name)},
        rounds_{rounds},
        left_{left} {}

  void next() {
    if (rounds_-- == 0) {
      --left_;
      return;
    }
    auto const go_on = [me = shared_from_this()](error_code, hold h) {
      h = hold{};
      me->next();
    };
    switch (rounds_ % 3) {
      case 0: lock_.async_acquire(go_on); break;
      case 1: lock_.async_acquire({.wait = 200us}, go_on); break;
      default: lock_.async_try_acquire(go_on); break;
    }
  }

 private:
  mutex lock_;
  int rounds_;
  std::atomic<int>& left_;
};

TEST(ObserverThreads, ItsCallsComeOneAfterTheOther) {
  constexpr int chains = 16, rounds = 300;
  auto const saw = std::make_shared<of_one_client>();
  std::atomic<int> left{chains};
  asio::io_context ctx;
  {
    config settings;
    settings.url = "memory://observer threads";
    settings.observer = saw;
    settings.top_k = 2;
    client c{ctx.get_executor(), settings};
    std::vector<std::thread> threads;
    for (int i = 0; i < chains; ++i) std::make_shared<chain>(c, "lock " + std::to_string(i % 3), rounds, left)->next();
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (left != 0) {
          ctx.run_one_for(5ms);
          (void)c.stats();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(c.stats().locks.size(), 2u);
  }
  ctx.restart();
  ctx.run();  // what was not told yet
  EXPECT_EQ(saw->wrong, 0u);
  EXPECT_EQ(saw->waiting, static_cast<std::uint64_t>(chains) * rounds);
  EXPECT_EQ(saw->waiting, saw->granted + saw->refused);
  EXPECT_EQ(saw->granted, saw->over);
  EXPECT_TRUE(saw->open.empty());
}

TEST(ObserverThreads, SeveralClientsMayShareOneThatIsSafeForIt) {
  struct counter : observer {
    void on_waiting(lock_event const&) override { ++waiting; }
    void on_released(lock_event const&, duration) override { ++released; }
    std::atomic<std::uint64_t> waiting{0}, released{0};
  };
  auto const saw = std::make_shared<counter>();
  std::atomic<int> left{4};
  asio::thread_pool pool{4};
  {
    std::vector<client> clients;
    for (int i = 0; i < 4; ++i) {
      config settings;
      settings.url = "memory://shared observer";
      settings.observer = saw;
      clients.emplace_back(pool.get_executor(), settings);
    }
    for (client& c : clients) std::make_shared<chain>(c, "shared", 300, left)->next();
    while (left != 0) std::this_thread::yield();
  }
  pool.join();
  EXPECT_EQ(saw->waiting, 1200u);
  EXPECT_GT(saw->released, 0u);
}

}  // namespace
}  // namespace conch::test
