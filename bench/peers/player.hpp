// Programs that do the same work with other libraries, each in processes of its own, spoken to by the lines that
// bench/peers/README.md describes.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/report.hpp"

namespace conch::bench {

using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline constexpr std::chrono::seconds patience{90};

/// A program that runs, and does not say what it was asked for.
struct no_answer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct peer {
  std::string name;
  std::vector<std::string> command;  // before WORKLOAD PORT TASKS

  bool on_jvm() const { return command.front() == "java"; }
};

/// How long a program that has just begun warms up, in seconds; ended between the two by two samples that agree.
struct warming {
  double least, most;
};
inline warming warm_up_of(peer const& p) { return p.on_jvm() ? warming{15, 40} : warming{2, 10}; }

/// Takes samples until two of them, one after the other, are less than a tenth apart, and at least `least` seconds have
/// gone by.
template <class F>
void warm(warming how_long, F sample) {
  auto const begin = clock_type::now();
  double before = 0;
  for (;;) {
    double const now = sample();
    double const took = std::chrono::duration<double>(clock_type::now() - begin).count();
    bool const agree = std::abs(now - before) <= 0.1 * std::max(now, before);
    if ((agree && took >= how_long.least) || took >= how_long.most) return;
    before = now;
  }
}

/// One process of a peer.
class player {
 public:
  player(peer const& of, std::string const& workload, int port, std::size_t tasks) : name_{of.name} {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    std::vector<std::string> words = of.command;
    words.insert(words.end(), {workload, std::to_string(port), std::to_string(tasks)});
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execvp(arguments[0], arguments.data());
      std::fprintf(stderr, "cannot run %s\n", arguments[0]);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~player() {
    ::close(to_);
    ::close(from_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  player(player const&) = delete;
  player& operator=(player const&) = delete;

  void tell(std::string line) {
    line += '\n';
    if (::write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail("does not listen");
  }

  std::string line() {
    auto const deadline = clock_type::now() + patience;
    for (;;) {
      if (auto const end = unread_.find('\n'); end != unread_.npos) {
        std::string result = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        return result;
      }
      pollfd waits{from_, POLLIN, 0};
      auto const left = std::chrono::duration_cast<milliseconds>(deadline - clock_type::now()).count();
      if (left <= 0 || ::poll(&waits, 1, static_cast<int>(left)) == 0) throw no_answer{name_ + " says nothing"};
      char bytes[65536];
      ssize_t const size = ::read(from_, bytes, sizeof bytes);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) fail("has ended");
      unread_.append(bytes, static_cast<std::size_t>(size));
    }
  }

  /// What the process has used so far, all its threads.
  double cpu_us() const {
    std::ifstream in{"/proc/" + std::to_string(pid_) + "/stat"};
    std::string text;
    std::getline(in, text);
    std::istringstream fields{text.substr(text.rfind(')') + 2)};
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    return (user + system) * 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

  /// The rest of a line that has to begin with `word`.
  std::string expect(std::string const& word) {
    std::string const text = line();
    if (!text.starts_with(word)) fail("says \"" + text.substr(0, 80) + "\" instead of " + word);
    return text.size() > word.size() ? text.substr(word.size() + 1) : "";
  }

 private:
  [[noreturn]] void fail(std::string const& what) { throw std::runtime_error(name_ + " " + what); }

  std::string name_, unread_;
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
};

using players = std::vector<std::unique_ptr<player>>;

inline players start(peer const& of, std::string const& workload, int port, std::size_t processes, std::size_t tasks) {
  players all;
  for (std::size_t i = 0; i < processes; ++i) all.push_back(std::make_unique<player>(of, workload, port, tasks));
  for (auto& one : all) one->expect("ready");
  return all;
}

struct sample {
  std::vector<double> holds;  // of each task
  double held_us = 0;         // from every return of acquire to the call of release
  samples waits_ms;
  double gave_up = 0;

  double total() const {
    double sum = 0;
    for (double const h : holds) sum += h;
    return sum;
  }
  double jain() const {
    double squares = 0;
    for (double const h : holds) squares += h * h;
    return squares == 0 ? 0 : total() * total() / (static_cast<double>(holds.size()) * squares);
  }
};

/// All at once, `tasks` in each process; every hold takes `body`.
inline sample go(players& all, double seconds, std::chrono::microseconds body, std::size_t tasks) {
  for (auto& one : all)
    one->tell("go " + std::to_string(seconds) + ' ' + std::to_string(body.count()) + ' ' + std::to_string(tasks));
  sample result;
  for (auto& one : all) {
    for (;;) {
      std::string const text = one->line();
      std::istringstream words{text};
      std::string kind;
      double value = 0;
      words >> kind >> value;
      if (kind == "done") {
        result.gave_up += value;
        break;
      }
      if (kind != "task") throw std::runtime_error("what is " + text.substr(0, 80));
      result.holds.push_back(value);
      double held = 0;
      words >> held;
      result.held_us += held;
      for (double wait = 0; words >> wait;) result.waits_ms.add(wait / 1e3);
    }
  }
  return result;
}

/// A line each: the name, a tab, the program and its arguments with tabs between.
inline std::vector<peer> read_peers(std::string const& file) {
  std::ifstream in{file};
  if (!in) throw std::runtime_error("cannot read " + file);
  std::vector<peer> all;
  for (std::string text; std::getline(in, text);) {
    std::istringstream words{text};
    peer p;
    std::getline(words, p.name, '\t');
    for (std::string word; std::getline(words, word, '\t');) p.command.push_back(word);
    if (!p.command.empty()) all.push_back(p);
  }
  return all;
}

}  // namespace conch::bench
