// A lock that ZooKeeper keeps: how long an acquire and a hand-over take beside a write and an event of a bare client,
// and what a client asks the servers for.
#include <boost/asio/steady_timer.hpp>
#include <conch/conch.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "support/processes.hpp"
#include "support/report.hpp"
#include "support/request_counter.hpp"
#include "support/workers.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

namespace {

using namespace conch::bench;
using namespace std::chrono_literals;
using conch::test::zookeeper_client;
using conch::test::zookeeper_ensemble;
using conch::zookeeper::node_kind;
using std::chrono::milliseconds;

constexpr char const* figure = "zookeeper";

std::int64_t now_ns() { return steady::now().time_since_epoch().count(); }
double us_since(steady::time_point t) { return seconds_since(t) * 1e6; }
std::string url_of(std::uint16_t port) { return "zookeeper://127.0.0.1:" + std::to_string(port); }

/// Where two processes are: at one server, or at the two that only follow.
struct place {
  place(std::size_t servers, std::string shown, std::vector<std::string> more = {})
      : ensemble{{.servers = servers, .settings = std::move(more)}},
        name{std::move(shown)} {
    auto const followers = ensemble.followers();
    for (std::size_t i = 0; i < 2; ++i) ports[i] = ensemble.port(servers == 1 ? 0 : followers.at(i));
    zookeeper_client{ports[0], 30s}.create("/bench");
  }

  zookeeper_ensemble ensemble;
  std::string name;
  std::array<std::uint16_t, 2> ports{};
};

// -------------------------------------------------------------------------------------------------------- acquire

struct latencies {
  samples acquired, released, created, listed, removed;

  void add_medians(latencies const& of) {
    for (auto const which :
         {&latencies::acquired, &latencies::released, &latencies::created, &latencies::listed, &latencies::removed}) {
      (this->*which).add((of.*which).median());
    }
  }
};

template <class F>
auto timed(samples& into, F&& f) {
  auto const begin = steady::now();
  auto result = f();
  into.add(us_since(begin));
  return result;
}

/// What the bare client does is what conch sends, and then the same without the list.
void bare_cycles(zookeeper_client& bare, latencies& l) {
  using namespace conch::zookeeper;
  std::string const node = "/bench/node-";
  auto const both = timed(l.listed, [&] {
    bare.send_all({create{node, {}, node_kind::ephemeral_sequential, access::anyone}, get_children{"/bench"}});
    auto const answer = bare.read_answer();
    bare.read_answer();
    return std::get<created>(answer.content);
  });
  bare.remove(both.path);
  auto const made = timed(l.created, [&] { return bare.create(node, node_kind::ephemeral_sequential); });
  timed(l.removed, [&] { return bare.ask(conch::zookeeper::remove{made.path}); });
}

/// A cycle of each by turns.
asio::awaitable<void> time_cycles(conch::mutex& lock, zookeeper_client& bare, double seconds, latencies& l,
                                  asio::io_context& context) {
  for (auto const begin = steady::now(); seconds_since(begin) < seconds;) {
    auto const asked = steady::now();
    conch::hold h = co_await lock.async_acquire();
    l.acquired.add(us_since(asked));
    auto const done = steady::now();
    co_await h.async_release();
    l.released.add(us_since(done));
    bare_cycles(bare, l);
  }
  context.stop();
}

void acquire(report& out, options const& chosen, place& at) {
  progress("acquire, " + at.name);
  asio::io_context context{1};
  conch::client client{context.get_executor(), settings_for(url_of(at.ports[0]), true)};
  conch::mutex lock{client, "bench:acquire"};
  zookeeper_client bare{at.ports[0], 30s};
  latencies all;
  for (int i = 0; i <= chosen.repetitions; ++i) {
    latencies some;
    asio::co_spawn(context, time_cycles(lock, bare, chosen.seconds * 3, some, context), stop_on_error);
    context.restart();
    context.run();
    if (i != 0) all.add_medians(some);  // the first time connects, and the servers compile what runs often
  }
  out.add(figure, "acquire, p50, " + at.name, all.acquired, "us", "a node is made", all.created);
  out.add(figure, "acquire, p50, " + at.name, all.acquired, "us", "a node is made and all are listed, in one write",
          all.listed);
  out.add(figure, "release, p50, " + at.name, all.released, "us", "a node is deleted", all.removed);
}

// -------------------------------------------------------------------------------------------------------- hand-over

constexpr auto keep = 1ms;
constexpr std::size_t rounds = 150;  // of each player
constexpr int games = 3;             // with new processes each

struct exchange {
  std::atomic<std::int64_t> released{0};
  std::atomic<std::size_t> made{0}, watched{0}, count{0};
  std::array<double, 2 * rounds> us{};

  void took(std::int64_t at) {
    if (released.load() != 0) us[count.fetch_add(1)] = static_cast<double>(at - released.load()) / 1e3;
  }
  samples all() const {
    samples s;
    for (std::size_t i = rounds / 3; i < count.load(); ++i) s.add(us[i]);  // the first of them warm up
    return s;
  }
};

asio::awaitable<void> play(exchange& x, conch::client& client, conch::mutex& lock, asio::io_context& context) {
  asio::steady_timer timer{context};
  std::uint64_t pushed = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    conch::hold h = co_await lock.async_acquire();
    std::int64_t const at = now_ns();
    // Only what was handed over counts: not a lock that was free because the other one had not come back yet.
    std::uint64_t const now_pushed = client.stats().grants_pushed;
    if (now_pushed != pushed) x.took(at);
    pushed = now_pushed;
    timer.expires_after(keep);
    co_await timer.async_wait(asio::deferred);
    x.released = now_ns();
    co_await h.async_release();
  }
  co_await client.async_close(10s);
  context.stop();
}

void conch_player(exchange& x, std::uint16_t port) {
  asio::io_context context{1};
  conch::client client{context.get_executor(), settings_for(url_of(port), true)};
  conch::mutex lock{client, "bench:hand-over"};
  asio::co_spawn(context, play(x, client, lock, context), stop_on_error);
  context.run();
}

void wait_for(std::atomic<std::size_t>& value, std::size_t until) {
  while (value.load() < until) std::this_thread::sleep_for(50us);
}

/// By turns one has a node, which the other one watches, and deletes it.
void bare_player(exchange& x, std::uint16_t port, std::size_t me) {
  zookeeper_client client{port, 30s};
  for (std::size_t i = 1; i <= 2 * rounds; ++i) {
    std::string const path = "/bench/turn-" + std::to_string(i);
    if (i % 2 == me) {
      client.create(path, node_kind::ephemeral);
      x.made = i;
      wait_for(x.watched, i);
      std::this_thread::sleep_for(keep);
      x.released = now_ns();
      client.remove(path);
    } else {
      wait_for(x.made, i);
      while (!client.read(path, true)) std::this_thread::sleep_for(100us);  // at another server it may not be there yet
      x.watched = i;
      if (!client.next_notice(60s)) throw std::runtime_error("no event");
      x.took(now_ns());
    }
  }
  client.ask(conch::zookeeper::close_session{});
}

void hand_over(report& out, options const& chosen, place& at) {
  progress("hand-over, " + at.name);
  struct quantiles {
    samples p50, p99;
  } ours, floor;
  auto const game = [&](quantiles& into, auto const& player) {
    shared<exchange> x;
    child first{[&] { player(*x, at.ports[0], 0); }};
    child second{[&] { player(*x, at.ports[1], 1); }};
    first.join();
    second.join();
    into.p50.add(x->all().quantile(0.5));
    into.p99.add(x->all().quantile(0.99));
  };
  for (int i = 0; i < chosen.repetitions * games; ++i) {
    game(ours, [](exchange& x, std::uint16_t port, std::size_t) { conch_player(x, port); });
    game(floor, [](exchange& x, std::uint16_t port, std::size_t me) { bare_player(x, port, me); });
  }
  out.add(figure, "hand-over between processes, p50, " + at.name, ours.p50, "us", "delete to event", floor.p50);
  out.add(figure, "hand-over between processes, p99, " + at.name, ours.p99, "us", "delete to event", floor.p99);
}

// -------------------------------------------------------------------------------------------------------- requests

asio::awaitable<void> take_turns(conch::mutex& lock, std::uint64_t& grants, bool const& over) {
  while (!over) {
    conch::hold h = co_await lock.async_acquire();
    ++grants;
    co_await h.async_release();
  }
}

/// Each has a session of its own, as another process would.
struct clients {
  clients(std::size_t count, std::uint16_t port, std::string const& name, conch::duration lease = 30s) {
    for (std::size_t i = 0; i < count; ++i) {
      conch::config settings = settings_for(url_of(port), true);
      settings.lease = lease;
      all.emplace_back(context.get_executor(), settings);
      locks.emplace_back(all.back(), name);
    }
  }

  asio::io_context context{1};
  std::deque<conch::client> all;
  std::deque<conch::mutex> locks;
};

void requests_a_grant(report& out, options const& chosen, std::uint16_t server, std::size_t count) {
  std::string const name = std::to_string(count) + " clients after one lock";
  progress(name);
  samples lists, all, one;
  one.add(1);
  for (int i = 0; i < std::min(chosen.repetitions, 3); ++i) {
    request_counter counter{server};
    clients players{count, counter.port(), "bench:requests:" + std::to_string(count) + ':' + std::to_string(i)};
    std::uint64_t grants = 0;
    bool over = false;
    for (auto& lock : players.locks) asio::co_spawn(players.context, take_turns(lock, grants, over), stop_on_error);
    while (grants < 4 * count + 20) players.context.run_one();
    auto const before = counter.count();
    std::uint64_t const grants_before = grants;
    while (grants < grants_before + 20 * count + 400) players.context.run_one();
    auto const seen = counter.count().since(before);
    auto const given = static_cast<double>(grants - grants_before);
    lists.add(static_cast<double>(seen.lists) / given);
    all.add(static_cast<double>(seen.all() - seen.pings - seen.writes) / given);
    over = true;
  }
  out.add(figure, "lists a grant, " + name, lists, "lists", "one", one);
  out.add(figure, "requests a grant, without heartbeats, " + name, all, "requests");
}

void waiting(report& out, std::uint16_t server) {
  progress("waiting");
  request_counter counter{server};
  constexpr auto session = 6s, watch = 24s;
  clients holder{1, server, "bench:waiting"}, waiter{1, counter.port(), "bench:waiting", session};
  conch::hold held;
  holder.locks[0].async_acquire([&](conch::error_code ec, conch::hold h) {
    if (ec) throw boost::system::system_error{ec};
    held = std::move(h);
    holder.context.stop();
  });
  holder.context.run();
  holder.context.restart();
  waiter.locks[0].async_acquire([](conch::error_code ec, conch::hold const&) {
    if (!ec) throw std::runtime_error("a lock that is held was given away");
  });
  auto const run = [&](std::chrono::seconds how_long) {
    std::thread other{[&] { holder.context.run_for(how_long); }};
    waiter.context.run_for(how_long);
    other.join();
  };
  run(6s);
  auto const before = counter.count();
  run(watch);
  auto const seen = counter.count().since(before);
  double const beats = static_cast<double>(watch / (session / 6));
  out.add(figure, "a waiting client: messages in each sixth of the session", static_cast<double>(seen.all()) / beats,
          "requests", "a ping and a write", 2);
  out.add(figure, "a waiting client: those that are neither a ping nor a write to the node of its session",
          static_cast<double>(seen.all() - seen.pings - seen.writes), "requests");
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv,
                    "zookeeper: acquire and hand-over against a write and an event of a bare client, by one server\n"
                    "and by the followers of three; what clients ask the servers for.");
  report out{chosen};
  {
    place one{1, "1 server"};
    acquire(out, chosen, one);
    hand_over(out, chosen, one);
    for (std::size_t const count : {2u, 50u}) requests_a_grant(out, chosen, one.ports[0], count);
    waiting(out, one.ports[0]);
  }
  {
    place synced{1, "1 server that waits for its disk", {"forceSync=yes"}};
    acquire(out, chosen, synced);
    hand_over(out, chosen, synced);
  }
  place three{3, "3 servers, at followers"};
  acquire(out, chosen, three);
  hand_over(out, chosen, three);
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_zookeeper: %s\n", error.what());
  return 1;
}
