// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/detail/api.hpp>
#include <conch/named_lock.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The questions that the command asks a server and no client does. Each kind of server has a probe of its own; the
// command knows none of them.
namespace conch::servers {

enum class verdict { ok, warning, bad };

/// One line of `conch doctor`.
struct finding {
  verdict how = verdict::ok;
  std::string what;    // "version"
  std::string words;   // what is; printable
  std::string advice;  // what to do; empty if nothing
};

/// The server's clock minus this machine's, give or take `uncertainty`.
struct clock_offset {
  std::string server;
  duration ahead{}, uncertainty{};
};

/// A lock that may be held or waited for.
struct seen_lock {
  std::string name;
  std::optional<lock_status> status = std::nullopt;
};

/// lock_holder::lease_left where the server does not know it.
inline constexpr duration unknown_lease = duration::min();

/// Asks one server, or one ensemble. It blocks, each wait for a bounded time, and runs its own event loop. It changes
/// nothing that others see. Whatever a server sends is bounded, and is printable in what these functions return and
/// throw: boost::system::system_error.
class probe {
 public:
  probe() = default;
  probe(probe const&) = delete;
  probe& operator=(probe const&) = delete;
  virtual ~probe() = default;

  /// One question that costs the server nothing, and its answer.
  virtual duration round_trip() = 0;
  /// Do locks() and look() give statuses? Otherwise async_inspect does.
  virtual bool knows_status() const noexcept { return false; }
  /// In the order of the names; those that match one of the patterns (base/glob.hpp), or all if there is none.
  virtual std::vector<seen_lock> locks(std::vector<std::string> const& patterns) = 0;
  /// One lock; only where knows_status().
  virtual lock_status look(std::string const&) { return {}; }
  /// Is the server fit for locks? `to` gets one finding after the other, the first about whether it can be reached.
  /// `server`: which of several behind one URL; empty: all of them, or there is only one.
  using tell = std::function<void(std::string const& server, finding const&)>;
  virtual void examine(tell const& to) = 0;
  /// As examine() has found it. None: the server's clock does not matter, or is not reported.
  virtual std::optional<clock_offset> clock() const { return std::nullopt; }
  /// As examine() has found it: probes with the same identity ask the same server. Empty: not reported.
  virtual std::string identity() const { return {}; }
};

/// For the server that `settings.url` names.
/// Throws boost::system::system_error: for a wrong URL, and errc::not_supported where a component is missing or this
/// kind of server has no probe.
CONCH_API std::unique_ptr<probe> open_probe(config const& settings);

}  // namespace conch::servers
