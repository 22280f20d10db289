// conch doing the work, by coroutines, for a while.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <boost/system/system_error.hpp>
#include <conch/conch.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "support/raw.hpp"

namespace conch::bench {

namespace asio = boost::asio;

inline std::chrono::nanoseconds in_seconds(double s) {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(s * 1e9)};
}

inline double seconds_since(steady::time_point t) { return std::chrono::duration<double>(steady::now() - t).count(); }

inline void stop_on_error(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

/// Many coroutines in one event loop, until a moment.
class crew {
 public:
  explicit crew(asio::io_context& on) : context_{on} {}

  bool working() const noexcept { return steady::now() < until_; }
  void count() noexcept { ++done_; }
  std::uint64_t done() const noexcept { return done_; }

  /// `make(i)` gives the i-th coroutine's awaitable, which works while working() and calls count(). Answers the counts
  /// per second. Throws what a coroutine threw.
  template <class Make>
  double run(std::size_t coroutines, std::chrono::nanoseconds how_long, Make make) {
    done_ = 0;
    running_ = coroutines;
    error_ = nullptr;
    auto const begin = steady::now();
    until_ = begin + how_long;
    for (std::size_t i = 0; i < coroutines; ++i) {
      asio::co_spawn(context_, make(i), [this](std::exception_ptr error) {
        if (error) error_ = error;
        if (--running_ == 0 || error) context_.stop();
      });
    }
    context_.restart();
    context_.run();
    stop_on_error(error_);
    return static_cast<double>(done_) / seconds_since(begin);
  }

 private:
  asio::io_context& context_;
  steady::time_point until_;
  std::uint64_t done_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr error_;
};

inline asio::awaitable<void> uncontended_cycles(crew& with, conch::mutex& lock) {
  do {
    conch::hold h = co_await lock.async_acquire();
    co_await h.async_release();
    with.count();
  } while (with.working());
}

inline asio::awaitable<void> post_and_resume(crew& with) {
  auto const executor = co_await asio::this_coro::executor;
  do {
    co_await asio::post(executor, asio::deferred);
    with.count();
  } while (with.working());
}

inline conch::config settings_for(std::string url, bool single_threaded) {
  conch::config c;
  c.url = std::move(url);
  c.single_threaded = single_threaded;
  return c;
}

inline std::vector<conch::mutex> make_locks(conch::client& owner, std::size_t count, std::string const& prefix) {
  std::vector<conch::mutex> locks;
  locks.reserve(count);
  for (std::size_t i = 0; i < count; ++i) locks.emplace_back(owner, prefix + std::to_string(i));
  return locks;
}

/// Acquires this many locks, a thousand at a time.
inline std::vector<conch::hold> acquire_many(asio::io_context& context, conch::client& owner, std::size_t count,
                                             std::string const& prefix) {
  std::vector<conch::hold> holds;
  holds.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    conch::mutex{owner, prefix + std::to_string(i)}.async_acquire([&holds](conch::error_code ec, conch::hold h) {
      if (ec) throw boost::system::system_error{ec};
      holds.push_back(std::move(h));
    });
    if (i % 1000 == 999) {
      while (holds.size() <= i) context.run_one();
    }
  }
  while (holds.size() < count) context.run_one();
  return holds;
}

}  // namespace conch::bench
