// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conch {

enum class log_level { debug, info, warning, error };

/// Called from any thread that runs the client; must not throw and must not call back into the client.
/// No password ever reaches it.
using log_hook = std::function<void(log_level, std::string_view)>;

/// A lock over several servers (docs/redlock.md): each of them gives one vote.
struct quorum_config {
  /// The servers, each by a URL of its own, in place of `config::url`: 1 to 9. No two may be the same server.
  std::vector<std::string> servers{};

  /// How many must agree. 0: a majority; else a majority to all of them.
  std::size_t votes_needed = 0;

  /// In place of `config::claim`. How long one server keeps the lock for a client before a majority is confirmed.
  /// At least 50 ms; where the lease is shorter, the lease.
  duration vote_claim = std::chrono::milliseconds{500};

  /// A grant that would be good for less is refused. 0 to half of `vote_claim`.
  duration min_validity = std::chrono::milliseconds{20};

  /// A fencing token is greater than every earlier one also where servers fail and clocks differ at the
  /// same time. Costs a second round trip on a few grants in a thousand. Without it: while the servers' clocks differ by less than
  /// `vote_claim`.
  bool strict_fence = true;

  /// A server that was started less than this ago (and a second) has no vote. The longest lease any client uses
  /// keeps servers that restart without their data from giving a lock away twice. 0 to 30 days; 0: it votes at once.
  duration min_server_uptime = duration::zero();
};

/// Everything a client can be told. Validated once, when the client is made; an error names the member.
struct config {
  /// Where the server is: `redis://[user:password@]host[:port][/db]`, `unix:///path[?db=n]` or
  /// `memory://[name]` (this process only, for unit tests). Or several independent servers, of which a majority decides:
  /// `redlock://host:port,host:port,host:port`, 1 to 9 of them, each written as behind `redis://`.
  std::string url = "redis://127.0.0.1:6379";

  /// For several servers: in `quorum.servers`, or a `redlock://` URL.
  quorum_config quorum{};

  /// How long a lock outlives a holder that has died. 100 ms to 1 day. The watchdog renews a living hold.
  duration lease = std::chrono::seconds{30};

  /// When the watchdog renews. 0 means a third of the lease; else 10 ms to half of it.
  duration renew_every = duration::zero();

  /// A hold that could not be renewed is reported lost this long before its deadline, so that the code under it
  /// can stop in time. At least 0; never more than a quarter of what the grant was good for, to which it is lowered.
  duration stop_margin = std::chrono::milliseconds{500};

  /// How long the watchdog goes on renewing one hold, at least 1 ms; a stuck body then loses the lock at most one lease
  /// later. Empty: for ever.
  std::optional<duration> max_hold = std::nullopt;

  /// How long a grant may be handed on inside this process while other clients wait. 0: never, each release
  /// goes to the server. At most the lease.
  duration local_slice = std::chrono::milliseconds{5};

  /// How long a client that was handed the lock may stay silent before the next one is tried. At least 50 ms; where the
  /// lease is shorter, the lease. Several servers: see `quorum_config::vote_claim`.
  duration claim = std::chrono::seconds{3};

  /// Asks the server before it believes a grant that was pushed. Whoever may publish to `conch:*` and read the keys of a lock can
  /// otherwise make one who waits for it believe, for a claim at most, that it was granted. A hand-over takes 1.2 to 1.9 times as long.
  bool verify_pushes = false;

  /// How long the server remembers the last fence of a lock nobody uses: some 130 bytes for each name. 1 s to 30 days.
  duration fence_retention = std::chrono::minutes{10};

  /// No answer for this long: the connection counts as lost. At least 10 ms; never more than a third of the lease, to
  /// which it is lowered.
  duration command_timeout = std::chrono::seconds{3};

  /// For the name look-up, the connection and the greeting together. 10 ms to 1 hour.
  duration connect_timeout = std::chrono::seconds{5};

  /// How long an acquire waits for a server that cannot be reached, before errc::unreachable. 0 to 30 days.
  duration offline_timeout = std::chrono::seconds{10};

  /// Pause before the second attempt to connect; doubled from there up to `reconnect_max`, half of it random.
  /// 1 ms to 1 hour each, the second not less than the first.
  duration reconnect_min = std::chrono::milliseconds{50};
  duration reconnect_max = std::chrono::seconds{3};

  /// A ping goes out when nothing came in for this long (a waiting client's safety checks count). 0: never;
  /// else 10 ms to 1 day.
  duration keep_alive = std::chrono::seconds{45};

  /// What the server shows in CLIENT LIST. 1 to 64 characters of printable ASCII without spaces.
  std::string client_name = "conch";

  /// Set only where one thread alone runs the io_context and makes every call: the client then takes no lock, and calls handlers
  /// that run on its own executor in the turn of the event loop in which they come up, one after the other, instead of posting
  /// each (the loop sees to everything else after 16 of them).
  bool single_threaded = false;

  /// Where the client tells what it does. Empty: nowhere.
  log_hook log = nullptr;
};

}  // namespace conch
