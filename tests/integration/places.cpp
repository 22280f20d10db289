#include "integration/places.hpp"

namespace conch::test {

char const* const guide_file = CONCH_GUIDE;
char const* const redis_page = CONCH_SERVER_PAGES "/redis.md";
char const* const sentinel_page = CONCH_SERVER_PAGES "/sentinel.md";
char const* const cluster_page = CONCH_SERVER_PAGES "/cluster.md";
char const* const lock_holder_program = CONCH_LOCK_HOLDER;
char const* const redlock_crowd_program = CONCH_REDLOCK_CROWD;
char const* const scoped_locks_program = CONCH_SCOPED_LOCKS;

}  // namespace conch::test
