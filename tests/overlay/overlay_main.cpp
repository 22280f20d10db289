// conch-overlay: see usage.
#include "overlay/overlay.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace conch::overlay;

namespace {

constexpr char usage[] =
    R"(conch-overlay TREE TO ROOM... -- FAULTS...   copies src/ROOM of TREE to TO/src, with the faults in
conch-overlay --import TREE NAME <DIFF       prints an entry for a unified diff that changes one place
)";

std::string content_of(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in) throw errors{{"cannot read " + file.string()}};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// What did not change keeps its time, and is not compiled again.
void write(fs::path const& file, std::string const& content) {
  if (fs::exists(file) && content_of(file) == content) return;
  fs::create_directories(file.parent_path());
  std::ofstream out{file, std::ios::binary};
  out << content;
  if (!out.flush()) throw errors{{"cannot write " + file.string()}};
}

void make(fs::path const& tree, fs::path const& to, std::vector<std::string> const& rooms,
          std::vector<fs::path> const& lists) {
  errors wrong;
  auto const noting = [&](auto const& what) {
    try {
      what();
    } catch (errors const& e) {
      wrong.lines.insert(wrong.lines.end(), e.lines.begin(), e.lines.end());
    }
  };
  std::vector<fault> all;
  for (fs::path const& list : lists) {
    noting([&] {
      auto const some = read_faults(content_of(list), fs::relative(list, tree).string());
      all.insert(all.end(), some.begin(), some.end());
    });
  }
  std::map<std::string, std::vector<fault>> of;
  for (fault const& f : all) of[f.file].push_back(f);

  std::set<fs::path> made{to / "engine_mutants.hpp"};
  for (std::string const& room : rooms) {
    for (auto const& one : fs::recursive_directory_iterator{tree / "src" / room}) {
      if (one.path().extension() != ".hpp" && one.path().extension() != ".cpp") continue;
      std::string const name = fs::relative(one.path(), tree).generic_string();
      auto const faults = of.extract(name);
      noting([&] {
        write(to / name, with_faults(content_of(one.path()), faults.empty() ? std::vector<fault>{} : faults.mapped(),
                                     one.path().string()));
      });
      made.insert(to / name);
    }
  }
  for (auto const& [file, faults] : of) {
    for (fault const& f : faults)
      wrong.lines.push_back(f.where + ": " + f.name + ": the simulator has no file " + file);
  }
  noting([&] { write(to / "engine_mutants.hpp", names_header(all)); });
  if (!wrong.lines.empty()) throw wrong;
  // A header that the tree has no more must not be found here.
  std::vector<fs::path> old;
  for (auto const& one : fs::recursive_directory_iterator{to}) {
    if (one.is_regular_file() && !made.contains(one.path())) old.push_back(one.path());
  }
  for (fs::path const& one : old) fs::remove(one);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "--import") {
      std::string const diff{std::istreambuf_iterator<char>{std::cin}, {}};
      std::cout << written(fault_of_diff(
          words[2], diff, [&](std::string const& file) { return content_of(fs::path{words[1]} / file); }));
      return 0;
    }
    std::vector<std::string> rooms;
    std::vector<fs::path> lists;
    bool behind = false;
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "--") behind = true;
      else if (behind) lists.emplace_back(words[i]);
      else rooms.push_back(words[i]);
    }
    if (rooms.empty() || !behind) {
      std::fputs(usage, stderr);
      return 2;
    }
    make(words[0], words[1], rooms, lists);
    return 0;
  } catch (errors const& e) {
    for (std::string const& line : e.lines) std::fprintf(stderr, "%s\n", line.c_str());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "conch-overlay: %s\n", e.what());
  }
  return 1;
}
