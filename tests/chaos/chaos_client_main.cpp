// One client process of conch-chaos: several tasks that acquire, use and release a few locks forever. What they do
// under a lock goes to the recorder; so does every refusal, with what the hold had said about itself.

#include "chaos/witness.hpp"

#include <conch/conch.hpp>
#include <conch/reentrant_shared_mutex.hpp>

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
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <unistd.h>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::witness;

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

std::int64_t in_ns(conch::time_point t) { return t.time_since_epoch().count(); }

struct worker {
  worker(asio::io_context& ctx, conch::config settings, std::string const& witness_url, std::string n,
         std::uint64_t seed, int lock_count)
      : client{ctx.get_executor(), std::move(settings)},
        recorder{witness_url},
        name{std::move(n)},
        random{seed},
        locks{lock_count} {}

  int roll(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random); }

  conch::client client;
  conch::owner together;  // of several tasks
  witness recorder;
  std::string const name;
  std::mt19937_64 random;
  int const locks;
  std::string kinds = "mutex";
  int slow_share = 60;     // one hold in this many is held long enough to be renewed
  bool tells_all = false;  // the recorder is told of each hold from its grant to its end, and of each connection
  std::uint64_t acquires = 0;
  bool stopping = false;
};

/// What a hold has of its lock.
struct share {
  char const* name = "mutex";
  int weight = 1, limit = 1;
  std::string owner = conch::test::visit::nobody;
  bool guarded = false;  // the resource of the recorder is for one at a time
};

/// What is known of one hold while it is used.
template <class Hold>
struct use_of_hold {
  std::string lock, who;
  share of;
  Hold hold;
  std::int64_t granted = 0;
  std::int64_t promised = 0;  // the latest deadline that it has shown; a lost hold shows none
  std::shared_ptr<std::int64_t> lost_at = std::make_shared<std::int64_t>(std::numeric_limits<std::int64_t>::max());
  conch::history::operation asked;
};

/// What is said of a mutex: the history of another kind of lock is not judged.
void tell(worker& w, share const& of, conch::history::operation const& o) {
  if (of.guarded) w.recorder.told(o);
}

/// One step at the guarded resource. The deadline is read before: what the hold promises at that moment must be true,
/// however long this process is stopped before the recorder is told of it.
template <class Hold>
bool step(worker& w, use_of_hold<Hold>& v, char const* what) {
  std::int64_t const promised = in_ns(v.hold.deadline());
  v.promised = std::max(v.promised, promised);
  if (!v.of.guarded) return true;
  auto answer = witness::answer::wrong;
  if (what[0] == 'e') answer = w.recorder.enter(v.lock, v.who, v.hold.fence(), v.granted);
  if (what[0] == 'w') answer = w.recorder.write(v.lock, v.who, v.hold.fence());
  if (what[0] == 'l') answer = w.recorder.leave(v.lock, v.who, v.hold.fence());
  if (answer == witness::answer::refused) {
    w.recorder.report({v.who, v.lock, what, v.hold.fence(), w.recorder.seen(), v.granted,
                       std::min(promised, *v.lost_at), w.recorder.seen_at()});
  }
  return answer == witness::answer::accepted;
}

asio::awaitable<void> sleep_for(std::chrono::microseconds d) {
  asio::steady_timer timer{co_await asio::this_coro::executor, d};
  co_await timer.async_wait(use_tuple);
}

template <class Hold>
asio::awaitable<void> use(worker& w, use_of_hold<Hold>& v) {
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
  // A client that was refused believes in the hold until it is told: for how long?
  for (std::int64_t const end = v.promised; !inside && v.hold.valid() && in_ns(conch::clock::now()) < end;)
    co_await sleep_for(2ms);
  std::int64_t const ended = std::min({v.promised, *v.lost_at, in_ns(conch::clock::now())});
  w.recorder.visited({v.who, v.lock, v.hold.fence(), v.granted, ended, v.of.weight, v.of.limit, v.of.owner});
}

/// Some permits of a semaphore, in the shape of a mutex.
class permits {
 public:
  permits(conch::semaphore of, std::uint32_t count) : of_{std::move(of)}, count_{count} {}

  template <class Token>
  auto async_acquire(conch::acquire_options options, Token&& token) {
    return of_.async_acquire(count_, options, std::forward<Token>(token));
  }
  template <class Token>
  auto async_acquire(Token&& token) {
    return of_.async_acquire(count_, std::forward<Token>(token));
  }
  template <class Token>
  auto async_try_acquire(Token&& token) {
    return of_.async_try_acquire(count_, std::forward<Token>(token));
  }

 private:
  conch::semaphore of_;
  std::uint32_t count_;
};

template <class Hold, class Lock>
asio::awaitable<Hold> acquire(worker& w, Lock lock, conch::history::operation& asked) {
  int const kind = w.roll(10);
  auto const began = conch::clock::now();
  asked.invoked = in_ns(began);
  asked.how = conch::history::outcome::refused;
  conch::error_code ec;
  Hold h;
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
    asked.what = conch::history::action::attempt;
    auto result = co_await lock.async_try_acquire(use_tuple);
    ec = std::get<0>(result);
    h = std::move(std::get<1>(result));
    if (!ec && !h) asked.how = conch::history::outcome::busy;
  } else {
    asio::cancellation_signal signal;
    asio::steady_timer timer{co_await asio::this_coro::executor, std::chrono::microseconds{w.roll(20'000)}};
    constexpr asio::cancellation_type types[] = {asio::cancellation_type::total, asio::cancellation_type::partial,
                                                 asio::cancellation_type::terminal};
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
  if (ec && ec != conch::errc::timed_out && ec != conch::errc::unreachable && ec != conch::errc::closed &&
      ec != asio::error::operation_aborted) {
    w.recorder.complain(w.name + ": acquire ended with " + ec.message());
  }
  if (ec == conch::errc::unreachable) w.recorder.count("acquires unreachable");
  asked.completed = in_ns(conch::clock::now());
  if (h) {
    asked.how = conch::history::outcome::granted;
    asked.fence = h.fence();
    asked.deadline = in_ns(h.deadline());
  }
  co_return h;
}

/// The holder can acquire the lock once more at once, as the same hold.
template <class Lock>
asio::awaitable<void> nest(worker& w, use_of_hold<conch::reentrant_hold>& v, Lock lock) {
  auto result = co_await lock.async_try_acquire(use_tuple);
  conch::error_code const ec = std::get<0>(result);
  conch::reentrant_hold const inner = std::move(std::get<1>(result));
  if (!v.hold.valid() || w.stopping) co_return;  // then it was an acquire of its own
  if (ec || !inner)
    w.recorder.complain(v.who + ": an acquire by the holder of '" + v.lock + "' ended with " +
                        (ec ? ec.message() : "nothing"));
  else if (inner.fence() != v.hold.fence())
    w.recorder.complain(v.who + ": two levels of '" + v.lock + "' have two fences");
  w.recorder.count("nested");
}

template <class Hold = conch::hold, class Lock>
asio::awaitable<void> take(worker& w, std::string who, std::string name, share of, Lock lock) {
  use_of_hold<Hold> v;
  v.who = std::move(who);
  v.lock = std::move(name);
  v.of = std::move(of);
  v.asked.lock = v.lock;
  v.asked.process = v.who;
  v.asked.hold = (static_cast<std::uint64_t>(getpid()) << 32) + ++w.acquires;
  v.hold = co_await acquire<Hold>(w, lock, v.asked);
  tell(w, v.of, v.asked);
  if (!v.hold) {
    co_await sleep_for(std::chrono::microseconds{w.roll(10'000)});
    co_return;
  }
  v.granted = in_ns(conch::clock::now());
  w.recorder.progress(v.who);
  w.recorder.count(std::string{"taken as "} + v.of.name);
  if constexpr (std::is_same_v<Hold, conch::reentrant_hold>) {
    if (w.roll(3) == 0) co_await nest(w, v, lock);
  }
  co_await use(w, v);
  if (*v.lost_at != std::numeric_limits<std::int64_t>::max()) w.recorder.count("losses told");
  conch::history::operation release = v.asked;
  release.what = conch::history::action::release;
  release.how = conch::history::outcome::unknown;
  release.invoked = in_ns(conch::clock::now());
  release.completed = conch::history::never;
  release.deadline = std::max(v.promised, in_ns(v.hold.deadline()));
  if (w.roll(5) == 0) {
    v.hold = Hold{};
  } else {
    auto released = co_await v.hold.async_release(use_tuple);
    conch::error_code const ec = std::get<0>(released);
    bool const was_held = std::get<1>(released);
    if (ec && ec != conch::errc::unreachable) w.recorder.complain(v.who + ": release ended with " + ec.message());
    if (!ec) release.completed = in_ns(conch::clock::now());
    if (!ec) release.how = was_held ? conch::history::outcome::held : conch::history::outcome::not_held;
  }
  tell(w, v.of, release);
  if (*v.lost_at != std::numeric_limits<std::int64_t>::max()) {  // it may have been told of that only while it released
    conch::history::operation lost = v.asked;
    lost.what = conch::history::action::lost;
    lost.how = conch::history::outcome::not_held;
    lost.invoked = lost.completed = *v.lost_at;
    tell(w, v.of, lost);
  }
  if (w.roll(3) == 0) co_await sleep_for(std::chrono::microseconds{w.roll(20'000)});
}

/// All clients must agree on what a lock is.
std::string kind_of(worker const& w, int lock) {
  constexpr char const* in_turn[] = {"mutex", "shared_mutex", "semaphore", "reentrant_mutex", "reentrant_shared_mutex"};
  return w.kinds == "all" ? in_turn[lock % 5] : w.kinds;
}

asio::awaitable<void> task(worker& w, int number) {
  constexpr int everything = 1000;  // more than there are tasks
  constexpr int most_permits = 3;
  std::string const who = w.name + "." + std::to_string(number);
  conch::owner const myself;
  while (!w.stopping) {
    int const which = w.roll(w.locks);
    std::string const name = "chaos:" + std::to_string(which);
    std::string const kind = kind_of(w, which);
    bool const writes = w.roll(3) == 0;
    if (kind == "mutex") {
      share const of{.guarded = true};
      conch::mutex const lock{w.client, name};
      co_await take(w, who, name, of, lock);
    } else if (kind == "shared_mutex" && writes) {
      share const of{"writer", everything, everything};
      conch::shared_mutex const lock{w.client, name};
      co_await take(w, who, name, of, lock);
    } else if (kind == "shared_mutex") {
      share const of{"reader", 1, everything};
      auto const lock = conch::shared_mutex{w.client, name}.readers();
      co_await take(w, who, name, of, lock);
    } else if (kind == "semaphore") {
      int const count = 1 + w.roll(most_permits);
      share const of{"permits", count, most_permits};
      permits const lock{conch::semaphore{w.client, name, most_permits}, static_cast<std::uint32_t>(count)};
      co_await take(w, who, name, of, lock);
    } else if (kind == "reentrant_mutex") {
      bool const alone = w.roll(2) == 0;
      share const of{"reentrant", 1, 1, alone ? who : w.name};
      auto const lock = conch::reentrant_mutex{w.client, name}.for_owner(alone ? myself : w.together);
      co_await take<conch::reentrant_hold>(w, who, name, of, lock);
    } else if (kind == "reentrant_shared_mutex") {
      share const of{writes ? "reentrant writer" : "reentrant reader", writes ? everything : 1, everything, who};
      auto const lock = conch::reentrant_shared_mutex{w.client, name}.for_owner(myself);
      auto const reading = lock.readers();
      if (writes) co_await take<conch::reentrant_hold>(w, who, name, of, lock);
      else co_await take<conch::reentrant_hold>(w, who, name, of, reading);
    } else {
      throw std::invalid_argument{"no such kind: " + kind};
    }
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
  bool const fails_over = settings.url.starts_with("redis-sentinel://") || settings.url.starts_with("redis-cluster://");
  bool const tells_all = fails_over || settings.url.starts_with("zookeeper://");
  std::string const name = settings.client_name;
  auto const arrivals = fails_over ? std::make_unique<witness>(value_of(argc, argv, "--witness")) : nullptr;
  if (fails_over) {
    settings.log = [&](conch::log_level, std::string_view words) {
      constexpr std::string_view there = "connected to redis://127.0.0.1:";
      if (words.starts_with(there))
        arrivals->arrived({name, std::stoi(std::string{words.substr(there.size())}), in_ns(conch::clock::now())});
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
  w.kinds = value_of(argc, argv, "--kinds");
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
  for (auto const& [what, n] :
       {std::pair{"grants replied", s.grants_replied}, std::pair{"grants pushed", s.grants_pushed},
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
