// The parts of the large classes (docs/design): each uses only those before it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

/// The table of a page that begins with such a line.
std::string table_of(std::string const& page, std::string const& first_line) {
  auto const begin = page.find(first_line);
  return begin == std::string::npos ? "" : page.substr(begin, page.find("\n\n", begin) - begin);
}

/// As the table has them, in its order.
std::vector<part> parts_of(std::string const& table) {
  std::vector<part> all;
  static std::regex const row{R"(\| `(\w+)` \|[^|\n]*\|([^|\n]*)\|)"}, name{R"(`(\w+)`)"};
  for (std::sregex_iterator at{table.begin(), table.end(), row}, end; at != end; ++at) {
    part one{(*at)[1], {}};
    std::string const uses = (*at)[2];
    for (std::sregex_iterator use{uses.begin(), uses.end(), name}; use != end; ++use) one.uses.insert((*use)[1]);
    all.push_back(std::move(one));
  }
  return all;
}

/// The parts that a text includes, but for `own`.
std::set<std::string> includes_of(std::string const& source, std::string const& folder, std::string const& own) {
  std::set<std::string> all;
  std::regex const include{"#include \"" + folder + R"((\w+)\.hpp")"};
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

/// A class that is made of parts.
struct composed {
  std::string page;
  std::string folder;
  bool all_files;  // of the folder are parts

  std::vector<part> shown() const {
    return parts_of(table_of(text_of(fs::path{CONCH_SOURCE_DIR} / "docs/design" / page), "| part |"));
  }
  std::string source_of(std::string const& name) const {
    std::string text;
    for (char const* const ending : {".hpp", ".cpp"}) {
      fs::path const file = fs::path{CONCH_SOURCE_DIR} / "src" / (folder + name + ending);
      if (fs::exists(file)) text += text_of(file);
    }
    return text;
  }
};

std::vector<composed> const& all_composed() {
  static std::vector<composed> const all{{"server.md", "protocol/server/", true},
                                         {"cohort.md", "engine/", false},
                                         {"quorum.md", "quorum/", false},
                                         {"queue.md", "servers/zookeeper/queue/", true}};
  return all;
}

TEST(Parts, UseOnlyThoseBeforeThem) {
  for (composed const& whole : all_composed()) {
    EXPECT_GT(whole.shown().size(), 5u) << whole.page;
    EXPECT_EQ(wrong_order(whole.shown()), "") << whole.page;
  }
}

TEST(Parts, IncludeWhatThePageShows) {
  for (composed const& whole : all_composed()) {
    std::vector<part> const shown = whole.shown();
    std::set<std::string> names;
    for (part const& one : shown) EXPECT_TRUE(names.insert(one.name).second) << one.name << " is there twice";
    for (part const& one : shown) {
      std::string const source = whole.source_of(one.name);
      EXPECT_NE(source, "") << whole.page << " shows " << one.name << ", of which there is no file";
      std::set<std::string> used;
      for (std::string const& use : includes_of(source, whole.folder, one.name)) {
        if (names.contains(use)) used.insert(use);
      }
      EXPECT_EQ(used, one.uses) << whole.page << ": " << one.name;
    }
    if (!whole.all_files) continue;
    for (auto const& file : fs::directory_iterator{fs::path{CONCH_SOURCE_DIR} / "src" / whole.folder}) {
      EXPECT_TRUE(names.contains(file.path().stem())) << file.path() << " is not on " << whole.page;
    }
  }
}

TEST(Parts, TellAPartThatUsesALaterOne) {
  EXPECT_EQ(wrong_order(parts_of("| `a` | first | |\n| `b` | then | `a`, `c` |\n| `c` | last | |\n")),
            "b uses c, which is not before it");
  EXPECT_EQ(wrong_order(parts_of("| `a` | first | |\n| `b` | then | `a` |\n")), "");
  EXPECT_EQ(includes_of("#include \"room/a.hpp\"\n#include \"room/b.hpp\"\n", "room/", "a"),
            std::set<std::string>{"b"});
}

}  // namespace
}  // namespace conch
