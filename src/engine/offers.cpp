// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/backend.hpp"

#include <string>

// What a backend does not offer, by the names that users know.
namespace conch::engine {

error_code not_offered(capabilities const& of, std::string_view feature) {
  std::string words{feature};
  words.append(" over ").append(of.where);
  if (!of.instead.empty()) words.append(": ").append(of.instead);
  return make_error_code(errc::not_supported, words);
}

error_code not_offered(capabilities const& of, permit const& p) {
  if (p.all_free) return not_offered(of, "semaphore::async_drain");
  switch (p.kind) {
    case permit_kind::segments: return not_offered(of, "striped_mutex");
    case permit_kind::semaphore: return not_offered(of, "semaphore");
    case permit_kind::shared: return not_offered(of, "shared_mutex and reentrant_shared_mutex");
    case permit_kind::reentrant: return not_offered(of, "reentrant_mutex");
    case permit_kind::none: break;
  }
  return not_offered(of, "mutex");
}

error_code not_offered(capabilities const& of, order const& o) {
  switch (o.what) {
    case order::kind::inspect:
    case order::kind::identify: return not_offered(of, "async_inspect");
    case order::kind::force: return not_offered(of, "async_force_release");
    case order::kind::request: return not_offered(of, "async_request_release");
    case order::kind::wait_free: return not_offered(of, "async_wait_free");
    case order::kind::downgrade:
      return not_offered(of, o.permit.kind == permit_kind::semaphore ? "semaphore::async_release of a part"
                                                                     : "shared_mutex::async_downgrade");
    case order::kind::set_limit: break;
  }
  if (o.if_unset) return not_offered(of, "semaphore::async_set_permits_if_unset");
  return not_offered(of, o.by != 0 ? "semaphore::async_add_permits" : "semaphore::async_set_permits");
}

}  // namespace conch::engine
