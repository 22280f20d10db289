// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/process.hpp"
#include "net/lifecycle.hpp"
#include "protocol/transport.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace conch::net {

/// What every transport does around its state machine: it gives it inputs with the client locked, and carries out what
/// that has led to. `Transport` derives from this, and has carry_out(), and life(). On the transport's strand only.
template <class Transport>
class shell {
 protected:
  /// `on`: a strand, unless config::single_threaded.
  shell(host& h, asio::any_io_executor on) : host_{h}, on_{std::move(on)}, timer_{on_} {}

  template <class F>
  class step final : public host::input {
   public:
    step(shell& s, F f) : shell_{s}, f_{std::move(f)} {}
    void apply(time_point now) override { f_(now); }
    void carry_out() override { static_cast<Transport&>(shell_).carry_out(); }

   private:
    shell& shell_;
    F f_;
  };

  /// An input of the client: f(time_point now), which may cause events of the protocol, and then carry_out().
  template <class F>
  void give(F f) {
    host_.run(step<F>{*this, std::move(f)});
  }

  /// Wraps a handler: it keeps the client alive, and runs only if end_handlers() was not called since, nor in a child
  /// of a fork.
  template <class F>
  auto bound(F f) {
    return [this, keep = host_.keep(), mine = generation_, f = std::move(f)](auto&&... args) mutable {
      if (mine == generation_ && made_.is_here()) f(std::forward<decltype(args)>(args)...);
    };
  }

  void want() {
    if (life().want()) call_due_later();
  }
  void drop(std::string_view why) {
    if (life().drop(why)) call_due_later();
  }

  // ---- net::steps
  void log_lines() {
    for (auto const& [level, words] : life().take_log()) host_.log(level, words);
  }
  void sleep(time_point until) {
    if (until == time_point::max()) {
      timer_.cancel();
      return;
    }
    timer_.expires_after(until - clock::now());
    timer_.async_wait(bound([this](boost::system::error_code ec) {
      if (!ec) call_due();
    }));
  }
  void call_due() {
    give([this](time_point now) { life().due(now); });
  }
  void call_due_later() {
    asio::post(on_, [this, keep = host_.keep()] { call_due(); });
  }
  void close_life() {
    asio::post(on_, [this, keep = host_.keep()] {
      host_.enter([this](time_point) { life().shut_down(); });
      static_cast<Transport&>(*this).carry_out();
    });
  }
  /// The stream is closed: the handlers of its operations, and of a sleep, find nothing to do any more.
  void end_handlers() noexcept {
    ++generation_;
    timer_.cancel();
  }
  /// Counts the calls of end_handlers().
  std::uint64_t generation() const noexcept { return generation_; }

  host& host_;
  asio::any_io_executor const on_;

 private:
  lifecycle& life() noexcept { return static_cast<Transport&>(*this).life(); }

  asio::steady_timer timer_;
  std::uint64_t generation_ = 0;
  made_here const made_;
};

}  // namespace conch::net
