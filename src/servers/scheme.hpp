// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/random.hpp"
#include "base/url_text.hpp"
#include "engine/backend.hpp"
#include "protocol/transport.hpp"
#include "servers/probe.hpp"
#include "servers/urls.hpp"

#include <conch/config.hpp>
#include <conch/detail/api.hpp>
#include <conch/stats.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch {
class log_sink;
class timer_queue;
namespace engine {
class backend_events;
}
}  // namespace conch

// What a kind of server gives to the rest of conch, which knows no kind by name: the schemes of its URLs, and targets
// made from them. Each room of a kind has a scheme.cpp; the registry has the list of them.
namespace conch::servers {

/// What a client lends to its backend and transports. It outlives both.
struct client_services {
  config const& settings;
  std::string const& client_id;
  host& shell;
  asio::any_io_executor const& on;  // for the transports; a strand, unless config::single_threaded
  timer_queue& timers;
  engine::backend_events& up;
  log_sink& log;
  statistics& stats;
};

/// The backend of a client, and the transports to its servers. Used with the client locked.
struct deployment {
  std::unique_ptr<entropy> nonces{};
  std::vector<std::unique_ptr<server_connection>> connections{};
  std::unique_ptr<engine::backend> backend{};
};

/// The name of a server among those of a simulated world, and which of its parts, that share no locks: a database.
struct site {
  std::string server, part{};
};

/// The server, or the servers, that one URL names.
class target {
 public:
  target() = default;
  target(target const&) = delete;
  target& operator=(target const&) = delete;
  virtual ~target() = default;

  /// As an error names it: without user and password.
  virtual std::string shown() const = 0;
  /// Two targets with the same identity are one server. With two votes of one server fewer servers than a majority
  /// could win.
  virtual std::string identity() const { return shown(); }
  /// Two spellings of one server have the same site.
  virtual site where() const { return {identity()}; }
  virtual bool is_over_tls() const noexcept { return false; }
  /// Otherwise only this client can tell that it is one of our grants.
  virtual bool needs_nonces() const noexcept { return true; }
  /// Does a majority of several servers decide?
  virtual bool is_quorum() const noexcept { return false; }

  /// Throws errc::invalid_config or errc::not_supported for settings that this target cannot work with; lowers what
  /// depends on others.
  virtual void check(config& c) const = 0;
  virtual deployment make(client_services const& client) const = 0;
  /// The transport to one server that keeps locks as Redis does. Null: it is not one server, or keeps them otherwise.
  virtual std::unique_ptr<transport> make_transport(client_services const&) const { return nullptr; }
  /// Null: there is nothing that a probe could ask.
  virtual std::unique_ptr<probe> make_probe(config const&) const { return nullptr; }
  /// The key with which a user's script on the server checks a lock's owner (conch/guard.hpp). None: there is no such
  /// script.
  virtual std::optional<std::string> guard_key(config const&, std::string_view) const { return std::nullopt; }
};

/// For what asks this target.
std::unique_ptr<entropy> nonces_for(target const& t);

/// The deployment of a target that has a transport.
CONCH_API deployment make_single(target const& t, client_services const& client);

/// A member of conch::config that means nothing to other kinds of servers.
struct own_setting {
  std::string_view member;
  bool (*is_set)(config const& c);
  // what is wrong where another kind is named: "the URL does not begin with redis-sentinel://"
  std::string_view otherwise;
};

/// A kind of URL.
struct scheme {
  struct name {
    std::string_view text;  // before "://"
    bool is_over_tls = false;
  };
  std::span<name const> names;
  url::shape shape = url::shape::hosts;
  login_rules login{};
  std::span<own_setting const> settings{};
  std::string_view shown_parameter{};  // after '?': what distinguishes two sets of servers
  // why it cannot be one of several servers of which a majority decides. Empty: it can
  std::string_view why_no_vote{};
  /// Throws errc::invalid_url, and errc::invalid_config where URL and settings do not go together. `url` is not
  /// ambiguous.
  std::unique_ptr<target> (*parse)(std::string_view url, config const& c) = nullptr;
  /// Instead of parse: the URLs of several servers that vote.
  std::vector<std::string> (*votes)(std::string_view url) = nullptr;
};

}  // namespace conch::servers
