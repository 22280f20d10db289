// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/transport.hpp"

#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>

namespace conch::servers {
class probe;
}  // namespace conch::servers

// Transports that are not in this library, because they need another one. A program that links the component has them. The few internal functions
// that a component uses leave the shared library too (CONCH_API; tests/consume/symbols.txt).
namespace conch::backends {

/// What such a transport is made from. All but the URL outlives it.
struct wanted_transport {
  host& shell;
  asio::any_io_executor const& on;
  config const& settings;
  std::string const& client_id;
  std::string const& url;
};
using transport_maker = std::unique_ptr<transport> (*)(wanted_transport const& w);
using probe_maker = std::unique_ptr<servers::probe> (*)(config const& settings);

/// What a component has for one kind of server. Lives as long as the program.
struct component {
  transport_maker make_transport;
  probe_maker make_probe;
};

/// Called while the program is loaded. Answers true.
CONCH_API bool add_postgresql(component const& c) noexcept;

/// Throws errc::not_supported where the program has no such component.
component const& postgresql();

}  // namespace conch::backends
