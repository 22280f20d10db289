// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/process.hpp"

#include <conch/clock.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>

#if defined(__linux__)
#include <boost/asio/posix/stream_descriptor.hpp>
#else
#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#endif

namespace conch {

/// A timer on conch::clock. On Linux it is a timerfd, since Asio's own timers stop while the machine sleeps.
class alarm {
 public:
  /// `on`: a strand, unless config::single_threaded.
  explicit alarm(asio::any_io_executor on);

  /// Calls f() on that executor each time the moment of the last arm() has come. To be called once. The alarm keeps
  /// `keep` until stop().
  void start(std::shared_ptr<void> keep, std::function<void()> f);

  /// Replaces the moment. May be called from any thread.
  void arm(time_point when);

  /// No calls any more. To be called on that executor.
  void stop();

 private:
  void wait();

  std::shared_ptr<void> keep_;
  std::function<void()> call_;
  made_here made_;
#if defined(__linux__)
  asio::posix::stream_descriptor descriptor_;
  own_descriptor own_;
#else
  asio::any_io_executor on_;
  asio::basic_waitable_timer<std::chrono::steady_clock> timer_;
#endif
};

}  // namespace conch
