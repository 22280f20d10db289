// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

// Everything that is public.

#include <conch/blocking.hpp>
#include <conch/conch.hpp>
#include <conch/election.hpp>
#include <conch/guard.hpp>
#include <conch/named_lock.hpp>
#include <conch/observer.hpp>
#include <conch/owner.hpp>
#include <conch/print.hpp>
#include <conch/reentrant_shared_mutex.hpp>
#include <conch/stats.hpp>
#include <conch/striped_mutex.hpp>
