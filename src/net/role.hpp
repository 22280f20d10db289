// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "base/fault.hpp"

#include <conch/clock.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace conch::net {

/// Whether it is known where a server is.
struct location {
  // not_needed: not before the connection is wanted again
  enum class kind : std::uint8_t { here, wait, nowhere, not_needed };

  kind what = kind::wait;
  fault why = fault::none;            // nowhere: what the attempt to connect fails with
  std::string words{};                // of an error, unless it is here
  duration within = duration::max();  // here: the attempt may take no longer, since there are others to try
  // here: what is known of its addresses, if there are other servers. It outlives the attempt
  address_choice* known = nullptr;
  std::optional<duration> lease{};  // here: holds with this lease are to outlive the attempt; none: config::lease
};

/// What one protocol sends on a connection, and how it handles its end. A lifecycle calls it, with the client locked.
/// No I/O, no clock.
class role {
 public:
  // ---- an attempt
  /// Where the server is now. To `wait`: lifecycle::moved() follows.
  virtual location locate(time_point) { return {.what = location::kind::here}; }
  /// The server in messages, without a password.
  virtual std::string shown() const = 0;
  /// What is looked up, behind "the name ".
  virtual std::string name() const { return "of the server"; }
  /// The stream is open, and TLS is done. It ends in lifecycle::up() or failed().
  virtual void greet(time_point now) = 0;
  /// What the greeting waits for.
  virtual std::string_view step() const { return "no answer to the greeting yet"; }
  /// The attempt has met silence for that time. Returns the text for it; empty: the usual one.
  virtual std::string silence(duration, bool /*looks_up*/) const { return {}; }
  /// This address is not the server, and there are others to try.
  virtual void passed_over(fault, std::string_view /*words*/, time_point) {}

  // ---- a connection that is up
  /// When due() is to be called.
  virtual time_point next_due() const noexcept { return time_point::max(); }
  virtual void due(time_point) {}
  /// It was called for its own turn.
  virtual void resume(time_point) {}
  /// lifecycle::moved() was called. Where the server is instead, in words; none: where it was.
  virtual std::optional<std::string> moved_to(time_point) { return std::nullopt; }

  // ---- its end
  /// The connection is closed for good, and the stream still open. True: something is to be written before; the role
  /// closes the stream then.
  virtual bool writes_last() { return false; }
  /// The stream is closed: nothing is read or written any more.
  virtual void stream_ended() noexcept {}
  struct end {
    fault what;
    std::string_view why;
    bool was_up, was_greeting;
    bool is_silent;  // it did not answer in time
    bool is_first;   // no attempt has failed since a connection lasted
    duration stood;  // how long it was up
  };
  struct retry {
    std::optional<duration> pause{};  // none: the usual one
    bool is_logged = false;           // the log needs no line about this end
  };
  /// A connection has ended, or an attempt to make one has failed. What was sent is not answered any more.
  virtual retry ended(end const& e, time_point now) = 0;

 protected:
  ~role() = default;
};

}  // namespace conch::net
