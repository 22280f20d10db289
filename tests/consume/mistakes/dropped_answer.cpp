// says: nodiscard
#include <conch/conch.hpp>

void f(conch::hold& h) { h.valid(); }
