#pragma once

#include <boost/json/object.hpp>
#include <conch/stats.hpp>

namespace http_counter {

/// All counters under their own names; of the histograms: count, mean and quantiles in µs.
boost::json::object to_json(conch::statistics const& s);

}  // namespace http_counter
