// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/checks.hpp"
#include "base/identity.hpp"
#include "base/introduction.hpp"
#include "base/readable.hpp"
#include "client/checked.hpp"
#include "client/core.hpp"
#include "engine/lease.hpp"
#include "registry/registry.hpp"

#include <conch/client.hpp>
#include <conch/hold.hpp>
#include <conch/mutex.hpp>

#include <algorithm>
#include <string>
#include <utility>

// The public classes: checks, and calls of the core.
namespace conch {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr duration shortest_lease = milliseconds{100};
constexpr duration longest_lease = milliseconds{engine::longest_lease_ms};
constexpr duration shortest_hold = milliseconds{1};
// Below these the messages would follow each other as fast as the server answers, without any use.
constexpr duration shortest_renewal = milliseconds{10};
constexpr duration shortest_keep_alive = milliseconds{10};

using detail::at_least;
using detail::between;
using detail::refuse;
using detail::require;
using detail::whole_duration;
using detail::zero_or_between;

/// Why a lock, or one acquire, cannot have this lease; empty: it can.
std::string wrong_lease(std::string const& member, duration lease, detail::client_core const& core) {
  duration const longest = longest_lease - core.settings().lock_delay;
  if (std::string why = detail::not_between(member, lease, shortest_lease, longest); !why.empty()) return why;
  duration const claim = core.settings().quorum.vote_claim;
  if (!core.target().is_quorum() || lease >= claim) return {};
  return member + " must not be shorter than quorum_config::vote_claim (" + whole_duration(claim) + "), and is " +
         whole_duration(lease);
}

/// The name must suit CLIENT SETNAME and a line of CLIENT LIST.
void check_client_name(std::string const& name) {
  constexpr std::size_t longest = 64;
  if (name.empty() || name.size() > longest) {
    refuse(errc::invalid_config,
           "client_name must have 1 to " + std::to_string(longest) + " characters, got " + std::to_string(name.size()));
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] > ' ' && name[i] < 127) continue;
    refuse(errc::invalid_config,
           "client_name must consist of printable ASCII characters without spaces, and has byte " +
               std::to_string(static_cast<unsigned char>(name[i])) + " at " + std::to_string(i));
  }
}

/// Why others cannot be shown this text; empty: they can.
std::string wrong_text(std::string const& member, std::string_view text, std::size_t longest) {
  std::string const range =
      member + " must have at most " + std::to_string(longest) + " bytes of printable UTF-8, and ";
  if (text.size() > longest) return range + "has " + std::to_string(text.size());
  return printable(text) == text ? std::string{} : range + "is " + printable(text);
}

/// The prefix begins keys, channels, and words in messages that a blank ends; in a key a brace begins the hash tag.
void check_key_prefix(std::string const& prefix) {
  constexpr std::size_t longest = 64;
  if (prefix.empty() || prefix.size() > longest) {
    refuse(errc::invalid_config, "key_prefix must have 1 to " + std::to_string(longest) + " characters, got " +
                                     std::to_string(prefix.size()));
  }
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (prefix[i] > ' ' && prefix[i] < 127 && prefix[i] != '{' && prefix[i] != '}') continue;
    refuse(errc::invalid_config,
           "key_prefix must consist of printable ASCII characters without spaces and braces, and has byte " +
               std::to_string(static_cast<unsigned char>(prefix[i])) + " at " + std::to_string(i));
  }
}

/// A user that sets something about TLS means to use it.
void check_tls(config const& c, servers::target const& target) {
  tls_config const& t = c.tls;
  detail::check_files("tls", t);
  bool const is_set = !t.verify || !(t.ca_file + t.ca_path + t.cert_file + t.server_name).empty();
  if (is_set && !target.is_over_tls())
    refuse(errc::invalid_config, "tls is set, and no URL begins with " + registry::names_with_tls());
}

/// Lowers what depends on the lease, and throws for values out of range.
config checked(config c, servers::target const& target) {
  constexpr duration none = duration::zero();
  between("lease", c.lease, shortest_lease, longest_lease);
  between("lock_delay", c.lock_delay, none, longest_lease - c.lease, " (1 day without the lease)");
  zero_or_between("renew_every", c.renew_every, shortest_renewal, c.lease / 2, " (half of the lease)");
  at_least("stop_margin", c.stop_margin, none);
  c.stop_margin = std::min(c.stop_margin, c.lease / 2);
  if (c.max_hold) at_least("max_hold", *c.max_hold, shortest_hold);
  between("local_slice", c.local_slice, none, c.lease, " (the lease)");
  at_least("claim", c.claim, milliseconds{50});
  c.claim = std::min(c.claim, c.lease);
  between("fence_retention", c.fence_retention, std::chrono::seconds{1}, hours{24 * 30});
  at_least("command_timeout", c.command_timeout, milliseconds{10});
  c.command_timeout = std::min(c.command_timeout, c.lease / 3);
  between("connect_timeout", c.connect_timeout, milliseconds{10}, hours{1});
  between("offline_timeout", c.offline_timeout, none, hours{24 * 30});
  between("reconnect_min", c.reconnect_min, milliseconds{1}, hours{1});
  between("reconnect_max", c.reconnect_max, c.reconnect_min, hours{1}, " (not less than reconnect_min)");
  c.reconnect_max = std::min(c.reconnect_max, c.lease / 10);
  c.reconnect_min = std::min(c.reconnect_min, c.reconnect_max);
  zero_or_between("keep_alive", c.keep_alive, shortest_keep_alive, hours{24});
  require(c.top_k <= 100, "top_k must be 0 to 100, got " + std::to_string(c.top_k));
  between("zookeeper.session_margin", c.zookeeper.session_margin, none, std::chrono::minutes{1});
  check_client_name(c.client_name);
  if (!c.label) c.label = detail::label_of(detail::this_program());
  if (std::string const why = wrong_text("label", *c.label, longest_label); !why.empty())
    refuse(errc::invalid_config, why);
  check_key_prefix(c.key_prefix);
  between("topology_refresh", c.topology_refresh, milliseconds{100}, hours{1});
  check_tls(c, target);
  target.check(c);
  return c;
}

}  // namespace

detail::settings_ptr detail::checked_lock(core_ptr core, std::string name, lock_options const& o,
                                          lock_status::kind_of_lock kind, std::uint32_t limit) {
  if (name.empty()) refuse(errc::invalid_name, "it is empty");
  if (name.size() > 512) refuse(errc::invalid_name, "it has " + std::to_string(name.size()));
  config const& c = core->settings();
  duration const lease = o.lease.value_or(c.lease);
  if (std::string const why = wrong_lease("lock_options::lease", lease, *core); !why.empty())
    refuse(errc::invalid_config, why);
  if (o.max_hold) at_least("lock_options::max_hold", *o.max_hold, shortest_hold);
  return std::make_shared<detail::lock_settings const>(detail::lock_settings{
      std::move(core), std::move(name), lease, o.renew, o.max_hold ? o.max_hold : c.max_hold, kind, limit});
}

error_code detail::checked_acquire(client_core const& core, acquire_options const& o) {
  if (o.lease) {
    if (error_code const wrong = checked_lease(core, "acquire_options::lease", *o.lease)) return wrong;
  }
  std::string why =
      o.max_hold ? detail::less_than("acquire_options::max_hold", *o.max_hold, shortest_hold) : std::string{};
  if (why.empty() && o.at_least != duration::zero())
    why = detail::not_between("acquire_options::at_least", o.at_least, duration::zero(), longest_lease);
  if (why.empty() && !o.note.empty()) why = wrong_text("acquire_options::note", o.note, longest_note);
  return why.empty() ? error_code{} : make_error_code(errc::invalid_config, why);
}

error_code detail::checked_lease(client_core const& core, std::string const& what, duration lease) {
  std::string const why = wrong_lease(what, lease, core);
  return why.empty() ? error_code{} : make_error_code(errc::invalid_config, why);
}

namespace {

detail::core_ptr make_core(client::executor_type executor, config settings) {
  auto target = registry::open(settings);
  config fitting = checked(std::move(settings), *target);
  return detail::client_core::make(std::move(executor), std::move(fitting), std::move(target));
}

}  // namespace

client::client(executor_type executor, config settings) : core_{make_core(std::move(executor), std::move(settings))} {}

client::~client() {
  if (closes_) core_->close_in_background();
}

client::executor_type client::get_executor() const noexcept { return core_->executor(); }

config const& client::settings() const noexcept { return core_->settings(); }

statistics client::stats() const { return core_->stats(); }

std::string const& client::id() const noexcept { return core_->id(); }

named_lock::executor_type named_lock::get_executor() const noexcept { return lock_->core->executor(); }

mutex::mutex(client& through, std::string name, lock_options options)
    : named_lock{detail::checked_lock(through.core(), std::move(name), options)} {}

hold::~hold() {
  if (node_) node_->core->abandon(*node_);
}

bool hold::valid() const noexcept { return node_ && clock::now() < deadline(); }

time_point hold::deadline() const noexcept {
  return node_ && node_->core->is_here() ? node_->deadline() : time_point::min();
}

std::uint32_t hold::segment() const noexcept { return node_ ? node_->segment : 0; }

std::uint32_t hold::permits() const { return node_ ? node_->core->permits_of(*node_) : 0; }

std::int64_t hold::fence() const noexcept { return node_ ? node_->fence : 0; }

}  // namespace conch
