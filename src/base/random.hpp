// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>

namespace conch {

/// splitmix64 (Steele, Lea, Flood 2014): only for jitter.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) noexcept : state_{seed} {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

/// The source of the nonces of grant ids: numbers that others cannot foretell (src/base/entropy.hpp). The simulator has
/// its own source, so that a seed repeats.
class entropy {
 public:
  virtual ~entropy() = default;
  virtual std::uint64_t next() = 0;
};

}  // namespace conch
