// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/random.hpp"
#include "base/url.hpp"
#include "cohort/backend.hpp"
#include "protocol/transport.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// From a URL and a config to a backend and its transports: the only place that knows all of them.

namespace conch {
class host;
}  // namespace conch

namespace conch::engine {
class backend_events;
class log_sink;
class timer_queue;
}  // namespace conch::engine

namespace conch::backends {

/// The servers that the settings name. Throws errc::invalid_url for those in the URL, errc::invalid_config for those in
/// `config::quorum.servers`.
std::vector<redis::address> servers_of(config const& c);

/// The Sentinels that say where the server is; none: the settings name it. Throws as servers_of.
std::optional<redis::sentinel_url> sentinels_of(config const& c);

/// The nodes of a Cluster that the URL names; none: it names another kind of server. Throws as servers_of.
std::optional<redis::cluster_url> cluster_of(config const& c);

/// The ensemble of ZooKeeper that the URL names; none: it names another kind of server. Throws as servers_of.
std::optional<redis::zookeeper_url> zookeeper_of(config const& c);

/// Does a majority of the servers decide? It also does for a single server, if the URL or `config::quorum.servers` asks for it.
bool is_quorum(config const& c);

/// The servers, as an error names them: without a secret. For settings of which servers_of() does not throw.
std::string shown(config const& c);

/// Is a lock a key on one Redis server? Throws as servers_of.
bool is_one_redis(config const& c);

/// What a client lends to its backend and transports. It outlives both.
struct lent {
  config const& settings;
  std::string const& client_id;
  host& shell;
  asio::any_io_executor const& on;  // for the transports; a strand, unless config::single_threaded
  engine::timer_queue& timers;
  engine::backend_events& up;
  engine::log_sink& log;
  statistics& stats;
};

/// The backend of a client, and the ways to its servers. Used with the client locked.
struct deployment {
  std::unique_ptr<engine::entropy> nonces;
  std::vector<std::unique_ptr<way>> ways;
  std::unique_ptr<engine::backend> backend;
};

/// Throws as servers_of.
deployment make(lent const& client);

// What a user's script needs to check the owner of a lock on one Redis server.

/// The key of a lock.
std::string lock_key(config const& c, std::string_view name);

struct script_text {
  std::string_view source, sha1;
};
script_text guard_prelude() noexcept;
script_text guarded_script() noexcept;

}  // namespace conch::backends
