// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/transport.hpp"

#include <conch/clock.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <utility>

namespace conch::redis {

/// Calls a function when something is due: with the client locked, on the strand.
class due_timer {
 public:
  /// `due` is called with the time. It must not outlive `h`.
  due_timer(host& h, asio::any_io_executor const& on, std::function<void(time_point)> due)
      : host_{h},
        due_{std::move(due)},
        timer_{on} {}

  // On the strand.
  /// max(): not at all. With the client locked.
  void sleep_until(time_point until) {
    if (until == until_ || closed_) return;
    until_ = until;
    if (until == time_point::max()) {
      timer_.cancel();
      return;
    }
    timer_.expires_after(until - clock::now());
    timer_.async_wait([this, keep = host_.keep()](boost::system::error_code ec) {
      if (ec || closed_) return;
      host_.enter([this](time_point now) {
        until_ = time_point::max();
        due_(now);
      });
    });
  }
  void close() {
    closed_ = true;
    timer_.cancel();
  }
  bool is_closed() const noexcept { return closed_; }

 private:
  host& host_;
  std::function<void(time_point)> const due_;
  asio::steady_timer timer_;
  time_point until_ = time_point::max();
  bool closed_ = false;
};

}  // namespace conch::redis
