// What is made from the table of options and kept in the tree: the man page, the completions, the tables of
// docs/cli.md.

#include <gtest/gtest.h>

#include <cli/option_table.hpp>
#include <cli/texts/generated.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

namespace conch::cli {
namespace {

std::string text_of(std::string const& path) {
  std::ifstream in{path};
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// The first line in which the two differ.
std::string difference(std::string const& is, std::string const& should_be) {
  std::istringstream left{is}, right{should_be};
  std::string a, b;
  for (int line = 1; std::getline(right, b); ++line) {
    if (!std::getline(left, a) || a != b)
      return "line " + std::to_string(line) + " is\n  " + a + "\nand should be\n  " + b;
  }
  return "it has more lines than it should";
}

/// A file that is kept in the tree.
class GeneratedFile : public testing::TestWithParam<texts::generated_file> {};

TEST_P(GeneratedFile, IsUpToDate) {
  auto const& [path, made] = GetParam();
  std::string const is = text_of(CONCH_SOURCE_DIR "/" + std::string{path});
  std::string should_be;
  ASSERT_NO_THROW(should_be = texts::renewed(is, made())) << path;
  if (is != should_be)
    FAIL() << path << " is out of date; scripts/cli_texts --write renews it: " << difference(is, should_be);
}

INSTANTIATE_TEST_SUITE_P(CliDocs, GeneratedFile,
                         testing::ValuesIn(texts::generated_files().begin(), texts::generated_files().end()),
                         [](auto const& one) {
                           std::string name = one.param.path;
                           for (char& c : name) {
                             if (c == '/' || c == '.' || c == '_') c = 'X';
                           }
                           return name;
                         });

std::string complaint_about(std::string const& text) {
  try {
    texts::renewed(text, {{"a", "new\n"}});
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return {};
}

TEST(CliDocs, RenewBetweenTheMarksAndNothingElse) {
  EXPECT_EQ(texts::renewed("x\n# begin generated: a (how)\nold\nold\n# end generated\ny\n", {{"a", "new\n"}}),
            "x\n# begin generated: a (how)\nnew\n# end generated\ny\n");
}

TEST(CliDocs, RefuseMarksThatDoNotFit) {
  EXPECT_EQ(complaint_about("text\n"), "the block 'a' is missing");
  EXPECT_EQ(complaint_about("# begin generated: b (how)\n# end generated\n"), "there is no block 'b'");
  EXPECT_EQ(complaint_about("# begin generated: a (how)\n"), "the block 'a' does not end");
  EXPECT_EQ(complaint_about("# begin generated: a (how)\n# begin generated: a (how)\n# end generated\n"),
            "the block 'a' does not end");
  EXPECT_EQ(
      complaint_about("# begin generated: a (how)\n# end generated\n# begin generated: a (how)\n# end generated\n"),
      "the block 'a' is there twice");
}

std::string output_of(std::string const& command) {
  std::FILE* const out = ::popen(command.c_str(), "r");
  std::string all;
  for (char part[4096]; std::fgets(part, sizeof part, out) != nullptr;) all += part;
  ::pclose(out);
  return all;
}

/// What bash offers for the word at this place.
std::string completed(std::string const& words, int at) {
  return output_of("bash -c 'source " CONCH_SOURCE_DIR "/src/cli/completion/conch.bash; COMP_WORDS=(" + words +
                   "); COMP_CWORD=" + std::to_string(at) + "; _conch; echo \"${COMPREPLY[*]}\"'");
}

TEST(CliDocs, BashCompletes) {
  EXPECT_EQ(completed("conch st", 1), "status\n");
  EXPECT_EQ(completed("conch help be", 2), "bench\n");
  EXPECT_EQ(completed("conch run x --no", 3), "--no-wait --note --no-kill-child\n");
  EXPECT_EQ(completed("conch run x --kind sh", 4), "shared\n");
  EXPECT_EQ(completed("conch run x --kind=sem", 3), "semaphore=\n");
  EXPECT_EQ(completed("conch run x -w 5", 4), "500ms 5m\n");
  EXPECT_EQ(completed("conch unlock x --f", 3), "--fence\n");
  EXPECT_TRUE(completed("conch run x -- mktem", 4).starts_with("mktemp"));
  EXPECT_EQ(completed("conch list --na", 2), "--names\n");
  EXPECT_EQ(completed("conch list --config " CONCH_SOURCE_DIR "/CMakeLists", 3), CONCH_SOURCE_DIR "/CMakeLists.txt\n");
}

TEST(CliDocs, BashCompletesEachOptionOfEachCommand) {
  for (command_entry const& command : commands()) {
    std::istringstream offered{completed("conch " + std::string{command.name} + " --", 2)};
    std::set<std::string> const all{std::istream_iterator<std::string>{offered}, {}};
    for (option_entry const& one : options()) {
      bool const is_offered = all.contains("--" + std::string{one.name});
      EXPECT_EQ(is_offered, one.commands.has(command.id)) << command.name << " --" << one.name;
    }
  }
}

/// The words that the completion hands to these functions of zsh, a line each. Empty: there is no zsh.
std::string zsh_completes(std::string const& words, int current) {
  return output_of(
      "command -v zsh >/dev/null && zsh -f -c 'for f in _arguments _describe _normal; do functions[$f]=\"print -rl -- "
      "$f \\\"\\$@\\\" \\$words\"; "
      "done; "
      "complete() { source " CONCH_SOURCE_DIR "/src/cli/completion/_conch }; words=(" +
      words + "); CURRENT=" + std::to_string(current) + "; complete'");
}

TEST(CliDocs, ZshCompletesEachOptionOfEachCommand) {
  if (zsh_completes("conch", 2).empty()) GTEST_SKIP() << "there is no zsh";
  EXPECT_TRUE(zsh_completes("conch", 2).starts_with("_describe\ncommand\nsubcommands\n"));
  EXPECT_EQ(zsh_completes("conch run a --wait 5m -- make te", 8), "_normal\nmake\nte\n");
  for (command_entry const& command : commands()) {
    std::string const offered = zsh_completes("conch " + std::string{command.name} + " x", 3);
    EXPECT_TRUE(offered.starts_with("_arguments\n")) << offered;
    for (option_entry const& one : options()) {
      std::regex const specification{"(^|\n)(\\([^)\n]*\\))?--" + std::string{one.name} + "\\["};
      EXPECT_EQ(std::regex_search(offered, specification), one.commands.has(command.id))
          << command.name << " --" << one.name << '\n'
          << offered;
    }
  }
}

}  // namespace
}  // namespace conch::cli
