// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/random.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <chrono>
#include <cstdint>

namespace conch {

/// The pauses between attempts to connect, of config::reconnect_min and reconnect_max.
class back_off {
 public:
  /// A server that ends a connection sooner than this may do so with each.
  static constexpr duration steady_after = std::chrono::seconds{1};

  explicit back_off(std::uint64_t seed) noexcept : random_{seed} {}

  /// The pause before the next attempt: none after a connection that lasted, then ever longer; half of it is random.
  /// Holds with this lease, which may be shorter than config::lease, are to outlive an outage: a pause is no longer
  /// than a tenth of it.
  CONCH_API duration next(config const& settings, duration lease = duration::max()) noexcept;
  /// A connection has ended after that time.
  CONCH_API void lasted(duration time) noexcept;
  void begin_anew() noexcept { attempts_ = 0; }
  /// Some attempt has failed since a connection lasted.
  bool is_under_way() const noexcept { return attempts_ > 0; }

 private:
  unsigned attempts_ = 0;  // in a row without success
  random_numbers random_;
};

}  // namespace conch
