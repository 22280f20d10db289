// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <tuple>
#include <utility>

// How handlers are called, by Boost.Asio's rules for asynchronous operations.
namespace conch::detail {

/// Calls the handler. Clears its cancellation slot before, since the handler's next operation uses that slot.
template <class Handler, class... Args>
struct completion {
  Handler handler;
  std::tuple<Args...> args;

  void operator()() {
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) slot.clear();
    std::apply([this](Args&... a) { std::move(handler)(std::move(a)...); }, args);
  }
};

/// The same, on the handler's own executor.
template <class Handler, class... Args>
struct completion_elsewhere : completion<Handler, Args...> {
  using executor_type = asio::any_completion_executor;
  executor_type get_executor() const noexcept { return executor; }

  completion_elsewhere(executor_type where, Handler h, Args... a)
      : completion<Handler, Args...>{std::move(h), {std::move(a)...}},
        executor{std::move(where)} {}

  executor_type executor;
};

/// The executor that the handler runs on: its associated one, else `io`. While the result lives, its context has work.
template <class Executor, class Handler>
asio::any_completion_executor work_of(Executor const& io, Handler const& handler) {
  asio::any_completion_executor const executor = asio::get_associated_executor(handler, io);
  return asio::prefer(executor, asio::execution::outstanding_work.tracked);
}

/// Posts the completion through `io`, as Asio asks. `runs_on`: the handler's work_of.
template <class Executor, class Handler, class... Args>
void post_completion(Executor const& io, asio::any_completion_executor runs_on, Handler handler, Args... args) {
  asio::post(io, completion_elsewhere<Handler, Args...>{std::move(runs_on), std::move(handler), std::move(args)...});
}

/// The same, for an operation that ends in its initiating function.
template <class Executor, class Handler, class... Args>
void post_at_once(Executor const& io, Handler handler, Args... args) {
  asio::any_completion_executor runs_on = work_of(io, handler);
  post_completion(io, std::move(runs_on), std::move(handler), std::move(args)...);
}

}  // namespace conch::detail
