// One process of a crowd after one lock over several servers.
//
//   conch-redlock-crowd URL NAME COROUTINES ROUNDS FILE SLICE_US BODY_US
//
// Each coroutine takes the lock ROUNDS times and, under it, adds one to the number in FILE by reading and writing: two
// at a time would lose one; then it keeps the lock for BODY_US. Waits for a line of input before it begins; then writes
// one line: GRANTS VOTES_GIVEN_BACK SCRIPTS P99_WAIT_US MAX_WAIT_US SECONDS_US LOSSES TURNS UNCLEAR SEEN_WAITING
// OVERTAKINGS...
//
// A turn is a grant by the servers, not from one coroutine to the next. At its beginning, under the lock, the servers
// are asked for their queues. A client that is queued at a majority of them (SEEN_WAITING) with an earlier ticket than
// the one of this turn is overtaken; OVERTAKINGS lists by how many microseconds. A turn is unclear if no majority
// agrees on its owner.

#include "support/redis_probe.hpp"

#include <conch/conch.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;

/// What the ids of a lock's owners and of those in line say: CLIENT.N, N beginning with the ticket and ending in three
/// digits of the attempt.
struct place {
  std::string client;
  long ticket = 0;
  auto operator<=>(place const&) const = default;
};

class outside_observer {
 public:
  outside_observer(std::string_view url, std::string const& lock) : key_{"conch:{" + lock + "}"} {
    url.remove_prefix(std::string_view{"redlock://"}.size());
    while (!url.empty()) {
      auto const end = std::min(url.find(','), url.size());
      servers_.emplace_back("redis://" + std::string{url.substr(0, end)});
      url.remove_prefix(std::min(end + 1, url.size()));
    }
  }

  long seen_waiting = 0;

  /// By how much the tickets of waiters are earlier than the holder's; nothing if no majority shows a holder.
  std::optional<std::vector<long>> overtaken() {
    std::map<place, std::size_t> owners, waiting;
    for (auto& server : servers_) {
      bool first = true;
      std::string const said = server.command(
          {"EVAL", "return {redis.call('GET', KEYS[1]) or 'nobody.', redis.call('ZRANGE', KEYS[2], 0, -1)}", "2", key_,
           key_ + ":q"});
      for (place const& p : places_in(said)) ++(std::exchange(first, false) ? owners : waiting)[p];
    }
    auto const holder =
        std::find_if(owners.begin(), owners.end(), [&](auto const& one) { return is_majority(one.second); });
    if (holder == owners.end()) return std::nullopt;
    std::vector<long> by;
    for (auto const& [who, where] : waiting) {
      if (who.client == holder->first.client || !is_majority(where)) continue;
      ++seen_waiting;
      if (who.ticket < holder->first.ticket) by.push_back(holder->first.ticket - who.ticket);
    }
    return by;
  }

 private:
  bool is_majority(std::size_t n) const { return n > servers_.size() / 2; }

  static std::vector<place> places_in(std::string_view said) {
    std::vector<place> all;
    for (std::size_t dot = said.find('.'); dot != said.npos; dot = said.find('.', dot + 1)) {
      std::size_t const from = said.find_last_of("[ ", dot) + 1;
      std::size_t const end = said.find_first_of(" ,]", dot);
      std::string const number{said.substr(dot + 1, end - dot - 1)};
      all.push_back({std::string{said.substr(from, dot - from)}, std::atol(number.c_str()) / 1000});
    }
    return all;
  }

  std::string const key_;
  std::vector<conch::test::redis_probe> servers_;
};

struct crowd {
  conch::mutex& lock;
  outside_observer& outside;
  int file;
  int rounds;
  std::chrono::microseconds body;
  std::vector<long> waits_us;
  long losses = 0;
  long turns = 0, unclear = 0;
  std::vector<long> overtaken_by_us;
};

constexpr std::int64_t hand_offs_per_grant = 4096;

long microseconds(std::chrono::steady_clock::duration d) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

void add_one(int file) {
  char text[24] = {};
  if (::pread(file, text, sizeof text - 1, 0) < 0) std::abort();
  int const size = std::snprintf(text, sizeof text, "%-20ld", std::atol(text) + 1);
  if (::pwrite(file, text, static_cast<std::size_t>(size), 0) != size) std::abort();
}

asio::awaitable<void> one_of_many(crowd& all) {
  auto const executor = co_await asio::this_coro::executor;
  asio::steady_timer timer{executor};
  for (int i = 0; i < all.rounds; ++i) {
    auto const asked = std::chrono::steady_clock::now();
    conch::hold h = co_await all.lock.async_acquire();
    all.waits_us.push_back(microseconds(std::chrono::steady_clock::now() - asked));
    add_one(all.file);
    if (all.body.count() != 0) {
      timer.expires_after(all.body);
      co_await timer.async_wait(asio::use_awaitable);
    }
    if (h.fence() % hand_offs_per_grant == 0) {
      ++all.turns;
      auto const overtaken = all.outside.overtaken();
      if (overtaken) {
        all.overtaken_by_us.insert(all.overtaken_by_us.end(), overtaken->begin(), overtaken->end());
      } else {
        ++all.unclear;
      }
    }
    bool const was_held = co_await h.async_release();
    if (!was_held) ++all.losses;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    asio::io_context ctx;
    conch::config settings;
    settings.url = argv[1];
    settings.local_slice = std::chrono::microseconds{std::atol(argv[6])};
    conch::client client{ctx.get_executor(), settings};
    conch::mutex lock{client, argv[2]};
    int const file = ::open(argv[5], O_RDWR);
    if (file < 0) return 3;
    outside_observer outside{argv[1], argv[2]};
    crowd all{lock, outside, file, std::atoi(argv[4]), std::chrono::microseconds{std::atol(argv[7])}, {}, 0, 0, 0, {}};
    if (std::getchar() == EOF) return 4;
    int left = std::atoi(argv[3]);
    auto const began = std::chrono::steady_clock::now();
    for (int i = left; i > 0; --i) {
      asio::co_spawn(ctx, one_of_many(all), [&](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
        if (--left == 0) ctx.stop();
      });
    }
    ctx.run();
    auto const took = std::chrono::steady_clock::now() - began;
    std::sort(all.waits_us.begin(), all.waits_us.end());
    conch::statistics const s = client.stats();
    std::size_t const p99 = all.waits_us.size() * 99 / 100;
    std::printf("%zu %llu %llu %ld %ld %ld %ld %ld %ld %ld", all.waits_us.size(),
                static_cast<unsigned long long>(s.votes_given_back), static_cast<unsigned long long>(s.scripts),
                all.waits_us[p99], all.waits_us.back(), microseconds(took), all.losses, all.turns, all.unclear,
                outside.seen_waiting);
    for (long const us : all.overtaken_by_us) std::printf(" %ld", us);
    std::printf("\n");
    client.async_close(std::chrono::seconds{5}, [](conch::error_code) {});
    ctx.restart();
    ctx.run();
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
