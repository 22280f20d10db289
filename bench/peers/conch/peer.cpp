// conch doing what the peers do, in their protocol (bench/peers/README.md); and the floors: the same scripts by a raw
// socket, and the least that keeps a line and a fence.
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <conch/conch.hpp>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "servers/redis/codec.hpp"
#include "support/raw.hpp"
#include "support/redis_probe.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using std::chrono::microseconds;
using std::chrono::milliseconds;

std::int64_t now_ns() { return steady::now().time_since_epoch().count(); }

void say(std::string const& line) { std::cout << line << std::endl; }

struct job {
  std::string program, workload, url;
  std::size_t tasks = 0;
  bool hands_on = true, looks_first = false;
};

/// What follows "go".
struct go_line {
  explicit go_line(std::string const& line) {
    std::istringstream words{line.substr(2)};
    std::int64_t body_us = 0;
    if (!(words >> seconds >> body_us >> tasks)) throw std::runtime_error{"not understood: " + line};
    body = microseconds{body_us};
  }

  double seconds = 0;
  microseconds body{};
  std::size_t tasks = 0;
};

// -------------------------------------------------------------------------------------------------------- conch

struct task {
  std::uint64_t holds = 0;
  steady::duration held{};
  std::vector<float> waits_us;
};

/// The critical section: slept if it is a millisecond or more, else computed.
asio::awaitable<void> work(asio::steady_timer& timer, steady::duration body) {
  if (body >= milliseconds{1}) {
    timer.expires_after(body);
    co_await timer.async_wait(asio::deferred);
    co_return;
  }
  for (auto const until = steady::now() + body; steady::now() < until;) continue;
}

asio::awaitable<void> cycles(conch::mutex& lock, steady::time_point until, steady::duration body, task& me,
                             bool contended) {
  asio::steady_timer timer{co_await asio::this_coro::executor};
  for (;;) {
    auto const begin = steady::now();
    conch::hold h = co_await lock.async_acquire();
    auto const now = steady::now();
    if (contended) me.waits_us.push_back(std::chrono::duration<float, std::micro>(now - begin).count());
    if (body.count() > 0) co_await work(timer, body);
    auto const releases = steady::now();
    co_await h.async_release();
    if (now >= until) co_return;
    ++me.holds;
    me.held += releases - now;
  }
}

/// Between two that ask, and in the workload "order"; the session of the workload "cut".
constexpr milliseconds gap{3}, order_gap{20}, short_session{4'000};

class player {
 public:
  explicit player(job const& j) : job_{j} {
    bool const drain = j.workload == "drain" || j.workload == "order", contended = j.workload == "contended";
    add_client();
    for (std::size_t i = 0; drain && i < j.tasks; ++i) add_client();
    for (std::size_t i = 0; i <= j.tasks; ++i) {
      bool const shares = contended || j.workload == "hand-off" || j.workload == "cut" || drain;
      locks_.emplace_back(clients_[drain ? i : 0], "peers:" + j.workload + (shares ? "" : ":" + std::to_string(i)));
    }
  }

  void run() {
    asio::co_spawn(context_, play(), stop_on_error);
    if (job_.looks_first) run_looking();
    else context_.run();
  }

 private:
  void add_client() {
    conch::config settings = settings_for(job_.url, true);
    if (!job_.hands_on) settings.local_slice = milliseconds{0};
    if (job_.workload == "cut") settings.lease = short_session;
    clients_.emplace_back(context_.get_executor(), settings);
  }

  /// Looks for events for a while before it sleeps, as the runtimes of some languages do by themselves.
  void run_looking() {
    while (!context_.stopped()) {
      auto const sleeps_at = steady::now() + microseconds{100};
      std::size_t done = 0;
      do done = context_.poll();
      while (done == 0 && !context_.stopped() && steady::now() < sleeps_at);
      if (done == 0) context_.run_one();
    }
  }

  asio::awaitable<void> play() {
    for (auto& client : clients_) {  // connects
      conch::mutex warm{client, "peers:warm:" + std::to_string(::getpid())};
      conch::hold h = co_await warm.async_acquire();
      co_await h.async_release();
    }
    asio::posix::stream_descriptor input{context_, ::dup(STDIN_FILENO)};
    std::string buffer;
    say("ready");
    for (;;) {
      auto token = asio::redirect_error(asio::use_awaitable, ended_);
      std::size_t const length = co_await asio::async_read_until(input, asio::dynamic_buffer(buffer), '\n', token);
      if (ended_) break;
      std::string const line = buffer.substr(0, length - 1);
      buffer.erase(0, length);
      if (line.starts_with("go ")) {
        co_await go(go_line{line});
      } else if (line == "acquire" || line == "wait") {
        held_ = co_await locks_[0].async_acquire();
        say("took " + std::to_string(now_ns()));
        if (job_.workload == "cut")
          held_.async_lost([](conch::error_code) { say("lost " + std::to_string(now_ns())); });
      } else if (line == "believes") {
        say(held_.valid() ? "believes 1" : "believes 0");
      } else if (line == "release") {
        std::int64_t const at = now_ns();
        co_await held_.async_release();
        say("released " + std::to_string(at));
      } else if (line == "arm") {
        held_ = co_await locks_[0].async_acquire();
        order_.clear();
        first_ns_ = 0;
        for (std::size_t i = 1; i <= job_.tasks; ++i) {
          asio::co_spawn(context_, stand_in_line(locks_[i], i - 1), stop_on_error);
          co_await pause(job_.workload == "order" ? order_gap : gap);
        }
        say("armed");
      } else if (line == "drain") {
        std::int64_t const begin = now_ns();
        running_ = job_.tasks;
        co_await held_.async_release();
        co_await all_ended();
        std::string text =
            "drained " + std::to_string((now_ns() - begin) / 1000) + ' ' + std::to_string((first_ns_ - begin) / 1000);
        if (job_.workload == "order") {
          for (std::size_t const who : order_) text += ' ' + std::to_string(who);
        }
        say(text);
      }
    }
    context_.stop();
  }

  asio::awaitable<void> go(go_line line) {
    std::vector<task> tasks(line.tasks);
    auto const until = steady::now() + in_seconds(line.seconds);
    running_ = line.tasks;
    for (std::size_t i = 0; i < line.tasks; ++i) {
      asio::co_spawn(context_, cycles(locks_.at(i), until, line.body, tasks[i], job_.workload == "contended"),
                     [this](std::exception_ptr error) { one_ended(error); });
    }
    co_await all_ended();
    for (task const& t : tasks) {
      std::string text = "task " + std::to_string(t.holds) + ' ' +
                         std::to_string(std::chrono::duration_cast<microseconds>(t.held).count());
      for (float const wait : t.waits_us) text += ' ' + std::to_string(wait);
      text += '\n';
      std::cout << text;
    }
    say("done 0");
  }

  asio::awaitable<void> pause(milliseconds how_long) {
    asio::steady_timer timer{context_, how_long};
    co_await timer.async_wait(asio::deferred);
  }

  asio::awaitable<void> stand_in_line(conch::mutex& lock, std::size_t me) {
    conch::hold h = co_await lock.async_acquire();
    if (first_ns_ == 0) first_ns_ = now_ns();
    // The next one must be the next one in line at the server.
    if (h.fence() <= last_fence_) throw std::runtime_error("the fences do not ascend");
    last_fence_ = h.fence();
    order_.push_back(me);
    co_await h.async_release();
    one_ended(nullptr);
  }

  void one_ended(std::exception_ptr error) {
    stop_on_error(error);
    if (--running_ == 0) over_.cancel();
  }

  asio::awaitable<void> all_ended() {
    over_.expires_at(steady::time_point::max());
    conch::error_code cancelled;
    auto token = asio::redirect_error(asio::use_awaitable, cancelled);
    while (running_ != 0) co_await over_.async_wait(token);
  }

  job job_;
  asio::io_context context_{1};
  std::deque<conch::client> clients_;
  std::deque<conch::mutex> locks_;
  conch::hold held_;
  std::vector<std::size_t> order_;  // of those that were queued, as they had the lock
  std::int64_t last_fence_ = 0, first_ns_ = 0;
  std::size_t running_ = 0;
  asio::steady_timer over_{context_};
  boost::system::error_code ended_;
};

// -------------------------------------------------------------------------------------------------------- floor

void run_raw(job const& j) {
  raw_connection to{j.url};
  load_scripts(to);
  conch::test::redis_probe probe{j.url};
  std::vector<lane> all;
  for (std::size_t i = 0; i < j.tasks; ++i) {
    std::string const name = std::to_string(i);
    all.push_back(j.program == "raw-least" ? least_lane(probe, "{peers:least:" + name + "}")
                                           : conch_lane("peers:raw:" + name, i + 1));
  }
  std::string const id = "000000000000000000000000" + std::to_string(10'000'000 + ::getpid() % 10'000'000);
  std::string const name = "peers:raw:hand-off";
  constexpr milliseconds lease{30'000}, claim{3'000}, retention{600'000};
  std::string acquire, release;
  conch::redis::encode(conch::protocol::acquire_command{name, 1, true, lease, claim, retention, 0, 0, false}, id,
                       acquire);
  conch::redis::encode(conch::protocol::release_command{name, 1, false, lease, claim, retention, 0, false}, id,
                       release);
  if (j.workload == "hand-off") {
    to.exchange(command({"HELLO", "3"}));
    to.exchange(command({"SUBSCRIBE", conch::redis::channel_of(id)}));
  }
  say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with("go ")) {
      go_line const asked{line};
      std::vector<lane> const lanes(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(asked.tasks));
      auto const done = run_lanes(to, lanes, in_seconds(asked.seconds));
      say("task " + std::to_string(done) + " 0\ndone 0");
    } else if (line == "acquire" || line == "wait") {
      to.exchange(acquire);
      // The push, unless the lock was free: then the other one's release came first.
      bool const granted = to.last_reply()[0] == ':' || to.last_reply() == "*3";
      if (line == "wait" && !granted) to.await(1);
      say("took " + std::to_string(now_ns()));
    } else if (line == "release") {
      std::int64_t const at = now_ns();
      to.exchange(release);
      say("released " + std::to_string(at));
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr,
                 "usage: %s conch|conch-each|conch-looks|zookeeper|zookeeper-each|raw|raw-least WORKLOAD PORT TASKS\n",
                 argv[0]);
    return 2;
  }
  job j{argv[1], argv[2], "redis://127.0.0.1:" + std::string{argv[3]}, std::stoul(argv[4])};
  if (j.program.starts_with("zookeeper")) j.url = "zookeeper://127.0.0.1:" + std::string{argv[3]};
  j.hands_on = !j.program.ends_with("-each");
  j.looks_first = j.program == "conch-looks";
  std::ios::sync_with_stdio(false);
  if (j.program.starts_with("raw")) {
    run_raw(j);
  } else {
    player{j}.run();
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_peer: %s\n", error.what());
  return 1;
}
