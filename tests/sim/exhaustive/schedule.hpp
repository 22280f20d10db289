// One run of a world that is explored: what may happen next, and a number for the state that it is in.
#pragma once

#include "sim/worlds/steps.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace conch::sim {

/// Something that may happen now.
struct choice {
  std::uint64_t id = 0;  // the same in every state in which it is the same
  footprint touches = of_all;

  friend bool operator==(choice const&, choice const&) = default;
};

inline bool commute(choice const& a, choice const& b) { return (a.touches & b.touches) == 0; }

/// Decides at every point of a run. It may end the run by an exception.
class decider {
 public:
  virtual std::size_t decide(std::function<std::uint64_t()> const& state, std::span<choice const> all) = 0;

 protected:
  ~decider() = default;
};

struct bounds {
  std::size_t steps = 200;
  int faults = 1;
};

/// The state of a client is known by what has brought it about: it is a deterministic function of what it was given,
/// and when. So a digest of that stands for its memory and its timers. Servers are known by what they know. With the
/// time, what waits and the faults so far that is the state of the world. Not in it: what judges remember. They judge
/// what they see at each step; that no fault is lost by it is tested.
class schedule final : public steps {
 public:
  schedule(bounds const& b, decider& d) : bounds_{b}, decider_{d} {}

  void add(step s) override { waiting_.push_back(std::move(s)); }
  void drop(std::uint64_t stream) override;
  bool empty() const override { return waiting_.empty(); }
  bool take_one(moment const& m) override;
  std::vector<std::function<void()>> take_rest() override;

  bool was_cut_off() const { return cut_off_; }  // by the bound on steps
  std::size_t taken() const { return taken_; }

 private:
  void collect(moment const& m);
  std::uint64_t state(moment const& m) const;
  void happened(footprint touched, nanos now, std::uint64_t what, std::uint64_t content);

  static constexpr std::uint64_t time_passes = 1;

  bounds const bounds_;
  decider& decider_;
  std::vector<step> waiting_;
  std::vector<choice> choices_;
  std::vector<std::size_t> which_;             // of what waits, for each of the first choices
  std::array<std::uint64_t, 32> histories_{};  // by the bits of a footprint
  std::size_t taken_ = 0;
  int faults_ = 0;
  bool cut_off_ = false;
};

}  // namespace conch::sim
