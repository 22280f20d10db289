// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/checked.hpp"
#include "client/core.hpp"

#include <conch/client.hpp>
#include <conch/hold.hpp>
#include <conch/mutex.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <string>
#include <utility>

// The public classes: checks, and calls of the core.
namespace conch {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr duration shortest_lease = milliseconds{100};
constexpr duration longest_lease = hours{24};

[[noreturn]] void refuse(errc e, std::string const& why) { throw boost::system::system_error{make_error_code(e, why)}; }

void require(bool holds, std::string const& why) {
  if (!holds) refuse(errc::invalid_config, why);
}

bool between(duration d, duration least, duration most) { return d >= least && d <= most; }

/// Fills in what depends on the lease, and refuses what makes no sense.
config checked(config c) {
  require(between(c.lease, shortest_lease, longest_lease), "lease must be 100 ms to 1 day");
  require(between(c.renew_every, duration::zero(), c.lease / 2), "renew_every must be 0 to half of the lease");
  require(c.stop_margin >= duration::zero(), "stop_margin must be at least 0");
  c.stop_margin = std::min(c.stop_margin, c.lease / 2);
  require(!c.max_hold || *c.max_hold >= milliseconds{1}, "max_hold must be at least 1 ms");
  require(between(c.local_slice, duration::zero(), c.lease), "local_slice must be 0 to the lease");
  require(c.claim >= milliseconds{50}, "claim must be at least 50 ms");
  c.claim = std::min(c.claim, c.lease);
  if (detail::is_quorum(c)) {
    require(c.vote_claim >= milliseconds{50}, "vote_claim must be at least 50 ms");
    c.vote_claim = std::min(c.vote_claim, c.lease);
    require(between(c.min_validity, duration::zero(), c.vote_claim / 2), "min_validity must be 0 to half of vote_claim");
    require(c.min_server_uptime >= duration::zero(), "min_server_uptime must be at least 0");
    std::size_t const n = detail::servers_of(c).size();
    require(c.votes_needed == 0 || (c.votes_needed > n / 2 && c.votes_needed <= n),
            "votes_needed must be 0, or a majority to all of the servers");
    c.claim = c.vote_claim;
  }
  require(between(c.fence_retention, std::chrono::seconds{1}, hours{24 * 30}), "fence_retention must be 1 s to 30 days");
  require(c.command_timeout >= milliseconds{10}, "command_timeout must be at least 10 ms");
  c.command_timeout = std::min(c.command_timeout, c.lease / 3);
  require(between(c.connect_timeout, milliseconds{10}, hours{1}), "connect_timeout must be 10 ms to 1 hour");
  require(between(c.offline_timeout, duration::zero(), hours{24 * 30}), "offline_timeout must be 0 to 30 days");
  require(between(c.reconnect_min, milliseconds{1}, hours{1}), "reconnect_min must be 1 ms to 1 hour");
  require(between(c.reconnect_max, c.reconnect_min, hours{1}), "reconnect_max must be reconnect_min to 1 hour");
  require(between(c.keep_alive, duration::zero(), hours{24}), "keep_alive must be 0 to 1 day");
  for (char const ch : c.client_name) {
    require(ch > ' ' && ch < 127, "client_name must consist of printable characters without spaces");
  }
  return c;
}

}  // namespace

detail::settings_ptr detail::checked_lock(core_ptr core, std::string name, mutex_options const& o) {
  if (name.empty()) refuse(errc::invalid_name, "it is empty");
  if (name.size() > 512) refuse(errc::invalid_name, "it has " + std::to_string(name.size()));
  config const& c = core->settings();
  duration const lease = o.lease.value_or(c.lease);
  require(between(lease, shortest_lease, longest_lease), "mutex_options::lease must be 100 ms to 1 day");
  require(lease >= c.claim, "mutex_options::lease must not be shorter than config::claim");
  require(lease / 3 >= c.command_timeout, "mutex_options::lease must be at least three times config::command_timeout");
  require(!o.max_hold || *o.max_hold >= milliseconds{1}, "mutex_options::max_hold must be at least 1 ms");
  return std::make_shared<detail::lock_settings const>(detail::lock_settings{
      std::move(core), std::move(name), lease, o.renew, o.max_hold ? o.max_hold : c.max_hold});
}

client::client(executor_type executor, config settings)
    : core_{detail::client_core::make(std::move(executor), checked(std::move(settings)))} {}

client::~client() {
  if (core_) core_->close_in_background();
}

client::executor_type client::get_executor() const noexcept { return core_->executor(); }

config const& client::settings() const noexcept { return core_->settings(); }

statistics client::stats() const { return core_->stats(); }

std::string const& client::id() const noexcept { return core_->id(); }

named_lock::executor_type named_lock::get_executor() const noexcept { return lock_->core->executor(); }

mutex::mutex(client& owner, std::string name, mutex_options options)
    : named_lock{detail::checked_lock(owner.core(), std::move(name), options)} {}

hold::~hold() {
  if (node_) node_->core->abandon(*node_);
}

bool hold::valid() const noexcept { return node_ && clock::now() < deadline(); }

time_point hold::deadline() const noexcept { return node_ ? node_->deadline() : time_point::min(); }

std::uint32_t hold::segment() const noexcept { return node_ ? node_->segment : 0; }

std::int64_t hold::fence() const noexcept { return node_ ? node_->fence : 0; }

}  // namespace conch
