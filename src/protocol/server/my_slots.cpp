// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/my_slots.hpp"

#include "protocol/server_place.hpp"

namespace conch::protocol {

bool my_slots::has(server_place const& p) const { return others_ == nullptr || &others_->keeper(p.slot) == &self_; }

}  // namespace conch::protocol
