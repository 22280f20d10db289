// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/table_text.hpp"

#include <cstddef>
#include <span>

namespace conch::cli {

namespace {

std::string_view words_of(operands what) {
  switch (what) {
    case operands::none: return "";
    case operands::one_name: return " NAME";
    case operands::names:
    case operands::names_and_program: return " NAME...";
    case operands::patterns: return " [PATTERN...]";
  }
  return "";
}

std::string synopsis_with(command_entry const& command, std::string const& options) {
  std::string text = "conch " + std::string{command.name};
  text.append(words_of(command.takes)).append(options);
  return command.takes == operands::names_and_program ? text + " -- CMD [ARG...]" : text;
}

std::string with_argument(option_entry const& option) {
  std::string text = "--" + std::string{option.name};
  return option.argument.empty() ? text : text.append(" ").append(option.argument);
}

std::string listed(std::span<char const* const> words) {
  std::string all;
  for (char const* const& one : words) {
    bool const is_first = &one == &words.front(), is_last = &one == &words.back();
    all.append(is_first ? "`" : is_last ? " and `" : ", `").append(one).append("`");
  }
  return all;
}

}  // namespace

std::string heading_of(option_entry const& option) {
  return option.letter == 0 ? with_argument(option) : std::string{'-', option.letter} + ", " + with_argument(option);
}

std::string description_of(option_entry const& option) {
  std::string text{option.text}, limits;
  if (!option.least.empty() && !option.most.empty())
    limits = std::string{option.least} + " to " + std::string{option.most};
  if (!option.initial.empty()) limits += (limits.empty() ? "default: " : "; default: ") + std::string{option.initial};
  if (!limits.empty()) text += " (" + limits + ')';
  if (!option.more.empty()) text.append(". ").append(option.more);
  return text;
}

std::string description_of(setting_entry const& setting) {
  if (!setting.text.empty()) return std::string{setting.text};
  option_entry const* const option = find_option(setting.key);
  return option == nullptr ? std::string{} : description_of(*option);
}

std::string short_synopsis(command_entry const& command) { return synopsis_with(command, " [OPTION...]"); }

std::string synopsis(command_entry const& command) {
  constexpr std::size_t few = 3;
  auto const own = options_of(command.id);
  if (own.size() > few) return short_synopsis(command);
  std::string all;
  for (option_entry const* const one : own) all += " [" + with_argument(*one) + ']';
  return synopsis_with(command, all);
}

std::string code_of(exit_entry const& one) { return std::to_string(one.code).append(one.plus); }

std::string names_of_connection_options() {
  std::string all;
  for (option_entry const* const one : options_of_every_command()) {
    if (!one->argument.empty()) all.append(all.empty() ? "--" : " --").append(one->name);
  }
  return all;
}

std::string about_withheld_variables() {
  return "CMD does not get " + listed(connection_variables()) +
         " of conch, unless `--keep-connection` is given; nor systemd's " + listed(variables_of_systemd) +
         ", which are for the process of conch.";
}

std::string without_backticks(std::string_view text) {
  std::string plain{text};
  std::erase(plain, '`');
  return plain;
}

std::string as_sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  if (!text.empty() && text.back() != '.' && text.back() != '?') text += '.';
  return text;
}

}  // namespace conch::cli
