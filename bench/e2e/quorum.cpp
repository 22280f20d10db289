// F8: how long it takes to acquire a lock over five servers that nobody else wants, with all of them well, one stopped,
// one killed. The floor writes the same script to five sockets and waits until three have answered, whichever they are.
// Then how long it takes from the call of release in one process to the next owner running in another, against the same
// scripts raw, and against the round trip: one small write to five sockets, three answers. And how often strict fences
// need a second round.
#include <conch/conch.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "servers/redis/codec.hpp"
#include "support/processes.hpp"
#include "support/raw.hpp"
#include "support/redis_server.hpp"
#include "support/report.hpp"
#include "support/tcp_proxy.hpp"

namespace {

using namespace conch::bench;
namespace asio = boost::asio;

constexpr std::size_t servers = 5, rounds = 500;
constexpr std::size_t needed = 3;
/// After each release, so that the slower servers have carried it out when the next acquire begins.
constexpr auto rest = std::chrono::microseconds{200};
using five = std::array<std::unique_ptr<conch::test::redis_server>, servers>;
using urls = std::vector<std::string>;

urls nearby(five const& all) {
  urls to;
  for (auto const& s : all) to.push_back("unix://" + s->socket_path());
  return to;
}

double us_since(steady::time_point begin) {
  return std::chrono::duration<double, std::micro>(steady::now() - begin).count();
}

asio::awaitable<void> cycles(conch::mutex& lock, samples& latency, std::size_t count) {
  asio::steady_timer timer{co_await asio::this_coro::executor};
  for (std::size_t i = 0; i < count; ++i) {
    auto const begin = steady::now();
    conch::hold h = co_await lock.async_acquire();
    latency.add(us_since(begin));
    co_await h.async_release();
    timer.expires_after(rest);
    co_await timer.async_wait(asio::deferred);
  }
}

struct library {
  explicit library(urls const& all, bool strict = true)
      : client{context.get_executor(), settings(all, strict)},
        lock{client, "bench:quorum"} {
    samples warm_up;
    run(warm_up, 50);
  }

  static conch::config settings(urls const& all, bool strict) {
    conch::config c;
    c.single_threaded = true;
    c.quorum.strict_fence = strict;
    c.quorum.servers = all;
    return c;
  }

  void run(samples& latency, std::size_t count = rounds) {
    bool done = false;
    asio::co_spawn(context, cycles(lock, latency, count), [&](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
      done = true;
    });
    context.restart();
    while (!done) context.run_one();
  }

  asio::io_context context{1};
  conch::client client;
  conch::mutex lock;
};

/// A connection to each of the servers that are there, and how many messages it has brought.
struct connections {
  explicit connections(urls const& all) {
    for (auto const& url : all) to.push_back(std::make_unique<raw_connection>(url));
    received.resize(to.size());
  }

  void send(std::string_view bytes) {
    for (auto const& one : to) one->send(bytes);
  }

  /// Waits until this many of them have received that many messages in all; the others may continue.
  void await(std::size_t messages, std::size_t of) {
    auto const has = [&](std::size_t one) { return one >= messages; };
    while (static_cast<std::size_t>(std::count_if(received.begin(), received.end(), has)) < of) {
      std::array<pollfd, servers> open{};
      nfds_t count = 0;
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (!has(received[i])) open[count++] = {to[i]->handle(), POLLIN, 0};
      }
      if (::poll(open.data(), count, -1) < 0 && errno != EINTR) throw std::runtime_error{"poll"};
      for (std::size_t i = 0, at = 0; i < to.size(); ++i) {
        if (!has(received[i]) && open[at++].revents != 0) received[i] += to[i]->receive();
      }
    }
  }

  std::vector<std::unique_ptr<raw_connection>> to;
  std::vector<std::size_t> received;
};

/// As conch's, of one client: each has an id of its own, asks as of `ticket` (us), and proposes a fence, some us after
/// the previous one and ahead of all clocks.
std::vector<lane> votes(std::string const& name, std::string const& client, std::size_t count, std::int64_t ticket,
                        std::int64_t apart) {
  constexpr std::chrono::milliseconds lease{30'000}, claim{500}, retention{600'000};
  std::int64_t fence = ticket - conch::protocol::fence_epoch_us + 400'000;  // later than the last of them is used
  std::vector<lane> all(count);
  for (std::size_t i = 0; i < count; ++i, fence += apart) {
    conch::engine::grant_id const id{static_cast<std::uint64_t>(ticket) * 1000 + i, ~std::uint64_t{0} - i};
    conch::redis::encode(
        conch::protocol::acquire_command{name, id, true, claim, claim, retention, ticket, 0, false, fence}, client,
        all[i].acquire);
    conch::redis::encode(
        conch::protocol::release_command{name, id, false, lease, claim, retention, 0, false, fence, fence + apart},
        client, all[i].release);
  }
  return all;
}

std::int64_t now_us() {
  using namespace std::chrono;
  return floor<microseconds>(system_clock::now()).time_since_epoch().count();
}

/// One client's votes, one after the other, at the servers that are there.
struct floor_of {
  explicit floor_of(urls const& all) : every{all} {
    for (auto const& one : every.to) load_scripts(*one);
  }

  void run(samples& latency) {
    for (lane const& vote : votes("bench:quorum-floor", "00000000000000000000000000000bec", rounds, now_us(), 500)) {
      auto const begin = steady::now();
      exchange(vote.acquire);
      latency.add(us_since(begin));
      exchange(vote.release);
      std::this_thread::sleep_for(rest);
    }
  }

  /// Writes to all, and waits until three have answered that and everything before.
  void exchange(std::string_view bytes) {
    every.send(bytes);
    every.await(++asked, needed);
  }

  /// Before one of them dies.
  void leave_last() {
    every.to.pop_back();
    every.received.pop_back();
  }

  connections every;
  std::size_t asked = 0;
};

// ---- from one process to another

constexpr std::size_t turns = 200;  // of each player
constexpr auto keep = std::chrono::milliseconds{2};

struct exchange {
  std::atomic<std::int64_t> released{0};
  std::atomic<std::size_t> count{0};
  std::array<std::atomic<bool>, 2> queued{};
  std::atomic<std::uint64_t> grants{0}, second_rounds{0}, given_back{0};
  std::array<double, 2 * turns> us{};
};

asio::awaitable<void> play(exchange& x, conch::client& client, conch::mutex& lock, asio::io_context& context) {
  asio::steady_timer timer{context};
  std::uint64_t pushed = 0;
  for (std::size_t i = 0; i < turns; ++i) {
    conch::hold h = co_await lock.async_acquire();
    std::int64_t const at = steady::now().time_since_epoch().count();
    // Only what was handed over counts, not a lock that was free.
    std::uint64_t const now_pushed = client.stats().grants_pushed;
    std::int64_t const since = x.released;
    if (now_pushed != pushed && since != 0) x.us[x.count++] = static_cast<double>(at - since) / 1e3;
    pushed = now_pushed;
    timer.expires_after(keep);
    co_await timer.async_wait(asio::deferred);
    x.released = steady::now().time_since_epoch().count();
    co_await h.async_release();
  }
  conch::statistics const s = client.stats();
  x.grants += turns;
  x.second_rounds += s.fence_rounds;
  x.given_back += s.votes_given_back;
  context.stop();
}

std::string raw_client(std::size_t me) { return "000000000000000000000000000bec0" + std::to_string(me); }

void player(exchange& x, urls const& all, bool strict) {
  asio::io_context context{1};
  conch::client client{context.get_executor(), library::settings(all, strict)};
  conch::mutex lock{client, "bench:quorum-turns"};
  asio::co_spawn(context, play(x, client, lock, context), [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  context.run();
}

/// The same scripts raw. An owner releases when the other one is queued at all five, and the other one has the lock
/// when three have granted it.
void raw_player(exchange& x, urls const& all, std::size_t me, std::vector<lane> const& mine) {
  connections to{all};
  std::size_t seen = 0;
  auto const ask = [&](std::string const& bytes, std::size_t of) {
    to.send(bytes);
    to.await(++seen, of);
  };
  ask(command({"HELLO", "3"}), servers);
  ask(command({"SUBSCRIBE", conch::redis::channel_of(raw_client(me))}), servers);
  if (me == 1) {
    while (!x.queued[0]) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  ask(mine[0].acquire, servers);
  x.queued[me] = true;
  if (me == 1) to.await(++seen, needed);  // the pushes
  for (std::size_t i = 0; i < turns; ++i) {
    if (i != 0 || me == 1)
      x.us[x.count++] = static_cast<double>(steady::now().time_since_epoch().count() - x.released) / 1e3;
    std::this_thread::sleep_for(keep);
    while (!x.queued[1 - me]) std::this_thread::yield();
    bool const last = i + 1 == turns;
    x.queued[me] = last;  // the other one must not wait for this one any more
    x.released = steady::now().time_since_epoch().count();
    ask(mine[i].release, needed);
    if (last) break;
    ask(mine[i + 1].acquire, servers);
    x.queued[me] = true;
    to.await(++seen, needed);
  }
}

/// The hand-overs of two players that begin now.
template <class Play>
samples game(exchange& x, Play const& play) {
  child first{[&] { play(0); }};
  child second{[&] { play(1); }};
  first.join();
  second.join();
  samples us;
  for (std::size_t n = 0; n < x.count; ++n) us.add(x.us[n]);
  return us;
}

samples raw_game(urls const& all) {
  shared<exchange> x;
  std::string const name = "bench:quorum-raw-turns";
  std::int64_t const begin = now_us();
  constexpr std::int64_t apart = 8'000;  // of one player's votes; the other's lie between them
  return game(*x, [&](std::size_t me) {
    raw_player(*x, all, me,
               votes(name, raw_client(me), turns, begin + static_cast<std::int64_t>(me) * apart / 2, apart));
  });
}

/// One small write to all, until a majority has answered.
void round_trips(floor_of& to_all, samples& us) {
  std::string const write = command({"SET", "bench:quorum-round-trip", "1", "PX", "30000"});
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const begin = steady::now();
    to_all.exchange(write);
    us.add(us_since(begin));
  }
}

void hand_over(report& out, options const& chosen, urls const& all, std::string how, bool strict) {
  if (strict) how += ", strict fences";
  floor_of floor{all};
  progress("F8 hand-over" + how);
  samples p50, p99, raw_p50, raw_p99, round_trip, rounds_p99, second_rounds, given_back;
  for (int i = 0; i < chosen.repetitions; ++i) {
    samples one_write;
    round_trips(floor, one_write);
    shared<exchange> x;
    samples const ours = game(*x, [&](std::size_t) { player(*x, all, strict); }), raw = raw_game(all);
    p50.add(ours.median());
    p99.add(ours.quantile(0.99));
    raw_p50.add(raw.median());
    raw_p99.add(raw.quantile(0.99));
    round_trip.add(one_write.median());
    rounds_p99.add(one_write.quantile(0.99));
    auto const grants = static_cast<double>(x->grants);
    second_rounds.add(static_cast<double>(x->second_rounds) / grants);
    given_back.add(static_cast<double>(x->given_back) / grants);
  }
  out.add("F8", "hand-over between processes, p50" + how, p50, "us", own_scripts, raw_p50);
  out.add("F8", "hand-over between processes, p50" + how, p50, "us", "a round trip", round_trip);
  out.add("F8", "hand-over between processes, p99" + how, p99, "us", own_scripts, raw_p99);
  out.add("F8", "hand-over between processes, p99" + how, p99, "us", "a round trip", rounds_p99);
  out.add("F8", "votes given back for each grant, two processes in turns" + how, given_back, "votes");
  if (strict) out.add("F8", "second rounds for each grant, two processes in turns" + how, second_rounds, "rounds");
}

/// Strict fences of a lock that nobody else wants: what they cost, and how often they need a second round.
void strict_fences(report& out, options const& chosen, urls const& all) {
  progress("F8 strict fences");
  library plain{all, false}, strict{all, true};
  samples with, without, second_rounds;
  for (int i = 0; i < chosen.repetitions; ++i) {
    samples a, b;
    std::uint64_t const before = strict.client.stats().fence_rounds;
    i % 2 == 0 ? strict.run(a) : plain.run(b);
    i % 2 == 0 ? plain.run(b) : strict.run(a);
    with.add(a.median());
    without.add(b.median());
    second_rounds.add(static_cast<double>(strict.client.stats().fence_rounds - before) / rounds);
  }
  out.add("F8", "acquire with strict fences, p50", with, "us", "without strict fences", without);
  out.add("F8", "second rounds for each grant, nobody else", second_rounds, "rounds");
}

void measure(report& out, options const& chosen, library& lib, floor_of& floor, std::string const& name) {
  progress("F8 " + name);
  samples p50, p99, floor_p50, floor_p99;
  for (int i = 0; i < chosen.repetitions; ++i) {
    samples ours, theirs;
    // where the kernel puts five servers and a client stays for a while, and decides much
    for (int turn = 0; turn < 4; ++turn) {
      lib.run(ours);
      floor.run(theirs);
    }
    p50.add(ours.median());
    p99.add(ours.quantile(0.99));
    floor_p50.add(theirs.median());
    floor_p99.add(theirs.quantile(0.99));
  }
  out.add("F8", "acquire over five servers, p50, " + name, p50, "us", own_scripts, floor_p50);
  out.add("F8", "acquire over five servers, p99, " + name, p99, "us", own_scripts, floor_p99);
}

/// As many of each, 20,000 unless --seconds says less, by turns.
void tails(report& out, options const& chosen, urls const& all, library& lib, floor_of& floor) {
  auto const count = static_cast<std::size_t>(50'000 * chosen.seconds);
  samples ours, theirs, handed, handed_raw, round_trip;
  while (ours.size() < count) {
    progress("F8-tails acquire: " + std::to_string(ours.size()) + " of " + std::to_string(count));
    lib.run(ours);
    floor.run(theirs);
  }
  std::string const of_all = ", of " + std::to_string(count);
  out.tails("F8-tails", "acquire over five servers" + of_all, ours, "us", own_scripts, theirs);
  while (handed.size() < count) {
    progress("F8-tails hand-over: " + std::to_string(handed.size()) + " of " + std::to_string(count));
    shared<exchange> x;
    handed.add(game(*x, [&](std::size_t) { player(*x, all, true); }));
    handed_raw.add(raw_game(all));
    round_trips(floor, round_trip);
  }
  out.tails("F8-tails", "hand-over between processes" + of_all, handed, "us", own_scripts, handed_raw);
  out.tails("F8-tails", "hand-over between processes" + of_all, handed, "us", "a round trip", round_trip);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen = parse_options(argc, argv,
                                       "F8: acquire latency over five servers against raw sockets.\nF8-tails: p50 to "
                                       "p99.9 of 20,000. Only if it is asked for.");
  bool const only_tails = !chosen.figures.empty() && chosen.wants("F8-tails");
  if (!only_tails && !chosen.wants("F8")) return 0;
  five all;
  for (auto& s : all) s = std::make_unique<conch::test::redis_server>(conch::test::redis_server_options{.tcp = true});
  report out{chosen};
  library lib{nearby(all)};
  floor_of floor{nearby(all)};
  if (only_tails) {
    tails(out, chosen, nearby(all), lib, floor);
    return 0;
  }
  measure(out, chosen, lib, floor, "all well");
  strict_fences(out, chosen, nearby(all));
  hand_over(out, chosen, nearby(all), "", false);
  hand_over(out, chosen, nearby(all), "", true);
  {
    // A network instead of a socket in memory: what the processors add counts less.
    std::vector<std::unique_ptr<conch::test::tcp_proxy>> ways;
    urls far;
    for (auto const& s : all) {
      auto& way = *ways.emplace_back(std::make_unique<conch::test::tcp_proxy>(s->port()));
      for (auto const direction : {conch::test::tcp_proxy::towards::server, conch::test::tcp_proxy::towards::client}) {
        way.set(direction, {.delay = std::chrono::milliseconds{2}});
      }
      far.push_back(way.url());
    }
    hand_over(out, chosen, far, ", servers 2 ms away", false);
    hand_over(out, chosen, far, ", servers 2 ms away", true);
  }
  floor.leave_last();
  all.back()->stop();
  measure(out, chosen, lib, floor, "one stopped");
  all.back()->cont();
  all.back()->kill();
  measure(out, chosen, lib, floor, "one killed");
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_quorum: %s\n", error.what());
  return 1;
}
