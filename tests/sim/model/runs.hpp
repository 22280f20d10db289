// Where a run of equal values ends, of the many thousands that the slots of a Cluster are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace conch::sim {

// How many values at the beginning of `all` are equal to `what`. Many are compared at once.
template <class T>
std::size_t run_of(T what, std::span<T const> all) {
  constexpr std::size_t at_once = 64;
  std::size_t n = 0;
  for (; n + at_once <= all.size(); n += at_once) {
    unsigned differ = 0;
    for (std::size_t i = 0; i < at_once; ++i) differ |= static_cast<unsigned>(all[n + i] ^ what);
    if (differ != 0) break;
  }
  while (n < all.size() && all[n] == what) ++n;
  return n;
}

}  // namespace conch::sim
