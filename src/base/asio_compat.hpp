// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/detail/concurrency_hint.hpp>
#include <boost/asio/detail/scheduler.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>

#if __has_include(<boost/asio/config.hpp>)
#include <boost/asio/config.hpp>
#define CONCH_ASIO_HAS_CONFIG 1
#else
#define CONCH_ASIO_HAS_CONFIG 0
#endif

// The only place for what differs between versions of Asio.
namespace conch {

namespace asio = boost::asio;

inline asio::execution_context& context_of(asio::any_io_executor const& ex) {
  return asio::query(ex, asio::execution::context);
}

/// It was made with BOOST_ASIO_CONCURRENCY_HINT_UNSAFE: nothing may be posted to it from another thread.
inline bool is_for_one_thread(asio::execution_context& context) {
#if CONCH_ASIO_HAS_CONFIG
  return !asio::config(context).get("scheduler", "locking", true);
#else
  using scheduler = asio::detail::scheduler;
  if (!asio::has_service<scheduler>(context)) return false;
  return !BOOST_ASIO_CONCURRENCY_HINT_IS_LOCKING(SCHEDULER, asio::use_service<scheduler>(context).concurrency_hint());
#endif
}

}  // namespace conch
