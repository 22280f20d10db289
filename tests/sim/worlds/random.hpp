// Random numbers of a simulation: the same seed gives the same numbers on every machine, which
// the distributions of the standard library do not promise.
#pragma once

#include "base/random.hpp"

#include <cstdint>

namespace conch::sim {

class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_{seed} {}

  // splitmix64 (Steele, Lea, Flood 2014).
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // 0 up to count - 1. The bias of the modulo does not matter here.
  std::int64_t below(std::int64_t count) {
    return count <= 1 ? 0 : static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }

  std::int64_t between(std::int64_t least, std::int64_t most) { return least + below(most - least + 1); }

  bool chance(int percent) { return below(100) < percent; }

  // A source of its own: what one part of the world draws must not shift what another draws.
  random_source fork() { return random_source{next()}; }

 private:
  std::uint64_t state_;
};

/// For the nonces in a simulated client's ids. `none`: they have none.
class sim_entropy final : public entropy {
 public:
  explicit sim_entropy(std::uint64_t seed, bool none = false) : numbers_{seed}, none_{none} {}
  std::uint64_t next() override { return none_ ? 0 : numbers_.next() | 1; }

 private:
  random_source numbers_;
  bool none_;
};

}  // namespace conch::sim
