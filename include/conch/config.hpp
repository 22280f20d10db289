// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/error.hpp>
#include <conch/log.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conch {

class observer;
/// A lock over several servers (docs/servers/redlock.md). Each server gives one vote.
struct quorum_config {
  /// The URLs of 1 to 9 servers, instead of `config::url`. No two may be the same server.
  std::vector<std::string> servers{};

  /// How many servers must agree: a majority to all of them. 0: a majority.
  std::size_t votes_needed = 0;

  /// How long one server keeps its vote for a client before a majority is confirmed. It replaces `config::claim`.
  /// At least 50 ms; with a shorter lease, the lease.
  duration vote_claim = std::chrono::milliseconds{500};

  /// A grant that would be valid for less is refused. 0 to half of `vote_claim`.
  duration min_validity = std::chrono::milliseconds{20};

  /// True: a fencing token is greater than every earlier one even if servers fail while clocks differ. It costs a
  /// second round trip on a few grants in a thousand. False: that holds only while the servers' clocks differ by less
  /// than `min_validity`.
  bool strict_fence = true;

  /// A server has no vote until this time, and a second, after its start. Set it to the longest lease of any client:
  /// then servers that restart without their data do not grant a lock twice. 0 to 30 days; 0: a server votes at once.
  duration min_server_uptime = duration::zero();
};

/// How a connection over TLS (`rediss://`) is made. TLS 1.2 or newer. All files are PEM. The client looks at them
/// before each connection and reads them again when they have changed; if it cannot use a new file, it logs that and
/// keeps using the previous ones.
struct tls_config {
  /// Certificates of the authorities to trust: a file, and a folder (as made by `openssl rehash`). Both empty: those of
  /// the system.
  std::string ca_file{};
  std::string ca_path{};  ///< A folder with hashed names, as `ca_file`.

  /// The client's own certificate, with its chain, and its private key, which must not be encrypted. Empty `key_file`:
  /// the key is in `cert_file` too.
  std::string cert_file{};
  std::string key_file{};  ///< The private key of `cert_file`.

  /// The name, or the address, that the certificate of the server must be for. Empty: the host of the URL.
  std::string server_name{};

  /// False: any certificate is accepted, so an attacker on the network can read and change everything. For tests only.
  bool verify = true;
};

/// User and password for one server.
struct credentials {
  std::string user{};      ///< Empty: "default".
  std::string password{};  ///< Never logged.

  /// How long they are good for, at least 10 ms. When nine tenths of it have passed the provider is called again, and
  /// its answer goes to the server on the live connection (AUTH); holds and places in the queue stay. If that fails it
  /// is logged and tried again `config::reconnect_max` later. duration::max(): until the connection ends.
  duration refresh_after = duration::max();
};

/// To be called once, from any thread (config::single_threaded: from its one thread), also before the provider has
/// returned; later calls are ignored. With an error there are no credentials.
using credentials_handler = std::function<void(error_code, credentials)>;

/// Called before each connection, and when `credentials::refresh_after` is near, with the URL of the server without its
/// password. It runs on a thread of the io_context and must not block. Whatever it starts, such as a request to a
/// secret store, must call the handler within `config::connect_timeout`. An exception counts as an error; its what() is
/// logged, so it must not contain a secret.
using credentials_provider = std::function<void(std::string const& server, credentials_handler done)>;

/// For a lock that ZooKeeper keeps (`zookeeper://`).
struct zookeeper_config {
  /// A hold's deadline moves when an answer has arrived, and a write that was sent this long after that answer was
  /// committed. It covers the time in which a follower that is cut off from its leader still answers: two of the
  /// leader's pings, which are half a tick apart. 0 to 1 minute. A session is at least four times as long, even if
  /// config::lease is shorter.
  duration session_margin = std::chrono::seconds{2};
};

/// The settings of a client. They are validated once, when the client is made; an error names the member.
struct config {
  /// The server: `redis://[user:password@]host[:port][/db]`, the same over TLS with `rediss://`, `unix:///path[?db=n]`
  /// or `memory://[name]` (this process only, for unit tests). Or 1 to 9 independent servers, of which a majority
  /// decides: `redlock://host:port,host:port,host:port`, each written as after `redis://`. `valkey://` and `valkeys://`
  /// are other names of `redis://` and `rediss://`. Or the master of a set that Sentinels watch:
  /// `redis-sentinel://[user:password@]sentinel[:26379],sentinel,...[/db]?sentinelMasterId=NAME`, and over TLS
  /// `rediss-sentinel://`. Or a Cluster, of which some nodes are named:
  /// `redis-cluster://[user:password@]node[:6379],node,...`, and over TLS `rediss-cluster://` (`valkey-cluster://` and
  /// `valkeys-cluster://` are the same). Or an ensemble of ZooKeeper:
  /// `zookeeper://[user:password@]server[:2181],server,...[/chroot]`, and over TLS `zookeepers://`. Or a database:
  /// `postgresql://...`, which needs the component conch::postgresql.
  std::string url = "redis://127.0.0.1:6379";

  /// For `rediss://`, which needs a conch that was built with CONCH_TLS. A URL can name the files, too:
  /// `rediss://host?cacert=FILE&cacertdir=FOLDER&cert=FILE&key=FILE&sni=NAME`; they count for that server, instead of
  /// those here.
  tls_config tls{};

  /// Gives user and password, instead of the URL: passwords that change, tokens that expire. Empty: those of the URL.
  conch::credentials_provider credentials_provider = nullptr;

  /// For `redis-sentinel://`: the name under which the Sentinels know the master. The URL can have it instead, as
  /// `?sentinelMasterId=NAME`.
  std::string master_name{};

  /// User and password at the Sentinels; those of the URL are for the servers. Empty user: "default"; empty password:
  /// none.
  std::string sentinel_username{};
  std::string sentinel_password{};  ///< As `sentinel_username`. Never logged.

  /// Whether the Sentinels are reached over TLS (empty: as the servers), and with which settings (empty: those of `tls`
  /// and the URL).
  std::optional<bool> sentinels_over_tls = std::nullopt;
  std::optional<tls_config> sentinel_tls = std::nullopt;  ///< As `sentinels_over_tls` says.

  /// How often the client asks a Sentinel whether the master is still the same (Sentinels also announce a change), a
  /// Cluster for its map, and the resolver for the address of a server that the URL names (`redis://NAME`,
  /// `postgresql://NAME`). If the name then means another server, the client goes there. 100 ms to 1 hour.
  duration topology_refresh = std::chrono::seconds{10};

  /// Other addresses for servers than those that Sentinels or nodes of a Cluster name, for clients behind NAT:
  /// "host:port" to "host:port", up to
  /// 1000. IPv6 addresses are in brackets. The addresses of the URL are not replaced.
  std::map<std::string, std::string> address_map{};

  /// For several servers, which `quorum.servers` or a `redlock://` URL names.
  quorum_config quorum{};

  /// For `zookeeper://`.
  zookeeper_config zookeeper{};

  /// How long the server keeps a lock without a renewal. 100 ms to 1 day. The watchdog renews each hold.
  duration lease = std::chrono::seconds{30};

  /// For jobs, hardware and mail, where no fence stops the last act of a holder that is gone: after a loss, though not
  /// after a release, nobody is granted the lock for this time (as in Chubby and Consul). The server keeps each lock
  /// for this much longer than the client believes that it holds it. At least 0; with the lease at most 1 day. A pushed
  /// grant costs a second round trip then, as with `verify_pushes`.
  duration lock_delay = duration::zero();

  /// The time between two renewals. 0: a third of the lease; else 10 ms to half of the lease.
  duration renew_every = duration::zero();

  /// A hold that could not be renewed is reported as lost this long before its deadline, so that the code under it
  /// can stop in time. At least 0; it is lowered to a quarter of the time for which the grant was valid.
  duration stop_margin = std::chrono::milliseconds{500};

  /// How long the watchdog renews one hold, at least 1 ms. A body that is stuck loses the lock at most one lease later.
  /// Empty: forever.
  std::optional<duration> max_hold = std::nullopt;

  /// How long a grant may be handed off inside this process while other clients wait. 0: each release goes to the
  /// server. At most the lease.
  duration local_slice = std::chrono::milliseconds{5};

  /// How long a client that was handed the lock may stay silent before the next waiter gets it. At least 50 ms; with a
  /// shorter lease (of the client, or of the lock that it passes on), the lease. Several servers: see
  /// `quorum_config::vote_claim`.
  duration claim = std::chrono::seconds{3};

  /// True: the client asks the server before it believes a pushed grant. Without it, a user that may publish to
  /// `conch:*` and read the keys of a lock can make a waiter believe for up to a claim that it holds the lock. A
  /// hand-over then takes 1.2 to 1.9 times as long.
  bool verify_pushes = false;

  /// How many replicas of the server must have a grant before the hold is delivered, and a renewal before the deadline
  /// moves (WAIT). 0: none. With all replicas of the server, every replica that may take over has every hold
  /// (docs/servers/sentinel.md says which number is safe). It costs a second round trip and the replication, on a
  /// second connection to the server. Too few: the grant is given back and asked for again within `.wait`, and the
  /// acquire fails with errc::not_replicated. 0 to 100. Not with several servers, nor `memory://`.
  std::size_t sync_replicas = 0;

  /// How long the replicas may take for that. At least 1 ms; it is lowered to `command_timeout` and to a third of the
  /// claim, so that there is time for a second attempt.
  duration sync_timeout = std::chrono::seconds{1};

  /// How long the server remembers the last fence of an unused lock: some 130 bytes for each name. 1 s to 30 days.
  duration fence_retention = std::chrono::minutes{10};

  /// After this long without an answer the connection counts as lost. At least 10 ms; it is lowered to a third of the
  /// lease, and for the renewals of a lock with a shorter lease of its own to a third of that.
  duration command_timeout = std::chrono::seconds{3};

  /// The limit for name look-up, connection, TLS handshake and greeting together. Several addresses of a name, hosts of
  /// a URL or seeds of a Cluster share it, and a third of the lease: one that does not answer costs its share, and is
  /// tried last next time. 10 ms to 1 hour.
  duration connect_timeout = std::chrono::seconds{5};

  /// How long an acquire waits for a server that cannot be reached before it fails with errc::unreachable. 0 to 30
  /// days.
  duration offline_timeout = std::chrono::seconds{10};

  /// After a failure, and after a connection that lasted for a second, the first attempt to connect comes at once. If
  /// that fails, this is the pause before the next one. It doubles up to `reconnect_max`; half of it is random. 1 ms to
  /// 1 hour each; `reconnect_max` is not less than `reconnect_min`. Both are lowered to a tenth of the lease, and while
  /// a lock with a shorter lease of its own is in use to a tenth of that.
  duration reconnect_min = std::chrono::milliseconds{50};
  duration reconnect_max = std::chrono::seconds{3};  ///< The longest such pause.

  /// The client sends a ping when nothing came in for this long (answers to safety checks count). Many proxies close a
  /// connection that is silent for 30 s. If two connections in a row end after the same, shorter silence, the client
  /// pings in half of that time from then on. 0: never; else 10 ms to 1 day.
  duration keep_alive = std::chrono::seconds{20};

  /// The name of the connection in CLIENT LIST. 1 to 64 characters of printable ASCII without spaces.
  std::string client_name = "conch";

  /// Names this client wherever its holds and waits are shown (named_lock::async_inspect, `conch status`). Up to 64
  /// bytes of printable UTF-8. std::nullopt: program, host and process, as in "billing@pod-7:4711"; empty: none. The
  /// server keeps it while the client lives, and all users that may read the locks there can read it.
  std::optional<std::string> label = std::nullopt;

  /// An acquire with acquire_options::task that waits for more than a second looks for a deadlock
  /// (named_lock::async_why), and again after 1, 2, 4 ... 30 s. The one that has waited least in the circle fails with
  /// errc::would_deadlock and the circle in its message. Without effect over several servers and ZooKeeper.
  bool detect_deadlocks = false;

  /// The beginning of all keys and channels. Clients with different prefixes do not see each other's locks, and an ACL
  /// of the server can keep them apart (`~PREFIX*`, `&PREFIX*`). All clients that share locks need the same. 1 to 64
  /// characters of printable ASCII without spaces and braces.
  std::string key_prefix = "conch:";

  /// Set it only if a single thread runs the io_context and makes every call. The client then locks no mutex, and calls
  /// handlers that run on its own executor in the turn of the event loop in which they become due, instead of posting
  /// each. After 16 of them the event loop serves its other handlers.
  bool single_threaded = false;

  /// Receives the client's log lines; `log_to_stderr()` is a ready-made one. Empty: there is no log.
  log_hook log = nullptr;

  /// Is notified of each acquire and hold (conch/observer.hpp). Empty: no notifications, at no cost.
  std::shared_ptr<conch::observer> observer = nullptr;

  /// How many lock names get figures of their own (statistics::locks): those for which the client has waited longest. 0
  /// to 100; 0: none. The client then keeps four times as many names. A label in a metric costs its database as much as
  /// a metric, and names may be secret.
  std::size_t top_k = 0;
};

}  // namespace conch
