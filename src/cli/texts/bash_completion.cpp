// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/table_text.hpp"
#include "cli/texts/generated.hpp"

#include <string>
#include <string_view>

// The data of completion/conch.bash.
namespace conch::cli::texts {

namespace {

std::string variable(std::string const& name, std::string const& words) { return name + "='" + words + "'\n"; }

void add(std::string& words, std::string_view word) { words.append(words.empty() ? "" : " ").append(word); }

std::string names_of_commands(bool (*wanted)(command_entry const&)) {
  std::string all;
  for (command_entry const& one : commands()) {
    if (wanted(one)) add(all, one.name);
  }
  return all;
}

bool takes_locks(command_entry const& one) {
  return one.takes == operands::one_name || one.takes == operands::names || one.takes == operands::names_and_program;
}

std::string options_function() {
  std::string all = "_conch_options_of() {\n  case $1 in\n";
  for (command_entry const& command : commands()) {
    std::string words;
    for (auto const& part : {options_of_every_command(), options_of(command.id)}) {
      for (option_entry const* const one : part) add(words, "--" + std::string{one->name});
    }
    if (command.takes == operands::names_and_program) add(words, "--");
    all.append("    ").append(command.name).append(") echo '").append(words).append("' ;;\n");
  }
  return all + "  esac\n}\n";
}

std::string values_of(option_entry const& option) {
  if (option.names_file) return "/";
  std::string all;
  for (std::string_view const one : option.suggested) add(all, one);
  return all;
}

std::string values_function() {
  std::string all = "_conch_values_of() {\n  case $1 in\n";
  for (option_entry const& one : options()) {
    if (one.argument.empty()) continue;
    all.append("    --").append(one.name);
    if (one.letter != 0) all.append(" | -").append(1, one.letter);
    all.append(") values='").append(values_of(one)).append("' ;;\n");
  }
  return all + "    *) return 1 ;;\n  esac\n}\n";
}

}  // namespace

blocks bash_completion() {
  return {{"commands and options",
           variable("_conch_commands", names_of_commands([](command_entry const&) { return true; })) +
               variable("_conch_commands_with_locks", names_of_commands(takes_locks)) +
               variable("_conch_connection_options", names_of_connection_options()) + options_function() +
               values_function()}};
}

}  // namespace conch::cli::texts
