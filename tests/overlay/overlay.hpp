// Puts the deliberate faults of tests/sim/mutants/*.faults into a copy of the sources, for the simulator. See
// CONTRIBUTING.md, "Add a mutant".
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace conch::overlay {

struct fault {
  std::string name;  // an enumerator of engine_mutant; `always`: the simulator always has the replacement
  std::string file;  // from the root of the tree
  // the beginning of a function's heading: the text is looked for only there; empty: in the whole file
  std::string function;
  std::string text;         // what stands there, once: an expression, or statements
  std::string replacement;  // what the simulator does instead while the fault is active; empty: nothing
  std::string where = {};   // of the entry, for messages
};

/// What is wrong, one line each.
struct errors {
  std::vector<std::string> lines;
};

/// The entries of one *.faults file. Throws errors.
std::vector<fault> read_faults(std::string_view content, std::string_view shown);
/// As it stands in such a file.
std::string written(fault const& f);

/// The source with these faults, all of one file. Its lines keep their numbers; `original` is what messages of the
/// compiler and a debugger name. Throws errors: a text that the source has nowhere or twice, or that does not fit.
std::string with_faults(std::string_view source, std::vector<fault> const& faults, std::string_view original);

/// Declares engine_mutant, with an enumerator for each name.
std::string names_header(std::vector<fault> const& faults);

/// The entry for a unified diff that changes one place of one file. `source` reads a file of the tree, as it is before
/// the change.
/// Throws errors.
fault fault_of_diff(std::string_view name, std::string_view diff,
                    std::function<std::string(std::string const&)> const& source);

}  // namespace conch::overlay
