// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/texts/generated.hpp"

#include <cstddef>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace conch::cli::texts {

namespace {

/// Empty: the line begins no block.
std::string begun_by(std::string const& line) {
  constexpr std::string_view mark = "begin generated: ";
  std::size_t const found = line.find(mark);
  if (found == std::string::npos) return {};
  std::size_t const from = found + mark.size();
  return line.substr(from, line.find(" (", from) - from);
}

}  // namespace

std::string renewed(std::string const& text, blocks const& all) {
  std::istringstream lines{text};
  std::string out, inside;
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("end generated") != std::string::npos) inside.clear();
    if (inside.empty()) out += line + '\n';
    std::string const begun = begun_by(line);
    if (begun.empty()) continue;
    if (!inside.empty()) throw std::runtime_error{"the block '" + inside + "' does not end"};
    if (!all.contains(begun)) throw std::runtime_error{"there is no block '" + begun + "'"};
    if (!seen.insert(begun).second) throw std::runtime_error{"the block '" + begun + "' is there twice"};
    inside = begun;
    out += all.at(begun);
  }
  if (!inside.empty()) throw std::runtime_error{"the block '" + inside + "' does not end"};
  for (auto const& [name, ignored] : all) {
    if (!seen.contains(name)) throw std::runtime_error{"the block '" + name + "' is missing"};
  }
  return out;
}

std::span<generated_file const> generated_files() {
  static constexpr generated_file all[]{{"src/cli/conch.1", man_page},
                                        {"src/cli/completion/conch.bash", bash_completion},
                                        {"src/cli/completion/_conch", zsh_completion},
                                        {"docs/cli.md", docs_page}};
  return all;
}

}  // namespace conch::cli::texts
