// The least that uses a client.

#include <conch/client.hpp>

int main() { return conch::detail::core_ptr{} ? 1 : 0; }
