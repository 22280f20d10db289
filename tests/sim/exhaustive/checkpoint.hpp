// How far an exploration is, in a file: the parts that are left, each with the place in it. States that were seen are
// not kept; after a resumption some are gone into again.
#pragma once

#include "sim/exhaustive/walk.hpp"

#include <string>
#include <vector>

namespace conch::sim {

struct part_left {
  path below;
  path at;  // empty: not begun
};

struct checkpoint {
  std::string of;  // the scope and its bounds
  std::uint64_t runs = 0, orders = 0, cut_off = 0, states = 0;
  double seconds = 0;
  std::size_t parts = 0;  // in all
  std::vector<part_left> left;
};

void write(checkpoint const& c, std::string const& file);
/// Throws if the file is of something else. `left` of an empty one: there is no such file.
checkpoint read_checkpoint(std::string const& file, std::string const& of);

}  // namespace conch::sim
