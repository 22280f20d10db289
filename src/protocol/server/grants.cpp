// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/grants.hpp"

#include "base/fault.hpp"
#include "protocol/wire.hpp"

#include <string>

namespace conch::protocol {

bool is_usable(std::int64_t fence) { return fence > 0 && fence < fence_limit; }

bool has_segment(permit const& p, std::int64_t segment) {
  if (p.all_free) return segment >= 1 && segment <= engine::most_permits;
  return p.kind == permit_kind::segments ? segment >= 1 && segment <= p.limit : segment == 0;
}

error_code no_such_segment(place const& p, std::int64_t segment) {
  std::string const which = (p.permit.all_free ? "permits " : "segment ") + std::to_string(segment);
  if (p.permit.kind != permit_kind::segments || segment < 1) return to_error(fault::malformed, "granted " + which);
  return make_error_code(errc::invalid_config, "granted " + which + ", and this object was made with " +
                                                   std::to_string(p.permit.limit) + " segments");
}

}  // namespace conch::protocol
