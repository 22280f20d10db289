// The first exchange of a connection: what is sent, and what each answer to it means.

#include "redis_address.hpp"

#include "servers/redis/greeting.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace conch::redis {
namespace {

using protocol::fault;
using progress = greeting::progress;

std::string words(std::string const& bytes) {
  resp::decoder in;
  test::feed(in, bytes);
  std::string out;
  while (in.next() == resp::decoder::progress::message) {
    out += out.empty() ? "" : " | ";
    bool first = true;
    for (auto const& node : in.message().subspan(1)) {
      out += (first ? "" : " ") + std::string{node.text};
      first = false;
    }
  }
  return out;
}

progress feed(greeting& g, std::string const& bytes) {
  resp::decoder in;
  auto const message = test::only_message(in, bytes);
  return g.next(message);
}

std::string bulk(std::string const& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; }

std::string hello(std::string const& version, std::string const& role = "master",
                  std::string const& mode = "standalone") {
  return "%4\r\n" + bulk("version") + bulk(version) + bulk("id") + ":7\r\n" + bulk("role") + bulk(role) + bulk("mode") +
         bulk(mode);
}

std::string const info = bulk("id=7 addr=1.2.3.4:5 laddr=x name=n");
std::string const time_of_1e9 = "*2\r\n" + bulk("1000000000") + bulk("17");
std::string const no_eviction = bulk("# Memory\r\nused_memory:1\r\nmaxmemory_policy:noeviction\r\nx:y\r\n");
std::string const server_info = bulk("# Server\r\nrun_id:abc\r\nuptime_in_seconds:12\r\nx:y\r\n");

TEST(Greeting, SendsThis) {
  std::string const rest = "CLIENT INFO | TIME | INFO memory | INFO server";
  struct row {
    address where;
    std::string name, sent;
  };
  for (auto const& [where, name, sent] : std::vector<row>{
           {server_with("", ""), "", "HELLO 3 | " + rest},
           {server_with("", ""), "n", "HELLO 3 SETNAME n | " + rest},
           {server_with("", "p"), "n", "HELLO 3 AUTH default p SETNAME n | " + rest},
           {server_with("u", "p"), "", "HELLO 3 AUTH u p | " + rest},
           {server_with("u", ""), "", "HELLO 3 | " + rest},
           {server_with("", "", 4), "n", "HELLO 3 SETNAME n | SELECT 4 | " + rest},
       }) {
    greeting g;
    EXPECT_EQ(words(g.begin(where, name)), sent);
  }
}

TEST(Greeting, AWholeOneTellsEverything) {
  greeting g;
  g.begin(server_with("", "", 4), "n");
  std::vector<std::string> const answers{hello("7.0.15"), "+OK\r\n", info, time_of_1e9, no_eviction};
  for (std::string const& each : answers) EXPECT_EQ(feed(g, each), progress::more);
  EXPECT_EQ(feed(g, server_info), progress::done);
  EXPECT_EQ(g.client_id(), 7u);
  EXPECT_EQ(g.client_address(), "1.2.3.4:5");
  EXPECT_EQ(g.server_us(), 1'000'000'000'000'017);
  EXPECT_EQ(g.run(), "abc");
  EXPECT_EQ(g.uptime(), std::chrono::seconds{12});
  EXPECT_EQ(g.warning(), "");
  EXPECT_EQ(g.fault(), fault::none);
  EXPECT_EQ(feed(g, "+OK\r\n"), progress::failed) << "one too many";
  EXPECT_EQ(g.fault(), fault::malformed);
  g.begin({}, "");  // the next connection: nothing is left of this one
  EXPECT_EQ(g.client_id(), 0u);
  EXPECT_EQ(g.client_address(), "");
  EXPECT_EQ(g.run(), "");
  EXPECT_FALSE(g.uptime());
  EXPECT_EQ(g.fault(), fault::none);
}

/// The answers to a greeting that selects no database, up to one that is another than usual.
struct row {
  std::size_t at;  // 0 HELLO, 1 CLIENT INFO, 2 TIME, 3 INFO memory, 4 INFO server
  std::string answer;
  fault what;
  std::string why;
};

greeting greeted(std::size_t at, std::string const& answer, progress& end) {
  std::array<std::string, 5> answers{hello("7.0.15"), info, time_of_1e9, no_eviction, server_info};
  answers.at(at) = answer;
  greeting g;
  g.begin({}, "n");
  end = progress::more;
  for (std::size_t i = 0; i < answers.size() && end == progress::more; ++i) end = feed(g, answers.at(i));
  return g;
}

TEST(Greeting, WhatEndsIt) {
  for (auto const& [at, answer, what, why] : std::vector<row>{
           {0, "-ERR unknown command `HELLO`, with args beginning with: `3`\r\n", fault::malformed, "unknown command"},
           {0, "-NOPROTO unsupported protocol version\r\n", fault::malformed, "NOPROTO"},
           {0, "-WRONGPASS invalid username-password pair\r\n", fault::access_denied, "WRONGPASS"},
           {0, "-NOAUTH HELLO must be called with the client already authenticated\r\n", fault::access_denied,
            "NOAUTH"},
           {0, "-NOPERM this user has no permissions\r\n", fault::access_denied, "NOPERM"},
           {0, "-LOADING Redis is loading the dataset in memory\r\n", fault::try_later, "LOADING"},
           {0, "!9\r\nLOADING x\r\n", fault::try_later, "LOADING"},
           {0, "-ERR max number of clients reached\r\n", fault::try_later, "max number"},
           {0, "+OK\r\n", fault::malformed, "not a map"},
           {0, "*0\r\n", fault::malformed, "not a map"},
           {0, "_\r\n", fault::malformed, "not a map"},
           {0, "%0\r\n", fault::malformed, "version is ''"},
           {0, hello("6.0.16"), fault::malformed, "6.0.16"},
           {0, hello("6.1.99"), fault::malformed, "6.2 is needed"},
           {0, hello("5"), fault::malformed, "6.2 is needed"},
           {0, hello("x.y"), fault::malformed, "6.2 is needed"},
           {0, hello("7.0.15", "replica"), fault::reconnect, "replica"},
           {0, hello("7.0.15", "master", "cluster"), fault::refused, "Cluster"},
           {0, hello("7.0.15", "", "sentinel"), fault::refused, "redis-sentinel://"},
           {2, "-NOPERM no TIME\r\n", fault::access_denied, "NOPERM"},
           {2, "*1\r\n" + bulk("1"), fault::malformed, "not a time"},
           {2, "*3\r\n" + bulk("1") + bulk("2") + bulk("3"), fault::malformed, "not a time"},
           {2, "*2\r\n" + bulk("0") + bulk("2"), fault::malformed, "not a time"},
           {2, "*2\r\n" + bulk("-5") + bulk("2"), fault::malformed, "not a time"},
           {2, "*2\r\n" + bulk("5") + bulk("1000000"), fault::malformed, "not a time"},
           {2, "*2\r\n" + bulk("9000000001") + bulk("0"), fault::malformed, "not a time"},
           {2, "+OK\r\n", fault::malformed, "not a time"},
       }) {
    progress end{};
    greeting const g = greeted(at, answer, end);
    EXPECT_EQ(end, progress::failed) << answer;
    EXPECT_EQ(static_cast<int>(g.fault()), static_cast<int>(what)) << answer;
    EXPECT_NE(g.why().find(why), std::string::npos) << answer << ": " << g.why();
  }
}

TEST(Greeting, AnErrorOfSelectEndsIt) {
  greeting g;
  g.begin(server_with("", "", 99), "");
  EXPECT_EQ(feed(g, hello("7.0.15")), progress::more);
  EXPECT_EQ(feed(g, "-ERR DB index is out of range\r\n"), progress::failed);
  EXPECT_EQ(g.fault(), fault::refused);
  EXPECT_NE(g.why().find("DB index"), std::string::npos);
}

TEST(Greeting, WhatItCanDoWithout) {
  struct lacking {
    std::size_t at;
    std::string answer;
    std::string address, run, warning;
  };
  for (auto const& [at, answer, where, run, warning] : std::vector<lacking>{
           {0, hello("6.2.0"), "1.2.3.4:5", "abc", ""},
           {0, hello("10.0"), "1.2.3.4:5", "abc", ""},
           {0, hello("7"), "1.2.3.4:5", "abc", ""},
           {1, "-NOPERM no CLIENT\r\n", "", "abc", ""},
           {1, bulk("id=7"), "", "abc", ""},
           {1, bulk("id=7 addr=/run/r.sock:0"), "/run/r.sock:0", "abc", ""},
           {1, bulk("id=7 laddr=x addr="), "", "abc", ""},
           {3, "-NOPERM no INFO\r\n", "1.2.3.4:5", "abc", ""},
           {3, bulk("nothing of use"), "1.2.3.4:5", "abc", ""},
           {3, bulk("maxmemory_policy:allkeys-lru\r\n"), "1.2.3.4:5", "abc", "allkeys-lru"},
           {4, "-NOPERM no INFO\r\n", "1.2.3.4:5", "", ""},
           {4, bulk("nothing of use"), "1.2.3.4:5", "", ""},
           {4, bulk("run_id:"), "1.2.3.4:5", "", ""},
           {4, bulk("run_id:" + std::string(100, 'r') + "\r\n"), "1.2.3.4:5", std::string(64, 'r'), ""},
       }) {
    progress end{};
    greeting const g = greeted(at, answer, end);
    EXPECT_EQ(end, progress::done) << answer;
    EXPECT_EQ(g.client_address(), where) << answer;
    EXPECT_EQ(g.run(), run) << answer;
    EXPECT_EQ(g.warning().empty(), warning.empty()) << g.warning();
    EXPECT_NE(g.warning().find(warning), std::string::npos) << g.warning();
  }
}

}  // namespace
}  // namespace conch::redis
