// What the demo server does without a socket: bytes, routes, addresses, options.

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "redis_address.hpp"
#include "resp2.hpp"
#include "routes.hpp"

namespace {

using namespace http_counter;

// What the server would do with these bytes; empty: it would wait for more.
std::optional<route> decide_bytes(std::string const& bytes) {
  request_parser parser;
  set_limits(parser);
  parser.eager(true);
  boost::system::error_code error;
  std::size_t used = 0;
  while (!error && !parser.is_done() && used < bytes.size()) {
    used += parser.put(boost::asio::buffer(bytes.data() + used, bytes.size() - used), error);
  }
  if (error == http::error::need_more) {
    return std::nullopt;
  }
  if (error) {
    return decide_failure(error);
  }
  return parser.is_done() ? std::optional(decide(parser.get(), {"shop.example"})) : std::nullopt;
}

route decide_line(std::string const& line) {
  auto const decided = decide_bytes(line + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return decided.value_or(route{});
}

TEST(HttpCounterRoutes, KnowsWhatCanBeAskedFor) {
  EXPECT_EQ(decide_line("POST /counter").what, action::increment);
  EXPECT_TRUE(decide_line("POST /counter").locked);
  EXPECT_TRUE(decide_line("POST /counter?lock=on").locked);
  EXPECT_FALSE(decide_line("POST /counter?lock=off").locked);
  EXPECT_EQ(decide_line("GET /counter").what, action::read);
  EXPECT_EQ(decide_line("DELETE /counter").what, action::reset);
  EXPECT_EQ(decide_line("GET /stats").what, action::stats);
  EXPECT_EQ(decide_line("GET /metrics").what, action::metrics);
  EXPECT_EQ(decide_line("GET /healthz").what, action::health);
  EXPECT_EQ(decide_line("GET /").what, action::page);
  EXPECT_EQ(decide_line("GET /events").what, action::events);
  EXPECT_TRUE(decide_line("POST /page/count?lock=on").locked);
  EXPECT_FALSE(decide_line("POST /page/count?lock=off").locked);
  EXPECT_EQ(decide_line("POST /page/count?lock=off").what, action::page_count);
  EXPECT_TRUE(decide_line("POST /page/round?go=on").go);
  EXPECT_FALSE(decide_line("POST /page/round?go=off").go);
  EXPECT_EQ(decide_line("POST /page/round?go=off").what, action::page_round);
  EXPECT_EQ(decide_line("POST /page/stop").what, action::page_stop);
  EXPECT_EQ(decide_line("POST /page/sale").what, action::page_sale);
  EXPECT_EQ(
      decide_bytes("POST /page/sale HTTP/1.1\r\nHost: localhost\r\nX-Conch-Token: a b\r\n\r\n").value_or(route{}).token,
      "a b");
}

TEST(HttpCounterRoutes, RefusesEverythingElse) {
  struct row {
    std::string line;
    http::status status;
  };
  for (auto const& [line, status] : std::vector<row>{
           {"GET /page", http::status::not_found},
           {"GET /?x", http::status::bad_request},
           {"POST /", http::status::method_not_allowed},
           {"GET /events?x", http::status::bad_request},
           {"GET /page/stop", http::status::method_not_allowed},
           {"POST /page/stop?x", http::status::bad_request},
           {"POST /page/count", http::status::bad_request},
           {"POST /page/count?go=on", http::status::bad_request},
           {"POST /page/round?lock=on", http::status::bad_request},
           {"GET /counter/", http::status::not_found},
           {"GET /Counter", http::status::not_found},
           {"GET //counter", http::status::not_found},
           {"GET /%63ounter", http::status::not_found},
           {"GET *", http::status::bad_request},
           {"GET http://h/counter", http::status::bad_request},
           {"CONNECT h:1", http::status::bad_request},
           {"POST /counter?lock=maybe", http::status::bad_request},
           {"POST /counter?lock=off&lock=on", http::status::bad_request},
           {"POST /counter?x", http::status::bad_request},
           {"GET /stats?x", http::status::bad_request},
           {"PUT /counter", http::status::method_not_allowed},
           {"HEAD /counter", http::status::method_not_allowed},
           {"BREW /counter", http::status::method_not_allowed},
           {"POST /stats", http::status::method_not_allowed},
           {"DELETE /metrics", http::status::method_not_allowed},
           {"POST /healthz", http::status::method_not_allowed},
       }) {
    route const refused = decide_line(line);
    EXPECT_EQ(refused.what, action::refuse) << line;
    EXPECT_EQ(refused.status, status) << line;
    EXPECT_FALSE(refused.reason.empty()) << line;
    EXPECT_EQ(refused.allow.empty(), status != http::status::method_not_allowed) << line;
  }
}

TEST(HttpCounterRoutes, RefusesWhatIsNotHttp) {
  struct row {
    std::string bytes;
    http::status status;
  };
  std::string const get = "GET /counter HTTP/1.1\r\nHost: localhost\r\n";
  for (auto const& [bytes, status] : std::vector<row>{
           {"\x16\x03\x01\x02\r\n\r\n", http::status::bad_request},
           {"GET /counter\r\n\r\n", http::status::bad_request},
           {"GET /counter HTTP/2.0\r\nHost: localhost\r\n\r\n", http::status::bad_request},
           {"GET /counter HTTP/1.1\r\n\r\n", http::status::bad_request},
           {get + "Host: localhost\r\n\r\n", http::status::bad_request},
           {get + "no colon\r\n\r\n", http::status::bad_request},
           {get + "Content-Length: x\r\n\r\n", http::status::bad_request},
           {get + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", http::status::bad_request},
           {get + "Content-Length: 4097\r\n\r\n", http::status::payload_too_large},
           {get + "A: " + std::string(9000, 'a') + "\r\n\r\n", http::status::request_header_fields_too_large},
       }) {
    auto const refused = decide_bytes(bytes);
    ASSERT_TRUE(refused.has_value()) << bytes.substr(0, 80);
    EXPECT_EQ(refused->what, action::refuse) << bytes.substr(0, 80);
    EXPECT_EQ(refused->status, status) << bytes.substr(0, 80);
  }
}

// A page of another site makes the browser send a POST; or that site gives its own name this server's address, after
// which the browser takes both for one.
TEST(HttpCounterRoutes, RefusesWhatABrowserSendsForAnotherSite) {
  auto const ask = [](std::string const& fields, std::string const& line = "POST /counter") {
    return decide_bytes(line + " HTTP/1.1\r\n" + fields + "\r\n\r\n").value_or(route{});
  };
  for (std::string const fields :
       {"Host: localhost:8080", "Host: LOCALHOST", "Host: 127.0.0.1:8080", "Host: 192.168.1.7", "Host: [::1]:8080",
        "Host: [::1]", "Host: shop.example:80", "Host: Shop.Example",
        "Host: localhost:8080\r\nOrigin: http://localhost:8080", "Host: localhost:8080\r\nSec-Fetch-Site: same-origin",
        "Host: localhost\r\nSec-Fetch-Site: none", "Host: [::1]:1\r\nOrigin: http://[::1]:1"}) {
    EXPECT_EQ(ask(fields).what, action::increment) << fields;
  }
  for (std::string const fields :
       {"Host: evil.example",
        "Host: evil.example:8080",
        "Host: localhost.evil.example",
        "Host: evil.localhost",
        "Host: 127.0.0.1.evil.example",
        "Host: shop.example.evil",
        "Host: localhost.",
        "Host: ",
        "Host: :80",
        "Host: localhost:x",
        "Host: localhost:80:80",
        "Host: ::1",
        "Host: [::1",
        "Host: [127.0.0.1]",
        "Host: [localhost]",
        "Host: localhost@evil.example",
        "Host: 127.1",
        "Host: 0x7f000001",
        "Host: localhost\r\nOrigin: http://evil.example",
        "Host: localhost\r\nOrigin: null",
        "Host: localhost\r\nOrigin: http://localhost:81",
        "Host: localhost\r\nOrigin: https://localhost",
        "Host: localhost\r\nOrigin: ",
        "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example",
        "Host: localhost\r\nSec-Fetch-Site: cross-site",
        "Host: localhost\r\nsec-fetch-site: same-site",
        "Host: evil.example\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin"}) {
    for (std::string const line : {"POST /counter", "DELETE /counter", "GET /counter", "GET /stats", "GET /nothing"}) {
      route const refused = ask(fields, line);
      EXPECT_EQ(refused.status, http::status::forbidden) << line << ' ' << fields;
    }
  }
  // No browser: neither field is there.
  EXPECT_EQ(decide_bytes("POST /counter HTTP/1.0\r\n\r\n").value_or(route{}).what, action::increment);
  EXPECT_EQ(decide_bytes("POST /counter HTTP/1.0\r\nOrigin: http://evil.example\r\n\r\n").value_or(route{}).status,
            http::status::forbidden);
}

TEST(HttpCounterRoutes, WaitsForTheRestOfARequest) {
  std::string const whole = "POST /counter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(decide_bytes(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_EQ(decide_bytes(whole).value_or(route{}).what, action::increment);
}

TEST(HttpCounterResp2, ReadsRepliesFromAnySplit) {
  struct row {
    std::string bytes;
    resp2_reply::kind what;
    std::string text;
  };
  for (auto const& [bytes, what, text] : std::vector<row>{
           {"+OK\r\n", resp2_reply::kind::text, "OK"},
           {":12\r\n", resp2_reply::kind::text, "12"},
           {"-ERR no\r\n", resp2_reply::kind::error, "ERR no"},
           {"$-1\r\n", resp2_reply::kind::nothing, ""},
           {"$0\r\n\r\n", resp2_reply::kind::text, ""},
           {"$4\r\na\r\nb\r\n", resp2_reply::kind::text, "a\r\nb"},
       }) {
    std::string input;
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
      input += bytes[i];
      EXPECT_FALSE(take_reply(input).has_value()) << bytes << i;
    }
    input += bytes.back() + std::string("+more");
    auto const reply = take_reply(input);
    ASSERT_TRUE(reply.has_value()) << bytes;
    EXPECT_EQ(reply->what, what) << bytes;
    EXPECT_EQ(reply->text, text) << bytes;
    EXPECT_EQ(input, "+more") << bytes;
  }
}

TEST(HttpCounterResp2, RefusesGarbage) {
  for (std::string bytes :
       {"HTTP/1.1 400\r\n", "*1\r\n", "$x\r\n", "$-2\r\n", "$99999999\r\n", "$1\r\nabc\r\n", "\r\n"}) {
    EXPECT_THROW(take_reply(bytes), resp2_error) << bytes;
  }
  std::string endless(longest_reply + 1, '+');
  EXPECT_THROW(take_reply(endless), resp2_error);
}

TEST(HttpCounterResp2, WritesCommandsOfAnyBytes) {
  EXPECT_EQ(encode_command({"SET", "a b", std::string_view("\r\n\0", 3)}),
            std::string("*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$3\r\n\r\n\0\r\n", 31));
}

TEST(HttpCounterAddress, UnderstandsTheFormsOfConch) {
  auto const plain = parse_address("redis://example");
  EXPECT_EQ(plain.host + ' ' + plain.port, "example 6379");
  auto const full = parse_address("redis://us%65r:p%40s%3as@[::1]:7000/3");
  EXPECT_EQ(full.host + ' ' + full.port, "::1 7000");
  EXPECT_EQ(full.user + ' ' + full.password + ' ' + full.database, "user p@s:s 3");
  EXPECT_EQ(parse_address("redis://:only@h").password, "only");
  auto const local = parse_address("unix:///run/re%20dis.sock?db=2");
  EXPECT_EQ(local.socket + ' ' + local.database, "/run/re dis.sock 2");
  EXPECT_TRUE(parse_address("memory://").in_memory);
  EXPECT_TRUE(parse_address("memory://name").in_memory);
}

TEST(HttpCounterAddress, RefusesOthersWithoutNamingThePassword) {
  for (std::string const url :
       {"", "redis:/h", "rediss://h", "http://h", "redis://:secret@", "redis://:secret@h/x", "redis://:secret@h/-1",
        "redis://:secret%4@h", "redis://:secret%zz@h", "unix://", "unix:///a?x=1"}) {
    try {
      parse_address(url);
      ADD_FAILURE() << url;
    } catch (std::invalid_argument const& error) {
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
    }
  }
}

std::string complaint(std::vector<char const*> words) {
  words.insert(words.begin(), "conch-http-counter");
  try {
    parse_options(static_cast<int>(words.size()), words.data());
    return "none";
  } catch (usage_error const& error) {
    return error.what();
  }
}

TEST(HttpCounterOptions, NameTheOneThatIsWrong) {
  EXPECT_EQ(complaint({}), "none");
  EXPECT_EQ(complaint({"--listen", "[::1]:0", "--threads", "1", "--wait-ms=0"}), "none");
  for (auto const& words : std::vector<std::vector<char const*>>{
           {"--listen", "127.0.0.1"},
           {"--listen", "127.0.0.1:"},
           {"--listen", "127.0.0.1:x"},
           {"--listen", "127.0.0.1:65536"},
           {"--listen", "::1:80"},
           {"--listen", "localhost:80"},
           {"--threads", "0"},
           {"--threads", "-1"},
           {"--threads", "two"},
           {"--wait-ms", "-1"},
           {"--lease-ms", "99"},
           {"--name", ""},
           {"--request-timeout-ms", "0"},
           {"--lock-server", "rediss://:secret@h"},
           {"--thread", "1"},
           {"--workers", "17"},
           {"--workers", "-1"},
       }) {
    EXPECT_NE(complaint(words).find(std::string(words[0]).substr(2)), std::string::npos)
        << words[0] << ' ' << words[1] << ": " << complaint(words);
  }
  EXPECT_NE(complaint({"word"}), "none");
}

}  // namespace
