// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/options.hpp"

#include "cli/help.hpp"
#include "cli/option_table.hpp"
#include "cli/option_value.hpp"

#include <conch/version.hpp>

#include <boost/program_options.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace conch::cli {

namespace po = boost::program_options;

namespace {

using words_of_option = std::vector<std::string>;
// for what is not an option; it cannot be typed, because '=' ends the name of an option
constexpr char const* name_option = "NAME=";

po::options_description as_program_options(command_id command) {
  po::options_description all;
  for (option_entry const& one : options()) {
    if (!one.commands.has(command)) continue;
    std::string const names = std::string{one.name} + (one.letter == 0 ? "" : std::string{',', one.letter});
    if (one.argument.empty()) all.add_options()(names.c_str(), "");
    else all.add_options()(names.c_str(), po::value<std::string>(), "");
  }
  all.add_options()(name_option, po::value<words_of_option>());
  return all;
}

po::variables_map parse(words_of_option const& words, command_entry const& command) {
  po::options_description const known = as_program_options(command.id);
  po::positional_options_description positional;
  positional.add(name_option, -1);
  po::variables_map values;
  try {
    // No abbreviations: they would change their meaning when an option is added.
    constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(words).options(known).positional(positional).style(style).run(), values);
    po::notify(values);
  } catch (po::error const& error) {
    refuse_usage(error.what(), command.name);
  }
  return values;
}

void read_options(po::variables_map const& given, command_entry const& command, arguments& into) {
  auto const has = [&](std::string_view name) { return given.count(std::string{name}) != 0; };
  for (option_entry const& one : options()) {
    if (!one.commands.has(command.id) || !has(one.name)) continue;
    std::string const name{one.name};
    if (!one.excludes.empty() && has(one.excludes)) {
      refuse_usage("--" + name + " and --" + std::string{one.excludes} + " do not go together", command.name);
    }
    one.read(option_value{one, one.argument.empty() ? std::string{} : given[name].as<std::string>(), command.name},
             into);
  }
}

void check_names(arguments const& given, command_entry const& command) {
  bool const takes_names = command.takes != operands::none,
             needs_names = takes_names && command.takes != operands::patterns;
  if (!takes_names && !given.names.empty()) {
    refuse_usage("conch " + std::string{command.name} + " takes no NAME: '" + given.names.front() + "'", command.name);
  }
  if (needs_names && given.names.empty()) refuse_usage("the NAME of the lock is missing", command.name);
  if (command.takes == operands::one_name && given.names.size() > 1) {
    refuse_usage("conch " + std::string{command.name} + " takes one NAME", command.name);
  }
  for (std::string const& name : given.names) {
    if (name.empty() || name.size() > 512) refuse_usage("a NAME must have 1 to 512 bytes", command.name);
  }
  std::vector<std::string> sorted = given.names;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) refuse_usage("duplicate NAME", command.name);
}

void check_program(arguments const& given, command_entry const& command) {
  if (command.takes != operands::names_and_program) return;
  if (given.names.size() > 1 && given.kind != lock_kind::mutex) {
    refuse_usage("--kind needs exactly one NAME: several NAMEs are mutexes", command.name);
  }
  if (given.child.empty()) refuse_usage("missing '-- CMD' after the NAME", command.name);
}

request text_request(std::string text) { return {std::nullopt, std::move(text)}; }

request parse_command(command_entry const& command, std::vector<std::string> const& words) {
  arguments all;
  all.command = command.id;
  auto const dashes = std::find(words.begin(), words.end(), "--");
  po::variables_map const given = parse({words.begin(), dashes}, command);
  if (given.count("help") != 0) return text_request(help_of(command));
  if (given.count(name_option) != 0) all.names = given[name_option].as<words_of_option>();
  if (dashes != words.end()) {  // the rest: CMD, or names that look like options
    auto& rest = command.takes == operands::names_and_program ? all.child : all.names;
    rest.insert(rest.end(), dashes + 1, words.end());
  }
  read_options(given, command, all);
  check_names(all, command);
  check_program(all, command);
  return {std::move(all), {}};
}

}  // namespace

request parse_command_line(std::vector<std::string> const& words) {
  if (words.empty()) refuse_usage("the command is missing");
  std::string const first = words.front() == "help" && words.size() > 1 ? words[1] : words.front();
  if (first == "--help" || first == "-h" || first == "help") return text_request(help_of_all());
  if (first == "--version") return text_request("conch " + std::string{version()} + '\n');
  command_entry const* const command = find_command(first);
  if (command == nullptr) {
    refuse_usage(first.starts_with('-') ? "the command comes first, then the options"
                                        : "there is no command '" + first + "'");
  }
  if (words.front() == "help") return text_request(help_of(*command));
  return parse_command(*command, {words.begin() + 1, words.end()});
}

}  // namespace conch::cli
