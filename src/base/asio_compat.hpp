// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>

// The only place for what differs between versions of Asio. (So far: nothing beyond what 1.81 has.)
namespace conch {

namespace asio = boost::asio;

inline asio::execution_context& context_of(asio::any_io_executor const& ex) { return asio::query(ex, asio::execution::context); }

}  // namespace conch
