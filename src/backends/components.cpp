// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "backends/components.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <atomic>

namespace conch::backends {

namespace {

constinit std::atomic<component const*> known_postgresql{nullptr};

}  // namespace

bool add_postgresql(component const& c) noexcept {
  known_postgresql = &c;
  return true;
}

component const& postgresql() {
  component const* const found = known_postgresql;
  if (found != nullptr) return *found;
  throw boost::system::system_error{
      make_error_code(errc::not_supported,
                      "postgresql:// needs the component conch::postgresql, and this program is not linked with it: find_package(conch COMPONENTS "
                      "postgresql), target_link_libraries(... conch::postgresql); without CMake see pkg-config conch-postgresql")};
}

}  // namespace conch::backends
