// Many processes after one lock over five servers.

#include "integration/places.hpp"
#include "integration/redlock_fixture.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace conch::test {
namespace {

/// A running conch-redlock-crowd.
class crowd_process {
 public:
  crowd_process(std::string const& url, int coroutines, int rounds, std::string const& file, long slice_us,
                long body_us) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error{"pipe2"};
    std::string const many = std::to_string(coroutines), times = std::to_string(rounds);
    std::string const slice = std::to_string(slice_us), body = std::to_string(body_us);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execl(redlock_crowd_program, redlock_crowd_program, url.c_str(), "crowd", many.c_str(), times.c_str(),
              file.c_str(), slice.c_str(), body.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
  }
  crowd_process(crowd_process&& other) noexcept
      : pid_{std::exchange(other.pid_, 0)},
        in_{std::exchange(other.in_, -1)},
        out_{std::exchange(other.out_, -1)} {}
  ~crowd_process() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(in_);
    ::close(out_);
  }

  void go() { ASSERT_EQ(::write(in_, "\n", 1), 1); }

  /// All that it says.
  std::string result() {
    std::string text;
    char buffer[256];
    for (ssize_t n = 0; (n = ::read(out_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    return text;
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1, out_ = -1;
};

struct manner {
  char const* name;
  long slice_us, body_us;
};

class RedlockContention : public testing::TestWithParam<manner> {};

TEST_P(RedlockContention, TenProcessesOfTwentyCoroutinesCountExactlyAndGiveHardlyAnyVoteBack) {
  constexpr int processes = 10, coroutines = 20, rounds = 20;
  std::deque<redis_server> servers;
  std::string url = "redlock://";
  for (std::size_t i = 0; i < masters; ++i) {
    redis_server_options options;
    options.tcp = true;
    servers.emplace_back(options);
    url += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(servers.back().port());
  }
  std::string const file = (servers[0].directory() / "counter").string();
  std::ofstream{file} << "0";

  std::vector<crowd_process> all;
  for (int i = 0; i < processes; ++i)
    all.emplace_back(url, coroutines, rounds, file, GetParam().slice_us, GetParam().body_us);
  for (auto& one : all) one.go();
  long grants = 0, given_back = 0, scripts = 0, worst_p99 = 0, longest = 0, took = 0, losses = 0, turns = 0,
       unclear = 0, seen_waiting = 0;
  std::vector<long> overtaken_by_us;
  for (auto& one : all) {
    std::string const said = one.result();
    std::istringstream words{said};
    long n[10] = {};
    for (long& number : n) ASSERT_TRUE(words >> number) << said;
    for (long us = 0; words >> us;) overtaken_by_us.push_back(us);
    grants += n[0];
    given_back += n[1];
    scripts += n[2];
    worst_p99 = std::max(worst_p99, n[3]);
    longest = std::max(longest, n[4]);
    took = std::max(took, n[5]);
    losses += n[6];
    turns += n[7];
    unclear += n[8];
    seen_waiting += n[9];
  }
  long counted = 0;
  std::ifstream{file} >> counted;
  EXPECT_EQ(grants, processes * coroutines * rounds);
  EXPECT_EQ(counted, grants) << "two at a time lose one";
  // A busy machine may stop a process for longer than a vote is claimed for.
  EXPECT_LT(losses * 100, grants);
  EXPECT_LT(given_back * 10, grants) << "votes given back";
  // The tickets are the servers' time as each client knows it, and a request takes a moment to arrive: clients that ask
  // at the same time may be served in either order. On a busy host a process may be paused in between.
  constexpr long same_time_us = 10'000;
  auto const real =
      std::count_if(overtaken_by_us.begin(), overtaken_by_us.end(), [](long us) { return us > same_time_us; });
  EXPECT_LT(real * 100, turns) << "overtakings";
  EXPECT_LT(overtaken_by_us.size() * 20, static_cast<std::size_t>(turns)) << "and those who asked at the same time";
  EXPECT_LT(unclear * 100, turns);
  EXPECT_GT(seen_waiting, 4 * turns) << "else there was nobody to overtake";
  // All are served once before any is served again, more or less: on a busy machine a process may be paused for a round
  // or two.
  EXPECT_LT(worst_p99, 10 * took / rounds);
  // Nobody waits for longer than a handful of rounds of all the others.
  EXPECT_LT(longest, took);
  RecordProperty("grants", std::to_string(grants));
  RecordProperty("votes_given_back", std::to_string(given_back));
  RecordProperty("scripts", std::to_string(scripts));
  RecordProperty("p99_wait_us", std::to_string(worst_p99));
  RecordProperty("longest_wait_us", std::to_string(longest));
  RecordProperty("took_us", std::to_string(took));
  RecordProperty("turns", std::to_string(turns));
  RecordProperty("overtakings", std::to_string(real));
  RecordProperty("overtakings_at_the_same_time", std::to_string(static_cast<long>(overtaken_by_us.size()) - real));
  auto const farthest = std::max_element(overtaken_by_us.begin(), overtaken_by_us.end());
  std::printf(
      "%ld grants in %ld turns, %ld of them unclear; %.1f seen waiting at each; %zu overtakings (%ld by more than 10 "
      "ms, the longest by %ld us); %ld "
      "votes given back; "
      "p99 of the wait %ld us, a round %ld us\n",
      grants, turns, unclear, static_cast<double>(seen_waiting) / static_cast<double>(turns), overtaken_by_us.size(),
      static_cast<long>(real), farthest == overtaken_by_us.end() ? 0 : *farthest, given_back, worst_p99, took / rounds);
}

INSTANTIATE_TEST_SUITE_P(Manner, RedlockContention,
                         testing::Values(manner{"EachGrantByTheServers", 0, 0}, manner{"InSlices", 5000, 500}),
                         [](auto const& one) { return std::string{one.param.name}; });

}  // namespace
}  // namespace conch::test
