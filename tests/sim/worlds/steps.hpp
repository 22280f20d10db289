// The seam between a world and its explorer. A world that is explored hands over what may happen in any order, instead
// of drawing a delay.
//
// Time in such a world:
// - A step may happen at any moment until its `latest`; steps of one stream keep their order, as bytes of a connection
// do.
// - Time passes only from timer to timer. What happens between two timers happens at the moment of the earlier one, in
// every order. So the exploration
//   has every order that delays between nothing and `latest` allow, but not every duration.
// - A timer goes off when it is due, before anything else of that moment. A late timer means that the process was
// paused, which is a fault.
// - What arrives for a paused process waits until it resumes. Then its timers and what has arrived come in any order.
// - What a process has posted to itself runs before its next step: that order is the process' own.
#pragma once

#include "sim/worlds/plan.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace conch::sim {

/// The processes that a step may touch, a bit each. Two steps that have none in common may change places.
using footprint = std::uint32_t;

constexpr int most_explored_servers = 7;
constexpr footprint of_server(int number) { return footprint{1} << number; }
constexpr footprint of_servers = of_server(most_explored_servers) - 1;  // all of them
constexpr footprint of_faults = of_server(most_explored_servers);       // what is left of them
constexpr footprint of_client(int number) { return of_faults << (number + 1); }
constexpr footprint of_all = ~footprint{0};

class steps {
 public:
  struct step {
    std::uint64_t stream = 0;
    footprint touches = of_all;
    nanos latest = 0;
    std::uint64_t content = 0;  // what is delivered, as a number
    std::function<void()> run;
    std::function<bool()> is_void = nullptr;  // it would do nothing any more, and will not again
  };
  struct fault {
    std::uint64_t id = 0;
    footprint touches = of_all;
    std::function<void()> run;
  };
  struct moment {
    nanos now = 0;
    nanos next_timer = 0;  // `never`: there is none
    std::function<void()> let_time_pass;
    std::span<fault const> faults;
    footprint paused = 0;                    // these processes do not run: what is for them waits
    std::function<std::uint64_t()> servers;  // a digest of all that they know
  };
  static constexpr nanos never = INT64_MAX;

  virtual ~steps() = default;
  virtual void add(step s) = 0;
  /// What waits in that stream will not happen.
  virtual void drop(std::uint64_t stream) = 0;
  virtual bool empty() const = 0;
  /// Takes one of what may happen. False: enough, or nothing is left.
  virtual bool take_one(moment const& m) = 0;
  /// All that still waits, in the order in which it was added.
  virtual std::vector<std::function<void()>> take_rest() = 0;
};

}  // namespace conch::sim
