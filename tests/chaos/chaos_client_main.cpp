// One client process of conch-chaos: several tasks that acquire, use and release a few locks for ever. What they do under a
// lock goes to the recorder; so does every refusal, with what the hold had said about itself.

#include "chaos/witness.hpp"

#include <conch/conch.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <string>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::witness;

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

std::int64_t in_ns(conch::time_point t) { return t.time_since_epoch().count(); }

struct worker {
  worker(asio::io_context& ctx, conch::config settings, std::string const& witness_url, std::string n, std::uint64_t seed, int lock_count)
      : client{ctx.get_executor(), std::move(settings)}, recorder{witness_url}, name{std::move(n)}, random{seed}, locks{lock_count} {}

  int roll(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random); }

  conch::client client;
  witness recorder;
  std::string const name;
  std::mt19937_64 random;
  int const locks;
  int slow_share = 60;     // one hold in so many is held long enough to be renewed
  bool tells_all = false;  // the recorder hears of each hold from its grant to its end, and of each connection
  bool stopping = false;
};

/// What is known of one hold while it is used.
struct use_of_hold {
  std::string lock, who;
  conch::hold hold;
  std::int64_t granted = 0;
  std::int64_t promised = 0;  // the latest deadline that it has shown; a lost hold shows none
  std::shared_ptr<std::int64_t> lost_at = std::make_shared<std::int64_t>(std::numeric_limits<std::int64_t>::max());
};

/// One step at the guarded resource. The deadline is read before: what the hold promises at that moment must be true,
/// however long this process is stopped before the recorder hears of it.
bool step(worker& w, use_of_hold& v, char const* what) {
  std::int64_t const promised = in_ns(v.hold.deadline());
  v.promised = std::max(v.promised, promised);
  auto answer = witness::answer::wrong;
  if (what[0] == 'e') answer = w.recorder.enter(v.lock, v.who, v.hold.fence(), v.granted);
  if (what[0] == 'w') answer = w.recorder.write(v.lock, v.who, v.hold.fence());
  if (what[0] == 'l') answer = w.recorder.leave(v.lock, v.who, v.hold.fence());
  if (answer == witness::answer::refused) {
    w.recorder.report({v.who, v.lock, what, v.hold.fence(), w.recorder.seen(), v.granted, std::min(promised, *v.lost_at), w.recorder.seen_at()});
  }
  return answer == witness::answer::accepted;
}

asio::awaitable<void> sleep_for(std::chrono::microseconds d) {
  asio::steady_timer timer{co_await asio::this_coro::executor, d};
  co_await timer.async_wait(use_tuple);
}

asio::awaitable<void> use(worker& w, use_of_hold& v) {
  auto const lost_at = v.lost_at;
  v.hold.async_lost([lost_at](conch::error_code why) {
    if (why != asio::error::operation_aborted) *lost_at = in_ns(conch::clock::now());
  });
  bool inside = step(w, v, "enter");
  int const writes = w.roll(4);
  bool const careless = w.roll(8) == 0;  // does not ask whether it still holds: the fence has to catch it
  bool const slow = w.roll(w.slow_share) == 0;
  for (int i = 0; inside && i < writes; ++i) {
    for (int part = 0; slow && part < 18; ++part) {
      co_await sleep_for(50ms);
      v.promised = std::max(v.promised, in_ns(v.hold.deadline()));
    }
    if (!slow) co_await sleep_for(std::chrono::microseconds{w.roll(3000)});
    if (!careless && !v.hold.valid()) break;
    inside = step(w, v, "write");
  }
  if (inside) step(w, v, "leave");
  if (!w.tells_all) co_return;
  // Whoever was refused believes in the hold until it is told: for how long?
  for (std::int64_t const end = v.promised; !inside && v.hold.valid() && in_ns(conch::clock::now()) < end;) co_await sleep_for(2ms);
  w.recorder.visited({v.who, v.lock, v.hold.fence(), v.granted, std::min({v.promised, *v.lost_at, in_ns(conch::clock::now())})});
}

asio::awaitable<conch::hold> acquire(worker& w, conch::mutex lock) {
  int const kind = w.roll(10);
  auto const began = conch::clock::now();
  conch::error_code ec;
  conch::hold h;
  if (kind < 6) {
    auto result = co_await lock.async_acquire(use_tuple);
    ec = std::get<0>(result);
    h = std::move(std::get<1>(result));
    auto const waited = conch::clock::now() - began;
    if (h) w.recorder.longest("worst wait ms", waited / 1ms);
  } else if (kind < 8) {
    conch::acquire_options const limited{.wait = std::chrono::milliseconds{w.roll(600)}};
    auto result = co_await lock.async_acquire(limited, use_tuple);
    ec = std::get<0>(result);
    h = std::move(std::get<1>(result));
  } else if (kind < 9) {
    auto result = co_await lock.async_try_acquire(use_tuple);
    ec = std::get<0>(result);
    h = std::move(std::get<1>(result));
  } else {
    asio::cancellation_signal signal;
    asio::steady_timer timer{co_await asio::this_coro::executor, std::chrono::microseconds{w.roll(20'000)}};
    constexpr asio::cancellation_type types[] = {asio::cancellation_type::total, asio::cancellation_type::partial, asio::cancellation_type::terminal};
    auto const type = types[w.roll(3)];
    auto cancel = [&signal, type](conch::error_code aborted) {
      if (!aborted) signal.emit(type);
    };
    timer.async_wait(cancel);
    auto token = asio::bind_cancellation_slot(signal.slot(), use_tuple);
    auto result = co_await lock.async_acquire(token);
    ec = std::get<0>(result);
    h = std::move(std::get<1>(result));
    // Not before the timer's handler has ended may the signal go.
    if (timer.cancel() == 0) co_await asio::post(asio::use_awaitable);
    co_await asio::post(asio::use_awaitable);
  }
  if (ec && ec != conch::errc::timed_out && ec != conch::errc::unreachable && ec != conch::errc::closed && ec != asio::error::operation_aborted) {
    w.recorder.complain(w.name + ": acquire ended with " + ec.message());
  }
  if (ec == conch::errc::unreachable) w.recorder.count("acquires unreachable");
  co_return h;
}

asio::awaitable<void> task(worker& w, int number) {
  std::string const who = w.name + "." + std::to_string(number);
  while (!w.stopping) {
    use_of_hold v;
    v.who = who;
    v.lock = "chaos:" + std::to_string(w.roll(w.locks));
    conch::mutex const lock{w.client, v.lock};
    v.hold = co_await acquire(w, lock);
    if (!v.hold) {
      co_await sleep_for(std::chrono::microseconds{w.roll(10'000)});
      continue;
    }
    v.granted = in_ns(conch::clock::now());
    w.recorder.progress(who);
    co_await use(w, v);
    if (*v.lost_at != std::numeric_limits<std::int64_t>::max()) w.recorder.count("losses told");
    if (w.roll(5) == 0) {
      v.hold = conch::hold{};
    } else {
      auto released = co_await v.hold.async_release(use_tuple);
      conch::error_code const ec = std::get<0>(released);
      if (ec && ec != conch::errc::unreachable) w.recorder.complain(who + ": release ended with " + ec.message());
    }
    if (w.roll(3) == 0) co_await sleep_for(std::chrono::microseconds{w.roll(20'000)});
  }
}

char const* value_of(int argc, char** argv, std::string const& option) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (option == argv[i]) return argv[i + 1];
  }
  std::fprintf(stderr, "conch-chaos-client: %s is missing; conch-chaos starts this program\n", option.c_str());
  std::exit(2);
}

int run(int argc, char** argv) {
  asio::io_context ctx{1};
  conch::config settings;
  settings.url = value_of(argc, argv, "--url");
  settings.lease = std::chrono::milliseconds{std::atoi(value_of(argc, argv, "--lease"))};
  settings.claim = settings.lease / 5;
  settings.command_timeout = settings.lease / 4;
  settings.stop_margin = settings.lease / 8;
  settings.connect_timeout = std::min<conch::duration>(settings.lease, 1200ms);
  settings.reconnect_min = 10ms;
  settings.reconnect_max = 300ms;
  settings.offline_timeout = settings.lease * 2;
  settings.keep_alive = 2s;
  settings.local_slice = std::chrono::milliseconds{std::atoi(value_of(argc, argv, "--slice"))};
  settings.client_name = value_of(argc, argv, "--name");
  settings.single_threaded = settings.local_slice > 2ms;  // some of them
  // Only the client knows when it has come to another server.
  bool const tells_all = settings.url.starts_with("redis-sentinel://") || settings.url.starts_with("redis-cluster://");
  std::string const name = settings.client_name;
  auto const arrivals = tells_all ? std::make_unique<witness>(value_of(argc, argv, "--witness")) : nullptr;
  if (tells_all) {
    settings.log = [&](conch::log_level, std::string_view words) {
      constexpr std::string_view there = "connected to redis://127.0.0.1:";
      if (words.starts_with(there)) arrivals->arrived({name, std::stoi(std::string{words.substr(there.size())}), in_ns(conch::clock::now())});
    };
  }
  int const tasks = std::atoi(value_of(argc, argv, "--tasks"));
  worker w{ctx,
           settings,
           value_of(argc, argv, "--witness"),
           value_of(argc, argv, "--name"),
           std::strtoull(value_of(argc, argv, "--seed"), nullptr, 10),
           std::atoi(value_of(argc, argv, "--locks"))};

  w.slow_share = std::atoi(value_of(argc, argv, "--slow"));
  w.tells_all = tells_all;

  asio::signal_set signals{ctx, SIGTERM};
  signals.async_wait([&](conch::error_code, int) {
    w.stopping = true;
    w.client.async_close(3s, [](conch::error_code) {});
  });
  int left = tasks;
  std::exception_ptr failure;
  auto ended = [&](std::exception_ptr error) {
    if (error) failure = error;
    if (--left == 0) signals.cancel();
    if (error) ctx.stop();
  };
  for (int i = 0; i < tasks; ++i) asio::co_spawn(ctx, task(w, i), ended);
  ctx.run();
  if (failure) std::rethrow_exception(failure);

  auto const s = w.client.stats();
  for (auto const& [what, n] : {std::pair{"grants replied", s.grants_replied}, std::pair{"grants pushed", s.grants_pushed},
                                std::pair{"grants local", s.grants_local}, std::pair{"reconnects", s.disconnects}}) {
    w.recorder.count(what, static_cast<std::int64_t>(n));
  }
  if (s.waiting != 0 || s.held != 0) w.recorder.complain(w.name + ": counts waiters or holds after its end");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "conch-chaos-client: %s\n", error.what());
    return 3;
  }
}
