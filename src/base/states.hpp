// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <boost/assert.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

// A table defines which states may follow each state. enter() is the only function that changes a state, and asserts
// the table. The assertions are on in debug builds, in the simulator and in the fuzzers.
namespace conch {

/// For each state the states that may follow it, as bits.
template <class State, std::size_t N>
class state_table {
 public:
  struct row {
    State from;
    std::uint32_t to;
  };

  /// One row for each state.
  constexpr explicit state_table(row const (&rows)[N]) noexcept {
    for (row const& r : rows) follow_[static_cast<std::size_t>(r.from)] = r.to;
  }
  constexpr bool allows(State from, State to) const noexcept {
    return (follow_[static_cast<std::size_t>(from)] >> static_cast<unsigned>(to) & 1u) != 0;
  }

 private:
  std::array<std::uint32_t, N> follow_{};
};

template <class... States>
constexpr std::uint32_t any_of(States... states) noexcept {
  return (0u | ... | (1u << static_cast<unsigned>(states)));
}

}  // namespace conch
