// docs/design/states.md against the tables of the code.

#include <base/states.hpp>
#include <engine/backend.hpp>
#include <engine/cohort.hpp>
#include <net/lifecycle.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch::engine {
namespace {

using names = std::vector<std::string>;
using steps = std::set<std::pair<std::string, std::string>>;

/// The words of `cell` that are among `all`, in their order.
names in(std::string const& cell, names const& all) {
  names found;
  std::regex const word{"[a-z_]+"};
  for (std::sregex_iterator it{cell.begin(), cell.end(), word}, end; it != end; ++it)
    for (std::string const& one : all)
      if (one == it->str()) found.push_back(one);
  return found;
}

struct table {
  std::set<std::string> described;  // rows of two cells
  steps taken;                      // by rows of four: "idle, then asking" are two steps, "the same" is none
};

std::string section(std::string const& heading) {
  std::ifstream file{CONCH_SOURCE_DIR "/docs/design/states.md"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  text.erase(0, text.find("\n## " + heading) + 1);
  text.erase(std::min(text.find("\n## "), text.size()));
  return text;
}

table read(std::string const& heading, names const& all) {
  std::string const text = section(heading);
  table t;
  std::regex const row{R"(\n\| ([^|]+) \| ([^|]+) \|(?: ([^|]+) \| [^|]+ \|)?(?=\n))"};
  for (std::sregex_iterator it{text.begin(), text.end(), row}, end; it != end; ++it) {
    names const from = in((*it)[1], all);
    if (!(*it)[3].matched) t.described.insert(from.begin(), from.end());
    for (std::string at : from)
      for (std::string const& next : in((*it)[3], all)) {
        if (at != next) t.taken.emplace(at, next);
        at = next;
      }
  }
  return t;
}

template <class State, std::size_t N>
steps allowed(state_table<State, N> const& code, names const& all) {
  EXPECT_EQ(all.size(), N);
  steps found;
  for (std::size_t from = 0; from < all.size(); ++from)
    for (std::size_t to = 0; to < all.size(); ++to)
      if (from != to && code.allows(static_cast<State>(from), static_cast<State>(to)))
        found.emplace(all[from], all[to]);
  return found;
}

TEST(StatesPage, HasTheStatesOfAPlaceAndItsTransitions) {
  names const all{"idle", "asking", "in_line", "leaving", "owned"};
  table const page = read("States of a place", all);
  EXPECT_EQ(page.described, std::set<std::string>(all.begin(), all.end()));
  EXPECT_EQ(page.taken, allowed(place_states, all));
}

TEST(StatesPage, HasTheStatesOfAConnectionAndItsTransitions) {
  names const all{"idle",        "locating", "asking", "resolving", "connecting",
                  "handshaking", "greeting", "up",     "pausing",   "closed"};
  std::string const text = section("States of a connection");
  table page;
  std::regex const row{R"(\n\| ([a-z]+) \| [^|]+ \|([^|]*)\|(?=\n))"};
  for (std::sregex_iterator it{text.begin(), text.end(), row}, end; it != end; ++it) {
    if ((*it)[1] == "state") continue;
    page.described.insert((*it)[1]);
    for (std::string const& next : in((*it)[2], all)) page.taken.emplace((*it)[1], next);
  }
  EXPECT_EQ(page.described, std::set<std::string>(all.begin(), all.end()));
  EXPECT_EQ(page.taken, allowed(net::connection_states, all));
}

TEST(StatesPage, HasThePhasesOfAnAcquisitionAndItsTransitions) {
  names const all{"fresh", "waiting", "staying", "leaving", "holding", "detaching", "lost", "releasing", "over"};
  table const page = read("Phases of an acquisition", all);
  EXPECT_EQ(page.described, std::set<std::string>(all.begin(), all.end()));
  EXPECT_EQ(page.taken, allowed(acquisition_phases, all));
}

}  // namespace
}  // namespace conch::engine
