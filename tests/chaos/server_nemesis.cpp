#include "chaos/server_nemesis.hpp"

#include "chaos/role_watch.hpp"
#include "engine/backend.hpp"
#include "protocol/wire.hpp"

#include <csignal>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using towards = tcp_proxy::towards;

/// The fence of a grant at this moment. When a grant was made cannot be asked of its holder: the answer may have been
/// on its way, or the process stopped, for long.
std::int64_t fence_of_now() {
  auto const now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  return (now.time_since_epoch().count() - protocol::fence_epoch_us) * engine::hand_offs_per_grant;
}

}  // namespace

server_nemesis::server_nemesis(chaos_options const& options) : redis_nemesis{options} {
  // The append-only file is written before an answer goes out, so what was acknowledged outlives SIGKILL; it need not
  // outlive the machine.
  redis_server_options lock_server{.tcp = true, .appendonly = true};
  lock_server.arguments = {"--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"};
  server_ = std::make_unique<redis_server>(lock_server);
  for (worker& w : workers_) {
    proxies_.push_back(std::make_unique<tcp_proxy>(server_->port(), draw()));
    start(w);
  }
}

std::vector<std::string> server_nemesis::arguments_of(worker const& w) { return {"--url", proxy_of(w).url()}; }

/// Its old connections may hang in the proxy for a while.
void server_nemesis::replaced(worker const& w) {
  if (roll(2) == 0) proxies_[static_cast<std::size_t>(w.number)] = std::make_unique<tcp_proxy>(server_->port(), draw());
}

void server_nemesis::calm() {
  nemesis::calm();
  for (auto const& p : proxies_) p->heal();
}

void server_nemesis::strike() {
  worker& w = any_worker();
  int const what = roll(100);
  if (what < 25) {
    hurt_worker(w, roll(100));
  } else if (what < 70) {
    hurt_link(w, roll(100));
  } else if (what < 85) {
    hurt_by_command(roll(100));
  } else {
    hurt_server(roll(100));
  }
}

void server_nemesis::hurt_link(worker const& w, int chance) {
  tcp_proxy& p = proxy_of(w);
  auto const direction = roll(2) == 0 ? towards::server : towards::client;
  auto const mend_after = [&](int limit) { later(milliseconds{20 + roll(limit)}, [this, &w] { proxy_of(w).heal(); }); };
  if (chance < 20) {
    note("links delayed");
    p.set(direction, {.delay = milliseconds{roll(60)}, .jitter = milliseconds{1 + roll(80)}});
    mend_after(2000);
  } else if (chance < 35) {
    note("links split");
    p.set(direction, {.split = static_cast<std::size_t>(1 + roll(40)), .gap = std::chrono::microseconds{roll(300)}});
    mend_after(1500);
  } else if (chance < 55) {
    note("links stalled");
    p.set(direction, {.stalled = true});
    mend_after(roll(2) == 0 ? 300 : 2500);
  } else if (chance < 65) {
    // Half-open: neither end is told. A proxy that dropped a part of the stream cannot continue with the rest.
    note("links gone silent");
    p.set(direction, {.swallowed = true});
    if (roll(2) == 0) p.set(direction == towards::server ? towards::client : towards::server, {.swallowed = true});
    later(milliseconds{50 + roll(2500)}, [this, &w] {
      proxy_of(w).heal();
      proxy_of(w).reset();
    });
  } else if (chance < 80) {
    note("links reset");
    p.reset();
  } else if (chance < 90) {
    note("links reset after some bytes");
    p.reset_after(direction, 1 + static_cast<std::uint64_t>(roll(600)));
  } else if (chance < 95) {
    note("links dropped");
    p.drop();
  } else {
    note("links refused");
    p.refuse(true);
    p.reset();
    mend_after(1500);
  }
}

void server_nemesis::hurt_by_command(int chance) {
  if (!is_up()) return;
  try {
    redis_probe probe{*server_, 2s};
    if (chance < 80) {
      kill_a_connection(*server_);
    } else if (chance < 90) {
      note("scripts flushed");
      probe.command({"SCRIPT", "FLUSH"});
    } else {
      note("server paused");
      probe.command({"CLIENT", "PAUSE", std::to_string(roll(400)), roll(2) == 0 ? "ALL" : "WRITE"});
    }
  } catch (std::runtime_error const&) {
    // Too slow to answer at the moment: it is not this one's part to complain.
  }
}

void server_nemesis::hurt_server(int chance) {
  if (!is_up()) return;
  if (chance < 50) {
    note("server stopped");
    server_->stop();
    server_stopped_ = true;
    auto const lease = static_cast<int>(options_.lease.count());
    later(milliseconds{roll(3) == 0 ? roll(2 * lease) : roll(lease / 3)}, [this] {
      if (server_stopped_) server_->cont();
      server_stopped_ = false;
    });
    return;
  }
  bool const keep_data = !options_.lose_data || chance < 80;
  note(keep_data ? "server killed" : "server killed, data lost");
  if (!keep_data && roll(2) == 0) {
    // What it said reaches some only when it is back and has given away again what they were granted.
    note("answers outlived their data");
    for (worker& w : workers_) {
      if (roll(2) == 0) continue;
      proxy_of(w).set(towards::client, {.delay = milliseconds{100 + roll(200)}});
      later(milliseconds{400}, [this, &w] { proxy_of(w).heal(); });
    }
    std::this_thread::sleep_for(80ms);
  }
  loss_.from = fence_of_now();
  server_->kill(SIGKILL);
  loss_.at = boot_now();
  loss_.killed = fence_of_now();
  server_up_ = false;
  later(milliseconds{roll(2) == 0 ? 0 : roll(800)}, [this, keep_data] { server_back(keep_data); });
}

void server_nemesis::server_back(bool keep_data) {
  if (server_up_) return;
  server_->restart(keep_data);
  server_up_ = true;
  loss_.to = fence_of_now();
  if (!keep_data) losses_.push_back(loss_);
}

}  // namespace conch::test
