// What a world shows of itself while every order is tried, and the loop that is the same for all worlds. The explorer
// (steps.hpp) knows of a world no more than this.
#pragma once

#include "sim/worlds/steps.hpp"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace conch::sim {

class explorable {
 public:
  virtual nanos time() const = 0;
  virtual nanos next_timer() const = 0;  // steps::never: there is none
  /// All that is due until then happens, and what processes have posted to themselves. Throws violation.
  virtual void pass_until(nanos then) = 0;
  /// The programs of all clients are over. `waiting`: something is under way. Throws violation if one takes too long.
  virtual bool is_over(bool waiting) const = 0;
  virtual std::vector<steps::fault> possible_faults() = 0;
  virtual footprint paused() const = 0;
  virtual std::uint64_t digest_of_servers() const = 0;
  virtual void say_explored(std::string_view words) = 0;  // to the trace
  /// Calls what() in a moment, behind all that is due now.
  virtual void soon(std::function<void()> what) = 0;

 protected:
  ~explorable() = default;
};

/// Takes steps until the programs are over or the explorer has enough. Then `order` is null, and what is left happens:
/// from here on what happens first was sent first.
void take_steps(explorable& world, steps*& order);

}  // namespace conch::sim
