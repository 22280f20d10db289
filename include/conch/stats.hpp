// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/detail/api.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch {

/// A latency histogram with buckets of powers of two, from 1 µs to about 70 minutes.
struct histogram {
  static constexpr std::size_t bucket_count = 33;  ///< The size of `buckets`.

  std::array<std::uint64_t, bucket_count> buckets{};  ///< buckets[i]: up to 2^i µs; the last one: anything longer
  std::uint64_t count = 0;                            ///< of all buckets
  duration sum = duration::zero();                    ///< of all that was added

  CONCH_API void add(duration d) noexcept;  ///< Counts one.

  /// Upper bound of the bucket in which the given share (0 to 1) is reached. 0 when nothing was counted.
  CONCH_API duration quantile(double share) const noexcept;
};

/// One server of a quorum.
struct server_statistics {
  std::string url;                         ///< no password
  bool connected = false;                  ///< Now.
  std::uint64_t connects = 0;              ///< Connections that were made,
  std::uint64_t disconnects = 0;           ///< and that ended.
  std::uint64_t scripts = 0;               ///< Scripts that were sent.
  std::uint64_t votes = 0;                 ///< it gave this client its vote
  std::uint64_t cleanups_pending = 0;      ///< gauge: releases and leaves that it has not answered yet
  duration round_trip = duration::zero();  ///< gauge: smoothed, from a command to its answer
  std::string last_trouble;                ///< empty: there was none
};

/// One of the locks for which a client has waited longest (config::top_k). The counters begin when its name is first
/// kept; a name that has made room for others begins again at 0.
struct lock_statistics {
  std::string name{};        ///< any bytes
  std::uint64_t grants = 0;  ///< all kinds of them
  /// acquires and tries that ended without one: busy, time-outs, cancellations, errors
  std::uint64_t refusals = 0;
  std::uint64_t losses = 0;          ///< holds that were lost
  duration wait = duration::zero();  ///< sum over all acquires that have ended, with a grant or without
  duration hold = duration::zero();  ///< sum over all holds that have ended
};

/// Counters of one client since it was made. Plain numbers, a consistent snapshot.
struct statistics {
  std::uint64_t acquires = 0;          ///< calls of acquire and try
  std::uint64_t grants_replied = 0;    ///< granted in the answer to the request (1 round trip)
  std::uint64_t grants_pushed = 0;     ///< handed over by the server
  std::uint64_t grants_local = 0;      ///< handed off inside this process, without a message
  std::uint64_t tries_busy = 0;        ///< try calls that found the lock taken
  std::uint64_t timeouts = 0;          ///< acquires that ended by `.wait`
  std::uint64_t cancellations = 0;     ///< acquires that ended by cancellation
  std::uint64_t failures = 0;          ///< acquires that ended by an error
  std::uint64_t releases = 0;          ///< releases of holds that were still held
  std::uint64_t losses = 0;            ///< holds that were lost
  std::uint64_t revocations = 0;       ///< of these: taken away by async_force_release
  std::uint64_t warnings = 0;          ///< holds whose renewal was late (hold::async_endangered)
  std::uint64_t renewals = 0;          ///< locks renewed
  std::uint64_t renewal_scripts = 0;   ///< scripts that renewed them
  std::uint64_t renewals_refused = 0;  ///< the server answered that another client has the lock
  std::uint64_t scripts = 0;           ///< scripts sent in all; of several locks in one script each counts
  std::uint64_t safety_checks = 0;     ///< re-asks of a waiting client
  std::uint64_t kicks = 0;             ///< repeated releases, for a next waiter that may be dead
  std::uint64_t pushes = 0;            ///< grants received by push
  std::uint64_t pushes_late = 0;       ///< of these: perhaps too late; the client asked again
  /// of these: for another lock, or an impossible fence, as forged ones; the client asked again
  std::uint64_t pushes_doubted = 0;
  std::uint64_t pushes_stray = 0;  ///< of these: no waiter needed it any more; given back
  std::uint64_t connects = 0;      ///< connections made
  std::uint64_t disconnects = 0;   ///< connections lost
  /// several servers: votes that were too few for the lock and given back
  std::uint64_t votes_given_back = 0;
  std::uint64_t fence_rounds = 0;    ///< strict_fence: grants whose fence took a second round trip
  std::uint64_t tls_handshakes = 0;  ///< connections over TLS on which the server has answered
  /// attempts that ended in TLS: a certificate, a file, a time-out, a port without TLS
  std::uint64_t tls_handshakes_failed = 0;
  std::uint64_t reauthentications = 0;         ///< credentials renewed on a live connection
  std::uint64_t reauthentications_failed = 0;  ///< refused, or not given by the provider; the client tries again
  std::uint64_t cleanups_pending = 0;          ///< gauge: releases and leaves not yet answered
  std::uint64_t waiting = 0;                   ///< gauge: acquires under way
  std::uint64_t held = 0;                      ///< gauge: holds
  std::uint64_t endangered = 0;                ///< gauge: of these: a renewal is late
  /// gauge: when the first of the certificates of the servers ends; 0: none was shown
  std::chrono::sys_seconds tls_peer_expires{};
  std::uint64_t master_switches = 0;  ///< Sentinel: the master was another than before
  /// how often Sentinels were asked again for the master, or nodes of a Cluster for their map
  std::uint64_t topology_refreshes = 0;
  /// Sentinel: from the end of a connection to the first answer of another master
  histogram failover;
  /// sync_replicas: grants and renewals that too few replicas acknowledged in time
  std::uint64_t sync_short = 0;
  /// sync_replicas: from writing a batch of them to the answer of its WAIT
  histogram sync_wait;
  histogram wait;                            ///< from the call to the grant
  histogram hold;                            ///< from the grant to the release or loss
  std::vector<server_statistics> servers{};  ///< of a quorum; empty with one server
  std::vector<lock_statistics> locks{};      ///< config::top_k of them, the longest waited for first
};

/// Prometheus text exposition (format 0.0.4) of a snapshot. `labels` goes into every line as it is, e.g.
/// `client="orders"`; may be empty. With config::top_k there are lines with a label `lock`, whose value is the name:
/// bytes that are not printable UTF-8 are `\xNN` in it, and a backslash is doubled.
CONCH_API std::string to_prometheus(statistics const& s, std::string_view labels = {});

}  // namespace conch
