// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "client/client_requests.hpp"
#include "client/core.hpp"

namespace conch::detail {

/// The last level that writes has been left, and others of the same hold read: makes a reader of the writer. `handler`:
/// empty if no caller waits for the answer. The order continues in the background after errc::unreachable, until the
/// hold ends: otherwise it would keep readers out.
void start_level_downgrade(settings_ptr const& lock, node_ref writer, release_handler handler);

}  // namespace conch::detail
