// conch-chaos-guard: holders that are stopped, or lose their lock to an operator, between the check and the write, and
// still write.
// Each writes twice: with a guard, and plainly. No guarded write may come after one of a later holder; the plain ones
// do.
//
//   conch-chaos-guard [--rounds N]     N victims of each sort and each kind of lock (default 4)
//
// Nothing waits for a time: a victim goes on when a later holder has written.

#include <conch/conch.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "support/redis_probe.hpp"
#include "support/redis_server.hpp"

namespace {

namespace asio = boost::asio;
using namespace conch::test;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto lease = 1s;
constexpr auto patience = 90s;  // for one victim, on a busy machine

std::string guarded(std::string const& kind) { return "guarded:{" + kind + "}"; }
std::string plain(std::string const& kind) { return "plain:{" + kind + "}"; }

// ------------------------------------------------------------------------------------------------------------ a writer

template <class Lock>
asio::awaitable<void> write_for_ever(Lock& lock, std::string const& kind, redis_probe& store) {
  for (;;) {
    auto acquired = co_await lock.async_acquire(asio::as_tuple(asio::use_awaitable));
    if (std::get<0>(acquired)) continue;  // the server is slow to answer, on a busy machine
    conch::hold h = std::move(std::get<1>(acquired));
    conch::write_guard const guard = h.guard();
    std::string const fence = std::to_string(h.fence());
    std::cout << "held " << fence << std::endl;
    // The moment between the check and the write. Nothing else of this process runs, and nothing renews the lease.
    std::string go;
    if (!std::getline(std::cin, go)) std::exit(0);
    store.command({"RPUSH", plain(kind), fence});
    std::string const answer =
        guard ? store.command(conch::guarded_command(guard, {"RPUSH", guarded(kind), fence})) : "lost before the guard";
    bool const refused = !guard || answer.starts_with("(error) " + std::string{conch::not_owner_error});
    if (!refused && answer.starts_with("(error)")) throw std::runtime_error{answer};
    std::cout << (refused ? "refused " : "done ") << fence << std::endl;
    co_await h.async_release(asio::as_tuple(asio::use_awaitable));
  }
}

int run_writer(std::string const& url, std::string const& kind) {
  asio::io_context ctx;
  conch::client client{ctx.get_executor(), {.url = url, .lease = lease}};
  redis_probe store{url, 60s};
  conch::mutex mutex{client, kind};
  conch::shared_mutex shared{client, kind};
  auto const end = [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  };
  if (kind == "mutex") {
    asio::co_spawn(ctx, write_for_ever(mutex, kind, store), end);
  } else {
    asio::co_spawn(ctx, write_for_ever(shared, kind, store), end);
  }
  ctx.run();
  return 0;
}

// --------------------------------------------------------------------------------------------------------- the nemesis

class writer {
 public:
  writer(std::string const& url, std::string const& kind) {
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::array<std::string, 4> words{program, "--writer", url, kind};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error{"pipe2"};
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"fork"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
  }
  writer(writer const&) = delete;
  writer& operator=(writer const&) = delete;
  ~writer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(in_);
    ::close(out_);
  }

  int out() const noexcept { return out_; }
  void go() {
    if (::write(in_, "go\n", 3) != 3) throw std::runtime_error{"a writer is gone"};
  }
  void stop() {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void cont() { ::kill(pid_, SIGCONT); }

  /// What it has said by now.
  void read() {
    char buffer[512];
    auto const size = ::read(out_, buffer, sizeof buffer);
    if (size <= 0) throw std::runtime_error{"a writer has ended"};
    text_.append(buffer, static_cast<std::size_t>(size));
  }
  std::optional<std::string> line() {
    auto const end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string one = text_.substr(0, end);
    text_.erase(0, end + 1);
    return one;
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1, out_ = -1;
  std::string text_;
};

enum class sort { stopped, forced, deleted };
constexpr std::array<char const*, 3> names{"stopped", "forced", "deleted"};

/// One lock, its writers, and the one of them that is held up.
class scene {
 public:
  scene(redis_server const& server, std::string lock_kind, int rounds)
      : kind_{std::move(lock_kind)},
        url_{server.url()},
        probe_{server},
        rounds_{rounds} {
    for (int i = 0; i < 3; ++i) writers_.push_back(std::make_unique<writer>(url_, kind_));
    began_ = steady::now();
  }

  bool over() const noexcept { return victims_ == rounds_ * static_cast<int>(names.size()) && victim_ == nullptr; }

  void watch(std::vector<pollfd>& all) const {
    for (auto const& w : writers_) all.push_back({w->out(), POLLIN, 0});
  }

  void step(pollfd const* ready) {
    for (auto& w : writers_) {
      if ((ready++)->revents != 0) w->read();
      while (auto const line = w->line()) hear(*w, *line);
    }
    if (victim_ != nullptr && !released_ && last_written() > victims_fence_) {
      released_ = true;
      if (sort_ == sort::stopped) victim_->cont();
      victim_->go();
    }
    if (victim_ != nullptr && steady::now() - began_ > patience) {
      throw std::runtime_error{kind_ + ": nothing came of a victim that was " + names[static_cast<std::size_t>(sort_)]};
    }
  }

  /// Ends the writers, and says what is wrong; nothing: all is well.
  std::vector<std::string> judge() {
    writers_.clear();
    std::vector<std::string> wrong;
    auto const all = [&](std::string const& key) {
      std::vector<std::int64_t> fences(static_cast<std::size_t>(probe_.integer({"LLEN", key})));
      for (std::size_t i = 0; i < fences.size(); ++i)
        fences[i] = std::stoll(probe_.command({"LINDEX", key, std::to_string(i)}));
      return fences;
    };
    auto const stale = [](std::vector<std::int64_t> const& fences) {
      std::int64_t greatest = 0;
      int count = 0;
      for (std::int64_t const fence : fences) {
        count += fence < greatest ? 1 : 0;
        greatest = std::max(greatest, fence);
      }
      return count;
    };
    std::vector<std::int64_t> const with = all(guarded(kind_)), without = all(plain(kind_));
    std::cout << kind_ << ": guarded: " << with.size() << " done, " << refused_ << " refused, " << stale(with)
              << " stale; plain: " << without.size() << " done, " << stale(without) << " stale; victims: " << victims_
              << std::endl;
    if (stale(with) != 0) wrong.push_back(kind_ + ": a guarded write came after one of a later holder");
    if (stale(without) < victims_)
      wrong.push_back(kind_ + ": the plain writes of the victims were not stale: this run shows nothing");
    if (refused_ < victims_) wrong.push_back(kind_ + ": fewer writes were refused than there were victims");
    if (static_cast<int>(with.size()) < done_) wrong.push_back(kind_ + ": a write that was done is not there");
    wrong.insert(wrong.end(), wrong_.begin(), wrong_.end());
    return wrong;
  }

 private:
  std::int64_t last_written() {
    std::string const last = probe_.command({"LINDEX", guarded(kind_), "-1"});
    return last == "(nil)" ? 0 : std::stoll(last);
  }

  void hear(writer& w, std::string const& line) {
    std::istringstream words{line};
    std::string what;
    std::int64_t fence = 0;
    words >> what >> fence;
    if (what == "held") {
      // After each victim one goes by untouched.
      bool const chosen = victim_ == nullptr && victims_ < rounds_ * static_cast<int>(names.size()) && ++turn_ % 2 == 0;
      if (chosen) {
        hold_up(w, fence);
      } else {
        w.go();
      }
      return;
    }
    (what == "refused" ? refused_ : done_) += 1;
    if (&w == victim_ && released_) {
      if (what != "refused")
        wrong_.push_back(kind_ + ": the write of a victim that was " + names[static_cast<std::size_t>(sort_)] +
                         " was done");
      victim_ = nullptr;
    }
  }

  void hold_up(writer& w, std::int64_t fence) {
    victim_ = &w;
    victims_fence_ = fence;
    released_ = false;
    began_ = steady::now();
    sort_ = static_cast<sort>(victims_++ % static_cast<int>(names.size()));
    std::string const key = "conch:{" + kind_ + "}";
    switch (sort_) {
      case sort::stopped: w.stop(); break;  // until its lease has ended, and the next one has written
      case sort::forced: force(); break;
      // a person with redis-cli; the waiters find out when they ask again
      case sort::deleted: probe_.command({"DEL", key}); break;
    }
  }

  void force() {
    asio::io_context ctx;
    conch::client admin{ctx.get_executor(), url_};
    bool done = false;
    conch::mutex{admin, kind_}.async_force_release([&](conch::error_code ec, std::uint32_t) {
      if (ec) throw boost::system::system_error{ec};
      done = true;
      admin.async_close(1s, [](conch::error_code) {});
    });
    ctx.run();
    if (!done) throw std::runtime_error{"the order was not carried out"};
  }

  std::string const kind_, url_;
  redis_probe probe_;
  int const rounds_;
  std::vector<std::unique_ptr<writer>> writers_;
  writer* victim_ = nullptr;
  sort sort_ = sort::stopped;
  std::int64_t victims_fence_ = 0;
  bool released_ = false;
  steady::time_point began_;
  int victims_ = 0, turn_ = 0, refused_ = 0, done_ = 0;
  std::vector<std::string> wrong_;
};

int run(int rounds) {
  redis_server const server;
  std::vector<std::unique_ptr<scene>> scenes;
  for (char const* const kind : {"mutex", "writer"}) scenes.push_back(std::make_unique<scene>(server, kind, rounds));
  auto const over = [](auto const& s) { return s->over(); };
  while (!std::all_of(scenes.begin(), scenes.end(), over)) {
    std::vector<pollfd> ready;
    for (auto const& s : scenes) s->watch(ready);
    if (::poll(ready.data(), ready.size(), 20) < 0) throw std::runtime_error{"poll"};
    pollfd const* at = ready.data();
    for (auto const& s : scenes) {
      s->step(at);
      at += ready.size() / scenes.size();
    }
  }
  int wrong = 0;
  for (auto const& s : scenes) {
    for (std::string const& what : s->judge()) {
      std::cout << "WRONG: " << what << std::endl;
      ++wrong;
    }
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> const words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "--writer") return run_writer(words[1], words[2]);
    int rounds = 4;
    if (words.size() == 2 && words[0] == "--rounds") rounds = std::max(1, std::atoi(words[1].c_str()));
    return run(rounds);
  } catch (std::exception const& e) {
    std::cerr << "conch-chaos-guard: " << e.what() << '\n';
    return 1;
  }
}
