// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <string>
#include <string_view>
#include <vector>

// What the command has to know of a URL, which it takes from arguments, variables and files, and never shows as it is.
// All functions take any text: a client refuses what is wrong with it.
namespace conch::servers {

/// How a user and a password that are not in the URL reach a kind of server.
struct login_rules {
  bool in_this_process = false;  // memory://: another process cannot reach it
  bool takes_provider = true;    // config::credentials_provider. Otherwise the URL must contain them
  bool needs_password = true;    // a user alone is useless
  bool has_sentinels = false;    // config::sentinel_username and sentinel_password count
};

/// Those of the kind of server that the URL names. An unknown scheme has the rules of Redis.
CONCH_API login_rules login_rules_of(std::string_view url);

/// The user and password in the URL, for any of its servers.
struct login_in_url {
  bool user = false, password = false;

  bool none() const noexcept { return !user && !password; }
};
CONCH_API login_in_url login_in(std::string_view url);

/// The URL with this user and password in it, instead of those that it contains. An empty user: that of the URL.
/// For kinds of servers that take no provider.
CONCH_API std::string with_login(std::string_view url, credentials const& login);

/// For messages: the URL without users, passwords and what follows '?', except a name that distinguishes two sets of
/// servers.
CONCH_API std::string without_login(std::string_view url);

/// Does a majority of the servers decide?
CONCH_API bool names_voters(std::string_view url);
/// The URL of each of them; otherwise the URL itself.
CONCH_API std::vector<std::string> voters_of(std::string_view url);

}  // namespace conch::servers
