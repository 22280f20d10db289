// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/stale_connections.hpp"

#include <cstddef>

namespace conch::protocol {

namespace {

/// How many are remembered if this user may not end them. The server ends the others by itself when it writes to them.
constexpr std::size_t most_remembered = 8;

}  // namespace

void stale_connections::drop_earlier_runs(session const& on, time_point now) {
  auto const of_another_run = [&](session const& old) {
    return !old.run.empty() && !on.run.empty() && old.run != on.run;
  };
  if (std::erase_if(open_, of_another_run) != 0) ended_at_ = now;
}

void stale_connections::ended(std::uint64_t client_id, time_point now) {
  can_end_ = true;
  ended_at_ = now;
  std::erase_if(open_, [&](session const& one) { return one.client_id == client_id; });
}

void stale_connections::may_not_be_ended() {
  can_end_ = false;
  if (open_.size() > most_remembered) open_.erase(open_.begin());
}

}  // namespace conch::protocol
