// What operator new has given out in this program.
#pragma once

#include <cstdint>

namespace conch::bench {

std::uint64_t allocations() noexcept;  ///< calls so far
std::uint64_t bytes_live() noexcept;   ///< as the allocator rounds them, without its own header

}  // namespace conch::bench
