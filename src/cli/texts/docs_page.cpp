// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/table_text.hpp"
#include "cli/texts/generated.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// The tables of docs/cli.md.
namespace conch::cli::texts {

namespace {

std::string code(std::string_view text) { return text.empty() ? std::string{} : '`' + std::string{text} + '`'; }

std::string row(std::vector<std::string> const& cells) {
  std::string all = "|";
  for (std::string const& one : cells) all += ' ' + one + (one.empty() ? "|" : " |");
  return all + '\n';
}

/// Empty lines around it: it is not part of a paragraph.
std::string table(std::vector<std::string> const& heads, std::vector<std::vector<std::string>> const& rows) {
  std::string all = '\n' + row(heads) + '|';
  for (std::size_t i = 0; i < heads.size(); ++i) all += "---|";
  all += '\n';
  for (auto const& one : rows) all += row(one);
  return all + '\n';
}

/// Without those of the table of settings.
std::vector<option_entry const*> not_settings(std::vector<option_entry const*> some) {
  std::erase_if(some, [](option_entry const* one) {
    return std::any_of(settings().begin(), settings().end(),
                       [&](setting_entry const& other) { return one->name == other.key; });
  });
  return some;
}

std::string options_table(std::vector<option_entry const*> const& some) {
  std::vector<std::vector<std::string>> rows;
  for (option_entry const* const one : some) {
    std::string name = "--" + std::string{one->name};
    if (!one->argument.empty()) name.append(" ").append(one->argument);
    std::string cell = code(name);
    if (one->letter != 0) cell.append(", `-").append(1, one->letter).append("`");
    rows.push_back({cell, description_of(*one)});
  }
  return table({"option", ""}, rows);
}

std::string settings_table() {
  std::vector<std::vector<std::string>> rows;
  for (setting_entry const& one : settings()) {
    std::string const option = find_option(one.key) == nullptr ? "" : code("--" + std::string{one.key});
    rows.push_back({description_of(one), option, one.variable == nullptr ? "" : code(one.variable), code(one.key)});
  }
  return table({"", "command line", "environment", "configuration file"}, rows);
}

std::string variables_table() {
  std::vector<std::vector<std::string>> rows;
  for (variable_entry const& one : child_variables()) rows.push_back({code(one.name), std::string{one.text}});
  return table({"variable", ""}, rows) + about_withheld_variables() + "\n\n";
}

std::string exit_code_table() {
  std::vector<std::vector<std::string>> rows;
  for (exit_entry const& one : exit_codes()) rows.push_back({code_of(one), std::string{one.text}});
  return table({"code", ""}, rows);
}

}  // namespace

blocks docs_page() {
  blocks all{{"settings", settings_table()},
             {"options of every command", options_table(not_settings(options_of_every_command()))},
             {"variables of CMD", variables_table()},
             {"exit codes", exit_code_table()}};
  for (command_entry const& one : commands()) {
    std::string const name{one.name};
    all["usage of " + name] = "\n```\n" + synopsis(one) + "\n```\n\n";
    if (auto const own = not_settings(options_of(one.id)); !own.empty()) all["options of " + name] = options_table(own);
  }
  return all;
}

}  // namespace conch::cli::texts
