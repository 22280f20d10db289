// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cohort/admin_request.hpp"

#include "cohort/backend.hpp"

namespace conch::engine {

admin_request::admin_request() noexcept
    : due{this, [](admin_request& i, time_point now) { i.at->admin_due(i, now); }} {}

admin_request::~admin_request() {
  if (linked()) at->withdraw(*this);
}

}  // namespace conch::engine
