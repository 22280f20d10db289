#pragma once

#include <boost/json/object.hpp>
#include <conch/stats.hpp>

namespace http_counter {

/// All counters by name; for each histogram the count, and the mean and quantiles in µs.
boost::json::object to_json(conch::statistics const& s);

}  // namespace http_counter
