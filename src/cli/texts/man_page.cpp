// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/table_text.hpp"
#include "cli/texts/generated.hpp"

#include <algorithm>
#include <cstddef>
#include <regex>
#include <span>
#include <string>
#include <string_view>

// The man page, in the macros of man(7).
namespace conch::cli::texts {

namespace {

/// Without markup: what roff would understand otherwise is escaped.
std::string escaped(std::string_view text) {
  std::string all;
  for (char const c : text) {
    switch (c) {
      case '\\': all += "\\e"; break;
      case '-': all += "\\-"; break;
      case '\'': all += "\\(aq"; break;
      case '~': all += "\\(ti"; break;
      default: all += c;
    }
  }
  return all;
}

/// Text between backticks is bold.
std::string marked_up(std::string_view text) {
  std::string all;
  bool is_bold = false;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t const end = std::min(text.find('`', from), text.size());
    all += escaped(text.substr(from, end - from));
    if (end < text.size()) all += (is_bold = !is_bold) ? "\\fB" : "\\fR";
    from = end + 1;
  }
  return all;
}

std::string section(std::string const& title) { return ".SH " + title + '\n'; }

/// `head`: as roff has it.
std::string item(std::string const& head, std::string const& text) {
  return ".TP\n" + head + '\n' + marked_up(text) + '\n';
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }

/// Words in capital letters are what the user puts in. Options are bold.
std::string with_operands(std::string const& text) {
  std::string const marked = std::regex_replace(escaped(text), std::regex{R"(\b[A-Z]+\b)"}, "\\fI$&\\fR");
  return std::regex_replace(marked, std::regex{R"(\\-\\-(?:[a-z]|\\-)*)"}, "\\fB$&\\fR");
}

/// Nothing before the first of a section: its heading begins one.
std::string paragraph(std::string const& section_so_far) {
  return section_so_far.find('\n') + 1 == section_so_far.size() ? "" : ".PP\n";
}

std::string synopses() {
  std::string all = section("SYNOPSIS");
  for (command_entry const& one : commands()) {
    std::string const whole = synopsis(one), name = "conch " + std::string{one.name};
    all += (&one == &commands().front() ? "" : ".br\n") + bold(name) + with_operands(whole.substr(name.size())) + '\n';
  }
  return all;
}

std::string paragraphs(std::string_view text) {
  return std::regex_replace(marked_up(text), std::regex{"\n\n"}, "\n.IP\n");
}

std::string command_section() {
  std::string all = section("COMMANDS");
  for (command_entry const& one : commands()) {
    all += item(bold(one.name), as_sentence(std::string{one.brief})) + paragraphs(one.text) + '\n';
  }
  return all;
}

std::string head_of(option_entry const& option) {
  std::string head = option.letter == 0 ? "" : bold(std::string{'-', option.letter}) + ", ";
  head += bold("--" + std::string{option.name});
  return option.argument.empty() ? head : head + " \\fI" + escaped(option.argument) + "\\fR";
}

/// The commands that take the option, without `run`.
std::string others_with(option_entry const& option) {
  std::string all;
  for (command_entry const& one : commands()) {
    if (one.id != command_id::run && option.commands.has(one.id))
      all.append(all.empty() ? "`" : ", `").append(one.name).append("`");
  }
  return all;
}

std::string option_sections() {
  std::string of_run = section("OPTIONS OF RUN"), of_others = section("OPTIONS OF OTHER COMMANDS"),
              of_all = section("OPTIONS OF EVERY COMMAND");
  for (option_entry const& one : options()) {
    std::string const text = as_sentence(description_of(one)), others = others_with(one);
    if (one.commands == every_command) of_all += item(head_of(one), text);
    else if (!one.commands.has(command_id::run))
      of_others += item(head_of(one), others + ": " + description_of(one) + '.');
    else of_run += item(head_of(one), others.empty() ? text : text + " Also of " + others + '.');
  }
  return of_run + of_others + of_all;
}

std::string connection_section() {
  std::string all = section("HOW A SERVER IS FOUND");
  for (std::string_view const one : about_connection()) all += paragraph(all) + marked_up(one) + '\n';
  return all;
}

std::string environment_section() {
  std::string all = section("ENVIRONMENT");
  for (setting_entry const& one : settings()) {
    if (one.variable != nullptr) all += item(bold(one.variable), as_sentence(description_of(one)));
  }
  all += ".PP\nCMD of run gets:\n";
  for (variable_entry const& one : child_variables()) all += item(bold(one.name), as_sentence(std::string{one.text}));
  return all + ".PP\n" + marked_up(about_withheld_variables()) + '\n';
}

std::string files_section() {
  std::string all =
      section("FILES") + item("\\fI\\(ti/.config/conch.toml\\fR", "The configuration file. Its keys:") + ".RS\n";
  for (setting_entry const& one : settings()) all += item(bold(one.key), as_sentence(description_of(one)));
  return all + ".RE\n";
}

std::string exit_section() {
  std::string all = section("EXIT STATUS");
  for (exit_entry const& one : exit_codes()) all += item(bold(code_of(one)), as_sentence(std::string{one.text}));
  return all + ".PP\nrun exits with the code of CMD in all other cases.\n";
}

std::string example_section() {
  std::string all = section("EXAMPLES");
  for (example const& one : examples()) {
    std::string const text = marked_up(one.text) + (one.text.ends_with('?') ? "" : ":");
    all += paragraph(all) + text + "\n.PP\n.RS\n.nf\n" + escaped(one.line) + "\n.fi\n.RE\n";
  }
  return all;
}

}  // namespace

blocks man_page() {
  return {{"what conch --help says", synopses() + command_section() + option_sections() + connection_section() +
                                         environment_section() + files_section() + exit_section() + example_section()}};
}

}  // namespace conch::cli::texts
