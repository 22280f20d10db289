// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/measure.hpp"

#include <conch/client.hpp>
#include <conch/mutex.hpp>
#include <conch/observer.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace conch::cli {

namespace {

using namespace std::chrono_literals;

/// Has the server put an acquire into the queue? Every kind of server reports that.
class queue_watch final : public observer {
 public:
  bool is_queued = false;

 private:
  void on_queued(lock_event const&) override { is_queued = true; }
};

config settings_of(connection const& servers, std::shared_ptr<queue_watch> watch) {
  config c = servers.settings;
  c.offline_timeout = 3s;
  c.fence_retention = 1s;  // nothing of the measurement stays
  c.observer = std::move(watch);
  return c;
}

/// Nothing else uses it.
std::string some_name() {
  std::random_device random;
  return "conch-measurement-" + std::to_string(::getpid()) + '-' + std::to_string(random());
}

/// Clients that one thread runs, in the manner of code that waits.
class bench_clients {
 public:
  explicit bench_clients(connection const& servers)
      : quorum_{servers.quorum},
        one_{context_.get_executor(), settings_of(servers, watches_[0])},
        two_{context_.get_executor(), settings_of(servers, watches_[1])} {
    std::string const name = some_name();
    locks_[0].emplace(one_, name);
    locks_[1].emplace(two_, name);
  }

  /// An acquire that is under way.
  struct asked {
    std::optional<error_code> why;
    hold got;
    time_point at;
  };

  void start(std::size_t who, asked& a) {
    a.why.reset();
    watches_[who]->is_queued = false;
    locks_[who]->async_acquire({.wait = 10s}, [&a](error_code why, hold h) {
      a.at = clock::now();
      a.why = why;
      a.got = std::move(h);
    });
  }

  void finish(asked& a) {
    run_until([&] { return a.why.has_value(); });
    if (*a.why) throw boost::system::system_error{*a.why};
  }

  /// Begins a release. Result: when.
  time_point start_release(asked& a) {
    released_.reset();
    time_point const now = clock::now();
    a.got.async_release([this](error_code why, bool) { released_ = why; });
    return now;
  }

  void finish_release() {
    run_until([&] { return released_.has_value(); });
    if (*released_) throw boost::system::system_error{*released_};
  }

  void wait_until_in_line(std::size_t who) {
    constexpr duration unless_told = 20ms, longest = 5s;  // unknown over several servers: each has its own queue
    time_point const end = clock::now() + (quorum_ ? unless_told : longest);
    context_.restart();
    while (!watches_[who]->is_queued && clock::now() < end && context_.run_one_until(end) != 0) {
    }
  }

 private:
  template <class Condition>
  void run_until(Condition const& is_true) {
    context_.restart();
    while (!is_true() && context_.run_one() != 0) {
    }
  }

  bool const quorum_;
  std::shared_ptr<queue_watch> const watches_[2]{std::make_shared<queue_watch>(), std::make_shared<queue_watch>()};
  asio::io_context context_{1};
  client one_, two_;
  std::optional<mutex> locks_[2];
  std::optional<error_code> released_;
};

}  // namespace

std::vector<duration> measure_cycles(connection const& servers, duration time) {
  bench_clients clients{servers};
  std::vector<duration> all;
  bench_clients::asked a;
  clients.start(0, a);  // connects, and sends the scripts
  clients.finish(a);
  clients.start_release(a);
  clients.finish_release();
  for (time_point const end = clock::now() + time; clock::now() < end;) {
    time_point const begin = clock::now();
    clients.start(0, a);
    clients.finish(a);
    clients.start_release(a);
    clients.finish_release();
    all.push_back(clock::now() - begin);
  }
  return all;
}

std::vector<duration> measure_hand_overs(connection const& servers, duration time, std::size_t least) {
  bench_clients clients{servers};
  bench_clients::asked sides[2];
  std::vector<duration> all;
  clients.start(0, sides[0]);
  clients.finish(sides[0]);
  std::size_t holder = 0;
  for (time_point const end = clock::now() + time; clock::now() < end || all.size() < least;) {
    std::size_t const next = 1 - holder;
    clients.start(next, sides[next]);
    clients.wait_until_in_line(next);
    time_point const begin = clients.start_release(sides[holder]);
    clients.finish(sides[next]);
    all.push_back(sides[next].at - begin);
    clients.finish_release();
    holder = next;
  }
  clients.start_release(sides[holder]);
  clients.finish_release();
  all.erase(all.begin(), all.begin() + (all.size() > 2 ? 2 : 0));  // those that sent the scripts
  return all;
}

seen_label read_own_label(connection const& servers, std::string const& url,
                          std::function<lock_status(std::string const&)> const& look) {
  asio::io_context context{1};
  config settings = servers.at(url);
  settings.offline_timeout = 3s;
  settings.fence_retention = 1s;
  client holder{context.get_executor(), std::move(settings)};
  mutex lock{holder, some_name()};
  auto const run = [&](auto const& start) {
    std::optional<error_code> why;
    start(why);
    context.restart();
    while (!why && context.run_one() != 0) {
    }
    if (*why) throw boost::system::system_error{*why};
  };
  hold held;
  lock_status now;
  run([&](auto& why) {
    lock.async_acquire({.wait = 10s}, [&](error_code e, hold h) { held = std::move(h), why = e; });
  });
  seen_label seen{holder.settings().label.value_or(""), {}};
  // Another master of a Cluster may keep the label, and get it a moment later than the lock is granted.
  for (int attempt = 0; attempt < 20 && seen.read != seen.own; ++attempt) {
    if (attempt != 0) context.run_for(50ms);
    if (look) now = look(lock.name());
    else run([&](auto& why) { lock.async_inspect([&](error_code e, lock_status s) { now = std::move(s), why = e; }); });
    if (!now.holders.empty()) seen.read = now.holders.front().label;
  }
  run([&](auto& why) { held.async_release([&](error_code e, bool) { why = e; }); });
  return seen;
}

duration quantile(std::vector<duration> all, double share) {
  std::size_t const rank = std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())));
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rank), all.end());
  return all[rank];
}

}  // namespace conch::cli
