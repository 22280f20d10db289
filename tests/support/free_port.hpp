#pragma once

#include <cstdint>

namespace conch::test {

/// A port of 127.0.0.1 that nobody has, that no connection gets by chance, and that no other process gets from this
/// function while this one runs: a server that is killed has it again when it starts. The one 10000 above is a port
/// too, as Redis Cluster wants it. Each call gives another.
std::uint16_t find_free_port();

}  // namespace conch::test
