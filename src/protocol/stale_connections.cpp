// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/stale_connections.hpp"

#include <cstddef>

namespace conch::protocol {

namespace {

/// How many are remembered if this user may not end them. The server ends the others by itself when it writes to them.
constexpr std::size_t most_remembered = 8;

}  // namespace

bool stale_connections::drop_earlier_runs(session const& now) {
  return 0 != std::erase_if(open_, [&](session const& old) { return !old.run.empty() && !now.run.empty() && old.run != now.run; });
}

void stale_connections::ended(std::uint64_t client_id) {
  can_end_ = true;
  std::erase_if(open_, [&](session const& one) { return one.client_id == client_id; });
}

void stale_connections::may_not_be_ended() {
  can_end_ = false;
  if (open_.size() > most_remembered) open_.erase(open_.begin());
}

}  // namespace conch::protocol
