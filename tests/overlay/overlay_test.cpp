// What the generator makes of an entry, and what it refuses.
#include "overlay/overlay.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace conch::overlay {
namespace {

namespace fs = std::filesystem;

constexpr char const* source = R"(#include <algorithm>

namespace n {

int least(int a, int b) {
  if (a < b) return a;  // the smaller one
  return b;
}

int sum(int const* all, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i) total += all[i];
  log(total);
  return total;
}

void reset(state& s) {
  s.a = 0;
  s.b = s.ready &&
        s.count > 0;
}

}  // namespace n
)";

std::string with(std::string const& entry) {
  return with_faults(source, read_faults("x src/n.cpp\n" + entry, "n.faults"), "/tree/src/n.cpp");
}

/// The first error.
std::string wrong(std::string const& entry) {
  try {
    with(entry);
  } catch (errors const& e) {
    return e.lines.at(0);
  }
  return "nothing is wrong";
}

/// The line with this number, as the compiler counts.
std::string line(std::string const& text, int number) {
  std::size_t at = text.find("#line 1 ");
  for (int i = 0; i < number; ++i) at = text.find('\n', at) + 1;
  return text.substr(at, text.find('\n', at) - at);
}

TEST(Overlay, PutsAnExpressionBesideTheOther) {
  EXPECT_EQ(line(with("- a < b\n+ a > b\n"), 6),
            "  if ((CONCH_FAULT(x) ? (a > b) : (a < b))) return a;  // the smaller one");
}

TEST(Overlay, FindsATextOverSeveralLinesAndLeavesTheLinesTheirNumbers) {
  std::string const text = with("- s.ready && s.count > 0\n+ false\n");
  EXPECT_EQ(line(text, 19), "  s.b = (CONCH_FAULT(x) ? (false) : (s.ready &&");
  EXPECT_EQ(line(text, 20), "        s.count > 0));");
  EXPECT_EQ(line(text, 23), "}  // namespace n");
}

TEST(Overlay, PutsStatementsBesideTheOthers) {
  EXPECT_EQ(line(with("- return b;\n+ ++b;\n+ return b;\n"), 7), "  if (CONCH_FAULT(x)) { ++b; } return b;");
  EXPECT_EQ(line(with("- log(total);\n"), 13), "  { if (!CONCH_FAULT(x)) { log(total); } }");
  EXPECT_EQ(line(with("- log(total);\n+ warn(total);\n"), 13),
            "  { if (CONCH_FAULT(x)) { warn(total); } else { log(total); } }");
  EXPECT_EQ(line(with("- log(total);\n+ log(total);\n+ total = 0;\n"), 13),
            "  log(total); if (CONCH_FAULT(x)) { total = 0; }");
}

// `if (a < b) return a;` must not become `if (a < b) if (x) ...`, to which an else behind it would belong.
TEST(Overlay, AddsToTheBodyOfAnIfInBraces) {
  EXPECT_EQ(line(with("- return a;\n+ ++a;\n+ return a;\n"), 6),
            "  if (a < b) { if (CONCH_FAULT(x)) { ++a; return a; } else { return a; } }  // the smaller one");
}

TEST(Overlay, PutsOneTextIntoAnother) {
  std::string const text =
      with("- a < b\n+ a > b\n\nz src/n.cpp\n- a < b\n+ true\n\ny src/n.cpp\n- if (a < b) return a;\n");
  EXPECT_EQ(line(text, 6),
            "  { if (!CONCH_FAULT(y)) { if ((CONCH_FAULT(x) ? (a > b) : ((CONCH_FAULT(z) ? (true) : (a < b))))) return "
            "a; } }  // the smaller one");
}

TEST(Overlay, RefusesTextsThatOverlap) {
  EXPECT_EQ(wrong("- s.a = 0;\n\ny src/n.cpp\n- = 0;\n- s.b\n+ = 1;\n+ s.b\n"),
            "/tree/src/n.cpp: x and y overlap: one text must be part of the other, or apart from it");
}

TEST(Overlay, NamesTheEntryWhoseTextIsNowhere) {
  EXPECT_EQ(wrong("- a <= b\n+ a > b\n"), "n.faults:1: x: its text is nowhere in src/n.cpp: a <= b");
}

TEST(Overlay, NamesTheEntryWhoseTextIsThereTwice) {
  EXPECT_EQ(wrong("- total\n+ 0\n"), "n.faults:1: x: its text is 4 times (lines 11, 12, 13, 14) in src/n.cpp: total");
  EXPECT_EQ(wrong("- count\n+ 0\n"), "n.faults:1: x: its text is 3 times (lines 10, 12, 20) in src/n.cpp: count");
  EXPECT_EQ(wrong("- return\n+ throw\n").substr(0, 43), "n.faults:1: x: its text is 3 times (lines 6");
}

TEST(Overlay, LooksOnlyIntoTheFunctionThatIsNamed) {
  EXPECT_EQ(line(with("@ reset\n- s.count\n+ s.a\n"), 20), "        (CONCH_FAULT(x) ? (s.a) : (s.count)) > 0;");
  EXPECT_EQ(line(with("@ sum\n- i < count\n+ i < 1\n"), 12),
            "  for (int i = 0; (CONCH_FAULT(x) ? (i < 1) : (i < count)); ++i) total += all[i];");
  EXPECT_EQ(wrong("@ least\n- i < count\n+ i < 1\n"),
            "n.faults:1: x: its text is nowhere in src/n.cpp, least: i < count");
  EXPECT_EQ(wrong("@ greatest\n- a < b\n+ true\n"), "n.faults:1: x: greatest is nowhere in src/n.cpp");
  EXPECT_EQ(wrong("@ int\n- a < b\n+ true\n").substr(0, 27), "n.faults:1: x: int is 8 tim");
}

TEST(Overlay, RefusesWhatIsNeitherAnExpressionNorStatements) {
  EXPECT_EQ(wrong("- a < b\n"),
            "n.faults:1: x: its text is not a statement, so its replacement cannot be empty: a < b");
  EXPECT_EQ(wrong("- a < b\n+ return a;\n"), "n.faults:1: x: its text is an expression, its replacement is not: a < b");
  EXPECT_EQ(wrong("- if (a < b\n+ if (true\n"), "n.faults:1: x: its brackets are not closed: if (a < b");
  EXPECT_EQ(wrong("+ true\n"), "n.faults:1: x: has no text");
}

TEST(Overlay, ReadsEntriesAndSaysWhereOneIsNone) {
  auto const all = read_faults(
      "# a comment\n\nno_drift src/a.cpp\n- from + lease -\n- drift\n+ from\n\nalways src/b.hpp\n@ f\n- 1\n+ 2\n",
      "some.faults");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "no_drift");
  EXPECT_EQ(all[0].file, "src/a.cpp");
  EXPECT_EQ(all[0].text, "from + lease -\ndrift");
  EXPECT_EQ(all[0].replacement, "from");
  EXPECT_EQ(all[1].function, "f");
  EXPECT_EQ(all[1].where, "some.faults:8");
  for (char const* const bad : {"- a\n", "NoDrift src/a.cpp\n", "none src/a.cpp\n", "x\n",
                                "x src/a.cpp\n- a\n+ b\n- c\n", "x src/a.cpp\n- a\n@ f\n"})
    EXPECT_THROW(read_faults(bad, "some.faults"), errors) << bad;
}

TEST(Overlay, ReplacesAlwaysWhatTheSimulatorAlwaysNeeds) {
  auto const all = read_faults("always src/n.cpp\n- int total = 0;\n+ long total = 0;\n", "n.faults");
  EXPECT_EQ(line(with_faults(source, all, "n.cpp"), 11), "  long total = 0;");
  EXPECT_EQ(names_header(all).find("always"), std::string::npos);
}

TEST(Overlay, DeclaresEachNameOnce) {
  std::string const header = names_header(
      read_faults("a src/n.cpp\n- 1\n+ 2\n\nb src/n.cpp\n- 1\n+ 2\n\na src/m.cpp\n- 1\n+ 2\n", "n.faults"));
  EXPECT_NE(header.find("  none,\n  a,\n  b,\n};"), std::string::npos) << header;
}

// ---- import ---------------------------------------------------------------------------------------

std::string imported(std::string const& diff) {
  try {
    return written(
        fault_of_diff("x", "--- a/src/n.cpp\n+++ b/src/n.cpp\n" + diff, [](std::string const&) { return source; }));
  } catch (errors const& e) {
    return e.lines.at(0);
  }
}

TEST(OverlayImport, TakesTheOperandThatADiffChanges) {
  EXPECT_EQ(imported("@@ -6,1 +6,1 @@\n-  if (a < b) return a;  // the smaller one\n+  if (a <= b) return a;  // the "
                     "smaller one\n"),
            "x src/n.cpp\n- a < b\n+ a <= b\n");
  EXPECT_EQ(imported("@@ -18,3 +18,3 @@\n   s.a = 0;\n-  s.b = s.ready &&\n+  s.b = true &&\n         s.count > 0;\n"),
            "x src/n.cpp\n- s.ready\n+ true\n");
}

TEST(OverlayImport, TakesStatementsThatADiffRemovesOrAdds) {
  EXPECT_EQ(imported("@@ -13,1 +13,0 @@\n-  log(total);\n"), "x src/n.cpp\n- log(total);\n");
  EXPECT_EQ(imported("@@ -13,0 +13,1 @@\n+  total = 0;\n"),
            "x src/n.cpp\n- log(total);\n+ total = 0;\n+ log(total);\n");
}

TEST(OverlayImport, NamesTheFunctionWhereTheFileHasTheSameElsewhere) {
  std::string const twice = "void f() {\n  go(1);\n}\n\nvoid g() {\n  go(1);\n}\n";
  EXPECT_EQ(written(fault_of_diff("x", "--- a/n.cpp\n+++ b/n.cpp\n@@ -6,1 +6,0 @@\n-  go(1);\n",
                                  [&](std::string const&) { return twice; })),
            "x n.cpp\n@ g\n- go(1);\n");
}

TEST(OverlayImport, RefusesADiffThatChangesSeveralPlacesOrDoesNotFit) {
  EXPECT_EQ(imported("@@ -6,2 +6,2 @@\n-  if (a < b) return a;  // the smaller one\n+  return a;\n   return b;\n@@ "
                     "-13,1 +13,0 @@\n-  log(total);\n"),
            "the diff changes more than one place");
  EXPECT_EQ(imported("@@ -7,1 +7,0 @@\n-  log(total);\n"), "the diff does not fit src/n.cpp");
  EXPECT_EQ(imported(""), "this is not a unified diff that changes a line");
}

// ---- the tree -------------------------------------------------------------------------------------

std::string content_of(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

TEST(OverlayOfTheTree, HasNoTraceInWhatUsersGet) {
  std::size_t seen = 0;
  for (char const* const folder : {"src", "include", "lua", "sql"}) {
    for (auto const& one : fs::recursive_directory_iterator{fs::path{CONCH_SOURCE_DIR} / folder}) {
      if (!one.is_regular_file()) continue;
      ++seen;
      std::string const text = content_of(one.path());
      for (char const* const word : {"mutant", "MUTANT", "CONCH_FAULT", "conch::sim::", "conch::sim {"})
        EXPECT_EQ(text.find(word), std::string::npos) << one.path() << ": " << word;
    }
  }
  EXPECT_GT(seen, 200u);
}

TEST(OverlayOfTheTree, HasNoFaultThatNobodyLooksFor) {
  std::string all;
  for (auto const& one : fs::recursive_directory_iterator{fs::path{CONCH_SOURCE_DIR} / "tests/sim"}) {
    if (one.path().extension() == ".cpp") all += content_of(one.path());
  }
  for (auto const& one : fs::directory_iterator{fs::path{CONCH_SOURCE_DIR} / "tests/sim/mutants"}) {
    if (one.path().extension() != ".faults") continue;
    for (fault const& f : read_faults(content_of(one.path()), one.path().filename().string())) {
      auto const is_used = [&](char behind) {
        return all.find("engine_mutant::" + f.name + behind) != std::string::npos;
      };
      bool const found = is_used(',') || is_used('}') || is_used(';');  // ;: in a test of its own
      EXPECT_TRUE(found || f.name == "always") << f.where << ": " << f.name;
    }
  }
}

TEST(OverlayOfTheTree, IsWrittenAsTheImportWritesIt) {
  std::size_t seen = 0;
  for (auto const& one : fs::directory_iterator{fs::path{CONCH_SOURCE_DIR} / "tests/sim/mutants"}) {
    if (one.path().extension() != ".faults") continue;
    std::string const text = content_of(one.path());
    for (fault const& f : read_faults(text, one.path().filename().string())) {
      ++seen;
      EXPECT_NE(text.find("\n" + written(f)), std::string::npos) << f.where << ": " << f.name;
    }
  }
  EXPECT_GT(seen, 250u);
}

}  // namespace
}  // namespace conch::overlay
