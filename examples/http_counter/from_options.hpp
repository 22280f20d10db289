#pragma once

#include <boost/asio/io_context.hpp>
#include <conch/config.hpp>
#include <memory>
#include <string>

#include "options.hpp"
#include "value_store.hpp"

// The lock client's settings and the store of the values, made from the options. The server and the workers of the live
// page use the same.
namespace http_counter {

conch::config lock_settings(options const& chosen);

/// The lock's servers for display: without user, password and file names.
std::string shown_lock_servers(options const& chosen);

std::unique_ptr<value_store> make_store(boost::asio::io_context& ctx, options const& chosen);

}  // namespace http_counter
