// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/transport.hpp"

#include <conch/clock.hpp>

#include <boost/asio/io_context.hpp>

#include <memory>
#include <string_view>

namespace conch::net {

/// A host without a client: an event loop for one connection, on one thread. Its owner waits in run_until() for what
/// the connection reports.
class alone final : public host {
 public:
  asio::io_context& context() noexcept { return context_; }

  /// Until `done()`, and no longer than `until`. False: it is not.
  template <class F>
  bool run_until(F const& done, time_point until) {
    context_.restart();
    while (!done() && clock::now() < until && context_.run_one_until(until) != 0) {
    }
    return done();
  }

  // host
  void run(input&& i) override {
    i.apply(clock::now());
    i.carry_out();
  }
  std::shared_ptr<void> keep() override { return kept_; }
  void log(log_level, std::string_view) override {}

 protected:
  void enter_with(input& i) override { i.apply(clock::now()); }

 private:
  asio::io_context context_{1};
  std::shared_ptr<void> const kept_ = std::make_shared<int>(0);
};

}  // namespace conch::net
