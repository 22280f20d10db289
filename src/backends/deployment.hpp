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
#include <string>
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

/// Throws errc::invalid_url, or for those in `config::quorum.servers` errc::invalid_config.
std::vector<redis::address> servers_of(config const& c);

/// Is a majority of them to decide? Also of one, if it is written so.
bool is_quorum(config const& c);

/// What a client lends to its backend, for as long as that lives.
struct lent {
  config const& settings;
  std::string const& client_id;
  host& shell;
  asio::any_io_executor const& on;  // of the transports: a strand, if there are several threads
  engine::timer_queue& timers;
  engine::backend_events& up;
  engine::log_sink& log;
  statistics& stats;
};

/// The backend of a client, and the way to each of its servers. Used with the engine locked.
struct deployment {
  std::unique_ptr<engine::entropy> nonces;
  std::vector<std::unique_ptr<transport>> transports;
  std::unique_ptr<engine::backend> backend;
};

/// Throws as servers_of.
deployment make(lent const& client);

}  // namespace conch::backends
