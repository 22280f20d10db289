// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/gathering.hpp"
#include "protocol/wire.hpp"
#include "servers/redis/codec.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace conch::redis {

/// The scripts of one connection that answer for several locks: which of its commands go out as one, and to which each
/// answer belongs. A place is the number of answers of the connection that come before. No I/O, no clock.
class shared_scripts {
 public:
  struct script {
    std::int64_t place;
    std::size_t count;                                            // of commands
    std::array<std::uint8_t, protocol::gathering::most> order{};  // of each command which of the answers is its own
    bool tries = false;                                           // of one command for several locks
  };

  // ---- what goes out
  /// Encodes a command behind what is in `out`. One alone goes out as it is. If it fits to those before it, all are
  /// taken for one script.
  void add(protocol::command const& c, sender const& who, unsigned slot, std::int64_t place, std::string& out);
  /// What is put into `out` from now on comes behind those that are gathered.
  void end(sender const& who, std::string& out);
  /// The connection is gone, and with it what it has shown of the server: what was added will not be answered.
  void forget();

  // ---- what comes in
  /// The script of the next answer of the connection, which has this place; nothing if it is of one command alone. To
  /// be called once for each.
  std::optional<script> take(std::int64_t place);
  /// The whole script is refused with `a`, which becomes the answer to each of its commands. `place`: of what is sent
  /// next.
  void refused(script const& s, protocol::answer& a, bool in_cluster, std::int64_t place);

 private:
  std::deque<script> sent_;        // not answered yet
  bool source_due_ = false;        // the server does not know the script
  std::int64_t source_sent_ = -1;  // the place of the latest script with its source
  std::int64_t alone_until_ = 0;   // the place from which on some may go out together again

  // Those that are gathered are the last that were encoded: as one command for the time being if it is one, which
  // begins at `begin_`; else not encoded yet.
  protocol::gathering gathered_;
  std::size_t begin_ = 0;
  std::int64_t first_place_ = 0;
};

}  // namespace conch::redis
