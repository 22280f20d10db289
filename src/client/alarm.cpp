// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/alarm.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <utility>

#if defined(__linux__)
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#endif

namespace conch {

void alarm::start(std::shared_ptr<void> keep, std::function<void()> f) {
  keep_ = std::move(keep);
  call_ = std::move(f);
  wait();
}

#if defined(__linux__)

namespace {

int make_timer() {
  int const fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) throw boost::system::system_error{errno, boost::system::system_category(), "timerfd_create"};
  return fd;
}

}  // namespace

alarm::alarm(asio::any_io_executor on) : descriptor_{std::move(on), make_timer()} {
  own_.is(descriptor_.native_handle());
}

void alarm::arm(time_point moment) {
  auto const since = std::max<duration>(moment.time_since_epoch(), duration{1});  // 0 would disarm
  itimerspec when{};
  when.it_value.tv_sec = static_cast<std::time_t>(since.count() / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(since.count() % 1'000'000'000);
  ::timerfd_settime(descriptor_.native_handle(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void alarm::stop() {
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
  call_ = nullptr;
  keep_.reset();
}

void alarm::wait() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this, keep = keep_](boost::system::error_code ec) {
    if (ec || !call_ || !made_.is_here()) return;
    std::uint64_t expirations = 0;
    if (::read(descriptor_.native_handle(), &expirations, sizeof expirations) > 0) call_();
    if (call_) wait();
  });
}

#else

alarm::alarm(asio::any_io_executor on) : on_{on}, timer_{std::move(on)} {}

void alarm::arm(time_point when) {
  asio::post(on_, [this, keep = keep_, when] {
    timer_.expires_at(std::chrono::steady_clock::time_point{
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(when.time_since_epoch())});
    wait();
  });
}

void alarm::stop() {
  timer_.cancel();
  call_ = nullptr;
  keep_.reset();
}

void alarm::wait() {
  timer_.async_wait([this, keep = keep_](boost::system::error_code ec) {
    if (!ec && call_) call_();
  });
}

#endif

}  // namespace conch
