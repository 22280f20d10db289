// A part of the tree of all orders, walked depth first: each run repeats the choices of the one before up to the last
// that has another alternative.
#pragma once

#include "sim/exhaustive/schedule.hpp"
#include "sim/exhaustive/visited.hpp"

#include <cstddef>
#include <exception>
#include <string>
#include <vector>

namespace conch::sim {

/// Ends a run: what would follow is explored elsewhere.
struct needless : std::exception {
  char const* what() const noexcept override { return "this order is explored elsewhere"; }
};

struct reductions {
  bool sleep_sets = true;
  bool equal_states = true;
};

using path = std::vector<std::uint32_t>;

class walk final : public decider {
 public:
  /// Below that path; `go_on_at`: not from its first leaf.
  walk(reductions r, visited& v, std::size_t most_steps, path below, path go_on_at = {});

  // Before each run.
  void begin();
  std::size_t decide(std::function<std::uint64_t()> const& state, std::span<choice const> all) override;
  /// To the next run. False: that was the last.
  bool advance();

  path const& at() const { return path_; }
  std::size_t fixed() const { return fixed_; }
  /// How much of this part is done, if all alternatives of a point are as large as each other.
  double share_done() const;
  /// From the end of the fixed part on the first point with several alternatives: the paths to them. Empty: there is
  /// none.
  std::vector<path> split() const;

 private:
  reductions const reductions_;
  visited& visited_;
  std::size_t const most_steps_;
  std::size_t const fixed_;
  path path_;
  std::vector<std::uint32_t> counts_;
  std::size_t depth_ = 0;
  std::vector<choice> asleep_;
  std::vector<choice> awake_;
};

/// As numbers with dots between them; the zeros at the end are left out, since a run takes first choices by itself.
std::string to_text(path const& p);
path path_of(std::string_view text);

}  // namespace conch::sim
