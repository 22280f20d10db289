// says: nodiscard
#include <conch/conch.hpp>

void f(conch::shared_mutex& m) { m.readers(); }
