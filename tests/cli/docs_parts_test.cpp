// The man page and the completions name what the help names.

#include <gtest/gtest.h>

#include <cli/options.hpp>

#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace conch::cli {
namespace {

std::string text_of(std::string const& file) {
  std::ifstream in{std::string{CONCH_CLI_SOURCES} + '/' + file};
  EXPECT_TRUE(in) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

char const* const commands[]{"run", "status", "list", "watch", "unlock", "doctor", "bench"};

/// All long options of the help texts.
std::set<std::string> options() {
  std::set<std::string> all;
  std::regex const option{"^  (?:-[a-zA-Z] \\[ )?--([a-z-]+)", std::regex::multiline};
  for (char const* command : commands) {
    std::string const help = parse_command_line({command, "--help"}).text;
    for (std::sregex_iterator it{help.begin(), help.end(), option}, end; it != end; ++it) all.insert((*it)[1]);
  }
  return all;
}

std::string without_backslashes(std::string text) {
  std::erase(text, '\\');
  return text;
}

TEST(CliDocs, NameEachOption) {
  ASSERT_GT(options().size(), 15u);
  for (char const* file : {"conch.1", "completion/conch.bash", "completion/_conch"}) {
    std::string const text = without_backslashes(text_of(file));
    for (std::string const& option : options()) EXPECT_NE(text.find("--" + option), std::string::npos) << file << " lacks --" << option;
    for (char const* command : commands) EXPECT_NE(text.find(command), std::string::npos) << file << " lacks " << command;
  }
}

TEST(CliDocs, NameEachExitCode) {
  std::string const help = parse_command_line({"--help"}).text;
  std::string const page = text_of("conch.1");
  std::regex const code{"^ +([0-9]+)  ", std::regex::multiline};
  std::size_t found = 0;
  for (std::sregex_iterator it{help.begin(), help.end(), code}, end; it != end; ++it, ++found) {
    EXPECT_NE(page.find(' ' + (*it)[1].str()), std::string::npos) << (*it)[1];
  }
  EXPECT_GE(found, 11u);
}

TEST(CliDocs, BashCompletes) {
  auto const completed = [](std::string const& words, int at) {
    std::string const script = "source " + std::string{CONCH_CLI_SOURCES} + "/completion/conch.bash; COMP_WORDS=(" + words +
                               "); COMP_CWORD=" + std::to_string(at) + "; _conch; echo \"${COMPREPLY[*]}\"";
    std::FILE* const out = ::popen(("bash -c '" + script + "'").c_str(), "r");
    char line[4096] = "";
    if (std::fgets(line, sizeof line, out) == nullptr) line[0] = 0;
    ::pclose(out);
    return std::string{line};
  };
  EXPECT_EQ(completed("conch st", 1), "status\n");
  EXPECT_EQ(completed("conch run x --no", 3), "--no-wait --no-kill-child\n");
  EXPECT_EQ(completed("conch run x --kind sh", 4), "shared\n");
  EXPECT_EQ(completed("conch unlock x --f", 3), "--fence\n");
  EXPECT_TRUE(completed("conch run x -- mktem", 4).starts_with("mktemp"));
  EXPECT_EQ(completed("conch list --na", 2), "--names\n");
}

}  // namespace
}  // namespace conch::cli
