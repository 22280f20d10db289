// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <string>
#include <string_view>

// How a user and a password that are not in the URL reach a kind of server. For the command, which never has a password in its arguments.
namespace conch::servers {

struct login_rules {
  bool in_this_process = false;  // memory://: another process cannot reach it
  bool takes_provider = true;    // config::credentials_provider. Otherwise the URL must contain them
  bool needs_password = true;    // a user alone is of no use
  bool has_sentinels = false;    // config::sentinel_username and sentinel_password count
};

/// Of the kind of server that the URL names. An unknown scheme has the rules of Redis; a client refuses it.
CONCH_API login_rules login_rules_of(std::string_view url);

/// The URL with this user and password in it, instead of those that it contains. An empty user: that of the URL.
/// For kinds of servers that take no provider.
CONCH_API std::string with_login(std::string_view url, credentials const& login);

}  // namespace conch::servers
