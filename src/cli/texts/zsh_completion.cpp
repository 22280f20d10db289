// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/table_text.hpp"
#include "cli/texts/generated.hpp"

#include <string>
#include <string_view>
#include <vector>

// The data of completion/_conch.
namespace conch::cli::texts {

namespace {

std::string quoted(std::string_view text) {
  std::string all = "'";
  for (char const c : text) all.append(c == '\'' ? "'\\''" : std::string{c});
  return all + '\'';
}

/// In a specification of _arguments, between brackets.
std::string described(std::string_view text) {
  std::string all;
  for (char const c : without_backticks(text)) {
    if (c == '[' || c == ']') all += '\\';
    all += c;
  }
  return '[' + all + ']';
}

std::string words_of(option_entry const& option) {
  std::string const name = "--" + std::string{option.name};
  return option.letter == 0 ? name : std::string{'-', option.letter} + ' ' + name;
}

/// What is not offered once the option is there.
std::string excluded_by(option_entry const& option) {
  if (option.letter == 0 && option.excludes.empty()) return {};
  std::string all = words_of(option);
  if (!option.excludes.empty()) all += ' ' + words_of(*find_option(option.excludes));
  return '(' + all + ')';
}

std::string argument_of(option_entry const& option) {
  if (option.argument.empty()) return {};
  std::string words;
  for (std::string_view const one : option.suggested) words.append(words.empty() ? "" : " ").append(one);
  std::string name{option.argument};
  for (char& c : name) c = static_cast<char>(c - 'A' + 'a');
  return ':' + name + ':' + (option.names_file ? "_files" : words.empty() ? "" : '(' + words + ')');
}

std::string specification(option_entry const& option) {
  std::string const name = "--" + std::string{option.name}, rest = described(option.text) + argument_of(option);
  if (option.letter == 0) return quoted(excluded_by(option) + name + rest);
  return quoted(excluded_by(option)) + "{-" + option.letter + ',' + name + '}' + quoted(rest);
}

std::string specifications(std::vector<option_entry const*> const& some, std::string const& indent) {
  std::string all;
  for (option_entry const* const one : some) all += indent + specification(*one) + '\n';
  return all;
}

std::string_view specification(operands what) {
  switch (what) {
    case operands::none: return "";
    case operands::one_name: return "'1:name:_conch_names'";
    case operands::names:
    case operands::names_and_program: return "'*:name:_conch_names'";
    case operands::patterns: return "'*:pattern:'";
  }
  return "";
}

std::string command_list() {
  std::string all = "subcommands=(\n";
  for (command_entry const& one : commands())
    all += "  " + quoted(std::string{one.name} + ':' + without_backticks(one.brief)) + '\n';
  return all + ")\n";
}

std::string cases() {
  std::string all = "case $words[2] in\n";
  for (command_entry const& one : commands()) {
    all.append("  ").append(one.name).append(")\n    operands=(").append(specification(one.takes)).append(")\n");
    if (one.takes == operands::names_and_program) all += "    takes_program=yes\n";
    all += "    own=(\n" + specifications(options_of(one.id), "      ") + "    )\n    ;;\n";
  }
  return all + "esac\n";
}

}  // namespace

blocks zsh_completion() {
  return {{"commands and options", command_list() + "connection_options=(" + names_of_connection_options() + ")\n" +
                                       "general=(\n" + specifications(options_of_every_command(), "  ") + ")\n" +
                                       cases()}};
}

}  // namespace conch::cli::texts
