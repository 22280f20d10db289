// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/grants.hpp"

#include "base/fault.hpp"
#include "protocol/wire.hpp"

#include <string>

namespace conch::protocol {

bool is_usable(std::int64_t fence) { return fence > 0 && fence < fence_limit; }

bool is_possible(permit const& p, std::int64_t chosen) {
  if (p.all_free) return chosen >= 1 && chosen <= engine::most_permits;
  return p.kind == permit_kind::segments ? chosen >= 1 && chosen <= p.limit : chosen == 0;
}

error_code impossible(server_place const& p, std::int64_t chosen) {
  std::string const which = (p.permit.all_free ? "permits " : "segment ") + std::to_string(chosen);
  if (p.permit.kind != permit_kind::segments || chosen < 1) return to_error(fault::malformed, "granted " + which);
  return make_error_code(errc::invalid_config, "granted " + which + ", and this object was made with " +
                                                   std::to_string(p.permit.limit) + " segments");
}

}  // namespace conch::protocol
