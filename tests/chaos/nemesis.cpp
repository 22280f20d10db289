#include "chaos/nemesis.hpp"

#include "cohort/backend.hpp"
#include "protocol/wire.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using towards = tcp_proxy::towards;

pid_t spawn(std::vector<std::string> line) {
  std::vector<char*> arguments;
  for (auto& a : line) arguments.push_back(a.data());
  arguments.push_back(nullptr);
  pid_t const parent = ::getpid();
  pid_t const child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return child;
}

/// Ids of the connections that workers made to the lock server.
std::vector<std::string> connections(redis_probe& probe) {
  std::istringstream list{probe.command({"CLIENT", "LIST"})};
  std::vector<std::string> ids;
  for (std::string line; std::getline(list, line);) {
    if (line.find(" name=w") == std::string::npos) continue;
    auto const at = line.find("id=") + 3;
    ids.push_back(line.substr(at, line.find(' ', at) - at));
  }
  return ids;
}

/// The fence of a grant at this moment. When a grant was made cannot be asked of its holder: the answer may have been on its
/// way, or the process stopped, for long.
std::int64_t fence_of_now() {
  auto const now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  return (now.time_since_epoch().count() - protocol::fence_epoch_us) * engine::hand_offs_per_grant;
}

}  // namespace

nemesis::nemesis(chaos_options const& options) : options_{options}, random_{options.seed} {
  recorder_ = std::make_unique<redis_server>();
  // The append-only file is written before an answer goes out, so what was acknowledged outlives SIGKILL; it need not
  // outlive the machine.
  redis_server_options lock_server{.tcp = true, .appendonly = true};
  lock_server.arguments = {"--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"};
  server_ = std::make_unique<redis_server>(lock_server);
  workers_.resize(static_cast<std::size_t>(options_.workers));
  int number = 0;
  for (worker& w : workers_) {
    w.number = number++;
    w.proxy = std::make_unique<tcp_proxy>(server_->port(), random_());
    start(w);
  }
}

nemesis::~nemesis() {
  for (worker& w : workers_) {
    if (w.pid == 0) continue;
    ::kill(w.pid, SIGKILL);
    while (::waitpid(w.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void nemesis::start(worker& w) {
  ++w.incarnation;
  w.stopped = false;
  constexpr char const* slices[] = {"5", "0", "1", "20"};
  w.pid = spawn({options_.client_program, "--url", w.proxy->url(), "--witness", witness_url(), "--name", w.name(), "--seed",
                 std::to_string(random_() >> 1), "--tasks", std::to_string(options_.tasks), "--locks", std::to_string(options_.locks), "--lease",
                 std::to_string(options_.lease.count()), "--slice", slices[w.number % 4]});
}

std::vector<std::string> nemesis::tasks() const {
  std::vector<std::string> all;
  for (worker const& w : workers_) {
    for (int i = 0; i < options_.tasks; ++i) all.push_back(w.name() + "." + std::to_string(i));
  }
  return all;
}

// ---------------------------------------------------------------------------------------------------------- events

void nemesis::later(milliseconds after, std::function<void()> what) { later_.emplace(steady::now() + after, std::move(what)); }

void nemesis::run_due() {
  while (!later_.empty() && later_.begin()->first <= steady::now()) {
    auto const what = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    what();
  }
}

void nemesis::rage_until(steady::time_point end) {
  auto next = steady::now(), next_deletion = next;
  while (steady::now() < end) {
    run_due();
    look_after_workers();
    if (options_.sabotage && steady::now() >= next_deletion) {
      delete_lock();
      next_deletion = steady::now() + 30ms;
    }
    if (steady::now() >= next) {
      strike();
      next = steady::now() + milliseconds{20 + roll(roll(3) == 0 ? 1200 : 350)};
    }
    std::this_thread::sleep_for(2ms);
  }
}

void nemesis::strike() {
  worker& w = workers_[static_cast<std::size_t>(roll(options_.workers))];
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

void nemesis::hurt_worker(worker& w, int chance) {
  if (w.pid == 0 || w.stopped) return;
  if (chance < 45) {
    note("clients killed");
    killed_.insert(w.name());
    ::kill(w.pid, SIGKILL);
    while (::waitpid(w.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    w.pid = 0;
    // A new process, a new machine: its old connections may hang in the proxy for a while.
    if (roll(2) == 0) w.proxy = std::make_unique<tcp_proxy>(server_->port(), random_());
    later(milliseconds{roll(1000)}, [this, &w] {
      if (w.pid == 0) start(w);
    });
  } else {
    note("clients stopped");
    ::kill(w.pid, SIGSTOP);
    w.stopped = true;
    bool const beyond_lease = roll(2) == 0;
    auto const lease = static_cast<int>(options_.lease.count());
    later(milliseconds{beyond_lease ? lease + roll(2 * lease) : roll(lease)}, [&w] {
      if (w.stopped) ::kill(w.pid, SIGCONT);
      w.stopped = false;
    });
  }
}

void nemesis::hurt_link(worker& w, int chance) {
  tcp_proxy& p = *w.proxy;
  auto const direction = roll(2) == 0 ? towards::server : towards::client;
  auto const mend_after = [&](int limit) { later(milliseconds{20 + roll(limit)}, [&w] { w.proxy->heal(); }); };
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
    // Half-open: neither end is told. Whoever swallowed a part of the stream cannot go on with the rest.
    note("links gone silent");
    p.set(direction, {.swallowed = true});
    if (roll(2) == 0) p.set(direction == towards::server ? towards::client : towards::server, {.swallowed = true});
    later(milliseconds{50 + roll(2500)}, [&w] {
      w.proxy->heal();
      w.proxy->reset();
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

void nemesis::hurt_by_command(int chance) {
  if (!server_up_ || server_stopped_) return;
  try {
    redis_probe probe{*server_, 2s};
    if (chance < 80) {
      auto const ids = connections(probe);
      if (ids.empty()) return;
      note("connections killed");
      probe.command({"CLIENT", "KILL", "ID", ids[static_cast<std::size_t>(roll(static_cast<int>(ids.size())))]});
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

void nemesis::delete_lock() {
  if (!server_up_ || server_stopped_) return;
  try {
    redis_probe{*server_, 2s}.command({"DEL", "conch:{chaos:" + std::to_string(roll(options_.locks)) + "}"});
    note("locks deleted");
  } catch (std::runtime_error const&) {
    // As above.
  }
}

void nemesis::hurt_server(int chance) {
  if (!server_up_ || server_stopped_) return;
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
      w.proxy->set(towards::client, {.delay = milliseconds{100 + roll(200)}});
      later(milliseconds{400}, [&w] { w.proxy->heal(); });
    }
    std::this_thread::sleep_for(80ms);
  }
  lost_from_ = fence_of_now();
  server_->kill(SIGKILL);
  server_up_ = false;
  later(milliseconds{roll(2) == 0 ? 0 : roll(800)}, [this, keep_data] { server_back(keep_data); });
}

void nemesis::server_back(bool keep_data) {
  if (server_up_) return;
  server_->restart(keep_data);
  server_up_ = true;
  if (!keep_data) losses_.emplace_back(lost_from_, fence_of_now());
}

void nemesis::calm() {
  while (!later_.empty()) {
    auto const what = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    what();
  }
  for (worker& w : workers_) w.proxy->heal();
  look_after_workers();
}

// --------------------------------------------------------------------------------------------------------- workers

void nemesis::look_after_workers() {
  for (worker& w : workers_) {
    if (w.pid == 0) continue;
    int status = 0;
    if (::waitpid(w.pid, &status, WNOHANG) != w.pid) continue;
    w.pid = 0;
    throw unexpected(w.name() + (WIFEXITED(status) ? " ended by itself with exit code " + std::to_string(WEXITSTATUS(status))
                                                   : " was ended by signal " + std::to_string(WTERMSIG(status))));
  }
}

std::vector<std::string> nemesis::end_workers(std::chrono::seconds limit) {
  for (worker const& w : workers_) {
    if (w.pid != 0) ::kill(w.pid, SIGTERM);
  }
  std::vector<std::string> wrong;
  auto const end = steady::now() + limit;
  for (worker& w : workers_) {
    int status = 0;
    pid_t ended = 0;
    while (w.pid != 0 && (ended = ::waitpid(w.pid, &status, WNOHANG)) == 0 && steady::now() < end) {
      std::this_thread::sleep_for(5ms);
    }
    if (w.pid == 0) continue;
    if (ended != w.pid) {
      wrong.push_back(w.name() + " did not end after SIGTERM");
      continue;  // the destructor ends it
    }
    w.pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      wrong.push_back(w.name() + " ended badly after SIGTERM, status " + std::to_string(status));
    }
  }
  return wrong;
}

}  // namespace conch::test
