// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "client/close_rule.hpp"
#include "client/completions.hpp"
#include "servers/scheme.hpp"

#include <functional>
#include <memory>

namespace conch::detail {

/// One async_close.
struct close_call final : handler_call<close_handler> {
  using handler_call::handler_call;
  void complete(asio::any_io_executor const& io, error_code why, bool) override;
};

/// Carries out the close of a client, as close_rule decides. With the client locked, but for drop().
class client_close {
 public:
  /// `at_the_end`: called when nothing is left to do, and the connections have been shut down.
  client_close(config const& settings, timer_queue& timers, engine::cohort& cohort, servers::deployment& servers,
               completions& results, std::function<void()> at_the_end);

  bool begun() const noexcept { return rule_.begun(); }
  bool done() const noexcept { return rule_.done(); }

  /// `call`: completes with the result; null: a client that its destructor closes.
  void begin(time_point now, duration drain_for, std::shared_ptr<close_call> call);
  /// After each input: ends the close if everything is given back.
  void settle();

  /// The context goes away. No other thread may use this then.
  void drop();

 private:
  void due(time_point now);
  error_code what_is_left() const;
  void report(error_code why);
  void end(error_code why);

  timer_queue& timers_;
  engine::cohort& cohort_;
  servers::deployment& servers_;
  completions& results_;
  std::function<void()> const at_the_end_;
  close_rule rule_;
  std::shared_ptr<close_call> call_;  // not completed yet
  timer timer_;                       // when rule_.due() is to be called
};

}  // namespace conch::detail
