// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "client/completion.hpp"

#include <conch/mutex.hpp>

#include <boost/asio/any_completion_executor.hpp>

#include <optional>
#include <utility>

namespace conch::detail {

/// The one call of async_close that is to be completed. A client that is closed by its destructor has none.
class close_call {
 public:
  /// With the client locked.
  void begin(asio::any_io_executor const& own, close_handler handler) {
    handler_.emplace(std::move(handler));
    runs_on_ = work_of(own, *handler_);
  }

  /// True once, if there is a call: its completion must be queued now. With the client locked.
  bool to_be_told() noexcept { return handler_ && !std::exchange(told_, true); }

  /// Posts the completion. To be called once, with the client unlocked, after to_be_told().
  void complete(asio::any_io_executor const& own, error_code why) {
    close_handler handler{std::move(*handler_)};
    handler_.reset();
    post_completion(own, std::exchange(runs_on_, {}), std::move(handler), why);
  }

  /// The context goes away. No other thread may use this then.
  void drop() {
    handler_.reset();
    runs_on_ = {};
  }

 private:
  std::optional<close_handler> handler_;
  asio::any_completion_executor runs_on_;  // keeps the handler's context at work
  bool told_ = false;
};

}  // namespace conch::detail
