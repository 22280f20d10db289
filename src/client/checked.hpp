// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cohort/permit.hpp"

#include <conch/mutex.hpp>

#include <boost/system/system_error.hpp>

#include <string>
#include <string_view>

namespace conch::detail {

inline constexpr std::uint32_t most_permits = engine::most_permits;

/// Throws a system_error with this code and reason.
[[noreturn]] inline void refuse(errc e, std::string_view why) { throw boost::system::system_error{make_error_code(e, why)}; }

/// errc::invalid_config unless a semaphore may have so many permits.
error_code checked_permits(std::uint32_t permits);

/// errc::invalid_config unless a lock of a client with these settings may have that lease; `what` is its name in the words.
error_code checked_lease(config const& settings, std::string const& what, duration lease);

/// errc::invalid_config unless a client with these settings may acquire so.
error_code checked_acquire(config const& settings, acquire_options const& options);

/// The settings of a lock object, after a check. Throws errc::invalid_name, errc::invalid_config.
settings_ptr checked_lock(core_ptr core, std::string name, lock_options const& options,
                          lock_status::kind_of_lock kind = lock_status::kind_of_lock::mutex, std::uint32_t limit = 1);

}  // namespace conch::detail
