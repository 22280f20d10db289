// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/random.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace conch::detail {

/// The operating system's generator. It is asked for many numbers at once, so that an acquire does not cost one more
/// system call.
class system_entropy final : public entropy {
 public:
  /// Throws if the system has no generator: then there is no client.
  system_entropy() { refill(); }

  /// Never 0.
  std::uint64_t next() override;

 private:
  void refill();

  std::array<std::uint64_t, 32> numbers_;  // 256 bytes: the system returns up to this many in one uninterrupted call
  std::size_t used_ = 0;
};

/// No nonces: for locks in memory, where only this process can send a push.
class no_entropy final : public entropy {
 public:
  std::uint64_t next() override { return 0; }
};

}  // namespace conch::detail
