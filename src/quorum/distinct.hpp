// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "quorum/election.hpp"

// Which members of a quorum are one server under several names? No I/O, no clock.
namespace conch::quorum {

/// How a server was met by a new connection.
struct identity {
  std::string run{};      // the server's own run_id; empty: not reported
  std::string address{};  // the address that the connection leads to, not its name; empty: not known
};

/// The run decides, since one address may lead to several servers (by the name in a TLS handshake), and one server may
/// have several addresses. If one of them does not report its run, the address decides.
bool is_same_server(identity const& a, identity const& b);

/// Two votes of one server are one vote: if it fails, both are gone. Which members are one server is known from their
/// connections, and only from these: names and URLs prove nothing. A member that has not been met yet is taken for a
/// server of its own; it gives no votes either.
class distinct_servers {
 public:
  /// The member has a new connection. A member without one keeps what is known of it: its votes outlive its connection,
  /// and after a restart the first connection of the new run must not pass for one to another server. So does a member
  /// at the same address that has not connected again since: its connection may have ended with the server, and this
  /// client has not noticed yet.
  void met(std::size_t member, identity who);
  /// Its connection has ended.
  void gone(std::size_t member) noexcept { members_[member].order = 0; }

  /// Is any member known to be the same server as another?
  bool any() const noexcept { return any_; }
  /// Are they known to be one server? Their votes count as one.
  bool are_one(std::size_t a, std::size_t b) const noexcept { return a == b || one_[a][b] != 0; }
  /// The member that speaks for this one's server: it was connected first, and still is. None: the member speaks for
  /// itself. So a server that pretends to be another one cannot push out the one that is connected already.
  std::optional<std::size_t> spoken_for_by(std::size_t member) const noexcept;

 private:
  struct known {
    identity who;
    std::uint64_t order = 0;  // of its connection; 0: it has none
  };
  std::array<known, most_servers> members_{};
  // Which connection showed that two members are one server; 0: they are not known to be.
  std::array<std::array<std::uint64_t, most_servers>, most_servers> one_{};
  std::uint64_t connections_ = 0;
  bool any_ = false;
};

}  // namespace conch::quorum
