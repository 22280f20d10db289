// Commands of one turn that go out as one script, and what comes back.
#include "protocol/gathering.hpp"
#include "servers/redis/scripts.hpp"
#include "unit/connection_fsm_fixture.hpp"

#include <limits>

namespace conch::redis {
namespace {

class ConnectionFsmGathering : public ::testing::Test {
 protected:
  ConnectionFsmGathering() { m.until_up(); }

  void ask(std::string const& name, engine::grant_id id = 1) { (void)m.fsm.send(protocol::acquire_command{name, id}); }
  void give_back(std::string const& name, engine::grant_id id = 1) {
    (void)m.fsm.send(protocol::release_command{.name = name, .id = id});
  }

  /// What was sent since the last time: the names of scripts with their number of locks, and other commands. A source
  /// is written large.
  texts sent() { return sent(m); }
  static texts sent(machine& m) {
    m.flush();
    resp::decoder in;
    std::string_view const bytes = m.fsm.bytes();
    auto const room = in.prepare(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), room.begin());
    in.commit(bytes.size());
    texts all;
    while (in.next() == resp::decoder::progress::message) {
      auto const words = in.message().subspan(1);
      std::string what{words[0].text};
      for (auto const& s : all_scripts()) {
        if (words.size() < 3 || (words[1].text != s.sha1 && words[1].text != s.source)) continue;
        what = (what == "EVAL" ? "source of " : "") + std::string{s.name} + " " +
               std::to_string(std::stoi(std::string{words[2].text}) / 3);
      }
      all.push_back(what);
    }
    m.written();
    return all;
  }

  std::string const fault_of(protocol::fault what) const {
    return "answer fault " + std::to_string(static_cast<int>(what));
  }

  machine m;
};

TEST_F(ConnectionFsmGathering, OneAloneIsSentAsItIs) {
  ask("a");
  EXPECT_EQ(sent(), texts{"acquire 1"});
  give_back("a");
  EXPECT_EQ(sent(), texts{"release 1"});
}

TEST_F(ConnectionFsmGathering, WhatIsSentInOneTurnIsOneScriptAndEachHasItsOwnAnswer) {
  give_back("a");
  ask("b");
  give_back("c");
  ask("d");
  EXPECT_EQ(sent(), texts{"gathered 4"});
  // The answers of those to acquire b and d, then of those to release a and c.
  m.received("*4\r\n:11\r\n*4\r\n:0\r\n:500\r\n:12\r\n:13\r\n*4\r\n:1\r\n:0\r\n:0\r\n:14\r\n-WRONGTYPE no\r\n");
  EXPECT_EQ(m.received(),
            (texts{"answer 1 0 0 14", "answer 11", fault_of(protocol::fault::wrong_type), "answer 0 500 12 13"}));
}

TEST_F(ConnectionFsmGathering, OtherCommandsKeepTheirPlace) {
  ask("a");
  ask("b");
  (void)m.ping();
  ask("c");
  ask("c", 2);
  ask("d");
  EXPECT_EQ(sent(), (texts{"gathered 2", "PING", "acquire 1", "gathered 2"})) << "of one lock never two in one script";
  m.received("*2\r\n:1\r\n:2\r\n+PONG\r\n:3\r\n*2\r\n:4\r\n:5\r\n");
  EXPECT_EQ(m.received(), (texts{"answer 1", "answer 2", "answer", "answer 3", "answer 4", "answer 5"}));
}

TEST_F(ConnectionFsmGathering, MoreThanOneScriptDoesAreSeveralScripts) {
  for (std::size_t i = 0; i <= protocol::gathering::most; ++i) ask("lock " + std::to_string(i));
  EXPECT_EQ(sent(), (texts{"gathered " + std::to_string(protocol::gathering::most), "acquire 1"}));
}

TEST_F(ConnectionFsmGathering, WhatIsSentDuringAWriteIsGatheredUntilItsEnd) {
  (void)m.ping();
  m.flush();
  ask("a");
  EXPECT_EQ(m.flush(), nothing);
  ask("b");
  m.written();
  EXPECT_EQ(sent(), texts{"gathered 2"});
}

TEST_F(ConnectionFsmGathering, EachHasItsOwnAnswerWhereverCredentialsAreRenewed) {
  config c;
  c.credentials_provider = [](std::string const&, credentials_handler const&) {};
  credentials good_for_long, good_for_a_while;
  good_for_a_while.password = "one";
  good_for_a_while.refresh_after = 10s;
  good_for_long.password = "two";
  for (int before = 0; before <= 7; ++before) {
    machine one{machine::tcp(), {}, c};
    one.want();
    one.found(good_for_a_while);
    one.resolved(1);
    one.connected();
    one.written();
    one.received(greeting_answer);
    one.flush();
    one.received();
    one.log.clear();
    one.now += 9s;
    one.due();
    for (int step = 0; step <= 7; ++step) {
      if (step == before) one.found(good_for_long);
      if (step == 2) (void)one.fsm.send(protocol::subscribe_command{});
      else if (step == 5) (void)one.ping();
      else if (step < 7) (void)one.fsm.send(protocol::acquire_command{"lock " + std::to_string(step), 1});
    }
    std::string answers;
    for (std::string const& what : sent(one)) {
      if (what == "AUTH") answers += "+OK\r\n";
      else if (what == "PING") answers += "+PONG\r\n";
      else if (what == "SUBSCRIBE") answers += push({"subscribe", "conch:me", "1"});
      else if (what == "gathered 2") answers += "*2\r\n:5\r\n:5\r\n";
      else answers += ":5\r\n";
    }
    one.received(answers);
    EXPECT_EQ(one.received(), (texts{"answer 5", "answer 5", "answer", "answer 5", "answer 5", "answer", "answer 5"}))
        << before;
    EXPECT_EQ(one.fsm.renewal().successes(), 1u) << before;
    EXPECT_EQ(one.log, texts{}) << before;
  }
}

TEST_F(ConnectionFsmGathering, APushBetweenTwoAnswersIsToldBetweenThem) {
  ask("a");
  ask("b");
  (void)sent();
  m.received(message("me.7 5 1800000000000000 3000 conch:{z}") + "*2\r\n:1\r\n:2\r\n" + message("?me.8 conch:{y}"));
  EXPECT_EQ(m.received(), (texts{"granted z 7 5", "answer 1", "answer 2", "missed y 8"}));
}

TEST_F(ConnectionFsmGathering, AnErrorOfTheScriptIsOneOfEach) {
  for (auto const& [words, what] :
       std::vector<std::pair<std::string, protocol::fault>>{{"BUSY later", protocol::fault::try_later},
                                                            {"LOADING", protocol::fault::try_later},
                                                            {"READONLY no", protocol::fault::reconnect},
                                                            {"NOSCRIPT what", protocol::fault::no_script}}) {
    ask("a");
    give_back("b");
    (void)sent();
    m.received("-" + words + "\r\n");
    EXPECT_EQ(m.received(), (texts{fault_of(what), fault_of(what)})) << words;
  }
}

TEST_F(ConnectionFsmGathering, AServerThatDoesNotKnowTheScriptGetsItsSourceOnce) {
  ask("a");
  ask("b");
  EXPECT_EQ(sent(), texts{"gathered 2"});
  m.received("-NOSCRIPT No matching script\r\n");
  for (std::string const expected : {"source of gathered 2", "gathered 2"}) {
    ask("a");
    ask("b");
    EXPECT_EQ(sent(), texts{expected});
    m.received("*2\r\n:1\r\n:2\r\n");
  }
}

TEST_F(ConnectionFsmGathering, ScriptsThatWereWrittenBeforeTheSourceDoNotBringItAgain) {
  ask("a");
  ask("b");
  (void)m.ping();
  ask("c");
  ask("d");
  EXPECT_EQ(sent(), (texts{"gathered 2", "PING", "gathered 2"}));
  m.received("-NOSCRIPT No matching script\r\n");
  ask("a");
  ask("b");
  EXPECT_EQ(sent(), texts{"source of gathered 2"});
  m.received("+PONG\r\n-NOSCRIPT No matching script\r\n");
  ask("c");
  ask("d");
  EXPECT_EQ(sent(), texts{"gathered 2"});
  m.received("*2\r\n:1\r\n:2\r\n-NOSCRIPT once more\r\n");
  ask("c");
  ask("d");
  EXPECT_EQ(sent(), texts{"source of gathered 2"}) << "it has forgotten the script since";
}

TEST_F(ConnectionFsmGathering, WhatMayNotBeTogetherIsSentAgainAlone) {
  ask("a");
  ask("b");
  (void)sent();
  m.received("-NOPERM no access to one of the keys\r\n");
  EXPECT_EQ(m.received(), (texts{fault_of(protocol::fault::no_script), fault_of(protocol::fault::no_script)}))
      << "nothing was done, and it is repeated";
  ask("a");
  ask("b");
  EXPECT_EQ(sent(), (texts{"acquire 1", "acquire 1"}));
  m.received("-NOPERM no access to one of the keys\r\n:1\r\n");
  EXPECT_EQ(m.received(), (texts{fault_of(protocol::fault::access_denied), "answer 1"}));
}

TEST_F(ConnectionFsmGathering, AnAnswerThatIsNotOneForEachIsNone) {
  for (std::string const answer : {":1\r\n", "*1\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n", "+OK\r\n"}) {
    machine one;
    one.until_up();
    (void)one.fsm.send(protocol::acquire_command{"a", 1});
    (void)one.fsm.send(protocol::acquire_command{"b", 2});
    one.flush();
    one.written();
    one.received(answer);
    EXPECT_EQ(one.received(), (texts{fault_of(protocol::fault::malformed), fault_of(protocol::fault::malformed)}))
        << answer;
  }
}

TEST_F(ConnectionFsmGathering, WhatTheFirstAnswerCausesIsNotHeardBehindAnEnd) {
  ask("a");
  ask("b");
  (void)sent();
  m.on_event = [&] { EXPECT_TRUE(m.fsm.life().drop("enough")); };
  m.received("*2\r\n:1\r\n:2\r\n");
  EXPECT_EQ(m.received(), texts{"answer 1"});
}

TEST_F(ConnectionFsmGathering, ANewConnectionBeginsWithNothingGathered) {
  ask("a");
  ask("b");
  (void)sent();
  ask("c");
  ask("d");
  m.failed("gone");
  m.received();
  m.due();
  m.until_up();
  EXPECT_EQ(m.flush(), nothing);
  ask("e");
  EXPECT_EQ(sent(), texts{"acquire 1"});
  m.received(":5\r\n");
  EXPECT_EQ(m.received(), texts{"answer 5"}) << "it is not taken for the answer of a script of the connection before";
}

}  // namespace
}  // namespace conch::redis
