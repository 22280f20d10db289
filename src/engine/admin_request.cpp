// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/admin_request.hpp"

#include "engine/backend.hpp"

namespace conch::engine {

admin_request::admin_request() noexcept
    : due{this, [](admin_request& i, time_point now) { i.server->admin_due(i, now); }} {}

admin_request::~admin_request() {
  if (linked()) server->withdraw(*this);
}

}  // namespace conch::engine
