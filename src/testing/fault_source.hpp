// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/testing.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace conch::testing {

/// Draws which faults happen, and after which handler. A world has few, so that most code under test ends well.
class fault_source {
 public:
  enum class kind : std::uint8_t { pause, cut, restart, loss, data_loss };
  /// A number below n.
  using dice = std::function<std::uint64_t(std::uint64_t n)>;

  fault_source(std::optional<faults> const& drawn, dice below);

  /// After a handler. None: nothing happens.
  std::optional<kind> after_handler();
  /// Is the process paused before it uses a resource?
  bool before_access();
  /// How long a process is paused.
  duration length();
  void stop() noexcept { left_ = 0; }

 private:
  dice below_;
  std::vector<kind> kinds_;
  bool has_pauses_ = false;
  std::uint64_t left_ = 0, one_in_ = 1;
};

}  // namespace conch::testing
