// The live page as it is: the real server, its workers, a real Redis, plain sockets. What a browser makes of it:
// tests/browser.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "demo/counter_server.hpp"
#include "demo/http_probe.hpp"
#include "demo/program.hpp"
#include "support/contains.hpp"
#include "support/redis_server.hpp"

namespace {

using namespace std::chrono_literals;
using namespace conch::test;
using steady = std::chrono::steady_clock;
namespace json = boost::json;

class LivePage : public testing::Test {
 protected:
  redis_server redis_{{.tcp = true}};
};

/// A server with workers, and the token of its page.
struct page_server : counter_server {
  explicit page_server(std::string const& redis, std::vector<std::string> more = {})
      : counter_server(redis, with_workers(std::move(more))) {
    std::string const line = process().wait_for("page: http://127.0.0.1:");
    token = line.substr(line.find("#token=") + 7);
  }

  static std::vector<std::string> with_workers(std::vector<std::string> more) {
    more.insert(more.end(), {"--workers", "4"});
    return more;
  }

  http_answer press(std::string const& target, std::string const& with) const {
    http_probe probe(port());
    probe.send("POST " + target + " HTTP/1.1\r\nHost: localhost\r\nX-Conch-Token: " + with +
               "\r\nContent-Length: 0\r\n\r\n");
    return probe.read();
  }
  http_answer press(std::string const& target) const { return press(target, token); }

  std::string token;
};

/// Listens to /events.
class stream {
 public:
  explicit stream(std::uint16_t port) : probe_(port) {
    probe_.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    head = probe_.read();
  }

  json::object next() {
    std::string event;
    while (!contains(event, "data: ")) event = probe_.read_until("\n\n");
    return json::parse(event.substr(event.find("data: ") + 6)).as_object();
  }

  /// The first that `is_right` likes; what came last if none did in time.
  json::object wait_for(std::function<bool(json::object const&)> const& is_right) {
    auto const until = steady::now() + 60s;
    json::object seen = next();
    while (!is_right(seen) && steady::now() < until) seen = next();
    EXPECT_TRUE(is_right(seen)) << seen;
    return seen;
  }

  bool is_closed_by_server() {
    auto const until = steady::now() + 20s;
    while (steady::now() < until) {
      try {
        probe_.read_until("\n\n");
      } catch (std::runtime_error const& error) {
        return contains(error.what(), "closed the connection");
      }
    }
    return false;
  }

  http_answer head;

 private:
  http_probe probe_;
};

std::string words(json::object const& seen) {
  std::string all;
  for (auto const& entry : seen.at("log").as_array()) all += json::value_to<std::string>(entry.as_array().at(1)) + '\n';
  return all;
}

TEST_F(LivePage, IsOneDocumentThatTakesNothingFromElsewhere) {
  counter_server server(redis_.url());
  std::set<std::string> nonces;
  for (int i = 0; i < 3; ++i) {
    auto const answer = server.request("GET", "/");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(answer.field("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.field("cache-control"), "no-store");
    EXPECT_EQ(answer.field("referrer-policy"), "no-referrer");
    std::string const policy = answer.field("content-security-policy");
    auto const begin = policy.find("script-src 'nonce-") + 18;
    std::string const nonce = policy.substr(begin, policy.find('\'', begin) - begin);
    EXPECT_EQ(nonce.size(), 32u) << policy;
    nonces.insert(nonce);
    EXPECT_EQ(policy,
              "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
                  "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    EXPECT_TRUE(contains(answer.body, "<script nonce=\"" + nonce + "\">"));
    EXPECT_TRUE(contains(answer.body, "<style nonce=\"" + nonce + "\">"));
    EXPECT_TRUE(contains(answer.body, "new EventSource"));
    for (char const* const none :
         {"{{", "/*page", " src=", " style=", " onclick=", "innerHTML", "https://", "@import", "url("}) {
      EXPECT_FALSE(contains(answer.body, none)) << none;
    }
  }
  EXPECT_EQ(nonces.size(), 3u);
}

TEST_F(LivePage, IsNotForOtherSites) {
  page_server server(redis_.url());
  for (std::string const fields :
       {"Host: evil.example", "Host: localhost\r\nOrigin: http://evil.example", "Host: localhost\r\nOrigin: null",
        "Host: localhost\r\nSec-Fetch-Site: cross-site"}) {
    for (std::string const line : {"GET /", "GET /events", "POST /page/sale", "POST /page/count?lock=on"}) {
      http_probe probe(server.port());
      probe.send(line + " HTTP/1.1\r\n" + fields + "\r\nX-Conch-Token: " + server.token +
                 "\r\nContent-Length: 0\r\n\r\n");
      EXPECT_EQ(probe.read().status, 403) << line << ' ' << fields;
    }
  }
  EXPECT_EQ(words(stream(server.port()).next()), "");
}

TEST_F(LivePage, ItsButtonsNeedTheToken) {
  page_server server(redis_.url());
  ASSERT_EQ(server.token.size(), 32u);
  server.request("POST", "/counter");
  std::string other = server.token;
  other.back() = other.back() == '0' ? '1' : '0';
  for (std::string const target :
       {"/page/count?lock=on", "/page/count?lock=off", "/page/round?go=on", "/page/stop", "/page/sale"}) {
    EXPECT_EQ(server.request("POST", target).status, 403) << target;
    for (std::string const& wrong : {std::string(), other, server.token.substr(1), server.token + server.token}) {
      auto const answer = server.press(target, wrong);
      EXPECT_EQ(answer.status, 403) << target;
      EXPECT_TRUE(contains(answer.body, "token")) << answer.body;
      EXPECT_FALSE(contains(answer.body, server.token)) << answer.body;
    }
  }
  EXPECT_FALSE(contains(server.request("GET", "/").body, server.token));
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":1}\n");
  json::object const seen = stream(server.port()).next();
  EXPECT_EQ(words(seen), "");
  EXPECT_FALSE(contains(json::serialize(seen), server.token));
  EXPECT_EQ(server.press("/page/round?go=on").status, 202);
}

TEST_F(LivePage, HasNoButtonsWithoutWorkers) {
  counter_server server(redis_.url());
  EXPECT_EQ(server.request("POST", "/page/sale").status, 409);
  EXPECT_EQ(stream(server.port()).next().at("workers").as_array().size(), 0u);
}

TEST_F(LivePage, StreamsWhatHappensUntilTheServerEnds) {
  counter_server server(redis_.url(), {"--name", "</script><script>alert(1)</script>"});
  stream events(server.port());
  EXPECT_EQ(events.head.status, 200);
  EXPECT_EQ(events.head.field("content-type"), "text/event-stream");
  EXPECT_EQ(events.head.field("cache-control"), "no-store");
  EXPECT_EQ(events.head.field("content-length"), "");
  json::object const first = events.next();
  EXPECT_EQ(first.at("lock").as_string(), "</script><script>alert(1)</script>");
  EXPECT_EQ(first.at("kept_by").as_string(), redis_.url());
  EXPECT_EQ(server.request("POST", "/counter").status, 200);
  events.wait_for([](json::object const& seen) { return seen.at("passed").as_int64() == 1; });
  {
    other_holder holder(redis_.url(), "</script><script>alert(1)</script>");
    json::object const seen =
        events.wait_for([](json::object const& o) { return !o.at("seen").at("holder").as_string().empty(); });
    EXPECT_EQ(seen.at("seen").at("waiting").as_int64(), 0);
    EXPECT_EQ(seen.at("seen").at("holder").as_string().size(), 32u) << seen;
    EXPECT_TRUE(contains(json::serialize(seen.at("seen").at("holder_name")), "@")) << "a label: " << seen;
  }
  server.process().signal(SIGTERM);
  EXPECT_TRUE(events.is_closed_by_server());
  EXPECT_EQ(server.process().wait_for_end(), 0);
}

TEST_F(LivePage, CountsExactlyWithTheLockAndNotWithout) {
  page_server server(redis_.url());
  stream events(server.port());
  EXPECT_EQ(server.press("/page/count?lock=on").status, 202);
  EXPECT_EQ(server.press("/page/count?lock=off").status, 202);
  json::object const seen = events.wait_for([](json::object const& o) {
    return o.at("with").at("ended").as_bool() && o.at("without").at("ended").as_bool();
  });
  EXPECT_EQ(seen.at("with").at("confirmed").as_int64(), 1000);
  EXPECT_EQ(seen.at("with").at("value").as_int64(), 1000);
  EXPECT_EQ(seen.at("without").at("confirmed").as_int64(), 1000);
  EXPECT_LT(seen.at("without").at("value").as_int64(), 1000);
  EXPECT_TRUE(contains(words(seen), "With the lock: 1000 increments, and the counter is 1000: none lost."))
      << words(seen);
  EXPECT_TRUE(contains(words(seen), "both wrote")) << words(seen);
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":1000}\n");
  EXPECT_EQ(server.end(), 0);
}

TEST_F(LivePage, ShowsThatAStoppedHolderIsReplacedAndToldOfItsLoss) {
  page_server server(redis_.url());
  stream events(server.port());
  EXPECT_EQ(server.press("/page/stop").status, 202);
  json::object seen = events.wait_for([](json::object const& o) { return o.at("stopped").as_int64() != 0; });
  EXPECT_EQ(server.press("/page/stop").status, 409);
  EXPECT_EQ(server.press("/page/count?lock=on").status, 409);
  seen = events.wait_for([](json::object const& o) { return contains(words(o), "learned that it lost the lock"); });
  EXPECT_TRUE(contains(words(seen), "was frozen (SIGSTOP) while it holds the lock")) << words(seen);
  EXPECT_TRUE(contains(words(seen), "has the lock now")) << words(seen);
  EXPECT_TRUE(contains(words(seen), "after that hold expired")) << words(seen);
  EXPECT_TRUE(contains(words(seen), "after it woke up")) << words(seen);
  EXPECT_EQ(seen.at("stopped").as_int64(), 0);
  EXPECT_EQ(server.press("/page/round?go=off").status, 202);
  EXPECT_EQ(server.end(), 0);
}

TEST_F(LivePage, SellsTheStockInSegments) {
  page_server server(redis_.url());
  stream events(server.port());
  EXPECT_EQ(server.press("/page/sale").status, 202);
  EXPECT_EQ(server.press("/page/sale").status, 409);
  json::object const seen =
      events.wait_for([](json::object const& o) { return !o.at("sale").at("verdict").as_string().empty(); });
  EXPECT_EQ(seen.at("sale").at("verdict").as_string(),
            "1000 of 1000 are gone from the stock; the buyers have 1000: nothing sold twice, nothing lost.");
  for (auto const& segment : seen.at("sale").at("segments").as_array()) {
    EXPECT_EQ(segment.as_array()[0], segment.as_array()[1]) << seen;
  }
  EXPECT_EQ(server.end(), 0);
  EXPECT_EQ(redis_probe(redis_).command({"KEYS", "counter:sale*"}), "[]");
}

/// Running, not a zombie that nobody waits for.
bool is_alive(std::int64_t pid) {
  std::ifstream stat{"/proc/" + std::to_string(pid) + "/stat"};
  std::string line;
  std::getline(stat, line);  // which does not throw where the process has gone since the file was opened
  auto const end = line.rfind(')');
  return end != line.npos && line.substr(end + 2, 1) != "Z" && line.substr(end + 2, 1) != "X";
}

TEST_F(LivePage, ItsWorkersShowNoPasswordAndEndWithTheServer) {
  redis_probe probe{redis_};
  ASSERT_EQ(probe.command({"ACL", "SETUSER", "sale", "on", ">sesame", "~*", "&*", "+@all"}), "OK");
  std::string const url = "redis://sale:sesame@127.0.0.1:" + std::to_string(redis_.port());
  ASSERT_EQ(::setenv("CONCH_URL", url.c_str(), 1), 0);
  program server({CONCH_HTTP_COUNTER, "--listen", "127.0.0.1:0", "--workers", "3"});
  ::unsetenv("CONCH_URL");
  std::string const line = server.wait_for("listening on http://127.0.0.1:");
  stream events(static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(':') + 1))));
  json::object const seen = events.wait_for([](json::object const& o) {
    auto const& all = o.at("workers").as_array();
    return std::all_of(all.begin(), all.end(),
                       [](json::value const& worker) { return worker.at("state").as_string() == "here"; });
  });
  EXPECT_FALSE(contains(json::serialize(seen), "sesame")) << seen;
  std::vector<std::int64_t> workers;
  for (auto const& worker : seen.at("workers").as_array()) workers.push_back(worker.at("process").as_int64());
  ASSERT_EQ(workers.size(), 3u);
  for (std::int64_t const pid : workers) {
    std::ifstream file{"/proc/" + std::to_string(pid) + "/cmdline"};
    std::string const arguments{std::istreambuf_iterator<char>{file}, {}};
    EXPECT_TRUE(contains(arguments, "--worker")) << arguments;
    EXPECT_FALSE(contains(arguments, "sesame")) << arguments;
  }
  ::kill(static_cast<pid_t>(workers[0]), SIGSTOP);
  server.signal(SIGKILL);
  EXPECT_EQ(server.wait_for_end(), 128 + SIGKILL);
  auto const until = steady::now() + 20s;
  while (std::any_of(workers.begin(), workers.end(), is_alive)) ASSERT_LT(steady::now(), until);
}

}  // namespace
