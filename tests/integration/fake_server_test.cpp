// Peers that are not a lock server, or a broken one: nothing hangs, nothing crashes, and once the server is a real one
// every client is served.

#include "integration/fake_server.hpp"

#include "servers/redis/scripts.hpp"

#include <regex>

namespace conch::test {
namespace {

using connection = fake_server::connection;

class FakeServer : public with_server<FakeServer> {
 protected:
  config settings(fake_server const& fake) {
    config c = quick(fake.url());
    c.command_timeout = 200ms;
    c.connect_timeout = 200ms;
    return c;
  }
};

struct misbehaviour {
  char const* name;
  std::function<void(connection&)> act;
};

void flood(connection& c, std::string const& bytes) {
  for (;;) c.write(bytes);
}

TEST_F(FakeServer, AGreetingThatIsNotRedisIsAProtocolErrorAtOnce) {
  for (auto const& [name, act] : std::vector<misbehaviour>{
           {"http",
            [](connection& c) {
              c.write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
              c.wait_for_end();
            }},
           {"binary",
            [](connection& c) {
              c.write(std::string("\0\1\2\3\xff\xfe", 6));
              c.wait_for_end();
            }},
           {"a huge text",
            [](connection& c) {
              c.write("$99999999999\r\n");
              c.wait_for_end();
            }},
           {"a huge map",
            [](connection& c) {
              c.write("%99999999\r\n");
              c.wait_for_end();
            }},
           {"an endless line", [](connection& c) { flood(c, std::string(4096, 'a')); }},
           {"an endless simple string",
            [](connection& c) {
              c.write("+");
              flood(c, std::string(4096, 'a'));
            }},
           {"endless depth", [](connection& c) { flood(c, "*1\r\n"); }},
           {"a streamed map",
            [](connection& c) {
              c.write("%?\r\n");
              flood(c, "+a\r\n+b\r\n");
            }},
           {"hello is ok",
            [](connection& c) {
              c.write("+OK\r\n");
              c.wait_for_end();
            }},
           {"hello is a number",
            [](connection& c) {
              c.write(":1\r\n");
              c.wait_for_end();
            }},
           {"hello is null",
            [](connection& c) {
              c.write("_\r\n");
              c.wait_for_end();
            }},
           {"hello is an empty map",
            [](connection& c) {
              c.write("%0\r\n");
              c.wait_for_end();
            }},
           {"hello has odd members",
            [](connection& c) {
              c.write("%2\r\n:1\r\n*1\r\n:2\r\n$7\r\nversion\r\n_\r\n");
              c.wait_for_end();
            }},
           {"too old",
            [](connection& c) {
              c.greet("6.0.16");
              c.wait_for_end();
            }},
           {"much too old",
            [](connection& c) {
              c.write("-ERR unknown command `HELLO`, with args beginning with: `3`\r\n");
              c.wait_for_end();
            }},
           {"no RESP3",
            [](connection& c) {
              c.write("-NOPROTO unsupported protocol version\r\n");
              c.wait_for_end();
            }},
       }) {
    fake_server fake{[&](connection& c, int) { act(c); }};
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings(fake)};
      mutex m{c, "greeting"};
      auto const began = steady::now();
      auto r = co_await m.async_acquire(as_tuple);
      EXPECT_EQ(std::get<0>(r), errc::protocol) << name << ": " << std::get<0>(r).message();
      EXPECT_LT(steady::now() - began, 2s) << name;
    };
    w.run(body);
  }
}

TEST_F(FakeServer, AGreetingThatFailsForNowIsTriedAgain) {
  for (auto const& [name, act] : std::vector<misbehaviour>{
           {"closes", [](connection&) {}},
           {"silent", [](connection& c) { c.wait_for_end(); }},
           {"half a reply",
            [](connection& c) {
              c.write("%3\r\n$7\r\nver");
              c.wait_for_end();
            }},
           {"loading",
            [](connection& c) {
              c.write("-LOADING Redis is loading the dataset in memory\r\n");
              c.wait_for_end();
            }},
           {"only pushes",
            [](connection& c) {
              for (;;) {
                c.write(">2\r\n+a\r\n+b\r\n");
                std::this_thread::sleep_for(1ms);
              }
            }},
           {"closes after it", [](connection& c) { c.greet(); }},
           {"silent after it",
            [](connection& c) {
              c.greet();
              c.wait_for_end();
            }},
           {"half a subscription",
            [](connection& c) {
              c.greet();
              c.command();
              c.write(":0\r\n>3\r\n$9\r\nsubs");
              c.wait_for_end();
            }},
       }) {
    fake_server fake{[&](connection& c, int number) {
      if (number < 3) act(c);
      else c.proxy(server());
    }};
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings(fake)};
      mutex m{c, "again"};
      auto r = co_await m.async_acquire(as_tuple);
      EXPECT_FALSE(std::get<0>(r)) << name << ": " << std::get<0>(r).message();
      EXPECT_EQ(fake.connections(), 4) << name;
      if (!std::get<0>(r)) co_await std::get<1>(r).async_release();
    };
    w.run(body);
  }
}

/// What a server says is shown to people: in the log, in errors and in the statistics, but never as it came.
TEST_F(FakeServer, NoWordOfTheServerIsObeyedByATerminal) {
  std::string const bad =
      "\x1b]0;owned\a\x1b[2J\xc2\x9b"
      "31m" +
      std::string(300, 'x');
  auto const say = [&bad](std::string const& word) { return "-" + word + " " + bad + "\r\n"; };
  std::string const several_lines = "!" + std::to_string(10 + bad.size()) + "\r\nOOM first\n" + bad + "\r\n";
  for (auto const& [name, act] : std::vector<misbehaviour>{
           {"HELLO is refused",
            [&](connection& c) {
              c.command();
              c.write(say("WRONGPASS"));
              c.wait_for_end();
            }},
           {"HELLO fails for now",
            [&](connection& c) {
              c.command();
              c.write(say("LOADING"));
              c.wait_for_end();
            }},
           {"the version",
            [&](connection& c) {
              c.greet("1.0" + bad);
              c.wait_for_end();
            }},
           {"the policy",
            [&](connection& c) {
              c.greet("7.0.15", "all\x1b[2J");
              c.subscribe();
              c.command();
              c.write(say("OOM"));
              c.wait_for_end();
            }},
           {"SUBSCRIBE is denied",
            [&](connection& c) {
              c.greet();
              c.command();
              c.write(":0\r\n");
              c.command();
              c.write(say("NOPERM"));
              c.wait_for_end();
            }},
           {"a script fails",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              c.command();
              c.write(say("WRONGTYPE"));
              c.wait_for_end();
            }},
           {"in several lines",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              c.command();
              c.write(several_lines);
              c.wait_for_end();
            }},
           {"a script fails for now",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              for (;;) {
                c.command();
                c.write(say("BUSY"));
              }
            }},
           {"a replica",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              c.command();
              c.write(say("READONLY"));
              c.wait_for_end();
            }},
           {"no RESP",
            [&](connection& c) {
              c.write(bad + "\r\n");
              c.wait_for_end();
            }},
       }) {
    for (bool const quorum : {false, true}) {
      fake_server fake{[&](connection& c, int) { act(c); }};
      journal log;
      config settings = this->settings(fake);
      settings.offline_timeout = 900ms;
      settings.log = log.hook();
      if (quorum) settings.quorum.servers = {fake.url()};
      auto const body = [&]() -> asio::awaitable<void> {
        client c{w.ctx.get_executor(), settings};
        mutex m{c, "name\x1b[31m" + std::string(300, 'n')};
        auto r = co_await m.async_acquire({.wait = 1s}, as_tuple);
        EXPECT_TRUE(std::get<0>(r)) << name;
        std::string all = std::get<0>(r).message() + "\n" + *log.text;
        EXPECT_LT(std::get<0>(r).message().size(), 600u) << name;
        statistics const seen = c.stats();
        for (auto const& s : seen.servers) all += s.url + "\n" + s.last_trouble + "\n";
        EXPECT_EQ(all.find_first_of("\x1b\a\r"), std::string::npos) << name << ": " << testing::PrintToString(all);
        EXPECT_EQ(all.find("\xc2\x9b"), std::string::npos) << name;
        EXPECT_EQ(all.find(std::string(200, 'x')), std::string::npos) << name << ": " << all;
        EXPECT_EQ(all.find(std::string(200, 'n')), std::string::npos) << name << ": " << all;
        EXPECT_NE(all.find("x1b"), std::string::npos) << name << ": nothing of it was shown at all: " << all;
      };
      w.run(body);
    }
  }
}

TEST_F(FakeServer, WhatItRepeatsOfAPasswordIsHidden) {
  std::string token = "tok-4711-";
  while (token.size() < 1500) token += std::to_string(token.size() * 7919);
  auto const as_redis = [](std::string const& secret) {  // which cuts what it repeats
    return "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'app' '" + secret.substr(0, 100) +
           "'\r\n";
  };
  for (auto const& [name, act] : std::vector<misbehaviour>{
           {"HELLO is not known",
            [&](connection& c) {
              c.write(as_redis(c.command().at(4)));
              c.wait_for_end();
            }},
           {"HELLO fails for now",
            [&](connection& c) {
              c.write("-LOADING " + c.command().at(4) + "\r\n");
              c.wait_for_end();
            }},
           {"the version",
            [&](connection& c) {
              c.greet(token.substr(0, 30));
              c.wait_for_end();
            }},
           {"the policy",
            [&](connection& c) {
              c.greet("7.0.15", token.substr(20, 40));
              c.subscribe();
              c.command();
              c.write("-OOM " + token + "\r\n");
              c.wait_for_end();
            }},
           {"SUBSCRIBE is denied",
            [&](connection& c) {
              c.greet();
              c.command();
              c.write(":0\r\n");
              c.command();
              c.write("-NOPERM of user " + token.substr(700) + "\r\n");
              c.wait_for_end();
            }},
           {"a script fails for now",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              for (;;) {
                c.command();
                c.write("-BUSY " + token.substr(0, 12) + "\r\n");
              }
            }},
       }) {
    for (bool const quorum : {false, true}) {
      fake_server fake{[&](connection& c, int) { act(c); }};
      journal log;
      config settings = this->settings(fake);
      settings.offline_timeout = 900ms;
      settings.log = log.hook();
      settings.credentials_provider = [&](std::string const&, credentials_handler done) {
        done({}, {.user = "app", .password = token});
      };
      if (quorum) settings.quorum.servers = {fake.url()};
      auto const body = [&]() -> asio::awaitable<void> {
        client c{w.ctx.get_executor(), settings};
        mutex m{c, "a"};
        auto r = co_await m.async_acquire({.wait = 1s}, as_tuple);
        EXPECT_TRUE(std::get<0>(r)) << name;
        std::string all = std::get<0>(r).message() + "\n" + *log.text;
        statistics const seen = c.stats();
        for (auto const& s : seen.servers) all += s.url + "\n" + s.last_trouble + "\n";
        // Six digits of the token may be in the random id of the client, too.
        all = std::regex_replace(all, std::regex{"client [0-9a-f]{32}"}, "client");
        for (std::size_t at = 0; at + 6 <= token.size(); ++at) {
          EXPECT_EQ(all.find(token.substr(at, 6)), std::string::npos)
              << name << " shows what stands at " << at << ": " << all;
          if (all.find(token.substr(at, 6)) != std::string::npos) break;
        }
        EXPECT_NE(all.find("***"), std::string::npos) << name << ": nothing of it was shown at all: " << all;
      };
      w.run(body);
    }
  }
}

/// What comes instead of the answer to the first script.
TEST_F(FakeServer, ABrokenAnswerToAScriptEndsTheConnectionOrTheAcquireAndNeverGrants) {
  std::string const now = std::to_string(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  for (std::string const& answer :
       std::vector<std::string>{"+OK\r\n",
                                ":0\r\n",
                                ":-7\r\n",
                                ":9223372036854775807\r\n",
                                ":4503599627370497\r\n",
                                "_\r\n",
                                "$-1\r\n",
                                "*-1\r\n",
                                "*0\r\n",
                                "#t\r\n",
                                ",1.5\r\n",
                                "$3\r\nabc\r\n",
                                "%1\r\n:1\r\n:2\r\n",
                                "*1\r\n:0\r\n",
                                "*2\r\n:1\r\n:2\r\n",
                                "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n",
                                "*3\r\n:9\r\n:9\r\n:9\r\n",
                                "*3\r\n:-1\r\n:0\r\n:0\r\n",
                                "*3\r\n:1\r\n*1\r\n:1\r\n:3\r\n",
                                "garbage\r\n",
                                "*99999999\r\n",
                                "$1\r\nabc\r\n",
                                "*3\r\n:1\r\n:0\r\n:" + now + "\r\n",
                                "*3\r\n:1\r\n:-7\r\n:" + now + "\r\n",
                                "*3\r\n:1\r\n:9223372036854775807\r\n:" + now + "\r\n",
                                "*3\r\n:1\r\n:4503599627370497\r\n:" + now + "\r\n",
                                "*4\r\n:0\r\n:9223372036854775807\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
                                "*3\r\n:1\r\n",
                                "-\r\n",
                                "-NOSCRIPT\r\n-NOSCRIPT\r\n-NOSCRIPT\r\n"}) {
    std::atomic<int> asked{0};
    fake_server fake{[&](connection& c, int number) {
      if (number > 0) c.proxy(server());
      c.greet();
      c.subscribe();
      c.command();
      ++asked;
      c.write(answer);
      c.wait_for_end();
    }};
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings(fake)};
      mutex m{c, "answer"};
      auto r = co_await m.async_acquire({.wait = 5s}, as_tuple);
      auto& [ec, h] = r;
      EXPECT_EQ(asked, 1);
      if (ec) {
        EXPECT_TRUE(ec == errc::protocol || ec == errc::server_refused) << answer << ": " << ec.message();
      } else {
        EXPECT_EQ(probe.integer({"EXISTS", lock_key("answer")}), 1) << "granted by " << answer;
        EXPECT_GT(h.fence(), 0) << answer;
        co_await h.async_release();
      }
      auto const freed = [&] { return is_free(probe, "answer"); };
      co_await until(freed, "free");
    };
    w.run(body);
  }
}

TEST_F(FakeServer, AbsurdTimesDoNoHarm) {
  for (std::string const& time :
       std::vector<std::string>{"+OK\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\n0\r\n$1\r\n0\r\n",
                                "*2\r\n$19\r\n9223372036854775807\r\n$1\r\n0\r\n", "*2\r\n$2\r\n-5\r\n$1\r\n0\r\n",
                                "*2\r\n$20\r\n99999999999999999999\r\n$1\r\n0\r\n", "-ERR no time\r\n"}) {
    fake_server fake{[&](connection& c, int number) {
      if (number > 0) c.proxy(server());
      c.command();
      c.write("%3\r\n$7\r\nversion\r\n$3\r\n7.0\r\n$2\r\nid\r\n:-7\r\n$4\r\nrole\r\n$6\r\nmaster\r\n");
      c.command();
      c.write(":12\r\n");
      c.command();
      c.write(time);
      c.wait_for_end();
    }};
    auto const body = [&]() -> asio::awaitable<void> {
      client c{w.ctx.get_executor(), settings(fake)};
      mutex m{c, "time"};
      auto r = co_await m.async_acquire(as_tuple);
      EXPECT_TRUE(std::get<0>(r) == errc::protocol || std::get<0>(r) == errc::server_refused)
          << time << std::get<0>(r).message();
      hold h = co_await m.async_acquire();  // by then it is a real one
      EXPECT_TRUE(h.valid());
      co_await h.async_release();
    };
    w.run(body);
  }
}

TEST_F(FakeServer, AnAnswerTooManyEndsTheConnectionAndNeverGrants) {
  fake_server fake{[&](connection& c, int number) {
    if (number > 1) c.proxy(server());
    c.greet();
    if (number == 0) c.write("+EXTRA\r\n");
    c.subscribe();
    if (number == 1) {
      // Nothing else is asked: what follows the answer to this question would grant an acquire.
      c.command();
      c.write("-ERR not now\r\n:1\r\n*3\r\n:1\r\n:5\r\n:5\r\n");
    }
    c.wait_for_end();
  }};
  auto const body = [&]() -> asio::awaitable<void> {
    config patient = quick(fake.url(), 9s);
    patient.label = "";  // the question is the first command
    client c{w.ctx.get_executor(), patient};
    mutex m{c, "extra"};
    // by the first connection, whose answers are not what was asked for
    error_code refused = make_error_code(errc::access_denied);
    while (refused == errc::access_denied) {
      refused = std::get<0>(co_await m.async_inspect(as_tuple));
      co_await pause_for(1ms);
    }
    EXPECT_TRUE(refused == errc::server_refused) << refused.message();
    // From then on no answer belongs to its question: an acquire may end in an error, or wait for a better connection.
    hold h;
    for (auto const end = steady::now() + 15s; !h && steady::now() < end;) {
      auto r = co_await m.async_acquire(as_tuple);
      h = std::move(std::get<1>(r));
      co_await pause_for(10ms);
    }
    CO_ASSERT(h.valid());
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("extra")}), 1);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(FakeServer, AGrantThatNobodyAskedForIsGivenBack) {
  std::atomic<bool> given_back{false};
  fake_server fake{[&](connection& c, int) {
    c.greet();
    c.subscribe();
    auto const acquire = c.command();
    std::string const id = acquire[6];
    std::string const now = std::to_string(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
    std::string const client = id.substr(0, id.find('.'));
    c.write("*4\r\n:0\r\n:30000\r\n:" + now + "\r\n:1\r\n");  // in line
    c.push(client + ".999 77 " + now + " 3000 conch:{unasked}");
    for (;;) {
      auto const words = c.command();
      if (words.size() > 6 && words[6] == client + ".999") {
        given_back = true;
        c.write("*4\r\n:1\r\n:0\r\n:0\r\n:" + now + "\r\n");
      }
    }
  }};
  auto const body = [&]() -> asio::awaitable<void> {
    config nameless = quick(fake.url());
    nameless.label = "";  // the acquire is the first command
    client c{w.ctx.get_executor(), nameless};
    mutex m{c, "asked"};
    bool granted = false;
    m.async_acquire([&](error_code ec, hold) { granted = !ec; });
    auto const done = [&] { return given_back.load(); };
    co_await until(done, "the stray grant given back");
    EXPECT_FALSE(granted);
    EXPECT_EQ(c.stats().pushes_stray, 1u);
  };
  w.run(body);
}

TEST_F(FakeServer, MalformedPushesAreIgnored) {
  fake_server fake{[&](connection& c, int) {
    c.greet();
    c.subscribe();
    auto const acquire = c.command();
    std::string const id = acquire[6];
    std::string const now = std::to_string(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
    c.write("*4\r\n:0\r\n:30000\r\n:" + now + "\r\n:1\r\n");
    std::string const good = id + " 77 " + now + " 3000 conch:{pushed}";
    std::string const client = id.substr(0, id.find('.'));
    for (std::string const& bad : std::vector<std::string>{"x",
                                                           " ",
                                                           "    ",
                                                           id,
                                                           id + " ",
                                                           id + " 77",
                                                           id + " 77 " + now,
                                                           id + " 77 " + now + " 3000",
                                                           id + " 77 " + now + " 3000 ",
                                                           id + " 77 " + now + " 3000 conch:{",
                                                           id + " 77 " + now + " 3000 conch:{}",
                                                           id + " 77 " + now + " 3000 pushed",
                                                           id + " 77 " + now + " -1 conch:{pushed}",
                                                           id + " 77 " + now + " 99999999999999 conch:{pushed}",
                                                           client + " 77 " + now + " 3000 conch:{pushed}",
                                                           client + ".0 77 " + now + " 3000 conch:{pushed}",
                                                           client + ".-1 77 " + now + " 3000 conch:{pushed}",
                                                           "0000.1 77 " + now + " 3000 conch:{pushed}",
                                                           id + " 77 9223372036854775807 3000 conch:{pushed}",
                                                           id + " 77 -9223372036854775807 3000 conch:{pushed}"}) {
      c.push(bad);
    }
    c.write(">1\r\n$7\r\nmessage\r\n>2\r\n$7\r\nmessage\r\n*1\r\n:1\r\n>4\r\n$8\r\npmessage\r\n+a\r\n+b\r\n+c\r\n");
    c.write(">3\r\n$7\r\nmessage\r\n$7\r\nanother\r\n" + connection::bulk(good));  // another channel
    c.write(">3\r\n:1\r\n:2\r\n:3\r\n>3\r\n$10\r\ninvalidate\r\n_\r\n_\r\n>0\r\n");
    c.push(good);
    for (;;) {
      auto const words = c.command();
      bool const asks_again = words.size() > 7 && words[7] == "wait";
      c.write(words[0] == "PING" ? "+PONG\r\n"
              : asks_again       ? "*4\r\n:1\r\n:77\r\n:" + now + "\r\n:0\r\n"
                                 : "*4\r\n:1\r\n:0\r\n:0\r\n:" + now + "\r\n");
    }
  }};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(fake.url())};
    mutex m{c, "pushed"};
    hold h = co_await m.async_acquire({.wait = 5s});
    EXPECT_EQ(h.fence(), 77 * 4096);
    EXPECT_EQ(fake.connections(), 1);
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

TEST_F(FakeServer, ReconnectsAreSpacedOutAndAnswerlessConnectionsDoNotCount) {
  for (bool const greets : {false, true}) {
    fake_server fake{[&](connection& c, int) {
      if (greets) c.greet();
    }};
    auto const body = [&]() -> asio::awaitable<void> {
      config s = settings(fake);
      s.reconnect_min = 20ms;
      s.reconnect_max = 160ms;
      s.offline_timeout = 800ms;
      client c{w.ctx.get_executor(), s};
      mutex m{c, "spaced"};
      error_code result;
      m.async_acquire([&](error_code ec, hold) { result = ec; });
      co_await pause_for(1s);
      EXPECT_GE(fake.connections(), 5) << "greets: " << greets;
      EXPECT_LE(fake.connections(), 20) << "greets: " << greets;
      EXPECT_EQ(result, errc::unreachable) << "greets: " << greets << ": " << result.message();
    };
    w.run(body);
  }
}

/// Wherever it says LOADING, and however often the connection breaks over it: an acquire gives up after
/// offline_timeout, and says why.
TEST_F(FakeServer, P11LoadingDoesNotOutliveOfflineTimeoutAndIsTheReason) {
  constexpr std::string_view loading = "-LOADING Redis is loading the dataset in memory\r\n";
  auto const says_so = [&](connection& c, int times = 1 << 20) {
    for (int i = 0; i < times; ++i) {
      c.command();
      c.write(loading);
    }
  };
  for (auto const& [name, act] : std::vector<misbehaviour>{
           {"from the greeting on", [&](connection& c) { says_so(c); }},
           {"behind the greeting",
            [&](connection& c) {
              c.greet();
              says_so(c);
            }},
           {"to what is asked",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              says_so(c);
            }},
           {"to what is asked, and closes",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              says_so(c, 2);
            }},
           {"to what is asked, and is silent",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              says_so(c, 2);
              c.wait_for_end();
            }},
           {"once, and closes at the next question",
            [&](connection& c) {
              c.greet();
              c.subscribe();
              says_so(c, 1);
              c.command();
            }},
       }) {
    fake_server fake{[&](connection& c, int) { act(c); }};
    auto const body = [&]() -> asio::awaitable<void> {
      for (int kind = 0; kind < 3; ++kind) {
        config s = settings(fake);
        s.offline_timeout = 1s;
        s.connect_timeout = 900ms;  // of a busy machine
        client c{w.ctx.get_executor(), s};
        mutex m{c, "loading"};
        auto const began = steady::now();
        error_code ec;
        if (kind == 0) {
          auto const r = co_await m.async_acquire(as_tuple);
          ec = std::get<0>(r);
        } else if (kind == 1) {
          auto const r = co_await m.async_try_acquire(as_tuple);
          ec = std::get<0>(r);
        } else {
          acquire_options const shorter{.wait = 800ms};
          auto const r = co_await m.async_acquire(shorter, as_tuple);
          ec = std::get<0>(r);
        }
        auto const took = std::chrono::duration_cast<std::chrono::milliseconds>(steady::now() - began);
        EXPECT_TRUE(ec == errc::unreachable || (kind == 2 && ec == errc::timed_out)) << name << ": " << ec.message();
        EXPECT_TRUE(ec.message().find("LOADING") != std::string::npos ||
                    std::string{name}.find("close") != std::string::npos ||
                    std::string{name}.find("silent") != std::string::npos)
            << name << ": " << ec.message();
        EXPECT_NE(ec.message().find(": "), std::string::npos) << name << ": " << ec.message();
        // 1 s, and a command time-out of 200 ms; without the setting it would be 10 s
        EXPECT_LT(took, 5s) << name << ": " << ec.message();
      }
    };
    w.run(body, 60s);
  }
}

// ------------------------------------------------------------------------------------------ a real server behind it

/// Lets everything through, but takes the connection down when the server has answered a command with `words` in it.
struct answer_loser {
  std::string words;
  bool armed = true;
  bool seen = false;

  bool forward(std::string& bytes) {
    seen = seen || (armed && bytes.find(words) != std::string::npos);
    return true;
  }
  bool back(std::string&) {
    if (!seen) return true;
    armed = seen = false;
    return false;
  }
};

class LostAnswers : public FakeServer, public testing::WithParamInterface<char const*> {};

INSTANTIATE_TEST_SUITE_P(Of, LostAnswers, testing::Values("acquire", "release", "renew"),
                         [](auto const& one) { return std::string{one.param}; });

TEST_P(LostAnswers, P8ARequestWhoseAnswerIsLostHasTheEffectOfOnce) {
  for (redis::script const& s : redis::all_scripts()) probe.command({"SCRIPT", "LOAD", s.source});
  answer_loser loser{std::string{redis::find_script(GetParam()).sha1}};
  fake_server fake{[&](connection& c, int) {
    c.proxy(
        server(), [&](std::string& b) { return loser.forward(b); }, [&](std::string& b) { return loser.back(b); });
  }};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(fake.url(), 6s)};
    mutex m{c, "lost answers"};
    hold h = co_await m.async_acquire({.wait = 20s});
    EXPECT_TRUE(h.valid());
    auto const renewed = [&] { return c.stats().renewals >= 2; };
    co_await until(renewed, "renewals");
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(std::stoll(probe.command({"GET", fence_key("lost answers")})), h.fence() / 4096);
    auto r = co_await h.async_release(as_tuple);
    EXPECT_FALSE(std::get<0>(r)) << std::get<0>(r).message();
    EXPECT_TRUE(std::get<1>(r));
    EXPECT_TRUE(is_free(probe, "lost answers"));
    EXPECT_EQ(fake.connections(), 2);
    EXPECT_EQ(c.stats().losses, 0u);
  };
  w.run(body);
}

TEST_F(FakeServer, P5AWaiterThatIsCutOffBehindItsGrantHasItAfterTheReconnect) {
  std::atomic<bool> cut{true};
  fake_server fake{[&](connection& c, int) {
    c.proxy(server(), {}, [&](std::string& b) {
      // The grant never arrives.
      return b.find("conch:{cut off}") == std::string::npos || !cut.exchange(false);
    });
  }};
  auto const body = [&]() -> asio::awaitable<void> {
    client holder{w.ctx.get_executor(), steady_config(server())};
    config behind = quick(fake.url(), 9s);
    client waiter{w.ctx.get_executor(), behind};
    mutex held{holder, "cut off"};
    mutex wanted{waiter, "cut off"};
    hold h = co_await held.async_acquire();
    hold next;
    wanted.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const queued = [&] { return in_line(probe, "cut off") == 1; };
    co_await until(queued, "in line");
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 2500ms);  // a claim is 3 s
    EXPECT_EQ(waiter.stats().connects, 2u);
    co_await next.async_release();
  };
  w.run(body);
}

/// A link that goes dead silently: neither side receives anything, no connection is closed.
TEST_F(FakeServer, ALinkThatGoesSilentIsFoundByTheNextCommandAndByTheKeepAlive) {
  std::atomic<bool> dead{false};
  fake_server fake{[&](connection& c, int number) {
    auto const swallow = [&](std::string& b) {
      if (dead && number == 0) b.clear();
      return true;
    };
    c.proxy(server(), swallow, swallow);
  }};
  auto const body = [&]() -> asio::awaitable<void> {
    config s = quick(fake.url(), 1500ms);
    s.keep_alive = 100ms;
    client c{w.ctx.get_executor(), s};
    mutex m{c, "dead link"};
    {
      hold connects = co_await m.async_acquire();
      co_await connects.async_release();
    }
    dead = true;
    auto const back = [&] { return c.stats().connects == 2; };
    co_await until(back, "a new connection");
    hold h = co_await m.async_acquire({.wait = 2s});
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
