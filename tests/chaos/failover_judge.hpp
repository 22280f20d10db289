// Judges all holds of a run with failovers, after the fact.
#pragma once

#include "chaos/witness.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch::test {

/// A replica has become the master, at some moment between these two.
struct promotion {
  int port = 0;
  nanoseconds_of_boot from = 0, to = 0;
  bool lossless = false;  // its master was paused until it had everything
};

/// A time in which a server, or a worker, did nothing, or its connections were cut.
struct standstill {
  std::string who;  // a worker, or a port
  nanoseconds_of_boot from = 0, to = 0;
};

/// docs/guarantees.md, P1: a promotion may lose writes. A hold that was lost so is believed in until its client has
/// asked the new master, and what the former master grants or renews goes on until then. So two holds may overlap if
/// they do so after the begin of a promotion that may lose something, and before the client of one of them was
/// connected to the new master for long enough to ask. At the latest that is when the Sentinels have made a replica of
/// the former master, and the lease that it gave has ended.
class failover_judge {
 public:
  /// For a client that nothing disturbs it is two round trips. This is a busy machine.
  static constexpr std::chrono::seconds asking{1};

  failover_judge(std::chrono::milliseconds lease, promotion const& first) : lease_{lease}, promotions_{first} {}
  virtual ~failover_judge() = default;

  void add(std::vector<visit> const& visits);
  void add(std::vector<arrival> const& arrivals);
  /// Judges all so far. Returns the violations that it has not returned before.
  std::vector<std::string> judge(std::vector<promotion> const& promotions, std::vector<standstill> const& standstills);

  std::size_t visits() const noexcept { return visits_; }
  std::size_t explained() const noexcept { return explained_.size(); }
  /// The longest of those that are explained.
  std::chrono::milliseconds longest() const noexcept { return std::chrono::milliseconds{longest_ / 1'000'000}; }
  /// The same, where both clients and the new master were well all the time.
  std::chrono::milliseconds longest_of_the_well() const noexcept {
    return std::chrono::milliseconds{longest_of_the_well_ / 1'000'000};
  }

 protected:
  struct pair {
    visit const& lower;  // by the fence
    visit const& higher;
    nanoseconds_of_boot from = 0, to = 0;
  };

  virtual bool is_explained(pair const& p) const;
  /// The first is what was the master at the begin.
  std::vector<promotion> const& promotions() const noexcept { return promotions_; }
  std::vector<standstill> const& standstills() const noexcept { return standstills_; }
  std::chrono::milliseconds lease() const noexcept { return lease_; }

 private:
  void judge_pair(pair const& p, std::vector<std::string>& wrong);
  nanoseconds_of_boot asked(visit const& v, std::size_t promoted) const;
  promotion const& last_before(nanoseconds_of_boot t) const;
  bool all_well(pair const& p) const;

  std::chrono::milliseconds const lease_;
  std::map<std::string, std::vector<visit>> by_lock_;
  std::map<std::string, std::vector<arrival>> by_worker_;
  std::vector<promotion> promotions_;
  std::vector<standstill> standstills_;
  std::set<std::pair<std::int64_t, std::int64_t>> explained_, unexplained_;  // pairs of fences
  std::size_t visits_ = 0;
  nanoseconds_of_boot longest_ = 0, longest_of_the_well_ = 0;
};

}  // namespace conch::test
