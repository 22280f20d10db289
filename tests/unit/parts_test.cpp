// The parts of protocol::server (docs/design/server.md): each uses only those before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace conch {
namespace {

namespace fs = std::filesystem;

std::string text_of(fs::path const& file) {
  std::ifstream in{file};
  EXPECT_TRUE(in) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct part {
  std::string name;
  std::set<std::string> uses;

  bool operator==(part const&) const = default;
};

/// As the table of the page has them, in its order.
std::vector<part> parts_of(std::string const& page) {
  std::vector<part> all;
  static std::regex const row{R"(\| `(\w+)` \|[^|\n]*\|([^|\n]*)\|)"}, name{R"(`(\w+)`)"};
  for (std::sregex_iterator at{page.begin(), page.end(), row}, end; at != end; ++at) {
    part one{(*at)[1], {}};
    std::string const uses = (*at)[2];
    for (std::sregex_iterator use{uses.begin(), uses.end(), name}; use != end; ++use) one.uses.insert((*use)[1]);
    all.push_back(std::move(one));
  }
  return all;
}

/// The parts that a text includes, but for `own`.
std::set<std::string> includes_of(std::string const& source, std::string const& own) {
  std::set<std::string> all;
  static std::regex const include{R"(#include "protocol/server/(\w+)\.hpp")"};
  for (std::sregex_iterator at{source.begin(), source.end(), include}, end; at != end; ++at) {
    if ((*at)[1] != own) all.insert((*at)[1]);
  }
  return all;
}

std::string wrong_order(std::vector<part> const& parts) {
  std::set<std::string> before;
  for (part const& one : parts) {
    for (std::string const& use : one.uses) {
      if (!before.contains(use)) return one.name + " uses " + use + ", which is not before it";
    }
    before.insert(one.name);
  }
  return {};
}

std::vector<part> const& shown() {
  static std::vector<part> const all = parts_of(text_of(fs::path{CONCH_SOURCE_DIR} / "docs/design/server.md"));
  return all;
}

TEST(Parts, UseOnlyThoseBeforeThem) {
  ASSERT_GT(shown().size(), 20u);
  EXPECT_EQ(wrong_order(shown()), "");
}

TEST(Parts, IncludeWhatThePageShows) {
  std::map<std::string, std::set<std::string>> included;
  for (auto const& file : fs::directory_iterator{fs::path{CONCH_SOURCE_DIR} / "src/protocol/server"}) {
    std::string const name = file.path().stem();
    included[name].merge(includes_of(text_of(file.path()), name));
  }
  std::vector<std::string> names;
  for (part const& one : shown()) {
    EXPECT_EQ(included[one.name], one.uses) << one.name;
    names.push_back(one.name);
  }
  for (auto const& [name, uses] : included) EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name << " is not on the page";
}

TEST(Parts, TellAPartThatUsesALaterOne) {
  EXPECT_EQ(wrong_order(parts_of("| `a` | first | |\n| `b` | then | `a`, `c` |\n| `c` | last | |\n")), "b uses c, which is not before it");
  EXPECT_EQ(wrong_order(parts_of("| `a` | first | |\n| `b` | then | `a` |\n")), "");
  EXPECT_EQ(includes_of("#include \"protocol/server/a.hpp\"\n#include \"protocol/server/b.hpp\"\n", "a"), std::set<std::string>{"b"});
}

}  // namespace
}  // namespace conch
