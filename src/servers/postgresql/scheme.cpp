// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "backends/components.hpp"
#include "servers/postgresql/connection.hpp"
#include "servers/postgresql/probe.hpp"

#include <conch/detail/api.hpp>

#include <memory>
#include <string>

namespace conch::postgresql {

namespace {

std::unique_ptr<transport> make(backends::wanted_transport const& w) {
  return std::make_unique<connection>(w.shell, w.on, w.settings, w.client_id, w.url);
}

}  // namespace

constexpr backends::component parts{&make, &make_probe};

}  // namespace conch::postgresql

/// The target conch::postgresql tells the linker that this symbol is needed. So the linker takes this file, and with it all others of the
/// component, though no program names them.
extern "C" {
extern CONCH_API bool const conch_component_postgresql;
bool const conch_component_postgresql = conch::backends::add_postgresql(conch::postgresql::parts);
}
