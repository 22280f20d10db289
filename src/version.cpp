#include <conch/version.hpp>

namespace conch {

static_assert(version_string == CONCH_PROJECT_VERSION, "include/conch/version.hpp and project() in CMakeLists.txt name different versions");

const char* version() noexcept { return version_string.data(); }

}  // namespace conch
