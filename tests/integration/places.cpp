#include "integration/places.hpp"

namespace conch::test {

char const* const guide_file = CONCH_GUIDE;
char const* const lock_holder_program = CONCH_LOCK_HOLDER;
char const* const redlock_crowd_program = CONCH_REDLOCK_CROWD;

}  // namespace conch::test
