// The state machine of a connection whose server moves, and of one on which something else than the protocol is spoken.

#include "unit/connection_fsm_fixture.hpp"

namespace conch::redis {
namespace {

std::string const replica = "%4\r\n" + bulk("version") + bulk("7.0.15") + bulk("id") + ":7\r\n" + bulk("role") +
                            bulk("replica") + bulk("mode") + bulk("standalone");

/// Says what it is told to say.
struct scripted_locator : locator {
  location locate(address& to, time_point) override {
    ++asked;
    if (found.what == location::kind::here) to.host = host;
    return found;
  }
  void is_at(std::string where) {
    host = std::move(where);
    found = {location::kind::here, protocol::fault::none, {}};
  }

  location found{location::kind::wait, protocol::fault::none, "nobody has said anything"};
  std::string host;
  int asked = 0;
};

address of_master() {
  address a;
  a.master = "m";
  return a;
}

struct moving : testing::Test {
  scripted_locator where;
  machine m{of_master(), {}, {}, {nullptr, &where}};

  std::string moved() {
    EXPECT_TRUE(m.fsm.life().moved());
    EXPECT_FALSE(m.fsm.life().moved()) << "once is enough";
    return m.due();
  }
  /// Connected to "a".
  void until_up() {
    where.is_at("a");
    m.want();
    m.resolved(1);
    m.connected();
    m.written();
    m.received(greeting_answer);
    m.flush();
    m.received();
    m.log.clear();
  }
};

using ConnectionFsmMoving = moving;

TEST_F(ConnectionFsmMoving, WaitsUntilItIsKnownWhereTheServerIs) {
  EXPECT_EQ(m.want(), "sleep(5000)");
  EXPECT_EQ(m.due(), "sleep(5000)") << "woken too early";
  where.is_at("a");
  EXPECT_EQ(moved(), "resolve");
  EXPECT_EQ(m.fsm.where().shown(), "redis://a:6379");
}

TEST_F(ConnectionFsmMoving, FailsWithTheWordsOfTheLocator) {
  m.want();
  m.now += 5s;
  EXPECT_EQ(m.due(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"failed 2: the master 'm': nobody has said anything"});
  where.found = {location::kind::nowhere, protocol::fault::refused, "no such name"};
  EXPECT_EQ(m.due().substr(0, 15), "log close sleep");
  EXPECT_EQ(m.received(), texts{"failed 6: the master 'm': no such name"});
}

TEST_F(ConnectionFsmMoving, IsToldWhenItIsNowhereWhileItWaits) {
  m.want();
  where.found = {location::kind::nowhere, protocol::fault::try_later, "all refused"};
  EXPECT_EQ(moved(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"failed 2: the master 'm': all refused"});
}

TEST_F(ConnectionFsmMoving, AsksForTheAddressAtEveryConnection) {
  until_up();
  EXPECT_EQ(where.asked, 1);
  where.is_at("b");
  m.now += 2s;
  m.failed("read: end");
  EXPECT_EQ(m.due(), "sleep(5000) resolve");
  EXPECT_EQ(where.asked, 2);
  EXPECT_EQ(m.fsm.where().shown(), "redis://b:6379");
}

TEST_F(ConnectionFsmMoving, D17LeavesALiveServerWhenAnotherIsNamed) {
  until_up();
  where.is_at("b");
  EXPECT_EQ(moved(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"disconnected: redis://b:6379 has taken its place"});
  EXPECT_EQ(m.due(), "sleep(5000) resolve");
  EXPECT_EQ(m.fsm.where().host, "b");
}

TEST_F(ConnectionFsmMoving, KeepsItsConnectionWhenTheServerIsNamedAgain) {
  until_up();
  EXPECT_EQ(moved(), nothing);
  EXPECT_EQ(m.received(), texts{});
  EXPECT_TRUE(m.fsm.life().is_up());
}

TEST_F(ConnectionFsmMoving, EndsAnAttemptAtAnotherServerAtEveryStep) {
  for (int step = 0; step < 4; ++step) {
    scripted_locator at;
    machine one{of_master(), {}, {}, {nullptr, &at}};
    at.is_at("a");
    one.want();
    if (step > 0) one.resolved(2);
    if (step > 1) one.refused("no");
    if (step > 2) one.connected();
    at.is_at("b");
    EXPECT_TRUE(one.fsm.life().moved());
    EXPECT_EQ(one.due(), "log close sleep(0)") << step;
    EXPECT_EQ(one.received(), texts{"failed 3: redis://a:6379: redis://b:6379 has taken its place"}) << step;
    EXPECT_EQ(one.due(), "sleep(5000) resolve") << step;
  }
}

TEST_F(ConnectionFsmMoving, DoesNotPauseWhenTheServerHasMoved) {
  until_up();
  m.failed("read: end");
  for (int i = 0; i < 6; ++i) {
    m.now += 3s;
    m.due();
    m.resolved(1);
    m.refused("refused");
  }
  EXPECT_GT(m.slept, 100ms);
  where.is_at("b");
  EXPECT_EQ(moved(), "sleep(5000) resolve");
  m.resolved(1);
  m.refused("refused");
  EXPECT_EQ(m.slept, 0ms) << "pauses begin anew";
}

TEST_F(ConnectionFsmMoving, AReplicaIsGreetedAgainEvery100MsAndLoggedOnce) {
  where.is_at("a");
  m.want();
  for (int i = 0; i < 3; ++i) {
    m.resolved(1);
    m.connected();
    m.written();
    EXPECT_EQ(m.received(replica), i == 0 ? "log close sleep(100)" : "close sleep(100)");
    EXPECT_EQ(m.received(), texts{"failed 3: redis://a:6379: the server is a replica"});
    m.now += 100ms;
    EXPECT_EQ(m.due(), "sleep(5000) resolve");
  }
  EXPECT_EQ(m.log.size(), 1u);
  m.resolved(1);
  m.connected();
  m.written();
  m.received(greeting_answer);
  m.flush();
  m.now += 2s;
  m.failed("read: end");
  m.due();
  m.log.clear();
  m.resolved(1);
  m.connected();
  m.written();
  EXPECT_EQ(m.received(replica), "log close sleep(100)") << "told anew behind a connection";
}

TEST_F(ConnectionFsmMoving, BeforeItIsWantedAndBehindItsEndNothingHappens) {
  where.is_at("a");
  EXPECT_EQ(moved(), nothing);
  EXPECT_EQ(m.want(), "sleep(5000) resolve");
  m.fsm.life().shut_down();
  EXPECT_EQ(m.todo(), "close");
  EXPECT_EQ(moved(), nothing);
}

/// Is good when it receives "good", and fails when it receives "bad".
struct scripted_dialogue : dialogue {
  std::string begin(address const& to, std::string const& client_name) override {
    return "hello " + to.host + " from " + client_name;
  }
  progress received(std::span<resp::node const> message, bool is_push, time_point) override {
    words.push_back((is_push ? "push " : "") + std::string{message[is_push ? 1 : 0].text});
    if (words.back() == "bad") return fail(protocol::fault::access_denied, bad);
    is_good = is_good || words.back() == "good";
    return is_good ? progress::good : progress::greeting;
  }
  void ended(protocol::fault what, std::string_view reason) override {
    words.push_back("ended " + std::to_string(static_cast<int>(what)) + ": " + std::string{reason});
    is_good = false;
  }

  texts words;
  bool is_good = false;
  std::string const bad = "it said bad";
};

struct ConnectionFsmDialogue : testing::Test {
  scripted_dialogue talk;
  machine m{machine::tcp(), {}, {}, {&talk, nullptr}};

  void until_greeting() {
    m.want();
    m.resolved(1);
    m.connected();
  }
};

TEST_F(ConnectionFsmDialogue, IsSpokenInsteadOfTheProtocol) {
  until_greeting();
  EXPECT_EQ(m.fsm.bytes(), "hello h from conch");
  m.written();
  EXPECT_EQ(m.received("+one\r\n" + push({"event"}) + "+two\r\n"), "read");
  EXPECT_FALSE(m.fsm.life().is_up());
  EXPECT_EQ(m.received("+good\r\n" + push({"event"})), "log wake flush read");
  EXPECT_TRUE(m.fsm.life().is_up());
  m.flush();
  EXPECT_EQ(talk.words, (texts{"one", "push event", "two", "good", "push event"}));
  EXPECT_EQ(m.received(), texts{}) << "there are no events of a wire";
  EXPECT_TRUE(m.fsm.say("how "));
  EXPECT_FALSE(m.fsm.say("are you"));
  EXPECT_EQ(m.flush(), "write");
  EXPECT_EQ(m.fsm.bytes(), "how are you");
}

TEST_F(ConnectionFsmDialogue, ThatFailsEndsTheAttempt) {
  until_greeting();
  m.written();
  EXPECT_EQ(m.received("+bad\r\n"), "log close sleep(0)");
  EXPECT_EQ(talk.words, (texts{"bad", "ended 5: redis://h:6379: it said bad"}));
}

TEST_F(ConnectionFsmDialogue, ThatFailsEndsTheConnection) {
  until_greeting();
  m.written();
  m.received("+good\r\n");
  m.flush();
  EXPECT_EQ(m.received("+bad\r\n+one\r\n"), "flush call_due_later");
  EXPECT_EQ(m.due(), "log close sleep(0)");
  EXPECT_EQ(talk.words, (texts{"good", "bad", "ended 3: redis://h:6379: it said bad"}));
}

TEST_F(ConnectionFsmDialogue, ThatCannotBeginIsLoggedOnce) {
  m.want();
  for (int i = 0; i < 3; ++i) {
    m.resolved(1);
    EXPECT_EQ(m.refused("refused").substr(0, 3), i == 0 ? "log" : "clo");
    m.now += 3s;
    m.due();
  }
  EXPECT_EQ(talk.words, texts(3, "ended 2: redis://h:6379: refused"));
}

}  // namespace
}  // namespace conch::redis
