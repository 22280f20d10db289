#include "chaos/nemesis.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <sstream>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

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

}  // namespace

nemesis::nemesis(chaos_options const& options) : options_{options}, random_{options.seed} {
  recorder_ = std::make_unique<redis_server>();
  workers_.resize(static_cast<std::size_t>(options_.workers));
  int number = 0;
  for (worker& w : workers_) w.number = number++;
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
  std::vector<std::string> line = {options_.client_program,
                                   "--witness",
                                   witness_url(),
                                   "--name",
                                   w.name(),
                                   "--seed",
                                   std::to_string(draw() >> 1),
                                   "--tasks",
                                   std::to_string(options_.tasks),
                                   "--locks",
                                   std::to_string(options_.locks),
                                   "--lease",
                                   std::to_string(options_.lease.count()),
                                   "--slice",
                                   slices[w.number % 4],
                                   "--slow",
                                   std::to_string(options_.slow_share),
                                   "--kinds",
                                   options_.kinds};
  auto const more = arguments_of(w);
  line.insert(line.end(), more.begin(), more.end());
  w.pid = spawn(std::move(line));
}

std::vector<std::string> nemesis::tasks() const {
  std::vector<std::string> all;
  for (worker const& w : workers_) {
    for (int i = 0; i < options_.tasks; ++i) all.push_back(w.name() + "." + std::to_string(i));
  }
  return all;
}

// ---------------------------------------------------------------------------------------------------------- events

void nemesis::later(milliseconds after, std::function<void()> what) {
  later_.emplace(steady::now() + after, std::move(what));
}

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

void nemesis::hurt_worker(worker& w, int chance) {
  if (w.pid == 0 || w.stopped) return;
  if (chance < 45) {
    note("clients killed");
    killed_.insert(w.name());
    ::kill(w.pid, SIGKILL);
    while (::waitpid(w.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    w.pid = 0;
    stands_still(w, false);
    replaced(w);
    later(milliseconds{roll(1000)}, [this, &w] {
      if (w.pid == 0) start(w);
    });
  } else {
    note("clients stopped");
    ::kill(w.pid, SIGSTOP);
    w.stopped = true;
    stands_still(w, true);
    bool const beyond_lease = roll(2) == 0;
    auto const lease = static_cast<int>(options_.lease.count());
    later(milliseconds{beyond_lease ? lease + roll(2 * lease) : roll(lease)}, [this, &w] {
      if (w.stopped) ::kill(w.pid, SIGCONT);
      w.stopped = false;
      stands_still(w, false);
    });
  }
}

void nemesis::delete_lock() {
  if (!is_up()) return;
  try {
    std::string const lock = "chaos:" + std::to_string(roll(options_.locks));
    take_away(lock);
    note("locks deleted");
  } catch (std::runtime_error const&) {
    // Too slow to answer at the moment: it is not this one's part to complain.
  }
}

void nemesis::calm() {
  while (!later_.empty()) {
    auto const what = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    what();
  }
  look_after_workers();
}

// --------------------------------------------------------------------------------------------------------- workers

void nemesis::look_after_workers() {
  for (worker& w : workers_) {
    if (w.pid == 0) continue;
    int status = 0;
    if (::waitpid(w.pid, &status, WNOHANG) != w.pid) continue;
    w.pid = 0;
    throw unexpected(w.name() + (WIFEXITED(status)
                                     ? " ended by itself with exit code " + std::to_string(WEXITSTATUS(status))
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

// ----------------------------------------------------------------------------------------------------------- Redis

void redis_nemesis::kill_a_connection(redis_server& at) {
  redis_probe probe{at, 2s};
  auto const ids = connections(probe);
  if (ids.empty()) return;
  note("connections killed");
  probe.command({"CLIENT", "KILL", "ID", ids[static_cast<std::size_t>(roll(static_cast<int>(ids.size())))]});
}

void redis_nemesis::take_away(std::string const& lock) {
  redis_probe{keeper_of(lock), 2s}.command({"DEL", "conch:{" + lock + "}"});
}

std::string redis_nemesis::left() {
  std::string all;
  for (redis_server* const server : keepers()) {
    std::string const keys = redis_probe{*server}.command({"KEYS", "conch:*"});
    std::istringstream words{keys.substr(1, keys.size() - 2)};
    for (std::string key; std::getline(words, key, ',');) {
      // What a client told about itself outlives it.
      if (!key.ends_with(":f") && !key.ends_with(":i")) all += key + " ";
    }
  }
  return all;
}

}  // namespace conch::test
