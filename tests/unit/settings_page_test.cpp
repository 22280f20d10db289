// docs/settings.md against include/conch/config.hpp, and against what a client accepts.

#include <conch/client.hpp>
#include <conch/config.hpp>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conch {
namespace {

using namespace std::chrono_literals;

std::string text_of(std::string const& file) {
  std::ifstream in{CONCH_SOURCE_DIR "/" + file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

struct row {
  std::string initial, range, about;
};

/// The rows of docs/settings.md by their names.
std::map<std::string, row> rows() {
  std::map<std::string, row> found;
  std::regex const line{R"(\n\| `([a-z_.]+)` \| ([^|]*) \| ([^|]*) ?\| ([^|]*) \|)"};
  std::string const text = text_of("docs/settings.md");
  for (std::sregex_iterator it{text.begin(), text.end(), line}, end; it != end; ++it) {
    std::smatch const& m = *it;
    std::string range = m[3];
    while (range.ends_with(' ')) range.pop_back();
    EXPECT_TRUE(found.emplace(m[1], row{m[2], range, m[4]}).second) << m[1] << " has two rows";
  }
  return found;
}

/// A default from the header, in the words of the page.
std::string in_words(std::string const& code) {
  static std::map<std::string, std::string> const units{{"milliseconds", "ms"}, {"seconds", "s"}, {"minutes", "min"}};
  static std::map<std::string, std::string> const words{
      {"{}", "empty"}, {"nullptr", "empty"}, {"std::nullopt", "empty"}, {"duration::zero()", "0"}};
  if (auto const word = words.find(code); word != words.end()) return word->second;
  std::smatch m;
  if (std::regex_match(code, m, std::regex{R"(std::chrono::(\w+)\{(\d+)\})"})) return m[2].str() + " " + units.at(m[1]);
  if (code.starts_with('"')) return "`" + code.substr(1, code.size() - 2) + "`";
  return code;
}

/// The members of a struct of config.hpp with their defaults, in the words of the page.
std::map<std::string, std::string> members(std::string const& type, std::string const& prefix) {
  std::string const header = text_of("include/conch/config.hpp");
  std::size_t const begin = header.find("\nstruct " + type + " {");
  std::size_t const end = header.find("\n};", begin);
  EXPECT_NE(begin, std::string::npos) << type;
  std::string const body = header.substr(begin, end - begin);
  std::map<std::string, std::string> found;
  std::regex const member{R"(\n  [a-z][\w:<>, ]* (\w+)(?: = ([^;]+)|(\{\}));)"};
  for (std::sregex_iterator it{body.begin(), body.end(), member}, last; it != last; ++it)
    found.emplace(prefix + (*it)[1].str(), in_words((*it)[2].matched ? (*it)[2].str() : "{}"));
  return found;
}

TEST(SettingsPage, HasEachMemberWithItsDefaultAndNoOther) {
  auto all = members("config", "");
  all.merge(members("quorum_config", "quorum."));
  all.merge(members("zookeeper_config", "zookeeper."));
  all.merge(members("tls_config", "tls."));
  EXPECT_GT(all.size(), 40u) << "the header is laid out in a way that this test does not read";
  auto const page = rows();
  for (auto const& [name, initial] : all) {
    auto const found = page.find(name);
    if (found == page.end()) {
      ADD_FAILURE() << name << " has no row in docs/settings.md";
      continue;
    }
    EXPECT_EQ(found->second.initial, initial) << name;
  }
  for (auto const& [name, ignored] : page) EXPECT_TRUE(all.contains(name)) << name << " has a row, but is not a member";
}

TEST(SettingsPage, NamesOptionsAndVariablesThatTheCommandHas) {
  std::string const cli = text_of("docs/cli.md");
  std::regex const word{"--[a-z-]+|CONCH_[A-Z]+"};
  std::string const page = text_of("docs/settings.md");
  std::size_t count = 0;
  for (std::sregex_iterator it{page.begin(), page.end(), word}, end; it != end; ++it, ++count)
    EXPECT_NE(cli.find(it->str()), std::string::npos) << it->str();
  EXPECT_GE(count, 10u);
}

struct setting {
  std::function<void(config&, duration)> set;
  std::function<std::optional<duration>(config const&)> get;
  bool of_quorum = false;
};

template <class T>
setting of(T config::*member) {
  return {[member](config& c, duration d) { c.*member = d; }, [member](config const& c) { return c.*member; }};
}
setting of(duration quorum_config::*member) {
  return {[member](config& c, duration d) { c.quorum.*member = d; },
          [member](config const& c) { return c.quorum.*member; }, true};
}

setting of(duration zookeeper_config::*member) {
  return {[member](config& c, duration d) { c.zookeeper.*member = d; },
          [member](config const& c) { return c.zookeeper.*member; }};
}

/// All members that are durations.
std::map<std::string, setting> const& durations() {
  static std::map<std::string, setting> const all{
      {"lease", of(&config::lease)},
      {"lock_delay", of(&config::lock_delay)},
      {"renew_every", of(&config::renew_every)},
      {"stop_margin", of(&config::stop_margin)},
      {"max_hold", of(&config::max_hold)},
      {"local_slice", of(&config::local_slice)},
      {"claim", of(&config::claim)},
      {"sync_timeout", of(&config::sync_timeout)},
      {"fence_retention", of(&config::fence_retention)},
      {"command_timeout", of(&config::command_timeout)},
      {"connect_timeout", of(&config::connect_timeout)},
      {"offline_timeout", of(&config::offline_timeout)},
      {"reconnect_min", of(&config::reconnect_min)},
      {"reconnect_max", of(&config::reconnect_max)},
      {"keep_alive", of(&config::keep_alive)},
      {"topology_refresh", of(&config::topology_refresh)},
      {"zookeeper.session_margin", of(&zookeeper_config::session_margin)},
      {"quorum.vote_claim", of(&quorum_config::vote_claim)},
      {"quorum.min_validity", of(&quorum_config::min_validity)},
      {"quorum.min_server_uptime", of(&quorum_config::min_server_uptime)},
  };
  return all;
}

/// `text` of a range as a duration; names of members mean their defaults.
duration bound(std::string const& text) {
  static std::map<std::string, duration> const units{{"ms", 1ms},  {"s", 1s},    {"min", 1min},
                                                     {"hour", 1h}, {"day", 24h}, {"days", 24h}};
  static config const defaults{};
  static std::map<std::string, duration> const names{{"0", 0s},
                                                     {"`lease`", defaults.lease},
                                                     {"1 day without `lease`", 24h - defaults.lease},
                                                     {"half of `lease`", defaults.lease / 2},
                                                     {"`reconnect_min`", defaults.reconnect_min},
                                                     {"`reconnect_max`", defaults.reconnect_max},
                                                     {"half of `quorum.vote_claim`", defaults.quorum.vote_claim / 2}};
  if (auto const name = names.find(text); name != names.end()) return name->second;
  std::smatch m;
  if (!std::regex_match(text, m, std::regex{R"((\d+) (\w+))"}) || !units.contains(m[2])) {
    ADD_FAILURE() << "no duration: '" << text << "'";
    return 0s;
  }
  return std::stoi(m[1]) * units.at(m[2]);
}

/// The words with which a client with `name` set so is refused; empty: it is made.
std::string refusal(std::string const& name, duration value) {
  config c;
  setting const& s = durations().at(name);
  c.url = s.of_quorum ? "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3" : "redis://127.0.0.1:1";
  s.set(c, value);
  boost::asio::io_context context;
  try {
    client const made{context.get_executor(), c};
    return {};
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_config) << name;
    return e.what();
  }
}

/// What was set, and something else counts: that must not be a secret.
TEST(SettingsPage, SaysOfEachMemberThatAClientLowersToWhat) {
  std::string const text = text_of("docs/settings.md");
  std::size_t const begin = text.find("A shorter `lease` also lowers");
  ASSERT_NE(begin, std::string::npos);
  std::string const sentence = text.substr(begin, text.find('\n', begin) - begin);
  auto const page = rows();
  std::set<std::string> changed;
  for (auto const& [name, s] : durations()) {
    if (name == "lease" || !page.contains(name)) continue;
    for (char const* const url :
         {"redis://127.0.0.1:1", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "zookeeper://127.0.0.1:1"}) {
      for (duration const value :
           {duration{20min}, duration{1min}, duration{2s}, duration{400ms}, duration{200ms}, duration{50ms}}) {
        config c;
        c.lease = 1s;
        c.url = url;
        s.set(c, value);
        boost::asio::io_context context;
        try {
          client const made{context.get_executor(), c};
          if (s.get(made.settings()) == value) continue;
        } catch (boost::system::system_error const&) {
          continue;  // refused: that is said by an error
        }
        changed.insert(name);
        bool const is_said = page.at(name).about.find("t most ") != std::string::npos;
        EXPECT_TRUE(is_said) << name << " of " << url << " is lowered, and its row does not say to what";
        EXPECT_NE(sentence.find('`' + name + '`'), std::string::npos) << name << " is lowered: " << sentence;
      }
    }
  }
  EXPECT_EQ(changed, (std::set<std::string>{"claim", "command_timeout", "quorum.vote_claim", "reconnect_max",
                                            "reconnect_min", "stop_margin", "sync_timeout"}));
}

TEST(SettingsPage, GivesTheRangesThatAClientHolds) {
  std::regex const both{R"((0, or )?(.+) to (.+))"}, least{R"(at least (.+))"};
  std::set<std::string> unread;
  for (auto const& [name, ignored] : durations()) unread.insert(name);
  for (auto const& [name, r] : rows()) {
    if (!durations().contains(name)) {
      EXPECT_FALSE(std::regex_search(r.initial, std::regex{R"(^\d+ (ms|s|min)$)"}))
          << name << " is a duration: this test should have it";
      continue;
    }
    unread.erase(name);
    std::smatch m;
    std::optional<duration> low, high;
    if (std::regex_match(r.range, m, both)) {
      low = bound(m[2]);
      high = bound(m[3]);
      if (m[1].matched) {
        EXPECT_EQ(refusal(name, 0s), "") << name;
      }
    } else if (std::regex_match(r.range, m, least)) {
      low = bound(m[1]);
    } else {
      ADD_FAILURE() << name << " has the range '" << r.range << "'";
      continue;
    }
    EXPECT_EQ(refusal(name, *low), "") << name << " is not accepted at its lower bound";
    EXPECT_NE(refusal(name, *low - 1ns).find(name), std::string::npos) << name << " is accepted below " << r.range;
    if (high) {
      EXPECT_EQ(refusal(name, *high), "") << name << " is not accepted at its upper bound";
      EXPECT_NE(refusal(name, *high + 1ns).find(name), std::string::npos) << name << " is accepted above " << r.range;
    }
  }
  EXPECT_TRUE(unread.empty()) << *unread.begin() << " has no row";
}

}  // namespace
}  // namespace conch
