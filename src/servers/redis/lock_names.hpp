// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/found_locks.hpp"
#include "servers/redis/questions.hpp"

#include <string>
#include <string_view>
#include <vector>

// The locks of a server, by their keys.
namespace conch::redis {

/// A pattern of Redis for keys: it matches those of all locks whose names match `pattern`, and perhaps others.
std::string key_pattern(std::string_view prefix, std::string_view pattern);

/// The name of the lock that has this key; empty: it is not a lock's key.
std::string name_in_key(std::string_view prefix, std::string_view key);

/// The locks that the server has and that match one of the patterns (none: all). By SCAN, 1000 keys at a time, which
/// may show a key twice.
void find_locks(questions& server, std::string const& prefix, std::vector<std::string> const& patterns,
                servers::found_locks& to);

}  // namespace conch::redis
