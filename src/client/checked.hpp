// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/checks.hpp"
#include "engine/permit.hpp"

#include <conch/mutex.hpp>

#include <string>
#include <string_view>

namespace conch::detail {

inline constexpr std::uint32_t most_permits = engine::most_permits;

/// errc::invalid_config unless a semaphore may have this many permits.
error_code checked_permits(std::uint32_t permits);

/// errc::invalid_config unless a lock of this client may have that lease; `what` is its name in the words.
error_code checked_lease(client_core const& core, std::string const& what, duration lease);

/// errc::invalid_config unless this client may acquire so.
error_code checked_acquire(client_core const& core, acquire_options const& options);

/// The settings of a lock object, after a check. Throws errc::invalid_name, errc::invalid_config.
settings_ptr checked_lock(core_ptr core, std::string name, lock_options const& options,
                          lock_status::kind_of_lock kind = lock_status::kind_of_lock::mutex, std::uint32_t limit = 1);

}  // namespace conch::detail
