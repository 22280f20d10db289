// Which room of src/ may include which. docs/design/rooms.md shows the same table.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace conch {
namespace {

namespace fs = std::filesystem;

struct room {
  std::string name;
  std::vector<std::string> uses;  // whole rooms, or single headers of one
};

std::vector<room> const& rooms() {
  static std::vector<room> const table{
      {"base", {}},
      {"engine", {"base"}},
      {"protocol", {"base", "engine"}},
      {"quorum", {"base", "engine", "protocol"}},
      {"resp", {}},
      {"net", {"base", "protocol/wire.hpp", "protocol/transport.hpp"}},
      {"servers/redis",
       {"base", "resp", "net", "servers", "protocol/gathering.hpp", "protocol/shortest_lease.hpp", "protocol/wire.hpp",
        "protocol/transport.hpp", "protocol/shards.hpp", "protocol/sharded.hpp", "protocol/synced_server.hpp"}},
      {"rules", {"protocol/wire.hpp", "protocol/replies.hpp"}},
      {"servers/memory",
       {"base", "rules", "servers", "protocol/wire.hpp", "protocol/replies.hpp", "protocol/transport.hpp"}},
      {"servers/zookeeper",
       {"base", "engine", "net", "protocol/wire.hpp", "protocol/drift.hpp", "protocol/request_window.hpp", "servers",
        "conch/named_lock.hpp"}},
      {"servers",
       {"base", "engine/backend.hpp", "protocol/server.hpp", "protocol/transport.hpp", "conch/named_lock.hpp"}},
      {"registry",
       {"base", "quorum", "servers", "servers/redis/scheme.hpp", "servers/memory/scheme.hpp",
        "servers/zookeeper/scheme.hpp"}},
      {"servers/postgresql",
       {"base", "net/shell.hpp", "net/lifecycle.hpp", "net/role.hpp", "net/outbox.hpp", "net/name_lookup.hpp",
        "protocol/shortest_lease.hpp", "protocol/wire.hpp", "protocol/transport.hpp", "registry/registry.hpp",
        "servers"}},
      {"servers/simulated",
       {"base", "engine/backend.hpp", "protocol/replies.hpp", "protocol/shortest_lease.hpp", "protocol/wire.hpp",
        "protocol/transport.hpp", "servers/memory/store.hpp", "servers/zookeeper/messages.hpp",
        "servers/zookeeper/names.hpp", "servers/zookeeper/order.hpp", "servers/zookeeper/scheme.hpp",
        "servers/zookeeper/wire.hpp", "servers", "registry/registry.hpp"}},
      {"testing", {"base", "servers/simulated", "conch/"}},
      {"client",
       {"base", "engine", "protocol/wire.hpp", "protocol/transport.hpp", "servers/scheme.hpp",
        "registry/registry.hpp"}},
      {"cli",
       {"conch/", "base/identity.hpp", "base/introduction.hpp", "base/readable.hpp", "base/log_line.hpp",
        "base/duration_text.hpp", "base/votes.hpp",
        "servers"}},  // public headers, as every user, and the port to the servers
  };
  return table;
}

/// Files that neither include Asio nor reach it by what they include: they can be simulated.
std::vector<std::string> const without_io{"base/address_choice",
                                          "base/connection_log",
                                          "base/endpoint",
                                          "base/url_text",
                                          "engine/",
                                          "protocol/",
                                          "quorum/",
                                          "resp/",
                                          "net/lifecycle",
                                          "net/outbox",
                                          "net/role",
                                          "servers/redis/codec",
                                          "servers/redis/greeting",
                                          "servers/redis/faults",
                                          "servers/redis/scripts",
                                          "servers/redis/connection_fsm",
                                          "servers/redis/dialogue",
                                          "servers/redis/locator",
                                          "servers/redis/question_talk",
                                          "servers/redis/reauthentication",
                                          "servers/redis/shared_scripts",
                                          "servers/redis/slot_subscriptions",
                                          "servers/redis/topology/",
                                          "servers/redis/url",
                                          "rules/",
                                          "servers/memory/store",
                                          "servers/zookeeper/connection_fsm",
                                          "servers/zookeeper/faults",
                                          "servers/zookeeper/jute",
                                          "servers/zookeeper/messages",
                                          "servers/zookeeper/names",
                                          "servers/zookeeper/order",
                                          "servers/zookeeper/queue",
                                          "servers/zookeeper/session",
                                          "servers/zookeeper/url",
                                          "servers/zookeeper/watches",
                                          "servers/zookeeper/wire",
                                          "servers/simulated/node_tree",
                                          "servers/postgresql/codec",
                                          "servers/postgresql/connection_fsm",
                                          "servers/postgresql/faults",
                                          "servers/postgresql/schema",
                                          "servers/postgresql/url",
                                          "client/close_rule",
                                          "client/turn_queue",
                                          "cli/run_plan"};

/// Public headers that are not the client's.
std::map<std::string, std::string, std::less<>> const public_headers{
    {"conch/clock.hpp", "base"},      {"conch/config.hpp", "base"},
    {"conch/error.hpp", "base"},      {"conch/log.hpp", "base"},
    {"conch/observer.hpp", "base"},   {"conch/stats.hpp", "base"},
    {"conch/version.hpp", "base"},    {"conch/guard.hpp", "base"},
    {"conch/detail/api.hpp", "base"}, {"conch/detail/multi_plan.hpp", "engine"}};

/// The namespaces of a room, where they are not conch::ROOM.
std::map<std::string, std::set<std::string>> const other_namespaces{
    {"base", {"conch", "conch::detail", "conch::url"}},
    {"engine", {"conch::engine", "conch::detail"}},  // multi_plan is called by a public header
    {"client", {"conch", "conch::detail", "conch::blocking"}},
    {"protocol", {"conch::protocol", "conch"}},  // transport.hpp: what every kind of server implements
    {"cli", {"conch::cli", "conch::cli::texts"}},
    {"registry", {"conch::registry", "conch::servers"}},
    {"servers/redis", {"conch::redis", "conch"}},  // guard.cpp: a public class
};

using source_files = std::map<std::string, std::vector<std::string>>;  // what each file includes

std::vector<std::string> includes_of(std::string const& text) {
  static std::regex const line{R"(^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">])", std::regex::multiline};
  std::vector<std::string> found;
  for (std::sregex_iterator it{text.begin(), text.end(), line}, end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

std::string text_of(fs::path const& file) {
  std::ifstream in{file};
  EXPECT_TRUE(in) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

source_files read(fs::path const& root) {
  source_files all;
  for (auto const& entry : fs::recursive_directory_iterator{root}) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    all[entry.path().lexically_relative(root).generic_string()] = includes_of(text_of(entry.path()));
  }
  return all;
}

source_files const& sources() {
  static source_files const all = read(fs::path{CONCH_SOURCE_DIR} / "src");
  return all;
}

source_files const& headers() {
  static source_files const all = read(fs::path{CONCH_SOURCE_DIR} / "include");
  return all;
}

/// The room of a header or a source; empty: it is in none, as what belongs to the system.
std::string room_of(std::string_view path) {
  if (auto const known = public_headers.find(path); known != public_headers.end()) return known->second;
  auto slash = path.find('/');
  if (path.starts_with("servers/") && path.find('/', slash + 1) != std::string_view::npos)
    slash = path.find('/', slash + 1);  // each of those is a room
  std::string const first{slash == std::string_view::npos ? "" : path.substr(0, slash)};
  if (first == "conch") return "client";
  bool const is_room = std::any_of(rooms().begin(), rooms().end(), [&](room const& r) { return r.name == first; });
  return is_room ? first : "";
}

/// The entry of the table by which `of` includes `path`; none: it must not.
std::string const* allowed_by(room const& of, std::string const& path) {
  std::string const its = room_of(path);
  auto const found = std::find_if(of.uses.begin(), of.uses.end(), [&](std::string const& use) {
    bool const is_public = use == "conch/" && path.starts_with(use) && !path.starts_with("conch/detail/");
    return is_public || use == its || use == path;
  });
  return found == of.uses.end() ? nullptr : &*found;
}

std::vector<std::string> wrong_arrows(source_files const& files) {
  std::vector<std::string> wrong;
  for (auto const& [path, included] : files) {
    if (path.find('/') == std::string::npos) continue;  // version.cpp and asio_impl.cpp are of the library as a whole
    std::string const mine = room_of(path);
    auto const of = std::find_if(rooms().begin(), rooms().end(), [&](room const& r) { return r.name == mine; });
    if (of == rooms().end()) {
      wrong.push_back(path + " is in no room");
      continue;
    }
    for (std::string const& header : included) {
      std::string const its = room_of(header);
      bool const of_tests = header.starts_with("sim/") || header.starts_with("tests/") || header.starts_with("../");
      if (of_tests || (!its.empty() && its != mine && allowed_by(*of, header) == nullptr))
        wrong.push_back(path + " -> " + header);
    }
  }
  return wrong;
}

/// The namespaces in which a file says more than that a class exists.
std::set<std::string> namespaces_of(std::string text) {
  static std::regex const declared{R"(\nnamespace conch[\w:]* \{\n((class|struct|namespace) [\w ]+[;{]\n|\}\n)+\}.*)"};
  static std::regex const opened{R"(\nnamespace (conch[\w:]*) \{)"};
  text = std::regex_replace(text, declared, "");
  std::set<std::string> found;
  for (std::sregex_iterator it{text.begin(), text.end(), opened}, end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

std::set<std::string> namespaces_of_room(std::string const& room) {
  auto const other = other_namespaces.find(room);
  if (other != other_namespaces.end()) return other->second;
  return {"conch::" + room.substr(room.rfind('/') + 1)};
}

bool is_io(std::string const& header) {
  return header.starts_with("boost/asio") || header.starts_with("sys/") || header == "unistd.h";
}

/// How `path` comes to Asio; empty: not at all.
std::string way_to_io(source_files const& files, source_files const& api, std::string const& path,
                      std::set<std::string>& seen) {
  if (!seen.insert(path).second) return {};
  source_files const& in = files.contains(path) ? files : api;
  auto const its = in.find(path);
  if (its == in.end()) return {};
  for (std::string const& header : its->second) {
    if (is_io(header)) return path + " -> " + header;
    if (std::string const way = way_to_io(files, api, header, seen); !way.empty()) return path + " -> " + way;
  }
  return {};
}

std::string joined(std::vector<std::string> const& words) {
  std::string all;
  for (std::string const& word : words) all.append(all.empty() ? "" : "\n").append(word);
  return all;
}

TEST(Rooms, IncludeWhatTheTableAllowsAndNothingElse) {
  ASSERT_GT(sources().size(), 50u) << "this test looks in the wrong place";
  EXPECT_EQ(joined(wrong_arrows(sources())), "");
}

/// Lines of code, not of comments, that name something in the room of one kind of server.
std::vector<std::string> named_rooms(std::string const& text) {
  static std::regex const name{R"(\b(redis|zookeeper|postgresql|memory)::\w+)"};
  std::vector<std::string> found;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    std::string const code = line.substr(0, line.find("//"));
    if (std::regex_search(code, m, name)) found.push_back(m[0]);
  }
  return found;
}

TEST(Rooms, OnlyThoseOfTheServersAndTheRegistryNameAKindOfServer) {
  for (auto const& [path, ignored] : sources()) {
    std::string const mine = room_of(path);
    if (mine.empty() || mine.starts_with("servers/") || mine == "registry") continue;
    EXPECT_EQ(joined(named_rooms(text_of(fs::path{CONCH_SOURCE_DIR} / "src" / path))), "") << path;
  }
  EXPECT_EQ(joined(named_rooms(
                "// redis::address\n  redis::address a;  // zookeeper::x\nauto t = \"memory\";\nmemory::store s;\n")),
            "redis::address\nmemory::store");
}

TEST(Rooms, HaveNoArrowInTheTableThatNoFileNeeds) {
  for (room const& of : rooms()) {
    for (std::string const& use : of.uses) {
      bool const needed = std::any_of(sources().begin(), sources().end(), [&](auto const& file) {
        if (room_of(file.first) != of.name) return false;
        return std::any_of(file.second.begin(), file.second.end(), [&](std::string const& header) {
          std::string const* const by = allowed_by(of, header);
          return by != nullptr && *by == use;
        });
      });
      EXPECT_TRUE(needed) << of.name << " -> " << use;
    }
  }
}

TEST(Rooms, ThatAreSimulatedDoNotReachAsio) {
  std::size_t looked_at = 0;
  for (auto const& [path, included] : sources()) {
    bool const pure = std::any_of(without_io.begin(), without_io.end(),
                                  [&](std::string const& begin) { return path.starts_with(begin); });
    if (!pure) continue;
    ++looked_at;
    std::set<std::string> seen;
    EXPECT_EQ(way_to_io(sources(), headers(), path, seen), "");
  }
  EXPECT_GT(looked_at, 30u);
}

TEST(Rooms, AreShownInTheDocumentAsTheyAreHere) {
  std::string const page = text_of(fs::path{CONCH_SOURCE_DIR} / "docs/design/rooms.md");
  for (room const& r : rooms()) {
    std::string uses;
    for (std::string const& use : r.uses) uses += (uses.empty() ? "`" : ", `") + use + '`';
    std::string const row = "| `" + r.name + "` | " + (uses.empty() ? "nothing" : uses) + " |";
    EXPECT_NE(page.find(row), std::string::npos) << "docs/design/rooms.md lacks the row " << row;
  }
}

// ---- does this test see anything? -----------------------------------------------------------------

TEST(Rooms, HaveTheirNamespaces) {
  std::map<std::string, std::set<std::string>> used;
  for (auto const& [path, included] : sources()) {
    std::string const room = room_of(path);
    if (room.empty()) continue;
    for (std::string const& one : namespaces_of(text_of(fs::path{CONCH_SOURCE_DIR} / "src" / path))) {
      EXPECT_TRUE(namespaces_of_room(room).contains(one)) << path << " is in " << one;
      used[room].insert(one);
    }
  }
  for (room const& r : rooms()) EXPECT_EQ(used[r.name], namespaces_of_room(r.name)) << r.name;
}

TEST(Rooms, TellAForwardDeclarationFromADefinition) {
  EXPECT_EQ(namespaces_of("\nnamespace conch::engine {\nclass backend;\n}\n\nnamespace conch::quorum {\nint x;\n}\n"),
            (std::set<std::string>{"conch::quorum"}));
  EXPECT_EQ(namespaces_of("\nnamespace conch::engine {\nclass backend {};\n}\n"),
            (std::set<std::string>{"conch::engine"}));
}

TEST(Rooms, TellAForbiddenInclude) {
  struct example {
    std::string file, text;
  };
  for (auto const& [file, text] : {
           example{"engine/engine.cpp", "#include \"protocol/wire.hpp\""},
           {"protocol/server.cpp", "#include \"quorum/quorum.hpp\""},
           {"protocol/wire.hpp", "  #  include  \"servers/redis/codec.hpp\"  // why"},
           {"quorum/votes.cpp", "#include \"resp/decoder.hpp\""},
           {"servers/redis/connection.hpp", "#include \"client/core.hpp\""},
           {"servers/redis/connection.cpp", "#include \"protocol/server.hpp\""},
           {"servers/redis/connection.cpp", "#include \"engine/backend.hpp\""},
           {"servers/memory/connection.cpp", "#include \"servers/redis/codec.hpp\""},
           {"servers/memory/store.cpp", "#include <conch/mutex.hpp>"},
           {"client/core.cpp", "#include \"servers/redis/connection.hpp\""},
           {"client/core.hpp", "#include \"quorum/quorum.hpp\""},
           {"base/error.cpp", "#include <conch/detail/multi_plan.hpp>"},
           {"base/turns.hpp", "#include \"sim/mutants/mutants.hpp\""},
           {"resp/decoder.cpp", "#include \"base/list.hpp\""},
           {"servers/zookeeper/queue.cpp", "#include \"protocol/server.hpp\""},
           {"cli/run.cpp", "#include \"base/url_text.hpp\""},
           {"cli/run.cpp", "#include <conch/detail/multi_plan.hpp>"},
           {"client/core.cpp", "#include \"cli/show.hpp\""},
           {"attic/old.cpp", ""},
       }) {
    EXPECT_EQ(wrong_arrows({{file, includes_of("// x\n" + text + "\n")}}).size(), 1u) << file << ": " << text;
  }
  EXPECT_EQ(joined(wrong_arrows(
                {{"servers/redis/connection.cpp",
                  includes_of("#include \"servers/redis/codec.hpp\"\n#include <vector>\n#include <conch/clock.hpp>\n"
                              "#include \"protocol/wire.hpp\"\n// #include \"client/core.hpp\"\n")}})),
            "");
}

/// The pages are not in the packages: readers of a program's texts do not have the tree.
TEST(Rooms, NoMessageSendsItsReaderToAPageOfTheTree) {
  static std::regex const page{R"re("[^"\n]*docs/[^"\n]*")re"};
  std::size_t seen = 0;
  for (auto const& [file, includes] : sources()) {
    if (file.starts_with("cli/texts/")) continue;  // its program writes such a page, and has the tree
    std::istringstream in{text_of(fs::path{CONCH_SOURCE_DIR} / "src" / file)};
    for (std::string line; std::getline(in, line); ++seen) {
      auto const comment = line.find("//");
      bool const found = std::regex_search(line, page) && (comment == std::string::npos || comment > line.find('"'));
      EXPECT_FALSE(found) << "src/" << file << ": " << line;
    }
  }
  EXPECT_GT(seen, 10'000u);
}

TEST(Rooms, TellAWayToAsioThroughOtherFiles) {
  source_files const files{{"engine/a.hpp", {"base/b.hpp"}}, {"base/b.hpp", {"conch/c.hpp"}}};
  std::set<std::string> seen;
  EXPECT_EQ(way_to_io(files, {{"conch/c.hpp", {"vector", "boost/asio/post.hpp"}}}, "engine/a.hpp", seen),
            "engine/a.hpp -> base/b.hpp -> conch/c.hpp -> boost/asio/post.hpp");
  seen.clear();
  EXPECT_EQ(way_to_io(files, {}, "engine/a.hpp", seen), "");
}

}  // namespace
}  // namespace conch
