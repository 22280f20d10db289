// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <cstdint>
#include <optional>

namespace conch::protocol {

/// What this client knows of its server's clock, from the answers that show it. Two clocks may drift apart by 1 %.
class server_clock {
 public:
  /// Takes a sample: the answer to a request showed `server_us`. The request was written at `written`, the answer
  /// received at `now`. Not positive: the answer showed no time.
  void sample(time_point written, std::int64_t server_us, time_point now);
  /// The next connection may be to another server.
  void connection_ended() noexcept;

  /// Is there a sample on the present connection, not later than `server_us`?
  bool can_place(std::int64_t server_us) const noexcept { return sample_us_ != 0 && server_us >= sample_us_; }
  bool is_known() const noexcept { return sample_us_ != 0; }
  /// The local time before which the server's clock did not show `server_us`.
  time_point earliest(std::int64_t server_us) const;
  /// The local time from which on the server's clock shows more than `server_us`.
  time_point passed(std::int64_t server_us) const;
  /// The greatest value that the server's clock can show at that local time.
  std::int64_t most_us(time_point when) const;

  /// What the server's clock shows now, give or take half a round trip. Also from a sample of an earlier connection;
  /// empty before the first sample.
  std::optional<std::int64_t> shows_us(time_point now) const;

 private:
  time_point sample_at_{};      // the server's clock showed sample_us_ no earlier than this
  time_point sample_heard_{};   // ... and no later than this
  std::int64_t sample_us_ = 0;  // 0: no sample on this connection
  time_point clock_at_{};       // the last sample of any connection
  std::int64_t clock_us_ = 0;
};

}  // namespace conch::protocol
