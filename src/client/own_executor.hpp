// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution/relationship.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>

#include <cstddef>
#include <optional>
#include <utility>

namespace conch::detail {

/// The executor that the client was made with, and the work that keeps its context running. A handler that runs on
/// another executor has outstanding work of its own (work_of). The handlers that run on this executor share one piece
/// of it, since to make a piece costs more than to count.
///
/// The executors change in drop() only and may be used from any thread. The count and the shared work are used with the
/// client locked.
class own_executor {
 public:
  explicit own_executor(asio::any_io_executor given)
      : given_{std::move(given)},
        posting_{
            asio::prefer(asio::require(given_, asio::execution::blocking.never), asio::execution::relationship.fork)} {}

  asio::any_io_executor const& get() const noexcept { return given_; }

  /// Calls f() on it, never before this returns.
  template <class F>
  void execute(F&& f) {
    posting_.execute(std::forward<F>(f));
  }

  /// An operation begins whose handler runs here.
  void begin_operation() {
    if (operations_++ == 0) work_ = asio::prefer(given_, asio::execution::outstanding_work.tracked);
  }

  /// It is about to be completed: its completion is queued, with the client locked.
  void end_operation() noexcept { --operations_; }

  /// If no operation needs the shared work any more, puts it into `to` (empty before), to be destroyed with the client
  /// unlocked.
  void give_up_work(std::optional<asio::any_io_executor>& to) noexcept {
    if (operations_ == 0 && work_) to.emplace().swap(work_);
  }

  /// The context goes away. No other thread may use this then.
  void drop() noexcept {
    work_ = {};
    posting_ = {};
    given_ = {};
  }

 private:
  asio::any_io_executor given_;
  asio::any_io_executor posting_;  // the same, never blocking
  asio::any_io_executor work_;
  std::size_t operations_ = 0;  // whose completions are not queued yet
};

}  // namespace conch::detail
