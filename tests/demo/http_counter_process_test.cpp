// The demo server as it is: the real program, a real Redis, plain sockets.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
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

class HttpCounter : public testing::Test {
 protected:
  redis_server redis_{{.tcp = true}};
};

TEST_F(HttpCounter, AnswersItsRoutes) {
  counter_server server(redis_.url());
  auto const empty = server.request("GET", "/counter");
  EXPECT_EQ(empty.status, 200);
  EXPECT_EQ(empty.field("content-type"), "application/json");
  EXPECT_EQ(empty.body, "{\"counter\":0}\n");

  auto const first = server.request("POST", "/counter");
  EXPECT_EQ(first.status, 200);
  EXPECT_TRUE(first.body.starts_with("{\"counter\":1,\"locked\":true,\"fence\":")) << first.body;
  EXPECT_EQ(server.request("POST", "/counter?lock=off").body, "{\"counter\":2,\"locked\":false}\n");
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":2}\n");
  EXPECT_EQ(server.request("DELETE", "/counter").body, "{\"counter\":0}\n");
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":0}\n");
  EXPECT_EQ(server.request("GET", "/healthz").body, "{\"status\":\"ok\"}\n");

  auto const stats = server.request("GET", "/stats");
  EXPECT_EQ(stats.field("content-type"), "application/json");
  EXPECT_TRUE(contains(stats.body, "\"acquires\":2,")) << stats.body;
  EXPECT_TRUE(contains(stats.body, "\"held\":0,")) << stats.body;

  auto const metrics = server.request("GET", "/metrics");
  EXPECT_TRUE(metrics.field("content-type").starts_with("text/plain; version=0.0.4"));
  EXPECT_TRUE(contains(metrics.body, "# TYPE conch_acquires_total counter")) << metrics.body;
  EXPECT_TRUE(contains(metrics.body,
                       "demo_http_requests_total{method=\"POST\",route=\"/counter\","
                       "status=\"200\"} 2\n"))
      << metrics.body;
  EXPECT_TRUE(contains(metrics.body, "\ndemo_http_connections ")) << metrics.body;
  EXPECT_EQ(server.end(), 0);
}

TEST_F(HttpCounter, KeepsTheCounterOverItsOwnEndAndUnderItsName) {
  counter_server(redis_.url(), {"--name", "apples"}).request("POST", "/counter");
  counter_server apples(redis_.url(), {"--name", "apples"});
  counter_server pears(redis_.url(), {"--name", "pears"});
  EXPECT_EQ(apples.request("GET", "/counter").body, "{\"counter\":1}\n");
  EXPECT_EQ(pears.request("GET", "/counter").body, "{\"counter\":0}\n");
}

TEST_F(HttpCounter, KeepsConnectionsOpen) {
  counter_server server(redis_.url());
  http_probe probe(server.port());
  for (int i = 1; i <= 20; ++i) {
    auto const answer = probe.request("POST", "/counter", "some body that nobody reads");
    EXPECT_TRUE(answer.body.starts_with("{\"counter\":" + std::to_string(i) + ',')) << answer.body;
    EXPECT_EQ(answer.field("connection"), "");
  }
  // Several at once are answered in order.
  std::string const get = "GET /counter HTTP/1.1\r\nHost: localhost\r\n\r\n";
  probe.send(get + "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + get);
  EXPECT_EQ(probe.read().status, 200);
  EXPECT_EQ(probe.read().status, 404);
  EXPECT_EQ(probe.read().status, 200);

  probe.send("GET /counter HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(probe.read().field("connection"), "close");
  EXPECT_TRUE(probe.is_closed_by_server());

  http_probe old(server.port());
  old.send("GET /counter HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read().status, 200);
  EXPECT_TRUE(old.is_closed_by_server());
}

TEST_F(HttpCounter, RefusesBadRequestsInJson) {
  counter_server server(redis_.url());
  struct row {
    std::string bytes;
    int status;
    bool closes;
  };
  std::string const tail = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (auto const& [bytes, status, closes] : std::vector<row>{
           {"GET /nothing" + tail, 404, false},
           {"GET /counter?lock=maybe" + tail, 400, false},
           {"PATCH /counter" + tail, 405, false},
           {"GET /counter HTTP/1.1\r\n\r\n", 400, false},
           {"nonsense\r\n\r\n", 400, true},
           {"GET /counter HTTP/9.9\r\n\r\n", 400, true},
           {"POST /counter HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400, true},
           {"POST /counter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 411, true},
       }) {
    http_probe probe(server.port());
    probe.send(bytes);
    auto const answer = probe.read();
    EXPECT_EQ(answer.status, status) << bytes;
    EXPECT_EQ(answer.field("content-type"), "application/json") << bytes;
    EXPECT_TRUE(answer.body.starts_with("{\"error\":\"")) << bytes << answer.body;
    EXPECT_EQ(answer.field("allow"), status == 405 ? "GET, POST, DELETE" : "") << bytes;
    if (closes) {
      EXPECT_EQ(answer.field("connection"), "close") << bytes;
      EXPECT_TRUE(probe.is_closed_by_server()) << bytes;
    } else {
      EXPECT_EQ(probe.request("GET", "/counter").status, 200) << bytes;
    }
  }
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":0}\n");
}

TEST_F(HttpCounter, LimitsHeadersAndBodies) {
  counter_server server(redis_.url());
  std::string const post = "POST /counter HTTP/1.1\r\nHost: localhost\r\n";
  {
    http_probe probe(server.port());
    EXPECT_EQ(probe.request("POST", "/counter", std::string(4096, 'x')).status, 200);
  }
  {
    http_probe probe(server.port());
    EXPECT_EQ(probe.request("POST", "/counter", std::string(200'000, 'x')).status, 413);
    EXPECT_TRUE(probe.is_closed_by_server());
  }
  {
    http_probe probe(server.port());
    probe.send(post + "X: " + std::string(20'000, 'x') + "\r\n\r\n");
    EXPECT_EQ(probe.read().status, 431);
  }
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":1}\n");
}

TEST_F(HttpCounter, AsksForABodyThatIsAnnounced) {
  counter_server server(redis_.url());
  http_probe probe(server.port());
  probe.send("POST /counter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(probe.read().status, 100);
  probe.send("hi");
  EXPECT_EQ(probe.read().status, 200);
}

TEST_F(HttpCounter, ClosesConnectionsThatAreSilentOrSlow) {
  counter_server server(redis_.url(), {"--request-timeout-ms", "200"});
  http_probe silent(server.port());
  http_probe half(server.port());
  half.send("POST /counter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_TRUE(silent.is_closed_by_server());
  EXPECT_TRUE(half.is_closed_by_server());
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":0}\n");
}

TEST_F(HttpCounter, TakesNothingThatAnotherSitesPageSends) {
  counter_server server(redis_.url(), {"--host", "shop.example"});
  http_probe probe(server.port());
  for (std::string const fields : {"Host: evil.example", "Host: localhost\r\nOrigin: http://evil.example"}) {
    probe.send("POST /counter HTTP/1.1\r\n" + fields + "\r\nContent-Length: 0\r\n\r\n");
    auto const answer = probe.read();
    EXPECT_EQ(answer.status, 403);
    EXPECT_TRUE(answer.body.starts_with("{\"error\":\"")) << answer.body;
    EXPECT_EQ(answer.field("access-control-allow-origin"), "");
  }
  probe.send(
      "POST /counter HTTP/1.1\r\nHost: shop.example\r\nOrigin: http://shop.example\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(probe.read().status, 200);
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":1}\n");
}

TEST_F(HttpCounter, SaysBusyWhenTheLockCannotBeHadInTime) {
  counter_server server(redis_.url(), {"--wait-ms", "200"});
  other_holder holder(redis_.url());
  auto const begin = steady::now();
  auto const busy = server.request("POST", "/counter");
  EXPECT_LT(steady::now() - begin, 5s);
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.field("retry-after"), "1");
  EXPECT_TRUE(contains(busy.body, "\"reason\":\"busy\",\"changed\":\"no\"")) << busy.body;
  EXPECT_EQ(server.request("DELETE", "/counter").status, 503);
  EXPECT_EQ(server.request("POST", "/counter?lock=off").status, 200);
  holder.release();
  EXPECT_TRUE(server.request("POST", "/counter").body.starts_with("{\"counter\":2,"));
}

TEST_F(HttpCounter, AnswersWhileRedisIsStoppedAndRecovers) {
  counter_server server(redis_.url(), {"--wait-ms", "500"});
  ASSERT_EQ(server.request("POST", "/counter").status, 200);
  redis_.stop();
  for (auto const& [method, target] : std::vector<std::pair<std::string, std::string>>{
           {"POST", "/counter"},
           {"POST", "/counter?lock=off"},
           {"GET", "/counter"},
           {"DELETE", "/counter"},
           {"GET", "/healthz"},
       }) {
    auto const begin = steady::now();
    auto const answer = server.request(method, target);
    EXPECT_LT(steady::now() - begin, 5s) << method << target;
    EXPECT_EQ(answer.status, 503) << method << target;
    EXPECT_EQ(answer.field("retry-after"), "1") << method << target;
    EXPECT_TRUE(answer.body.starts_with("{\"error\":\"")) << answer.body;
  }
  EXPECT_EQ(server.request("GET", "/stats").status, 200);
  EXPECT_EQ(server.request("GET", "/metrics").status, 200);
  redis_.cont();
  auto const until = steady::now() + 20s;
  while (server.request("POST", "/counter").status != 200) {
    ASSERT_LT(steady::now(), until);
  }
  EXPECT_EQ(server.request("GET", "/healthz").status, 200);
  EXPECT_EQ(server.end(), 0);
}

TEST_F(HttpCounter, StartsWithoutRedisAndLivesThroughARestart) {
  redis_.kill();
  counter_server server(redis_.url(), {"--wait-ms", "300"});
  auto const answer = server.request("POST", "/counter");
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(contains(answer.body, "\"changed\":\"no\"")) << answer.body;
  EXPECT_EQ(server.request("GET", "/healthz").status, 503);
  for (bool const keep_data : {false, true}) {
    redis_.restart(keep_data);
    auto const until = steady::now() + 20s;
    while (server.request("POST", "/counter").status != 200) {
      ASSERT_LT(steady::now(), until);
    }
    EXPECT_EQ(server.request("GET", "/healthz").status, 200);
  }
  EXPECT_EQ(server.request("GET", "/counter").body, "{\"counter\":2}\n");
}

TEST_F(HttpCounter, EndsGracefullyWithRequestsInFlight) {
  counter_server server(redis_.url());
  other_holder holder(redis_.url());
  http_probe idle(server.port());
  ASSERT_EQ(idle.request("GET", "/counter").status, 200);
  std::vector<http_probe> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.emplace_back(server.port()).send("POST /counter HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  // They are in flight once they wait for the lock.
  auto const until = steady::now() + 20s;
  while (!contains(idle.request("GET", "/stats").body, "\"waiting\":5,")) {
    ASSERT_LT(steady::now(), until);
  }
  server.process().signal(SIGTERM);
  EXPECT_TRUE(idle.is_closed_by_server());
  EXPECT_THROW(http_probe{server.port()}, std::runtime_error);
  holder.release();
  for (auto& probe : waiting) {
    auto const answer = probe.read();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.field("connection"), "close");
    EXPECT_TRUE(probe.is_closed_by_server());
  }
  EXPECT_EQ(server.process().wait_for_end(), 0);
  EXPECT_EQ(redis_probe(redis_).command({"GET", "http_counter:counter"}), "5");
  EXPECT_EQ(redis_probe(redis_).command({"EXISTS", "conch:{counter}"}), "0");
}

TEST_F(HttpCounter, EndsInTimeEvenWhenRedisIsStopped) {
  counter_server server(redis_.url(), {"--wait-ms", "300"});
  ASSERT_EQ(server.request("POST", "/counter").status, 200);
  redis_.stop();
  http_probe probe(server.port());
  probe.send("POST /counter HTTP/1.1\r\nHost: localhost\r\n\r\n");
  auto const until = steady::now() + 20s;
  while (!contains(server.request("GET", "/stats").body, "\"waiting\":1,")) {
    ASSERT_LT(steady::now(), until);
  }
  auto const begin = steady::now();
  server.process().signal(SIGTERM);
  EXPECT_EQ(probe.read().status, 503);
  EXPECT_EQ(server.process().wait_for_end(), 0);
  EXPECT_LT(steady::now() - begin, 8s);
  redis_.cont();
}

TEST_F(HttpCounter, RefusesAValueThatIsNoNumber) {
  counter_server server(redis_.url());
  redis_probe(redis_).command({"SET", "http_counter:counter", "many"});
  EXPECT_EQ(server.request("POST", "/counter").status, 500);
  EXPECT_EQ(server.request("GET", "/counter").status, 500);
  EXPECT_EQ(server.request("DELETE", "/counter").status, 200);
  EXPECT_EQ(server.request("POST", "/counter").status, 200);
}

TEST_F(HttpCounter, CountsExactlyOverTwoServers) {
  counter_server one(redis_.url());
  counter_server two(redis_.url(), {"--threads", "4"});
  constexpr int clients = 20;
  constexpr int each = 10;
  std::atomic<int> confirmed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, port = i % 2 == 0 ? one.port() : two.port()] {
      http_probe probe(port);
      for (int n = 0; n < each; ++n) {
        confirmed += probe.request("POST", "/counter").status == 200 ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(confirmed, clients * each);
  EXPECT_EQ(one.request("GET", "/counter").body, "{\"counter\":200}\n");
}

TEST_F(HttpCounter, IsDrivenByTheLoadProgram) {
  counter_server one(redis_.url());
  counter_server two(redis_.url());
  one.request("POST", "/counter");
  program load(
      {CONCH_DEMO_LOAD, "--url", one.url(), "--url", two.url(), "--requests", "200", "--connections", "20", "--reset"});
  EXPECT_EQ(load.wait_for_end(), 0) << load.output();
  EXPECT_TRUE(contains(load.output(), "\"confirmed\":200,\"failures\":0,")) << load.output();
  EXPECT_TRUE(contains(load.output(), "\"locked\":true,\"counter\":200,")) << load.output();
}

TEST_F(HttpCounter, TheLoadProgramTellsRetriesAndFailures) {
  counter_server server(redis_.url(), {"--wait-ms", "50"});
  {
    other_holder holder(redis_.url());
    program load({CONCH_DEMO_LOAD, "--url", server.url(), "--requests", "3", "--connections", "3"});
    auto const until = steady::now() + 20s;
    while (!contains(server.request("GET", "/metrics").body, "status=\"503\"}")) {
      ASSERT_LT(steady::now(), until);
    }
    holder.release();
    EXPECT_EQ(load.wait_for_end(), 0) << load.output();
    EXPECT_TRUE(contains(load.output(), "\"confirmed\":3,\"failures\":0,")) << load.output();
    EXPECT_FALSE(contains(load.output(), "\"retries\":0,")) << load.output();
  }
  std::string const url = server.url();
  EXPECT_EQ(server.end(), 0);
  program load({CONCH_DEMO_LOAD, "--url", url, "--requests", "3", "--connections", "3"});
  EXPECT_EQ(load.wait_for_end(), 1) << load.output();
  EXPECT_TRUE(contains(load.output(), "\"failures\":3,")) << load.output();
  EXPECT_TRUE(contains(load.output(), "the first failure: ")) << load.output();
}

TEST(HttpCounterAlone, KeepsTheCounterInMemory) {
  counter_server server("memory://");
  EXPECT_EQ(server.request("GET", "/healthz").status, 200);
  EXPECT_TRUE(server.request("POST", "/counter").body.starts_with("{\"counter\":1,"));
  EXPECT_TRUE(server.request("POST", "/counter").body.starts_with("{\"counter\":2,"));
  EXPECT_EQ(server.request("DELETE", "/counter").status, 200);
  EXPECT_EQ(server.end(), 0);
}

TEST(HttpCounterAlone, ExplainsItselfAndBadOptions) {
  program help({CONCH_HTTP_COUNTER, "--help"});
  EXPECT_EQ(help.wait_for_end(), 0);
  EXPECT_TRUE(contains(help.output(), "--listen")) << help.output();
  struct row {
    std::vector<std::string> words;
    std::string complaint;
  };
  for (auto const& [words, complaint] : std::vector<row>{
           {{"--threads", "none"}, "threads"},
           {{"--colour"}, "colour"},
           {{"--listen", "nowhere"}, "--listen"},
           {{"--redis", "ftp://h"}, "URL"},
           {{"--redis", ""}, "--redis is empty"},
           {{"--redis", "redis://:secret@h"}, "CONCH_URL"},
           {{"--lease-ms", "1"}, "lease-ms"},
       }) {
    std::vector<std::string> line{CONCH_HTTP_COUNTER};
    line.insert(line.end(), words.begin(), words.end());
    program refused(line);
    EXPECT_EQ(refused.wait_for_end(), 2) << words[0];
    EXPECT_TRUE(contains(refused.output(), complaint)) << refused.output();
    EXPECT_FALSE(contains(refused.output(), "secret")) << refused.output();
  }
  for (char const* const url : {"ftp://:secret@h", "redis://:secret@h/x", "redis://u:secret@h:x", ""}) {
    ASSERT_EQ(::setenv("CONCH_URL", url, 1), 0);
    program refused({CONCH_HTTP_COUNTER});
    EXPECT_EQ(refused.wait_for_end(), 2) << url;
    EXPECT_TRUE(contains(refused.output(), "URL")) << refused.output();
    EXPECT_FALSE(contains(refused.output(), "secret")) << refused.output();
    ::unsetenv("CONCH_URL");
  }
  counter_server first("memory://");
  program second({CONCH_HTTP_COUNTER, "--redis", "memory://", "--listen", "127.0.0.1:" + std::to_string(first.port())});
  EXPECT_EQ(second.wait_for_end(), 1);
  EXPECT_TRUE(contains(second.output(), "in use")) << second.output();

  program load({CONCH_DEMO_LOAD});
  EXPECT_EQ(load.wait_for_end(), 2);
  EXPECT_TRUE(contains(load.output(), "--url is missing")) << load.output();
}

}  // namespace
