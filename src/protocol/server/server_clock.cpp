// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/server_clock.hpp"

#include <chrono>

namespace conch::protocol {

using std::chrono::microseconds;

void server_clock::sample(time_point written, std::int64_t server_us, time_point now) {
  if (server_us <= 0) return;
  clock_at_ = written + (now - written) / 2;
  clock_us_ = server_us;
  // The server's clock showed server_us no earlier than `written`. The better of two samples is the one that puts the
  // same server time later; 1 % of the time between them may be drift. If the answer in hand contradicts the old
  // sample, the server's clock was stepped since.
  time_point const expected = earliest(server_us);
  if (sample_us_ == 0 || written >= expected || expected > now || server_us < sample_us_) {
    sample_at_ = written;
    sample_heard_ = now;
    sample_us_ = server_us;
  }
}

void server_clock::connection_ended() noexcept { sample_us_ = 0; }

time_point server_clock::earliest(std::int64_t server_us) const {
  return sample_at_ + microseconds{server_us - sample_us_} * 99 / 100;
}

/// The clock showed sample_us_ no later than when the sample was received. 2 ms are for rounding.
time_point server_clock::passed(std::int64_t server_us) const {
  return sample_heard_ + microseconds{server_us - sample_us_} * 102 / 100 + std::chrono::milliseconds{2};
}

std::int64_t server_clock::most_us(time_point when) const {
  return sample_us_ + std::chrono::duration_cast<microseconds>((when - sample_at_) + (when - sample_at_) / 100).count();
}

std::optional<std::int64_t> server_clock::shows_us(time_point now) const {
  if (clock_us_ == 0) return std::nullopt;
  return clock_us_ + std::chrono::duration_cast<microseconds>(now - clock_at_).count();
}

}  // namespace conch::protocol
