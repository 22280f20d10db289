// Several processes in one benchmark: memory they share, and children that end with their parent.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace conch::bench {

/// A T, value-initialised, seen by this process and all that it forks from now on.
template <class T>
class shared {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  shared() {
    void* const p = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc{};
    value_ = ::new (p) T{};
  }
  ~shared() { ::munmap(value_, sizeof(T)); }
  shared(shared const&) = delete;
  shared& operator=(shared const&) = delete;

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }

 private:
  T* value_;
};

/// Runs f in a process of its own.
class child {
 public:
  template <class F>
  explicit child(F&& f) {
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      f();
    } catch (std::exception const& error) {
      std::fprintf(stderr, "benchmark process: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);  // without the destructors of what belongs to the parent
  }
  ~child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  child(child const&) = delete;
  child& operator=(child const&) = delete;

  /// Throws if it failed, or has not ended within `limit`.
  void join(std::chrono::seconds limit = std::chrono::seconds{60}) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
      int status = 0;
      pid_t const ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) {
        pid_ = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("a benchmark process failed");
        return;
      }
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("a benchmark process does not end");
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
  }

 private:
  pid_t pid_ = 0;
};

/// Where processes wait for each other.
struct barrier {
  std::atomic<int> arrived{0};

  void wait(int all) {
    arrived.fetch_add(1);
    while (arrived.load() < all) std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
};

inline double own_cpu_us() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto const us = [](timeval const& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
  return us(used.ru_utime) + us(used.ru_stime);
}

}  // namespace conch::bench
