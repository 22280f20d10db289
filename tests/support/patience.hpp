#pragma once

#include <chrono>

namespace conch::test {

/// What a server of a test gets to begin, to end, or to answer, on a busy machine.
inline constexpr std::chrono::seconds patience{60};

}  // namespace conch::test
