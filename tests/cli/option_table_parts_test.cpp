// The table of options: it is complete, and the parser takes what it has and nothing else.

#include <gtest/gtest.h>

#include <cli/duration.hpp>
#include <cli/exit_code.hpp>
#include <cli/option_table.hpp>
#include <cli/options.hpp>
#include <cli/table_text.hpp>

#include <conch/client.hpp>
#include <conch/config.hpp>
#include <conch/error.hpp>
#include <conch/mutex.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace conch::cli {
namespace {

using words = std::vector<std::string>;

/// An argument that the option takes.
std::string argument_for(option_entry const& option) {
  if (!option.least.empty()) return std::string{option.least};
  if (option.argument == "DURATION") return "1s";
  if (option.argument == "KIND") return "mutex";
  if (option.argument == "SIGNAL") return "USR1";
  return "1";
}

/// The command with what it must have.
words smallest(command_entry const& command, words const& more) {
  words all{std::string{command.name}};
  if (command.takes != operands::none && command.takes != operands::patterns) all.push_back("x");
  all.insert(all.end(), more.begin(), more.end());
  if (command.takes == operands::names_and_program) all.insert(all.end(), {"--", "true"});
  return all;
}

/// Empty: it is accepted.
std::string refusal_of(words const& line) {
  try {
    parse_command_line(line);
  } catch (failure const& error) {
    EXPECT_EQ(error.code, exit_code::usage);
    return error.what();
  }
  return {};
}

words with_argument(std::string const& name, option_entry const& option) {
  return option.argument.empty() ? words{name} : words{name, argument_for(option)};
}

TEST(OptionTable, DescribesEachOption) {
  for (option_entry const& one : options()) {
    SCOPED_TRACE(one.name);
    EXPECT_FALSE(one.text.empty());
    EXPECT_FALSE(one.text.ends_with('.')) << "a phrase: the texts add what follows";
    EXPECT_FALSE(one.more.ends_with('.'));
    EXPECT_NE(one.read, nullptr);
    EXPECT_NE(one.commands, command_set{}) << "no command takes it";
    EXPECT_EQ(std::count(one.text.begin(), one.text.end(), '`') % 2, 0);
    EXPECT_TRUE(
        std::all_of(one.argument.begin(), one.argument.end(), [](unsigned char c) { return std::isupper(c) != 0; }));
  }
}

TEST(OptionTable, DescribesEverythingElse) {
  for (command_entry const& one : commands()) EXPECT_TRUE(!one.brief.empty() && !one.text.empty()) << one.name;
  for (setting_entry const& one : settings()) EXPECT_FALSE(description_of(one).empty()) << one.key;
  for (variable_entry const& one : child_variables()) EXPECT_FALSE(one.text.empty()) << one.name;
  for (exit_entry const& one : exit_codes()) EXPECT_FALSE(one.text.empty()) << one.code;
}

TEST(OptionTable, HasNoNameTwice) {
  std::set<std::string_view> names;
  for (option_entry const& one : options()) EXPECT_TRUE(names.insert(one.name).second) << one.name;
  for (command_entry const& command : commands()) {
    std::set<char> letters;
    for (option_entry const& one : options()) {
      if (one.letter == 0 || !one.commands.has(command.id)) continue;
      EXPECT_TRUE(letters.insert(one.letter).second) << command.name << " -" << one.letter;
    }
  }
}

TEST(OptionTable, NamesOptionsThatExcludeEachOther) {
  for (option_entry const& one : options()) {
    if (one.excludes.empty()) continue;
    option_entry const* const other = find_option(one.excludes);
    ASSERT_NE(other, nullptr) << one.name;
    EXPECT_EQ(other->excludes, one.name);
  }
}

TEST(OptionTable, HasEachExitCodeOfTheHeader) {
  std::ifstream in{CONCH_SOURCE_DIR "/src/cli/exit_code.hpp"};
  std::string const header{std::istreambuf_iterator<char>{in}, {}};
  std::set<int> declared, described;
  std::regex const constant{"static constexpr int \\w+ = (\\d+);"};
  for (std::sregex_iterator it{header.begin(), header.end(), constant}, end; it != end; ++it)
    declared.insert(std::stoi((*it)[1]));
  for (exit_entry const& one : exit_codes()) EXPECT_TRUE(described.insert(one.code).second) << one.code;
  EXPECT_GT(declared.size(), 10u);
  EXPECT_EQ(declared, described);
}

TEST(OptionTable, IsWhatTheParserTakes) {
  for (command_entry const& command : commands()) {
    EXPECT_EQ(refusal_of(smallest(command, {})), "");
    for (option_entry const& one : options()) {
      std::string const name = "--" + std::string{one.name};
      SCOPED_TRACE("conch " + std::string{command.name} + ' ' + name);
      std::string const refused = refusal_of(smallest(command, with_argument(name, one)));
      bool const is_unknown = refused.find("unrecognised option '" + name) != std::string::npos;
      EXPECT_TRUE(one.commands.has(command.id) ? refused.empty() : is_unknown) << refused;
      if (one.letter == 0) continue;
      bool const is_taken = refusal_of(smallest(command, with_argument(std::string{'-', one.letter}, one))).empty();
      EXPECT_EQ(is_taken, one.commands.has(command.id));
    }
  }
}

TEST(OptionTable, IsAllThatTheParserTakes) {
  for (command_entry const& command : commands()) {
    for (char const* const other : {"--name", "--name=x", "--NAME", "--NAME==x", "--version", "--positional",
                                    "--password=x", "--ur=x", "--verb", "-x"}) {
      EXPECT_NE(refusal_of(smallest(command, {other})), "") << command.name << ' ' << other;
    }
  }
}

TEST(OptionTable, GivesTheRangesOfNumbersThatTheParserHolds) {
  std::size_t looked_at = 0;
  for (option_entry const& one : options()) {
    if (one.argument != "N" || one.most.empty()) continue;
    ++looked_at;
    for (command_entry const& command : commands()) {
      if (!one.commands.has(command.id)) continue;
      auto const refusal = [&](long number) {
        return refusal_of(smallest(command, {"--" + std::string{one.name} + '=' + std::to_string(number)}));
      };
      long const least = std::stol(std::string{one.least}), most = std::stol(std::string{one.most});
      EXPECT_EQ(refusal(least), "");
      EXPECT_EQ(refusal(most), "");
      EXPECT_NE(refusal(least - 1), "") << one.name;
      EXPECT_NE(refusal(most + 1), "") << one.name;
    }
  }
  EXPECT_GE(looked_at, 3u);
}

TEST(OptionTable, GivesTheDefaultsOfTheCode) {
  config const library{};
  arguments const command{};
  auto const initial = [](std::string_view option) { return std::string{find_option(option)->initial}; };
  EXPECT_EQ(initial("url"), library.url);
  EXPECT_EQ(initial("key-prefix"), library.key_prefix);
  EXPECT_EQ(parse_duration(initial("lease")), library.lease);
  EXPECT_EQ(parse_duration(initial("grace")), library.stop_margin);
  EXPECT_EQ(parse_duration(initial("sync-timeout")), library.sync_timeout);
  EXPECT_EQ(parse_duration(initial("lock-delay")), library.lock_delay);
  EXPECT_EQ(parse_duration(initial("at-least")), acquire_options{}.at_least);
  EXPECT_EQ(initial("sync-replicas"), std::to_string(library.sync_replicas));
  EXPECT_EQ(initial("conflict-exit-code"), std::to_string(command.conflict_exit_code));
  EXPECT_EQ(parse_duration(initial("every")), command.every);
  EXPECT_EQ(parse_duration(initial("time")), command.time);
  EXPECT_EQ(command.kind, lock_kind::mutex);
  EXPECT_EQ(initial("kind"), "mutex");
}

TEST(OptionTable, HasExamplesThatTheParserTakes) {
  for (example const& one : examples()) {
    std::istringstream line{std::string{one.line}};
    words all{std::istream_iterator<std::string>{line}, {}};
    if (all.front() == "sudo") all.erase(all.begin());
    ASSERT_EQ(all.front(), "conch");
    all.erase(all.begin());
    EXPECT_EQ(all.front(), entry_of(one.command).name);
    EXPECT_EQ(refusal_of(all), "") << one.line;
  }
}

/// Is the URL one that the library knows? It may lack the component.
bool is_url(std::string const& url) {
  boost::asio::io_context context;
  config settings;
  settings.url = url;
  try {
    client const made{context.get_executor(), settings};
  } catch (boost::system::system_error const& error) {
    return error.code() == errc::not_supported;
  }
  return true;
}

TEST(OptionTable, HasExamplesOfUrlsThatTheLibraryKnows) {
  EXPECT_TRUE(is_url(std::string{find_option("url")->initial}));
  std::string const text{find_option("url")->more};
  std::regex const url{"`([a-z]+://[^`]+)`"};
  std::size_t count = 0;
  for (std::sregex_iterator it{text.begin(), text.end(), url}, end; it != end; ++it, ++count) {
    std::string one = (*it)[1];
    for (char const* const host : {"a", "b", "c"})
      one = std::regex_replace(one, std::regex{"HOST"}, host, std::regex_constants::format_first_only);
    one = std::regex_replace(std::regex_replace(one, std::regex{"PORT"}, "1"), std::regex{"DB"}, "1");
    EXPECT_TRUE(is_url(one)) << one;
  }
  EXPECT_GE(count, 5u);
  EXPECT_FALSE(is_url("rediz://a"));
}

TEST(OptionTable, IsInTheHelp) {
  for (command_entry const& command : commands()) {
    std::string const help = parse_command_line({std::string{command.name}, "--help"}).text;
    EXPECT_TRUE(help.starts_with(synopsis(command))) << help;
    for (option_entry const& one : options()) {
      EXPECT_EQ(help.find(' ' + heading_of(one) + ' ') != std::string::npos, one.commands.has(command.id))
          << command.name << ' ' << one.name;
    }
    std::istringstream lines{help};
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace conch::cli
