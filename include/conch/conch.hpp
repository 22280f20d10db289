// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

// What most programs use. The rest has headers of its own, which <conch/all.hpp> includes: striped_mutex,
// reentrant_shared_mutex, election, locks for threads (blocking), guards, observers, printing.

#include <conch/client.hpp>
#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/error.hpp>
#include <conch/hold.hpp>
#include <conch/log.hpp>
#include <conch/multi_lock.hpp>
#include <conch/mutex.hpp>
#include <conch/reentrant_mutex.hpp>
#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>
#include <conch/version.hpp>
#include <conch/with_lock.hpp>
