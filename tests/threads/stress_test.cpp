// Promises P1, P2, P4, P6 with every thread of a program at work. Meant for ThreadSanitizer, worth running without it.
//
// CONCH_SEED chooses the random numbers (the threads' timing stays what it is), CONCH_STRESS_SECONDS the length of
// each.

#include "threads/stress.hpp"
#include "support/redis_probe.hpp"
#include "support/redis_server.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;

std::uint64_t chosen_seed() {
  char const* const given = std::getenv("CONCH_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

std::chrono::milliseconds chosen_length(std::chrono::milliseconds usual) {
  char const* const given = std::getenv("CONCH_STRESS_SECONDS");
  return given != nullptr ? std::chrono::seconds{std::atoi(given)} : usual;
}

/// Ids of the connections that conch made.
std::vector<std::string> connections(redis_probe& probe) {
  std::istringstream list{probe.command({"CLIENT", "LIST"})};
  std::vector<std::string> ids;
  for (std::string line; std::getline(list, line);) {
    if (line.find(" name=conch ") == std::string::npos) continue;
    auto const at = line.find("id=") + 3;
    ids.push_back(line.substr(at, line.find(' ', at) - at));
  }
  return ids;
}

/// Everything but the fences, which are meant to stay.
/// What a client told about itself stays for a while if its connection is lost when it closes.
std::string left_behind(redis_probe& probe, bool lose_connections) {
  std::string const keys = probe.command({"KEYS", "conch:*"});
  std::string left;
  std::istringstream words{keys.substr(1, keys.size() - 2)};
  for (std::string key; std::getline(words, key, ',');) {
    bool const may_stay = key.ends_with(":f") || (lose_connections && key.ends_with(":i"));
    if (!may_stay) left += key;
  }
  return left;
}

void report(stress& s, std::uint64_t seed) {
  std::cout << "seed " << seed << ": " << s.counts().in_words() << '\n';
  for (std::string const& c : s.counts().complaints()) ADD_FAILURE() << "seed " << seed << ": " << c;
}

void run_on_redis(bool lose_connections, std::chrono::milliseconds length) {
  redis_server server{{.tcp = true}};
  redis_probe probe{server};
  std::uint64_t const seed = chosen_seed();
  std::mt19937_64 random{seed};
  std::uint64_t killed = 0;
  {
    stress all{{.url = server.url(), .seed = seed, .length = chosen_length(length)}};
    all.run([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{1 + random() % 40});
      if (!lose_connections) return;
      auto const ids = connections(probe);
      if (!ids.empty() && probe.command({"CLIENT", "KILL", "ID", ids[random() % ids.size()]}) == "1") ++killed;
      if (random() % 50 == 0) probe.command({"SCRIPT", "FLUSH"});
    });
    report(all, seed);
    EXPECT_GT(all.counts().hit_in_flight, 0u) << "no cancellation met a request that was under way";
    EXPECT_GT(all.counts().grants, 0u);
    EXPECT_GT(all.counts().granted_after_cancel, 0u);
  }
  if (lose_connections) {
    EXPECT_GT(killed, 0u);
  }

  // P6: what could not be cleaned up before the close ends with the longest lease.
  std::string left;
  for (auto const end = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < end;) {
    left = left_behind(probe, lose_connections);
    if (left.empty()) break;
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(left, "") << "left on the server, seed " << seed;
  EXPECT_TRUE(connections(probe).empty()) << "connections of closed clients";
}

}  // namespace

TEST(ThreadStress, OneHolderAtATimeAndEveryOperationCompletesOnceOnRedis) { run_on_redis(false, 8s); }

TEST(ThreadStress, OneHolderAtATimeAndEveryOperationCompletesOnceWhileConnectionsAreLost) { run_on_redis(true, 14s); }

TEST(ThreadStress, OneHolderAtATimeAndEveryOperationCompletesOnceInMemory) {
  std::uint64_t const seed = chosen_seed();
  stress all{{.url = "memory://stress", .seed = seed, .length = chosen_length(8s)}};
  all.run([] { std::this_thread::sleep_for(10ms); });
  report(all, seed);
  EXPECT_GT(all.counts().grants, 0u);
  EXPECT_GT(all.counts().granted_after_cancel, 0u);
  EXPECT_GT(all.counts().hit_in_flight, 0u);
}

}  // namespace conch::test
