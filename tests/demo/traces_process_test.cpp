// examples/traces as two processes: the wait of one is joined with the hold of the other by the name of the lock and
// the fence.

#include <conch/blocking.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "demo/program.hpp"
#include "support/redis_server.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

struct span {
  std::string service, name, trace, id, parent, lock, outcome;
  std::int64_t fence = 0, began = 0, ended = 0;
  std::vector<std::string> events;
};

std::int64_t number(json::value const& text) { return std::stoll(std::string{text.as_string()}); }

span read_span(std::string const& line) {
  json::value const all = json::parse(line);
  json::value const& resource = all.at("resourceSpans").at(0);
  json::value const& one = resource.at("scopeSpans").at(0).at("spans").at(0);
  span s;
  s.service = resource.at("resource").at("attributes").at(0).at("value").at("stringValue").as_string();
  s.name = one.at("name").as_string();
  s.trace = one.at("traceId").as_string();
  s.id = one.at("spanId").as_string();
  if (auto const* parent = one.as_object().if_contains("parentSpanId")) s.parent = parent->as_string();
  s.began = number(one.at("startTimeUnixNano"));
  s.ended = number(one.at("endTimeUnixNano"));
  for (json::value const& each : one.at("attributes").as_array()) {
    if (each.at("key") == "conch.lock.name") s.lock = each.at("value").at("stringValue").as_string();
    if (each.at("key") == "conch.lock.fence") s.fence = number(each.at("value").at("intValue"));
    if (each.at("key") == "conch.outcome") s.outcome = each.at("value").at("stringValue").as_string();
  }
  for (json::value const& each : one.at("events").as_array()) s.events.emplace_back(each.at("name").as_string());
  return s;
}

void add_spans(std::string const& output, std::vector<span>& to) {
  std::istringstream lines{output};
  for (std::string line; std::getline(lines, line);) to.push_back(read_span(line));
}

void wait_for_line(redis_probe& probe, std::int64_t clients) {
  auto const end = std::chrono::steady_clock::now() + 60s;
  while (probe.integer({"ZCARD", "conch:{example:traced}:q"}) != clients) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error{"not in line: " + std::to_string(clients)};
    std::this_thread::sleep_for(2ms);
  }
}

TEST(Traces, TheWaitOfOneProcessIsJoinedWithTheHoldOfAnother) {
  redis_server server;
  redis_probe probe{server};
  ::setenv("CONCH_URL", server.url().c_str(), 1);
  blocking::client here{server.url()};
  blocking::mutex gate{here, "example:traced"};
  gate.lock();  // until both are in line, "first" before "second"
  program a{{CONCH_TRACES, "first", "3"}};
  wait_for_line(probe, 1);
  program b{{CONCH_TRACES, "second", "3"}};
  wait_for_line(probe, 2);
  gate.unlock();
  EXPECT_EQ(a.wait_for_end(60s), 0) << a.output();
  EXPECT_EQ(b.wait_for_end(60s), 0) << b.output();
  ::unsetenv("CONCH_URL");
  std::vector<span> all;
  add_spans(a.output(), all);
  add_spans(b.output(), all);
  ASSERT_EQ(all.size(), 12u) << a.output() << b.output();

  std::map<std::int64_t, span> holds;
  for (span const& s : all) {
    EXPECT_EQ(s.lock, "example:traced");
    EXPECT_GT(s.fence, 0);
    EXPECT_EQ(s.trace.size(), 32u);
    EXPECT_EQ(s.id.size(), 16u);
    EXPECT_LE(s.began, s.ended);
    if (s.name != "lock.hold") continue;
    EXPECT_TRUE(holds.emplace(s.fence, s).second) << "two holds with one fence";
    EXPECT_EQ(s.outcome, "released");
  }
  ASSERT_EQ(holds.size(), 6u);
  for (span const& wait : all) {
    if (wait.name != "lock.wait") continue;
    span const& own = holds.at(wait.fence);
    EXPECT_EQ(own.service, wait.service);
    EXPECT_EQ(own.trace, wait.trace);
    EXPECT_EQ(own.parent, wait.id);
  }

  // The first wait of "second" was for the first hold of "first": that is the one with the greatest fence below its
  // own.
  auto const seconds = std::find_if(all.begin(), all.end(),
                                    [](span const& s) { return s.service == "second" && s.name == "lock.wait"; });
  EXPECT_EQ(seconds->outcome, "pushed");
  ASSERT_FALSE(seconds->events.empty());
  EXPECT_EQ(seconds->events.front(), "queued");
  auto const next = holds.lower_bound(seconds->fence);
  ASSERT_NE(next, holds.begin());
  auto const joined = std::prev(next);
  EXPECT_EQ(joined->second.service, "first");
  EXPECT_EQ(joined, holds.begin());
}

}  // namespace
}  // namespace conch::test
