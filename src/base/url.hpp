// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/secrets.hpp"

#include <conch/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {

/// One server, as a URL names it.
struct address {
  enum class kind { tcp, unix_socket, memory, postgresql, zookeeper };

  kind what = kind::tcp;
  std::string host;  // tcp, zookeeper: name or address, without the brackets of IPv6
  std::uint16_t port = 6379;
  std::string path;  // unix_socket: the path; memory: the name of the store; postgresql: the whole URL
  std::string user;  // empty: "default" if there is a password
  secret password;
  secret token{};  // the user, where that looks like a secret itself
  int database = 0;
  bool over_tls = false;  // tcp
  tls_config tls{};       // what the URL says of TLS; its `verify` says nothing
  bool is_sentinel = false;
  std::string master{};  // the name under which Sentinels know the server; `host` is empty until one has said where it is

  /// The address without the password, for messages.
  std::string shown() const;
};

/// `redis://[user:password@]host[:port][/db]` (also `valkey://`), `rediss://...[?cacert=&cacertdir=&cert=&key=&sni=]` (also `valkeys://`),
/// `unix://[user:password@]/path[?db=n]`, `memory://[name]`, and `postgresql://...` as libpq has it (also `postgres://`). User, password and what
/// follows '?' are percent-decoded. Throws boost::system::system_error{errc::invalid_url}; what() says which part.
address parse_url(std::string_view url);

/// The settings of TLS for this server: those of the URL, and of the configuration where the URL says nothing.
tls_config tls_of(address const& where, tls_config const& configured);

/// The servers that a client works with: `redlock://` and a list of `[user:password@]host[:port][/db]`, separated by commas; or one of the
/// above. Throws as parse_url.
std::vector<address> parse_servers(std::string_view url);

/// The same for a list of URLs, each of one server. At most 9, and no two may be the same.
std::vector<address> parse_servers(std::vector<std::string> const& urls);

/// Sentinels, and the server that they know.
struct sentinel_url {
  std::vector<address> sentinels;  // without user and password
  address server;                  // all but host and port
};

bool names_sentinels(std::string_view url) noexcept;

/// `redis-sentinel://[user:password@]host[:26379],host,...[/db]?sentinelMasterId=NAME`, and the same over TLS with `rediss-sentinel://`, which
/// takes the words of `rediss://` too. User, password and database are those of the server. The name may be missing. Throws as parse_url.
sentinel_url parse_sentinels(std::string_view url);

/// Some nodes of a Cluster, which know the others.
struct cluster_url {
  std::vector<address> seeds;  // with the user and password of all nodes
};

bool names_cluster(std::string_view url) noexcept;

/// `redis-cluster://[user:password@]host[:6379],host,...`, and the same over TLS with `rediss-cluster://`, which takes the words of `rediss://`
/// behind '?'. `valkey-cluster://` and `valkeys-cluster://` are the same. Throws as parse_url.
cluster_url parse_cluster(std::string_view url);

/// The servers of an ensemble of ZooKeeper.
struct zookeeper_url {
  std::vector<address> servers;  // with the user and password of all
  std::string chroot;            // "/a/b", or empty
};

bool names_zookeeper(std::string_view url) noexcept;

/// `zookeeper://[user:password@]host[:2181],host,...[/chroot]`, and the same over TLS with `zookeepers://`, which takes the words of `rediss://`
/// behind '?'. Throws as parse_url.
zookeeper_url parse_zookeeper(std::string_view url);

/// Is this user name long and mixed, as a token is?
bool looks_like_a_token(std::string_view user) noexcept;

/// Refuses a URL that can be understood in two ways, so that a part of a password could be taken for a host: a '/', '?' or '#' before an '@', two
/// '@', or one behind '?'. Every scheme does, with the same words. Throws as parse_url.
void refuse_ambiguous(std::string_view url);

/// Can this be the name or the address of a server? 1 to 255 bytes which can be seen. What a peer names is asked this, too.
bool can_be_host(std::string_view text);

/// `host:port`, where an IPv6 address stands in brackets. Throws as parse_url.
void read_host_and_port(std::string_view text, address& to);

/// The same the other way round.
std::string host_and_port(std::string const& host, std::uint16_t port);

}  // namespace conch::redis
