// The completion token of all coroutines here: it returns errors instead of throwing them.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace http_counter {

inline constexpr auto as_tuple = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace http_counter
