// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <array>
#include <cstdint>
#include <span>

// Redlock's decision over N servers: when is a quorum certain, and when is it out of reach? No I/O, no clock.
namespace conch::quorum {

constexpr std::size_t most_servers = 9;

enum class response : std::uint8_t {
  pending,  // asked, no answer yet
  yes,      // granted, with a deadline
  no,       // another client has the lock at that server
  failed,   // could not be asked, or answered with an error
  silent,   // did not answer within the time of the attempt; may still say yes
};

enum class verdict : std::uint8_t {
  open,
  won,           // enough servers granted, for long enough
  out_of_reach,  // whatever the others answer, it cannot be won now
};

struct rules {
  std::size_t servers = 1;  // 1 to most_servers
  std::size_t needed = 1;   // votes; majority_of(servers) to servers
  duration min_validity{};  // a grant that is valid for less is refused
};

/// One attempt at one lock. Its inputs are the answers of the servers. Every input may change the verdict, at the
/// earliest moment at which it is certain. A verdict once given stays.
class election {
 public:
  explicit election(rules const& r);

  /// `deadline`: the time before that server was asked, plus the lease, minus lease/100 + 2 ms. Also for a yes that
  /// comes late.
  void yes(std::size_t server, time_point deadline, std::int64_t fence, time_point now);
  void no(std::size_t server, time_point now);
  void failed(std::size_t server, time_point now);
  void silent(std::size_t server, time_point now);

  verdict result() const noexcept { return verdict_; }

  /// Valid once won: the greatest deadline until which the needed number of servers keep the lock.
  time_point deadline() const;
  /// Valid once won: the greatest fence of all votes in hand.
  std::int64_t fence() const;

  response of(std::size_t server) const { return responses_[server].what; }
  std::size_t count(response r) const;

 private:
  struct vote_response {
    response what = response::pending;
    time_point deadline{};
    std::int64_t fence = 0;
  };

  void decide(time_point now);

  rules const rules_;
  verdict verdict_ = verdict::open;
  std::array<vote_response, most_servers> responses_{};
};

/// The k-th greatest of some deadlines; time_point::min() if there are fewer.
time_point kth_greatest(std::span<time_point const> deadlines, std::size_t k);

/// The ticket of an attempt: the lower median of what the servers' clocks show. So all servers agree on the order, and
/// neither one clock nor the client's own decides it. `server_clocks` is not empty.
std::int64_t agreed_ticket(std::span<std::int64_t const> server_clocks);

}  // namespace conch::quorum
