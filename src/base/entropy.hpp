// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/random.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace conch::detail {

/// The operating system's own generator, asked for many numbers at once: an acquire should not cost a system call more.
class system_entropy final : public engine::entropy {
 public:
  /// Throws if the system has none: then there is no client.
  system_entropy() { refill(); }

  /// Never 0.
  std::uint64_t next() override;

 private:
  void refill();

  std::array<std::uint64_t, 32> numbers_;  // 256 bytes: what the system gives at once, without an interruption
  std::size_t used_ = 0;
};

/// For locks in memory, where only this process can send a push: none.
class no_entropy final : public engine::entropy {
 public:
  std::uint64_t next() override { return 0; }
};

}  // namespace conch::detail
