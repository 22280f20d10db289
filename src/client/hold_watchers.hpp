// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "client/completions.hpp"

#include <memory>

namespace conch::detail {

/// The async_lost, async_requested, async_renewed and async_endangered of all holds: each hold keeps its own, and they
/// complete once. With the client locked.
class hold_watchers {
 public:
  explicit hold_watchers(completions& results) noexcept : results_{results} {}

  void add(hold_node& n, std::shared_ptr<hold_watcher> w);
  void stop(hold_node& n, std::shared_ptr<hold_watcher> const& w);
  /// The hold ends.
  void stop_all(hold_node& n, error_code why);
  void requested(hold_node& n);
  void renewed(hold_node& n);
  void endangered(hold_node& n);

 private:
  template <class Predicate>
  void notify(hold_node& n, Predicate wants);

  completions& results_;
};

}  // namespace conch::detail
