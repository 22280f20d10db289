// A connection for questions that no client asks, to servers that answer badly.

#include "servers/redis/questions.hpp"
#include "servers/redis/cluster_masters.hpp"
#include "servers/redis/lock_names.hpp"
#include "servers/redis/probe.hpp"
#include "servers/redis/sentinel_answers.hpp"

#include <boost/system/system_error.hpp>

#include "integration/fake_server.hpp"

namespace conch::test {
namespace {

/// Answers PING, and each other command with that.
fake_server::part answers(std::string bytes) {
  return [bytes](fake_server::connection& c, int) {
    for (;;) c.write(c.command()[0] == "PING" ? "+PONG\r\n" : bytes);
  };
}

/// What it throws; its words are printable.
template <class F>
error_code error_of(F const& ask) {
  try {
    ask();
  } catch (boost::system::system_error const& error) {
    EXPECT_EQ(std::string{error.what()}.find('\x1b'), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return {};
}

struct asked {
  explicit asked(std::string const& bytes) : server{answers(bytes)} {}
  fake_server server;
  redis::questions questions{{}, redis::parse_one(server.url()), 3s};
};

TEST(Questions, RefuseAnAnswerThatIsNoneOrTooLong) {
  for (std::string const& wrong :
       {std::string{"HTTP/1.1 400\r\n"}, std::string{":x\r\n"}, std::string{"$99999999999\r\n"},
        std::string{"*99999999999\r\n"}, "$" + std::to_string(64u << 20u) + "\r\n", std::string{"*2\r\n*1048575\r\n"},
        std::string{"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}}) {
    asked a{wrong};
    error_of([&] { a.questions.ask({"INFO"}); });
    error_of([&] { a.questions.ask({"INFO"}); });  // at once: the connection has gone
  }
}

/// Many texts, each of which is short enough.
TEST(Questions, TakeNoMoreThanSomeMebibytes) {
  fake_server flood{[](fake_server::connection& c, int) {
    c.command();
    c.write("+PONG\r\n");
    c.command();
    c.write("*1000000\r\n");
    std::string const one = fake_server::connection::bulk(std::string(60'000, 'x'));
    for (std::size_t sent = 0; sent < std::size_t{1} << 30U; sent += one.size()) c.write(one);
  }};
  redis::questions questions{{}, redis::parse_one(flood.url())};
  error_of([&] { questions.ask({"INFO"}); });
}

TEST(Questions, WaitForABoundedTimeForWhateverIsMissing) {
  fake_server silent{[](fake_server::connection& c, int) { c.wait_for_end(); }};
  redis::address const where = redis::parse_one(silent.url());
  EXPECT_EQ(error_of([&] { redis::questions{{}, where, 50ms}; }), errc::unreachable);
  fake_server falls_silent{[](fake_server::connection& c, int) {
    c.command();
    c.write("+PONG\r\n");
    c.wait_for_end();
  }};
  redis::questions questions{{}, redis::parse_one(falls_silent.url()), 500ms};
  error_code const why = error_of([&] { questions.ask({"INFO"}); });
  EXPECT_EQ(why, errc::unreachable);
  EXPECT_NE(why.message().find(falls_silent.url() + ": no answer in time"), std::string::npos) << why.message();
}

TEST(Questions, TakeTheAnswerToTheirOwnQuestion) {
  fake_server talkative{[](fake_server::connection& c, int) {
    c.command();
    c.write("+PONG\r\n+unasked\r\n+unasked\r\n");
    c.command();
    c.write("+asked\r\n");
    c.wait_for_end();
  }};
  redis::questions questions{{}, redis::parse_one(talkative.url())};
  EXPECT_EQ(questions.ask({"INFO"}).text(), "asked");
}

TEST(Questions, ThrowTheServersErrorInPrintableWords) {
  asked a{"-NOPERM \x1b[2J no\r\n"};
  EXPECT_TRUE(a.questions.ask({"SCAN"}).is_error());
  EXPECT_EQ(error_of([&] { a.questions.answer_to({"SCAN"}); }), errc::access_denied);
  servers::found_locks none;
  EXPECT_EQ(error_of([&] { redis::find_locks(a.questions, "conch:", {}, none); }), errc::access_denied);
}

TEST(Questions, AScanThatMakesNoSenseIsAnError) {
  for (char const* const wrong : {"+OK\r\n", "*2\r\n$1\r\n0\r\n$1\r\n0\r\n", "*0\r\n", ":1\r\n"}) {
    asked a{wrong};
    servers::found_locks none;
    EXPECT_EQ(error_of([&] { redis::find_locks(a.questions, "conch:", {}, none); }), errc::protocol) << wrong;
  }
}

TEST(Questions, OfAHostileNodeMakeNoMap) {
  std::string many = "*16384\r\n";
  for (int slot = 0; slot < 16384; ++slot) {
    std::string const at = ":" + std::to_string(slot) + "\r\n";
    many += "*3\r\n" + at + at + "*3\r\n$1\r\nh\r\n:" + std::to_string(1 + slot) + "\r\n$40\r\n" +
            std::string(40, 'a') + "\r\n";
  }
  for (std::string const& wrong :
       {many, std::string{":1\r\n"}, std::string{"*1\r\n:1\r\n"}, std::string{"*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n"}}) {
    fake_server node{answers(wrong)};
    EXPECT_EQ(error_of([&] { redis::ask_for_masters({}, {{redis::parse_one(node.url())}}); }), errc::protocol);
  }
  fake_server empty{answers("*0\r\n")};
  EXPECT_EQ(error_of([&] { redis::ask_for_masters({}, {{redis::parse_one(empty.url())}}); }), errc::unreachable);
}

TEST(Questions, OfASentinelThatNamesNobodySayWhatItSays) {
  struct row {
    char const* answer;
    errc why;
    char const* says;
  };
  for (row const& one : {row{"$-1\r\n", errc::server_refused, "does not know this name"},
                         row{"-ERR unknown command 'SENTINEL'\r\n", errc::server_refused, "this is not a Sentinel"},
                         row{"*2\r\n$1\r\nh\r\n$5\r\n70000\r\n", errc::protocol, "not the address of a master"},
                         row{"*2\r\n$4\r\n\x1b[2J\r\n$1\r\n7\r\n", errc::protocol, "not the address of a master"},
                         row{"-NOPERM no\r\n", errc::access_denied, "NOPERM"}}) {
    fake_server sentinel{answers(one.answer)};
    redis::sentinel_url url{{redis::parse_one(sentinel.url())}, {}};
    url.server.master = "m";
    std::vector<redis::sentinel_answer> const all = redis::ask_sentinels({}, url);
    error_code const why = error_of([&] { redis::find_master({}, url, all); });
    EXPECT_EQ(why, one.why) << why.message();
    EXPECT_NE(why.message().find(one.says), std::string::npos) << why.message();
  }
}

TEST(Questions, ReachAServerThatIsTooOldForAClient) {
  fake_server old{[](fake_server::connection& c, int) {
    for (;;) {
      auto const words = c.command();
      if (words[0] == "HELLO") c.write("-ERR unknown command `HELLO`, with args beginning with: `3`\r\n");
      else if (words[0] == "TIME") c.write(fake_server::connection::now());
      else if (words[0] == "INFO")
        c.write(fake_server::connection::bulk(words[1] == "server" ? "redis_version:5.0.3\r\n" : "role:master\r\n"));
      else c.write(":1\r\n");
    }
  }};
  config settings;
  settings.url = old.url();
  auto const probe = redis::make_probe(settings, redis::parse_one(old.url()));
  std::string all;
  probe->examine([&](std::string const& server, servers::finding const& f) {
    EXPECT_EQ(server, "");
    all += f.what + (f.how == servers::verdict::bad ? ": bad\n" : ": not bad\n");
  });
  EXPECT_TRUE(all.starts_with("reachable: not bad\n")) << all;
  EXPECT_NE(all.find("version: bad\n"), std::string::npos) << all;
  EXPECT_TRUE(probe->clock());
  error_code const why = error_of([&] { probe->locks({}); });
  EXPECT_EQ(why, errc::protocol);
  EXPECT_NE(why.message().find("Redis 6.2 or newer is needed"), std::string::npos)
      << "as a client says: " << why.message();
}

TEST(Questions, GoOnWithAnotherConnectionAfterAnError) {
  redis_server server;
  config settings;
  settings.url = server.url();
  auto const probe = redis::make_probe(settings, redis::parse_one(server.url()));
  EXPECT_TRUE(probe->locks({}).empty());
  server.restart(false);
  error_of([&] { probe->locks({}); });
  EXPECT_TRUE(probe->locks({}).empty());
  EXPECT_GT(probe->round_trip(), duration::zero());
}

}  // namespace
}  // namespace conch::test
