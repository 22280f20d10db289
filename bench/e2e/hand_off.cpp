// F4: from the call of release in one process to the next owner running in another. F7: how long each waits when four
// processes with 25 waiters each want one lock.
#include <boost/asio/steady_timer.hpp>
#include <conch/conch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "servers/redis/codec.hpp"
#include "support/processes.hpp"
#include "support/raw.hpp"
#include "support/redis_probe.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using std::chrono::microseconds;
using std::chrono::milliseconds;

std::int64_t now_ns() { return steady::now().time_since_epoch().count(); }

/// How long an owner keeps the lock, so that the other one is queued again.
constexpr auto keep = milliseconds{1};
constexpr std::size_t rounds = 150;  // of each player

/// With new players each: where the kernel has put them decides much, and they mostly stay there.
constexpr int games = 4;

struct exchange {
  std::atomic<std::int64_t> released{0};
  std::array<std::atomic<bool>, 2> queued{};
  std::atomic<std::size_t> count{0};
  std::array<double, 2 * rounds> us{};

  void took(std::int64_t since) {
    if (since != 0) us[count.fetch_add(1)] = static_cast<double>(now_ns() - since) / 1e3;
  }
  samples all() const {
    samples s;
    for (std::size_t i = 0; i < count.load(); ++i) s.add(us[i]);
    return s;
  }
};

asio::awaitable<void> play(exchange& x, conch::client& client, conch::mutex& lock, asio::io_context& context) {
  asio::steady_timer timer{context};
  std::uint64_t pushed = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    conch::hold h = co_await lock.async_acquire();
    std::int64_t const since = x.released.load();
    // Only what was handed over counts: not a lock that was free because the other one had not come back yet.
    std::int64_t const at = now_ns();
    std::uint64_t const now_pushed = client.stats().grants_pushed;
    if (now_pushed != pushed) x.took(since + (now_ns() - at));
    pushed = now_pushed;
    timer.expires_after(keep);
    co_await timer.async_wait(asio::deferred);
    x.released = now_ns();
    co_await h.async_release();
  }
  context.stop();
}

void conch_player(exchange& x, std::string const& url, bool verify = false) {
  asio::io_context context{1};
  conch::config settings = settings_for(url, true);
  settings.verify_pushes = verify;
  conch::client client{context.get_executor(), settings};
  conch::mutex lock{client, "bench:hand-off"};
  asio::co_spawn(context, play(x, client, lock, context), stop_on_error);
  context.run();
}

/// Any client does something between an answer and its next question.
void work_for(microseconds us) {
  for (auto const until = steady::now() + us; steady::now() < until;) continue;
}

/// What a player without a library sends, and the channel on which it is told of its turn.
struct script {
  std::string acquire, release, channel;
};

script own_script(std::size_t me) {
  std::string const id = "0000000000000000000000000000be0" + std::to_string(me);
  std::string const name = "bench:raw-hand-off";
  constexpr milliseconds lease{30'000}, claim{3'000}, retention{600'000};
  script result;
  conch::redis::encode(conch::protocol::acquire_command{name, 1, true, lease, claim, retention, 0, 0, false}, id,
                       result.acquire);
  conch::redis::encode(conch::protocol::release_command{name, 1, false, lease, claim, retention, 0, false}, id,
                       result.release);
  result.channel = conch::redis::channel_of(id);
  return result;
}

/// The least that keeps a line and a fence and hands the lock on: no call could be left out, nothing else is looked
/// after.
script least_script(conch::test::redis_probe& probe, std::size_t me) {
  std::string const name = "{bench:least-hand-off}", id = "0000000000000000000000000000be0" + std::to_string(me);
  auto const call = [&](std::string const& source) {
    return command({"EVALSHA", probe.command({"SCRIPT", "LOAD", source}), "3", name, name + ":q", name + ":f", id,
                    "30000", "600000"});
  };
  return {call("local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] if redis.call('EXISTS', KEYS[1], "
               "KEYS[2]) > 0 then "
               "redis.call('ZADD', KEYS[2], now, ARGV[1]) return 0 end redis.call('SET', KEYS[3], now, 'PX', ARGV[3]) "
               "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return now"),
          call("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end local following = redis.call('ZPOPMIN', "
               "KEYS[2])[1] "
               "if not following then redis.call('DEL', KEYS[1]) return 1 end local t = redis.call('TIME') local now = "
               "t[1] * 1000000 + t[2] "
               "redis.call('SET', KEYS[3], now, 'PX', ARGV[3]) redis.call('SET', KEYS[1], following, 'PX', ARGV[2]) "
               "redis.call('PUBLISH', 'bench:least:' .. following, now) return 1"),
          "bench:least:" + id};
}

void raw_player(exchange& x, std::string const& url, std::size_t me, script const& mine, raw_connection::waits how,
                microseconds works = {}) {
  auto const& [acquire, release, channel] = mine;
  raw_connection to{url, how};
  to.exchange(command({"HELLO", "3"}));
  to.exchange(command({"SUBSCRIBE", channel}));
  if (me == 1) {
    while (!x.queued[0]) std::this_thread::sleep_for(milliseconds{1});
  }
  to.exchange(acquire);
  x.queued[me] = true;
  if (me == 1) to.await(1);  // the push
  // Each reply is read before the next request, and the other one keeps the lock until then: no push comes in between.
  for (std::size_t i = 0; i < rounds; ++i) {
    if (i != 0 || me == 1) x.took(x.released.load());
    std::this_thread::sleep_for(keep);
    while (!x.queued[1 - me]) std::this_thread::yield();
    x.queued[me] = false;
    x.released = now_ns();
    if (i + 1 == rounds) {
      x.queued[me] = true;  // the other one must not wait for this one any more
      to.exchange(release);
    } else {
      // One after the other: in one write the push would wait for the second script.
      to.exchange(release);
      work_for(works);
      to.exchange(acquire);
      x.queued[me] = true;
      to.await(1);
    }
  }
}

/// One game of two players that begin now.
template <class Play>
samples game(server& redis, Play const& play) {
  redis.probe().command({"FLUSHALL"});
  shared<exchange> x;
  child first{[&] { play(*x, 0); }};
  child second{[&] { play(*x, 1); }};
  first.join();
  second.join();
  return x->all();
}

void latency(report& out, options const& chosen, server& redis, std::string const& url, std::string const& way) {
  progress("F4 " + way);
  struct latencies {
    samples p50, p99, all;
  } ours, verified, by_epoll, working, least, floor;
  std::array<script, 2> const own{own_script(0), own_script(1)},
      shortest{least_script(redis.probe(), 0), least_script(redis.probe(), 1)};
  auto const measure = [&](latencies& into, auto const& play) {
    samples us;
    for (int i = 0; i < games; ++i) us.add(game(redis, play));
    into.p50.add(us.quantile(0.5));
    into.p99.add(us.quantile(0.99));
    into.all.add(us);
  };
  for (int i = 0; i < chosen.repetitions; ++i) {
    measure(ours, [&](exchange& x, std::size_t) { conch_player(x, url); });
    measure(verified, [&](exchange& x, std::size_t) { conch_player(x, url, true); });
    measure(by_epoll,
            [&](exchange& x, std::size_t me) { raw_player(x, url, me, own[me], raw_connection::waits::by_epoll); });
    measure(working, [&](exchange& x, std::size_t me) {
      raw_player(x, url, me, own[me], raw_connection::waits::by_epoll, microseconds{6});
    });
    measure(least,
            [&](exchange& x, std::size_t me) { raw_player(x, url, me, shortest[me], raw_connection::waits::in_recv); });
    measure(floor,
            [&](exchange& x, std::size_t me) { raw_player(x, url, me, own[me], raw_connection::waits::in_recv); });
  }
  out.add("F4", "hand-off between processes, p50, " + way, ours.p50, "us", own_scripts, floor.p50);
  out.add("F4", "hand-off between processes, p50, " + way, ours.p50, "us", least_scripts, least.p50);
  out.add("F4", "hand-off between processes, p99, " + way, ours.p99, "us", own_scripts, floor.p99);
  out.add("F4", "hand-off between processes with verify_pushes, p50, " + way, verified.p50, "us",
          "without verify_pushes", ours.p50);
  out.add("F4", "hand-off of the floor waiting by epoll, p50, " + way, by_epoll.p50, "us", "waiting in recv",
          floor.p50);
  out.add("F4", "hand-off of the same, working 6 us before it asks again, p50, " + way, working.p50, "us",
          "waiting in recv, not working", floor.p50);
  out.distribution("F4", "all hand-offs, " + way, ours.all, "us", &floor.all);
}

/// As many hand-overs of each, 20,000 unless --seconds says less, by turns, a few hundred by each pair of processes:
/// where the kernel puts those decides more than anything they do.
void tails(report& out, options const& chosen, server& redis, std::string const& url, std::string const& way) {
  auto const count = static_cast<std::size_t>(50'000 * chosen.seconds);
  std::array<script, 2> const own{own_script(0), own_script(1)},
      shortest{least_script(redis.probe(), 0), least_script(redis.probe(), 1)};
  samples ours, by_epoll, least, floor;
  while (ours.size() < count) {
    progress("F4-tails " + way + ": " + std::to_string(ours.size()) + " of " + std::to_string(count));
    ours.add(game(redis, [&](exchange& x, std::size_t) { conch_player(x, url); }));
    by_epoll.add(game(
        redis, [&](exchange& x, std::size_t me) { raw_player(x, url, me, own[me], raw_connection::waits::by_epoll); }));
    least.add(game(redis, [&](exchange& x, std::size_t me) {
      raw_player(x, url, me, shortest[me], raw_connection::waits::in_recv);
    }));
    floor.add(game(
        redis, [&](exchange& x, std::size_t me) { raw_player(x, url, me, own[me], raw_connection::waits::in_recv); }));
  }
  std::string const name = "hand-off between processes, " + way + ", of " + std::to_string(count);
  out.tails("F4-tails", name, ours, "us", own_scripts, floor);
  out.tails("F4-tails", name, ours, "us", "the same, waiting by epoll", by_epoll);
  out.tails("F4-tails", name, ours, "us", least_scripts, least);
}

// ---------------------------------------------------------------------------------------------------------- F7

constexpr std::size_t processes = 4, waiters = 25, most = 400'000;

struct fairness {
  barrier begin;
  std::array<std::array<std::uint64_t, waiters>, processes> holds{};
  std::array<std::atomic<std::size_t>, processes> count{};
  std::array<std::array<float, most>, processes> wait_ms{};
};

asio::awaitable<void> take_turns(fairness& f, std::size_t process, std::size_t me, conch::mutex& lock, crew& with,
                                 asio::io_context& context, microseconds body) {
  asio::steady_timer timer{context};
  do {
    auto const begin = steady::now();
    conch::hold h = co_await lock.async_acquire();
    std::size_t const at = f.count[process].load(std::memory_order_relaxed);
    if (at < most) {
      f.wait_ms[process][at] = static_cast<float>(seconds_since(begin) * 1e3);
      f.count[process].store(at + 1, std::memory_order_relaxed);
    }
    ++f.holds[process][me];
    if (body.count() > 0) {
      timer.expires_after(body);
      co_await timer.async_wait(asio::deferred);
    }
    co_await h.async_release();
    with.count();
  } while (with.working());
}

double jain(std::vector<double> const& shares) {
  double sum = 0, squares = 0;
  for (double const s : shares) {
    sum += s;
    squares += s * s;
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

void fair(report& out, options const& chosen, server& redis, milliseconds slice, microseconds body) {
  std::string const name = "4 x 25 waiters, body " + std::to_string(body.count()) + " us, local_slice " +
                           std::to_string(slice.count()) + " ms";
  progress("F7 " + name);
  samples p50, p99, ratio, between, among;
  for (int i = 0; i < std::min(chosen.repetitions, 3); ++i) {
    shared<fairness> f;
    redis.probe().command({"FLUSHALL"});
    std::vector<std::unique_ptr<child>> all;
    for (std::size_t p = 0; p < processes; ++p) {
      all.push_back(std::make_unique<child>([&] {
        asio::io_context context{1};
        conch::config settings = settings_for(redis.unix_url(), true);
        settings.local_slice = slice;
        conch::client client{context.get_executor(), settings};
        conch::mutex warm{client, "bench:warm:" + std::to_string(p)}, lock{client, "bench:fair"};
        crew with{context};
        with.run(1, milliseconds{1}, [&](std::size_t) { return uncontended_cycles(with, warm); });
        f->begin.wait(processes);
        with.run(waiters, in_seconds(chosen.seconds * 4),
                 [&](std::size_t me) { return take_turns(*f, p, me, lock, with, context, body); });
      }));
    }
    for (auto& one : all) one->join();
    samples waits;
    std::vector<double> per_process, per_waiter;
    for (std::size_t p = 0; p < processes; ++p) {
      double sum = 0;
      for (std::size_t k = 0; k < f->count[p]; ++k) waits.add(static_cast<double>(f->wait_ms[p][k]));
      for (auto const holds : f->holds[p]) {
        per_waiter.push_back(static_cast<double>(holds));
        sum += static_cast<double>(holds);
      }
      per_process.push_back(sum);
    }
    p50.add(waits.quantile(0.5));
    p99.add(waits.quantile(0.99));
    between.add(jain(per_process));
    among.add(jain(per_waiter));
  }
  samples one;
  one.add(1);
  out.add("F7", "wait, p50, " + name, p50, "ms");
  out.add("F7", "wait, p99, " + name, p99, "ms", "p50", p50);
  out.add("F7", "Jain's index of the processes, " + name, between, "1", "all alike", one);
  out.add("F7", "Jain's index of the waiters, " + name, among, "1", "all alike", one);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen = parse_options(argc, argv,
                                       "F4: hand-off latency between two processes against raw script and push.\n"
                                       "F4-tails: p50 to p99.9 of 20,000 of them. Only if it is asked for.\n"
                                       "F7: waits and fairness of 4 processes with 25 waiters each.");
  server redis;
  raw_connection setup{redis.unix_url()};
  load_scripts(setup);
  report out{chosen};
  if (chosen.wants("F4")) {
    latency(out, chosen, redis, redis.unix_url(), "unix");
    latency(out, chosen, redis, redis.tcp_url(), "tcp");
  }
  if (!chosen.figures.empty() && chosen.wants("F4-tails")) {
    tails(out, chosen, redis, redis.tcp_url(), "tcp");
    tails(out, chosen, redis, redis.unix_url(), "unix");
  }
  if (chosen.wants("F7")) {
    using std::chrono::microseconds;
    fair(out, chosen, redis, milliseconds{0}, microseconds{0});
    fair(out, chosen, redis, milliseconds{5}, microseconds{0});
    fair(out, chosen, redis, milliseconds{5}, microseconds{500});
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_hand_off: %s\n", error.what());
  return 1;
}
