// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/help.hpp"

#include "cli/table_text.hpp"

#include <conch/version.hpp>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::cli {

namespace {

constexpr std::size_t line_width = 100;

/// Lines of at most line_width, which begin at `column`. `text` begins there already.
std::string wrapped(std::string_view text, std::size_t column) {
  std::istringstream words{without_backticks(text)};
  std::string all;
  std::size_t width = column;
  for (std::string word; words >> word;) {
    bool const is_first = width == column;
    if (!is_first && width + 1 + word.size() > line_width) {
      all.append("\n").append(column, ' ');
      width = column;
    } else if (!is_first) {
      all += ' ';
      ++width;
    }
    all += word;
    width += word.size();
  }
  return all + '\n';
}

std::string paragraphs(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    std::size_t const end = std::min(text.find("\n\n"), text.size());
    all += wrapped(text.substr(0, end), 0) + '\n';
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return all;
}

using row = std::pair<std::string, std::string>;

/// A title, and two columns below it.
std::string table(std::string const& title, std::vector<row> const& rows) {
  if (rows.empty()) return {};
  std::size_t column = 0;
  for (auto const& [left, right] : rows) column = std::max(column, left.size() + 4);
  std::string all = title + '\n';
  for (auto const& [left, right] : rows) {
    std::string line = "  " + left;
    line.resize(column, ' ');
    all += line + wrapped(right, column);
  }
  return all + '\n';
}

row row_of(option_entry const& option) {
  std::string const indent = option.letter == 0 ? "    " : "";
  return {indent + heading_of(option), description_of(option)};
}

std::string options_table(std::string const& title, std::vector<option_entry const*> const& some) {
  std::vector<row> rows;
  for (option_entry const* const one : some) rows.push_back(row_of(*one));
  return table(title, rows);
}

std::string variables_table() {
  std::vector<row> rows;
  for (variable_entry const& one : child_variables()) rows.emplace_back(one.name, one.text);
  return table("Variables that CMD gets", rows) + paragraphs(about_withheld_variables());
}

std::string examples_of(command_id command) {
  std::string all;
  for (example const& one : examples()) {
    if (one.command == command) all += "  # " + without_backticks(one.text) + "\n  " + std::string{one.line} + '\n';
  }
  return all.empty() ? all : "Examples\n" + all + '\n';
}

std::string exit_code_table() {
  std::vector<row> rows;
  for (exit_entry const& one : exit_codes()) {
    std::string const code = std::to_string(one.code);
    rows.emplace_back(std::string(3 - code.size(), ' ') + code_of(one), one.text);
  }
  return table("Exit codes", rows) + "run exits with the code of CMD in all other cases.\n";
}

std::string end_of_each_help() {
  std::string all = options_table("Options of every command", options_of_every_command());
  for (std::string_view const one : about_connection()) all += paragraphs(one);
  return all + exit_code_table();
}

}  // namespace

std::string help_of_all() {
  std::vector<row> rows;
  for (command_entry const& one : commands()) rows.emplace_back(short_synopsis(one), one.brief);
  return "conch " + std::string{version()} + ": distributed locks in Redis, PostgreSQL and ZooKeeper\n\n" +
         table("Commands", rows) + "conch COMMAND --help explains one command.\n\n" + end_of_each_help();
}

std::string help_of(command_entry const& command) {
  std::string text = synopsis(command) + "\n  " + std::string{command.brief} + "\n\n" + paragraphs(command.text);
  text += options_table("Options of conch " + std::string{command.name}, options_of(command.id));
  if (command.takes == operands::names_and_program) text += variables_table();
  return text + examples_of(command.id) + end_of_each_help();
}

}  // namespace conch::cli
