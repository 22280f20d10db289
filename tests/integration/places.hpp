#pragma once

// Where the build has put things. Defined in a file of their own, so that the commands that compile the tests are the
// same in every checkout and ccache knows them again.
namespace conch::test {

extern char const* const guide_file;
extern char const* const redis_page;  // docs/servers: has the recipe of rights that the tests try
extern char const* const sentinel_page;
extern char const* const cluster_page;
extern char const* const lock_holder_program;
extern char const* const redlock_crowd_program;
extern char const* const scoped_locks_program;

}  // namespace conch::test
