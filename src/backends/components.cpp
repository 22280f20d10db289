// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "backends/components.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <atomic>

namespace conch::backends {

namespace {

constinit std::atomic<transport_maker> postgresql{nullptr};

}  // namespace

bool add_postgresql(transport_maker m) noexcept {
  postgresql = m;
  return true;
}

std::unique_ptr<transport> make_postgresql(wanted_transport const& w) {
  transport_maker const make = postgresql;
  if (make != nullptr) return make(w);
  throw boost::system::system_error{
      make_error_code(errc::not_supported,
                      "postgresql:// needs the component conch::postgresql, and this program is not linked with it: find_package(conch COMPONENTS "
                      "postgresql), target_link_libraries(... conch::postgresql); without CMake see pkg-config conch-postgresql")};
}

}  // namespace conch::backends
