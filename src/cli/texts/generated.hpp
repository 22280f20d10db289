// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <map>
#include <span>
#include <string>

// What scripts/cli_texts writes into the tree from the table of options (cli/option_table.hpp). A cross build cannot
// run a program that would make these files, so they are kept, and a test compares them.
namespace conch::cli::texts {

/// Parts of a file by their names. In the file, a line with `begin generated: NAME (` comes before each, and one with
/// `end generated` after it.
using blocks = std::map<std::string, std::string>;

/// The text with these blocks. Throws std::runtime_error if it lacks one, has another, or has one that does not end.
std::string renewed(std::string const& text, blocks const& all);

struct generated_file {
  char const* path;  // from the root of the tree
  blocks (*made)();
};

std::span<generated_file const> generated_files();

blocks man_page();
blocks bash_completion();
blocks zsh_completion();
blocks docs_page();

}  // namespace conch::cli::texts
