// The state machine of a connection: inputs, and what is to be done and told because of each.

#include "unit/connection_fsm_fixture.hpp"

namespace conch::redis {
namespace {

// ---------------------------------------------------------------------------------------------------- to a connection

TEST(ConnectionFsm, ConnectsWhenFirstWanted) {
  machine m;
  EXPECT_EQ(m.due(), nothing) << "nobody wants it";
  EXPECT_TRUE(m.fsm.life().want());
  EXPECT_FALSE(m.fsm.life().want()) << "it is under way";
  EXPECT_EQ(m.due(), "sleep(5000) resolve");
  m.now += 10ms;
  EXPECT_EQ(m.resolved(1), "sleep(4990) connect(0)");
  m.now += 10ms;
  EXPECT_EQ(m.connected(), "write read");
  EXPECT_TRUE(m.fsm.bytes().starts_with("*7\r\n$5\r\nHELLO\r\n")) << m.fsm.bytes();
  EXPECT_EQ(m.written(), nothing);
  m.now += 10ms;
  EXPECT_EQ(m.received(greeting_answer), "log wake flush read");
  EXPECT_EQ(m.received(), texts{"connected as 7 1.2.3.4:5 of abc, asked at 20"});
  EXPECT_EQ(m.log, texts{"connected to redis://h:6379"});
  EXPECT_EQ(m.flush(), nothing);
  m.now += 1h;
  EXPECT_EQ(m.due(), nothing);
}

TEST(ConnectionFsm, NeedsNoNameOfASocketInTheFileSystem) {
  address a;
  a.path = "/s";
  machine m{a};
  EXPECT_EQ(m.want(), "sleep(5000) connect(0)");
  EXPECT_EQ(m.refused("no such file"), "log close sleep(0)");
  EXPECT_EQ(m.due(), "sleep(5000) connect(0)");
}

TEST(ConnectionFsm, ShakesHandsBeforeItGreets) {
  machine m{machine::tcp(), {.handshakes = true}};
  m.want();
  m.resolved(1);
  EXPECT_EQ(m.connected(), "handshake");
  EXPECT_EQ(m.handshaken(), "write read");
}

TEST(ConnectionFsm, TriesEveryAddressOfAHostInTurn) {
  machine m;
  m.want();
  EXPECT_EQ(m.resolved(3), "sleep(1666) connect(0)");
  EXPECT_EQ(m.refused("first"), "close sleep(2500) connect(1)");
  EXPECT_EQ(m.refused("second"), "close sleep(5000) connect(2)");
  EXPECT_EQ(m.received(), texts{});
  EXPECT_EQ(m.refused("third"), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"failed 2: redis://h:6379: a0: first; a1: second; a2: third"});
  EXPECT_EQ(m.due(), "sleep(5000) resolve") << "the name may mean something else by now";
  EXPECT_EQ(m.resolved(2), "sleep(2500) connect(0)");
  EXPECT_EQ(m.refused("first"), "close sleep(5000) connect(1)");
  EXPECT_EQ(m.connected(), "write read");
  m.written();
  m.log.clear();
  m.received(greeting_answer);
  EXPECT_EQ(m.log, texts{"connected to redis://h:6379 at a1; passed over a0: first"});
}

TEST(ConnectionFsm, AnAddressThatSaysNothingCostsItsShareAndIsTriedLastNextTime) {
  using step = std::function<void(machine&)>;
  std::vector<std::pair<char const*, step>> const silent{
      {"connecting", [](machine&) {}},
      {"handshaking", [](machine& m) { m.connected(); }},
      {"greeting",
       [](machine& m) {
         m.connected();
         m.handshaken();
         m.written(5);
         m.received("%4\r\n");
       }},
  };
  for (auto const& [name, until_silent] : silent) {
    machine m{machine::tcp(), {.handshakes = true}};
    m.want();
    m.resolved(2);
    until_silent(m);
    m.now += 2500ms;
    EXPECT_EQ(m.due(), "close sleep(2500) connect(1)") << name;
    EXPECT_EQ(m.received(), texts{}) << name;
    m.connected();
    EXPECT_EQ(m.handshaken(), "write read") << name;
    EXPECT_TRUE(m.fsm.bytes().starts_with("*7\r\n$5\r\nHELLO")) << name;
    m.written();
    EXPECT_EQ(m.received(greeting_answer), "log sleep(10000) flush read") << name;
    EXPECT_EQ(m.received().size(), 1u) << name;
    EXPECT_NE(m.log.at(0).find("passed over a0: "), std::string::npos) << m.log.at(0);
    m.flush();
    m.now += 2s;
    m.failed("read: end");
    m.due();
    EXPECT_EQ(m.resolved(2), "sleep(2500) connect(1)") << name << ": the silent one would cost its share once more";
  }
}

TEST(ConnectionFsm, AnAddressThatIsNotTheServerToTalkToIsPassedOver) {
  for (std::string const& said : texts{"-LOADING Redis is loading\r\n",
                                       "%2\r\n" + bulk("version") + bulk("7.0") + bulk("role") + bulk("replica")}) {
    machine m;
    m.want();
    m.resolved(2);
    m.connected();
    m.written();
    EXPECT_EQ(m.received(said), "close sleep(5000) connect(1)") << said;
    // it may be the master again when it is tried once more
    texts const told{"failed 3: redis://h:6379: a0: the server is a replica"};
    EXPECT_EQ(m.received(), said.front() == '%' ? told : texts{}) << said;
  }
  machine m;
  m.want();
  m.resolved(2);
  m.connected();
  m.written();
  m.received("-WRONGPASS invalid\r\n");
  ASSERT_EQ(m.told.size(), 1u) << "a wrong password is told at once";
  EXPECT_TRUE(m.told[0].starts_with("failed 5: redis://h:6379: a0: ")) << m.told[0];
}

// The close of the refused one has ended the sleep.
TEST(ConnectionFsm, AfterARefusalTheNextAddressHasItsTimeOutAlsoIfThatIsTheSame) {
  machine m;
  m.want();
  m.resolved(2);
  for (int attempt = 0; attempt < 2; ++attempt) {  // each has the whole time of later attempts
    for (int address = 0; address < 2; ++address) {
      m.now += 2500ms;
      m.due();
    }
    m.now += m.slept;
    m.due();
    m.resolved(2);
  }
  EXPECT_EQ(m.refused("no"), "close sleep(5000) connect(0)");
}

TEST(ConnectionFsm, WhenAllAddressesAreSilentEachHasItsTurnFirstAndMoreTime) {
  machine m;
  m.want();
  EXPECT_EQ(m.resolved(2), "sleep(2500) connect(0)");
  m.now += 2500ms;
  EXPECT_EQ(m.due(), "close sleep(2500) connect(1)");
  m.now += 2500ms;
  EXPECT_EQ(m.due(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"failed 2: redis://h:6379: a0: no connection within its share of connect_timeout; a1: "
                                "no connection within connect_timeout"});
  m.due();
  EXPECT_EQ(m.resolved(2), "sleep(5000) connect(0)") << "until the end of the attempt";
  m.now += 5s;
  m.due();
  m.now += m.slept;
  m.due();
  EXPECT_EQ(m.resolved(2), "sleep(5000) connect(1)");
}

TEST(ConnectionFsm, ALookUpThatTakesLongLeavesTheRestOfTheAttempt) {
  machine m;
  m.want();
  m.now += 4s;
  EXPECT_EQ(m.resolved(2), "sleep(500) connect(0)");
  m.now += 500ms;
  EXPECT_EQ(m.due(), "close sleep(500) connect(1)");
}

TEST(ConnectionFsm, LooksUpItsNameAgainWhileItIsConnectedAndGoesWhereItPointsTo) {
  machine m;
  m.want();
  m.resolved(texts{"1.1.1.1:6379"});
  m.connected();
  m.written();
  EXPECT_EQ(m.received(greeting_answer), "log sleep(10000) flush read");
  m.flush();
  m.received();
  m.now += 10s;
  EXPECT_EQ(m.due(), "sleep(10000) resolve");
  EXPECT_EQ(m.resolved(texts{"2.2.2.2:6379", "1.1.1.1:6379"}), nothing) << "one of its addresses is the present one";
  m.now += 10s;
  EXPECT_EQ(m.due(), "sleep(10000) resolve");
  m.fsm.life().resolved({{}, true, "no answer"}, m.now);
  EXPECT_EQ(m.todo(), nothing) << "without an answer all stays as it is";
  m.fsm.life().resolved({{"2.2.2.2:6379"}, false}, m.now);
  EXPECT_EQ(m.todo(), nothing) << "and with a part of it: the present address may be in the rest";
  m.now += 10s;
  EXPECT_EQ(m.due(), "sleep(10000) resolve");
  EXPECT_EQ(m.resolved(texts{"2.2.2.2:6379"}), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"disconnected: the name h means another address now: 2.2.2.2:6379"});
  EXPECT_EQ(m.due(), "sleep(5000) resolve");
  EXPECT_EQ(m.resolved(texts{"2.2.2.2:6379"}), "sleep(5000) connect(0)");
  m.connected();
  m.written();
  m.received(greeting_answer);  // the same run of the server
  m.received();
  m.now += 10s;
  m.due();
  EXPECT_EQ(m.resolved(texts{"1.1.1.1:6379"}), nothing) << "of the same server, as is known by now";
}

TEST(ConnectionFsm, AnAddressInNumbersIsNotLookedUpAgain) {
  machine m;
  m.until_up();
  m.now += 1h;
  EXPECT_EQ(m.due(), nothing);
}

TEST(ConnectionFsm, SaysOfEachStepWhyItFailed) {
  struct row {
    std::string why;
    std::function<std::string(machine&)> fails;
  };
  for (auto const& [why, fails] : std::vector<row>{
           {"no such host",
            [](machine& m) {
              m.want();
              return m.failed("no such host");
            }},
           {"the host has no address",
            [](machine& m) {
              m.want();
              return m.resolved(0);
            }},
           {"refused",
            [](machine& m) {
              m.want();
              m.resolved(1);
              return m.refused("refused");
            }},
           {"bad certificate",
            [](machine& m) {
              m.want();
              m.resolved(1);
              m.connected();
              return m.failed("bad certificate");
            }},
           {"write: reset",
            [](machine& m) {
              m.want();
              m.resolved(1);
              m.connected();
              m.handshaken();
              return m.failed("write: reset");
            }},
           {"read: end",
            [](machine& m) {
              m.want();
              m.resolved(1);
              m.connected();
              m.handshaken();
              m.written();
              return m.failed("read: end");
            }},
       }) {
    machine m{machine::tcp(), {.handshakes = true}};
    EXPECT_EQ(fails(m), "log close sleep(0)") << why;
    EXPECT_EQ(m.received(), texts{"failed 2: redis://h:6379: " + why});
    EXPECT_EQ(m.log, texts{"cannot connect to redis://h:6379: " + why});
    EXPECT_EQ(m.due(), "sleep(5000) resolve");
  }
}

TEST(ConnectionFsm, GivesUpAnAttemptThatTakesTooLongInWhateverStep) {
  std::vector<std::pair<char const*, std::function<void(machine&)>>> const steps{
      {"resolving", [](machine&) {}},
      {"connecting", [](machine& m) { m.resolved(1); }},
      {"connecting to the second",
       [](machine& m) {
         m.resolved(2);
         m.refused("x");
       }},
      {"handshaking",
       [](machine& m) {
         m.resolved(1);
         m.connected();
       }},
      {"writing the greeting",
       [](machine& m) {
         m.resolved(1);
         m.connected();
         m.handshaken();
       }},
      {"awaiting its answer",
       [](machine& m) {
         m.resolved(1);
         m.connected();
         m.handshaken();
         m.written();
         m.received("%4\r\n");
       }},
  };
  for (auto const& [name, go] : steps) {
    machine m{machine::tcp(), {.handshakes = true}};
    m.want();
    go(m);
    m.now += 4999ms;
    EXPECT_EQ(m.due(), "sleep(1)") << name << ": another clock is fast";
    EXPECT_EQ(m.received(), texts{});
    m.now += 1ms;
    EXPECT_EQ(m.due(), "log close sleep(0)") << name;
    std::string words = "failed 2: redis://h:6379: no connection within connect_timeout";
    if (std::string_view{name} == "handshaking") {
      words = "failed 8: redis://h:6379: no answer to the TLS handshake within connect_timeout; is this a TLS port?";
    } else if (std::string_view{name} == "connecting to the second") {
      words = "failed 2: redis://h:6379: a0: x; a1: no connection within connect_timeout";
    } else if (std::string_view{name}.ends_with("greeting") || std::string_view{name} == "awaiting its answer") {
      words = "failed 2: redis://h:6379: no answer to the greeting within connect_timeout";
    }
    EXPECT_EQ(m.received(), texts{words}) << name;
    EXPECT_EQ(m.due(), "sleep(5000) resolve") << name;
  }
}

TEST(ConnectionFsm, WaitsLongerAfterEachFailureAndNotAfterAConnectionThatLasted) {
  config c;
  c.reconnect_min = 50ms;
  c.reconnect_max = 1s;
  machine m{machine::tcp(), {}, c};
  m.want();
  for (duration const longest : {0ms, 50ms, 100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    m.failed("x");
    EXPECT_LE(m.slept, longest);
    EXPECT_GE(m.slept, longest / 2);
    if (longest > 0ms) {
      m.now += m.slept - 1ns;
      EXPECT_TRUE(m.due().starts_with("sleep")) << "too early";
      m.now += 1ns;
    }
    EXPECT_EQ(m.due(), "sleep(5000) resolve");
  }
  auto const up_for = [&](duration lasts) {
    m.resolved(1);
    m.connected();
    m.written();
    m.received(greeting_answer);
    m.now += lasts;
    m.failed("x");
    duration const paused = m.slept;
    m.now += paused;
    m.due();
    return paused;
  };
  EXPECT_GE(up_for(1s), 500ms) << "it came and went at once";
  EXPECT_EQ(up_for(1001ms), 0ms);
  EXPECT_GE(up_for(0ms), 25ms);
  EXPECT_EQ(up_for(2s), 0ms);
}

TEST(ConnectionFsm, DoesNotPauseForLongWhileALockHasAShortLease) {
  machine m;
  m.until_up();
  (void)m.fsm.send(protocol::acquire_command{.name = "a", .id = 1, .lease = 400ms});
  m.now += 2s;
  m.failed("read: end");
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(m.slept, 40ms) << i;
    m.now += m.slept;
    m.due();
    m.resolved(1);
    m.refused("refused");
  }
  m.now += m.slept;
  m.due();
  m.resolved(1);
  m.connected();
  m.written();
  m.received(greeting_answer);
  (void)m.fsm.send(protocol::acquire_command{.name = "b", .id = 2, .lease = 60s});
  for (int i = 0; i < 10; ++i) {
    m.failed("read: end");
    m.now += m.slept;
    m.due();
  }
  EXPECT_GT(m.slept, 1s) << "that lock is not there any more";
}

TEST(ConnectionFsm, PausesOfTwoClientsAreNotAlike) {
  machine a;
  machine b;
  connection_fsm other{b.settings, b.id, machine::tcp(), 2};
  other.report_to(b);
  (void)other.life().want();
  other.life().due(b.now);
  a.want();
  int alike = 0;
  for (int i = 0; i < 10; ++i) {
    a.failed("x");
    other.failed("x", b.now);
    time_point const until = other.life().take().until;
    alike += a.last.until == until ? 1 : 0;
    a.now = b.now = std::max(a.last.until, until);
    a.due();
    other.life().due(b.now);
  }
  EXPECT_LE(alike, 2);
}

// ------------------------------------------------------------------------------------------------------- the greeting

TEST(ConnectionFsm, ReadsAGreetingHoweverItIsCut) {
  for (std::size_t cut = 1; cut < greeting_answer.size(); ++cut) {
    machine m;
    m.until_greeting();
    EXPECT_EQ(m.received(greeting_answer.substr(0, cut)), "read") << cut;
    EXPECT_EQ(m.received(), texts{}) << cut;
    EXPECT_EQ(m.received(greeting_answer.substr(cut)), "log wake flush read") << cut;
    EXPECT_EQ(m.received().size(), 1u) << cut;
  }
  machine m;
  m.until_greeting();
  for (char const c : greeting_answer.substr(0, greeting_answer.size() - 1)) EXPECT_EQ(m.received({&c, 1}), "read");
  EXPECT_EQ(m.received("\n"), "log wake flush read");
}

TEST(ConnectionFsm, TellsARefusedGreetingForWhatItIs) {
  struct row {
    std::string answer;
    protocol::fault what;
  };
  texts const good = greeting_parts();
  std::string const one = good[0], two = good[0] + good[1];
  for (auto const& [answer, what] : std::vector<row>{
           {"-NOAUTH Authentication required.\r\n", protocol::fault::access_denied},
           {"-WRONGPASS invalid\r\n", protocol::fault::access_denied},
           {"-LOADING Redis is loading\r\n", protocol::fault::try_later},
           {"-ERR unknown command `HELLO`\r\n", protocol::fault::malformed},
           {"-NOPROTO\r\n", protocol::fault::malformed},
           {"+OK\r\n", protocol::fault::malformed},
           {"HTTP/1.1 400 Bad Request\r\n\r\n", protocol::fault::malformed},
           {"%2\r\n" + bulk("version") + bulk("7.0") + bulk("role") + bulk("replica"), protocol::fault::reconnect},
           {"%2\r\n" + bulk("version") + bulk("7.0") + bulk("mode") + bulk("cluster"), protocol::fault::refused},
           {"%1\r\n" + bulk("version") + bulk("6.0.1"), protocol::fault::malformed},
           {two + "-NOPERM this user has no permissions to run the 'time' command\r\n", protocol::fault::access_denied},
           {two + ":1\r\n", protocol::fault::malformed},
           {one + "$-2\r\n", protocol::fault::malformed},
       }) {
    machine m;
    m.until_greeting();
    EXPECT_EQ(m.received(answer + ":1\r\n"), "log close sleep(0)") << answer;
    ASSERT_EQ(m.told.size(), 1u) << answer;
    EXPECT_TRUE(m.told[0].starts_with("failed " + std::to_string(static_cast<int>(what)) + ": redis://h:6379: "))
        << answer << ": " << m.told[0];
    EXPECT_EQ(m.log.size(), 1u);
    EXPECT_EQ(m.due(), "sleep(5000) resolve") << answer;
    m.resolved(1);
    m.connected();
    m.written();
    EXPECT_EQ(m.received(greeting_answer), "log wake flush read") << answer << " is not remembered";
  }
}

TEST(ConnectionFsm, WarnsOfAServerThatMayEvictLocks) {
  machine m;
  m.until_greeting();
  m.received(joined(greeting_parts("allkeys-lru")));
  ASSERT_EQ(m.log.size(), 2u);
  EXPECT_NE(m.log[1].find("allkeys-lru"), std::string::npos);
}

TEST(ConnectionFsm, TakesNoPushForAnAnswerToItsGreeting) {
  machine m;
  m.until_greeting();
  std::string all;
  for (std::string const& part : greeting_parts()) all += message("!me.1 conch:{a}") + part;
  EXPECT_EQ(m.received(all), "log wake flush read");
  EXPECT_EQ(m.received().size(), 1u) << "the subscription was not this connection's";
}

TEST(ConnectionFsm, HearsWhatComesRightBehindTheGreeting) {
  machine m;
  m.until_greeting();
  m.on_event = [&] {
    m.on_event = nullptr;
    m.ping();
  };
  EXPECT_EQ(m.received(greeting_answer + "+PONG\r\n" + message("!me.1 conch:{a}") + "+PO"), "log wake flush read");
  EXPECT_EQ(m.received(), (texts{"connected as 7 1.2.3.4:5 of abc, asked at 0", "answer", "revoked a 1"}));
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.fsm.bytes(), ping_bytes);
}

// ---------------------------------------------------------------------------------------------------- what comes in

TEST(ConnectionFsm, HandsOverAnswersAndPushesInTheirOrderHoweverTheyAreCut) {
  std::string const all = ":5\r\n" + message("me.42 206170000000000 1784000000000000 3000 conch:{stock}") +
                          "*3\r\n:1\r\n:-2\r\n:3\r\n" + push({"subscribe", "conch:me", "1"}) + "-NOSCRIPT none\r\n" +
                          message("!me.7-Abcdefghijk conch:{a%7Db}") + message("?me.8 conch:{c}") + message("") +
                          push({"invalidate", "x"}) + "+OK\r\n";
  texts const events{"answer 5",       "granted stock 42 206170000000000", "answer 1 -2 3", "answer",
                     "answer fault 1", "revoked a}b 7-Abcdefghijk",        "missed c 8",    "answer"};
  auto const asked = [] {
    auto m = std::make_unique<machine>();
    m->until_up();
    for (int i = 0; i < 6; ++i) m->ping();
    m->flush();
    m->written();
    return m;
  };
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    auto const m = asked();
    EXPECT_EQ(m->received(all.substr(0, cut)), "flush read") << cut;
    EXPECT_EQ(m->flush(), nothing);
    EXPECT_EQ(m->received(all.substr(cut)), "flush read") << cut;
    EXPECT_EQ(m->received(), events) << cut;
  }
  auto const m = asked();
  for (char const c : all) m->received({&c, 1});
  EXPECT_EQ(m->received(), events);
}

TEST(ConnectionFsm, LeavesTheRestOfALongTurnForTheNext) {
  machine m;
  m.until_up();
  constexpr std::size_t more = 2500;
  std::string all;
  for (std::size_t i = 0; i < more; ++i) all += ":" + std::to_string(i) + "\r\n";
  auto const room = m.fsm.room();
  ASSERT_GE(room.size(), all.size());
  std::copy(all.begin(), all.end(), room.begin());
  m.fsm.received(all.size(), m.now);
  EXPECT_EQ(m.todo(), "flush call_due_later") << "and does not read meanwhile";
  EXPECT_EQ(m.told.size(), 1000u);
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.due(), "flush call_due_later");
  EXPECT_EQ(m.told.size(), 2000u);
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.due(), "flush read");
  ASSERT_EQ(m.told.size(), more);
  EXPECT_EQ(m.told.back(), "answer 2499");
  EXPECT_EQ(m.due(), nothing);
}

TEST(ConnectionFsm, EndsAConnectionThatSendsWhatIsNoMessage) {
  machine m;
  m.until_up();
  EXPECT_EQ(m.received(":1\r\ngarbage\r\n:2\r\n"), "flush call_due_later");
  EXPECT_EQ(m.received(), texts{"answer 1"});
  EXPECT_EQ(m.due(), "log close sleep(0)");
  ASSERT_EQ(m.told.size(), 1u);
  EXPECT_TRUE(m.told[0].starts_with("disconnected: unknown type")) << m.told[0];
}

TEST(ConnectionFsm, TellsTheLogOfOneForeignPushOnAConnection) {
  machine m;
  m.until_up();
  std::string const foreign = message("me.1 2 3");
  EXPECT_EQ(m.received(foreign), "log flush read");
  m.flush();
  EXPECT_EQ(m.received(foreign + foreign), "flush read");
  m.failed("x");
  m.due();
  m.log.clear();
  m.resolved(1);
  m.connected();
  m.written();
  m.received(greeting_answer + foreign + foreign);
  EXPECT_EQ(m.log.size(), 2u);
  EXPECT_EQ(m.received().size(), 2u) << "the end of one connection, and the next";
}

TEST(ConnectionFsm, TakesNothingOverFromAnEarlierConnection) {
  machine m;
  m.until_up();
  m.ping();
  m.flush();
  m.written(3);
  m.ping();
  EXPECT_EQ(m.received("*3\r\n:1\r\n:2\r\n:"), "read") << "a flush is claimed already";
  EXPECT_EQ(m.failed("cut"), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"disconnected: cut"});
  EXPECT_EQ(m.log, texts{"lost the connection to redis://h:6379: cut"});
  EXPECT_EQ(m.flush(), nothing) << "one that had been posted before";
  m.due();
  m.resolved(1);
  m.connected();
  EXPECT_TRUE(m.fsm.bytes().starts_with("*7\r\n$5\r\nHELLO"));
  m.written();
  EXPECT_EQ(m.received(greeting_answer), "log wake flush read");
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.ping(), flush_due::at_once) << "no answer is due on this one";
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.fsm.bytes(), ping_bytes);
}

// ---------------------------------------------------------------------------------------------------- what goes out

TEST(ConnectionFsm, WritesTheFirstAtOnceAndTheOthersOfATurnTogether) {
  machine m;
  m.until_up();
  EXPECT_EQ(m.ping(), flush_due::at_once);
  EXPECT_EQ(m.ping(), flush_due::no) << "one is due";
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.fsm.bytes(), ping_bytes + ping_bytes);
  EXPECT_EQ(m.written(), nothing);
  EXPECT_EQ(m.ping(), flush_due::later) << "an answer is due";
  EXPECT_EQ(m.ping(), flush_due::no);
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.written(), nothing);
  EXPECT_EQ(m.received("+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n"), "flush read");
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.ping(), flush_due::at_once) << "all are answered";
}

TEST(ConnectionFsm, WritesTogetherWhatIsSentBecauseOfWhatCameIn) {
  machine m;
  m.until_up();
  m.ping();
  m.flush();
  m.written();
  m.on_event = [&] { EXPECT_EQ(m.ping(), flush_due::no); };
  EXPECT_EQ(m.received("+PONG\r\n:1\r\n"), "flush read");
  EXPECT_EQ(m.ping(), flush_due::no) << "a handler that runs before the flush";
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.fsm.bytes(), ping_bytes + ping_bytes + ping_bytes);
}

TEST(ConnectionFsm, WritesTheFirstHalfEarlyWhereTheServerHasNothingLeftToDo) {
  machine m;
  m.until_up();
  for (int i = 0; i < 5; ++i) m.ping();
  m.flush();
  m.written();
  EXPECT_EQ(m.received("+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n"), "flush read");
  EXPECT_EQ(m.ping(), flush_due::no) << "it still has one to answer";
  EXPECT_EQ(m.ping(), flush_due::no);
  EXPECT_EQ(m.flush(), "write");
  m.written();
  EXPECT_EQ(m.received("+PONG\r\n+PONG\r\n+PONG\r\n"), "flush read");
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.ping(), flush_due::at_once) << "that turn is over";
  EXPECT_EQ(m.ping(), flush_due::no);
  m.ping(), m.ping();
  m.flush();
  m.written();
  EXPECT_EQ(m.received("+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n"), "flush read");
  EXPECT_EQ(m.ping(), flush_due::no);
  EXPECT_EQ(m.ping(), flush_due::at_once) << "half of them";
  EXPECT_EQ(m.flush(), "write");
  m.written();
  EXPECT_EQ(m.ping(), flush_due::later);
  EXPECT_EQ(m.ping(), flush_due::no);
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.fsm.bytes(), ping_bytes + ping_bytes);
}

TEST(ConnectionFsm, KeepsWhatIsSentWhileAWriteIsUnderWay) {
  machine m;
  m.until_up();
  m.ping();
  EXPECT_EQ(m.flush(), "write");
  char const* const before = m.fsm.bytes().data();
  EXPECT_EQ(m.ping(), flush_due::later);
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.ping(), flush_due::no);
  EXPECT_EQ(m.fsm.bytes().data(), before) << "the bytes of a write that is under way moved";
  EXPECT_EQ(m.fsm.bytes(), ping_bytes);
  EXPECT_EQ(m.written(), "write") << "both, and nobody has to ask again";
  EXPECT_EQ(m.fsm.bytes(), ping_bytes + ping_bytes);
  EXPECT_EQ(m.written(), nothing);
  EXPECT_EQ(m.ping(), flush_due::later);
  EXPECT_EQ(m.flush(), "write");
}

TEST(ConnectionFsm, WritesTheRestOfWhatAStreamTookInPart) {
  machine m;
  m.until_greeting();
  std::string sent;
  m.received(greeting_answer);
  m.flush();
  for (int i = 0; i < 3; ++i) m.ping();
  m.flush();
  for (std::size_t n = 1; m.fsm.bytes().size() > n; ++n) {
    sent += m.fsm.bytes().substr(0, n);
    EXPECT_EQ(m.written(n), "write");
  }
  sent += m.fsm.bytes();
  EXPECT_EQ(m.written(), nothing);
  EXPECT_EQ(sent, ping_bytes + ping_bytes + ping_bytes);
}

TEST(ConnectionFsm, WritesNothingBehindAGreetingBeforeAllOfItIsWritten) {
  machine m;  // the answer is here before the stream says that it has taken the question
  m.want();
  m.resolved(1);
  m.connected();
  m.on_event = [&] { m.ping(); };
  EXPECT_EQ(m.received(greeting_answer), "log wake flush read");
  EXPECT_EQ(m.flush(), nothing);
  EXPECT_EQ(m.written(), "write");
  EXPECT_EQ(m.fsm.bytes(), ping_bytes);
}

TEST(ConnectionFsm, EndsAConnectionOnWhichAWriteFails) {
  machine m;
  m.until_up();
  m.ping();
  m.flush();
  m.ping();
  m.flush();
  EXPECT_EQ(m.failed("write: reset"), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"disconnected: write: reset"});
  m.due();
  m.resolved(1);
  m.connected();
  EXPECT_EQ(m.written(), nothing) << "nothing older follows the greeting";
}

// ------------------------------------------------------------------------------------------------ dropped, shut down

TEST(ConnectionFsm, DropsAConnectionWhenToldAndHearsNoMoreOfIt) {
  machine m;
  m.until_up();
  m.on_event = [&] {
    EXPECT_TRUE(m.fsm.life().drop("it is a replica"));
    EXPECT_FALSE(m.fsm.life().drop("once more"));
  };
  EXPECT_EQ(m.received(":1\r\n:2\r\n:3\r\n"), "flush");
  EXPECT_EQ(m.received(), texts{"answer 1"});
  EXPECT_EQ(m.due(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"disconnected: it is a replica"});
}

TEST(ConnectionFsm, DropsAConnectionWhileItIsWriting) {
  machine m;
  m.until_up();
  m.ping();
  m.flush();
  m.written(2);
  EXPECT_TRUE(m.fsm.life().drop("late"));
  EXPECT_EQ(m.due(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"disconnected: late"});
}

TEST(ConnectionFsm, DropsNoConnectionThatIsNotThereYet) {
  std::vector<std::function<void(machine&)>> const steps{[](machine&) {}, [](machine& m) { m.resolved(1); },
                                                         [](machine& m) {
                                                           m.resolved(1);
                                                           m.connected();
                                                         }};
  for (auto const& go : steps) {
    machine m;
    m.want();
    go(m);
    EXPECT_TRUE(m.fsm.life().drop("the one before"));
    EXPECT_EQ(m.due(), "sleep(5000)") << "goes on";
    if (&go == &steps[0]) m.resolved(1);
    if (&go != &steps[2]) m.connected();
    m.written();
    EXPECT_EQ(m.received(greeting_answer), "log wake flush read");
    EXPECT_EQ(m.due(), nothing) << "the next one is not meant";
    EXPECT_TRUE(m.fsm.life().drop("this one")) << "and may be dropped itself";
  }
}

TEST(ConnectionFsm, IsShutDownInAnyStateForGood) {
  std::vector<std::pair<char const*, std::function<void(machine&)>>> const states{
      {"idle", [](machine&) {}},
      {"resolving", [](machine& m) { m.want(); }},
      {"connecting",
       [](machine& m) {
         m.want();
         m.resolved(2);
       }},
      {"greeting",
       [](machine& m) {
         m.want();
         m.resolved(1);
         m.connected();
       }},
      {"up", [](machine& m) { m.until_up(); }},
      {"writing",
       [](machine& m) {
         m.until_up();
         m.ping();
         m.flush();
         m.ping();
         m.flush();
       }},
      {"dropping",
       [](machine& m) {
         m.until_up();
         (void)m.fsm.life().drop("x");
       }},
      {"pausing",
       [](machine& m) {
         m.want();
         m.failed("x");
       }},
  };
  for (auto const& [name, go] : states) {
    machine m;
    go(m);
    m.received();
    m.fsm.life().shut_down();
    EXPECT_EQ(m.todo(), "close") << name;
    m.now += 1h;
    EXPECT_EQ(m.due(), nothing) << name;
    (void)m.fsm.life().want();
    EXPECT_EQ(m.due(), nothing) << name;
    m.ping();
    EXPECT_EQ(m.flush(), nothing) << name;
    EXPECT_EQ(m.received(), texts{}) << name;
  }
}

}  // namespace
}  // namespace conch::redis
