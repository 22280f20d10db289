// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "client/core.hpp"
#include "engine/admin_request.hpp"

#include <list>
#include <memory>
#include <optional>

namespace conch::detail {

/// An admin_request of the cohort, with the handler to be called.
class client_request : public engine::admin_request, public pending_call {
 public:
  client_request(core_ptr c, kind w, std::string of) : core{std::move(c)} {
    what = w;
    name = std::move(of);
  }

  core_ptr const core;
  node_ref of_hold;                                           // of a downgrade: the hold that gives a part of it back
  engine::permit_kind of_kind = engine::permit_kind::shared;  // of a downgrade: what the hold must be of
  std::uint32_t given_back = 0;                               // of a downgrade of a semaphore: how many permits
  engine::admin_result result;
  error_code why;
  // its entry in client_core::client_requests_; with the client locked
  std::optional<std::list<std::shared_ptr<client_request>>::iterator> at_core;
};

/// The last level that writes has been left, and others of the same hold read: makes a reader of the writer. `handler`:
/// empty if no caller waits for the answer. The order continues in the background after errc::unreachable, until the
/// hold ends: otherwise it would keep readers out.
void start_level_downgrade(settings_ptr const& lock, node_ref writer, release_handler handler);

}  // namespace conch::detail
