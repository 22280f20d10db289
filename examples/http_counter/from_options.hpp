#pragma once

#include <boost/asio/io_context.hpp>
#include <conch/config.hpp>
#include <memory>
#include <string>

#include "options.hpp"
#include "value_store.hpp"

// The lock client's settings and the store of the values, as the options say. The server and the workers of the live page use the same.
namespace http_counter {

conch::config lock_settings(options const& chosen);

/// The servers of the lock, for everybody to read: without user and password, and without the names of files.
std::string shown_lock_servers(options const& chosen);

std::unique_ptr<value_store> make_store(boost::asio::io_context& ctx, options const& chosen);

}  // namespace http_counter
