// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/client.hpp>
#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/error.hpp>
#include <conch/guard.hpp>
#include <conch/hold.hpp>
#include <conch/log.hpp>
#include <conch/multi_lock.hpp>
#include <conch/mutex.hpp>
#include <conch/named_lock.hpp>
#include <conch/observer.hpp>
#include <conch/owner.hpp>
#include <conch/reentrant_mutex.hpp>
#include <conch/reentrant_shared_mutex.hpp>
#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>
#include <conch/stats.hpp>
#include <conch/striped_mutex.hpp>
#include <conch/version.hpp>
#include <conch/with_lock.hpp>
