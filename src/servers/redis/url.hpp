// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/endpoint.hpp"

#include <string>
#include <string_view>
#include <vector>

// The URLs of Redis. All functions throw boost::system::system_error{errc::invalid_url}; what() names the wrong part.
namespace conch::redis {

/// One server, as a URL names it.
struct address : login_endpoint {
  address() { port = 6379; }

  int database = 0;
  bool is_sentinel = false;
  // the name under which Sentinels know the server; `host` is empty until one has reported where it is
  std::string master{};

  /// The address without the password, for messages.
  std::string shown() const;
};

/// Two servers with the same identity are one, however they are spelt. TLS makes no difference.
std::string identity_of(address const& where);

/// The name in a simulated world: "cache:6379".
std::string site_of(address const& where);

/// `redis://[user:password@]host[:port][/db]` (also `valkey://`), `rediss://...[?cacert=&cacertdir=&cert=&key=&sni=]`
/// (also `valkeys://`), and `unix://[user:password@]/path[?db=n]`. User, password and what follows '?' are
/// percent-decoded.
address parse_one(std::string_view url);

/// The URL of each server of `redlock://[user:password@]host[:port][/db],...`.
std::vector<std::string> urls_of_list(std::string_view url);

/// Sentinels, and the server that they know.
struct sentinel_url {
  std::vector<address> sentinels;  // without user and password
  address server;                  // all but host and port
};

/// `redis-sentinel://[user:password@]host[:26379],host,...[/db]?sentinelMasterId=NAME`, and the same over TLS with
/// `rediss-sentinel://`, which takes the words of `rediss://` too. User, password and database are those of the server.
/// The name may be missing.
sentinel_url parse_sentinels(std::string_view url);

/// Some nodes of a Cluster, which know the others.
struct cluster_url {
  std::vector<address> seeds;  // with the user and password of all nodes
};

/// `redis-cluster://[user:password@]host[:6379],host,...`, and the same over TLS with `rediss-cluster://`, which takes
/// the words of `rediss://` behind '?'. `valkey-cluster://` and `valkeys-cluster://` are the same.
cluster_url parse_cluster(std::string_view url);

}  // namespace conch::redis
