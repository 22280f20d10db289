// The state machine of a connection to a node of a Cluster: it subscribes to the channel of a slot before anything may
// be pushed there.

#include "servers/redis/topology/slots.hpp"
#include "support/messages.hpp"
#include "unit/connection_fsm_fixture.hpp"

namespace conch::redis {
namespace {

constexpr int try_later = static_cast<int>(protocol::fault::try_later);

std::string greeted_by(std::string const& mode, std::string const& version = "7.0.15") {
  texts parts = greeting_parts();
  parts.front() = "%4\r\n" + bulk("version") + bulk(version) + bulk("id") + ":7\r\n" + bulk("role") + bulk("master") +
                  bulk("mode") + bulk(mode);
  return joined(parts);
}

struct a_node final : cluster_node {
  std::string_view digits() const override { return "0a1b2c3d"; }
  std::optional<unsigned> home() const override { return home_slot; }
  void put_off(std::string_view words, time_point) override { told.push_back("put off: " + std::string{words}); }
  void unsubscribed(unsigned slot, time_point) override { told.push_back("deaf in " + std::to_string(slot)); }

  unsigned home_slot = 5;
  texts told;
};

struct ConnectionFsmCluster : testing::Test {
  a_node node;
  machine m{machine::tcp(), {}, {}, {.node = &node}};

  void until_up() {
    m.until_greeting();
    m.received(greeted_by("cluster"));
    m.flush();
    m.received();
    m.log.clear();
  }

  static unsigned slot(std::string const& name) { return slot_of_lock(name); }
  std::string channel(std::string const& name) const { return channel(slot(name)); }
  std::string channel(unsigned of) const {
    return "conch:{" + std::to_string(tag_of_slot(of)) + "}:" + m.id + ":" + std::string{node.digits()};
  }
  void ask(std::string const& name) { (void)m.fsm.send(protocol::acquire_command{name, 1}); }

  /// The first words of what was sent since the last time, with the channel of a subscription.
  texts sent() {
    m.flush();
    resp::decoder in;
    test::feed(in, m.fsm.bytes());
    texts all;
    while (in.next() == resp::decoder::progress::message) {
      std::string const word{in.message()[1].text};
      all.push_back(word == "SSUBSCRIBE" ? word + " " + std::string{in.message()[2].text} : word);
    }
    m.written();
    return all;
  }
};

TEST_F(ConnectionFsmCluster, SubscribesInTheSameWriteBeforeTheFirstRequestInASlot) {
  until_up();
  ask("L");
  ask("L");
  ask("M");
  EXPECT_EQ(sent(),
            (texts{"SSUBSCRIBE " + channel("L"), "EVALSHA", "EVALSHA", "SSUBSCRIBE " + channel("M"), "EVALSHA"}));
  ask("M");
  EXPECT_EQ(sent(), texts{"EVALSHA"}) << "it hears there already";
}

TEST_F(ConnectionFsmCluster, OnlyWhatIsOfOneSlotIsOneScript) {
  until_up();
  std::string neighbour;  // in the slot of L
  for (int n = 0; neighbour.empty() || slot(neighbour) != slot("L"); ++n) neighbour = std::to_string(n);
  for (std::string const& name : {std::string{"L"}, std::string{"M"}, neighbour}) ask(name);
  (void)sent();
  ask("L");
  ask("M");
  EXPECT_EQ(sent(), (texts{"EVALSHA", "EVALSHA"}));
  ask("L");
  ask(neighbour);
  EXPECT_EQ(sent(), texts{"EVALSHA"});
}

TEST_F(ConnectionFsmCluster, TheAnswerToItsOwnSubscriptionIsNotTheProtocols) {
  until_up();
  ask("L");
  (void)m.ping();
  ask("M");
  (void)sent();
  m.received(push({"ssubscribe", channel("L"), "1"}) + ":1\r\n+PONG\r\n" + push({"ssubscribe", channel("M"), "2"}) +
             ":2\r\n");
  EXPECT_EQ(m.received(), (texts{"answer 1", "answer", "answer 2"}));
}

TEST_F(ConnectionFsmCluster, ARefusedSubscriptionIsTriedAgainWithTheNextRequest) {
  until_up();
  ask("L");
  (void)sent();
  m.received("-MOVED " + std::to_string(slot("L")) + " other:1\r\n-MOVED " + std::to_string(slot("L")) +
             " other:1\r\n");
  EXPECT_EQ(m.received(), texts{"answer fault " + std::to_string(try_later)}) << "of two errors one is the protocol's";
  EXPECT_EQ(node.told.size(), 2u) << "both say where the slot is";
  ask("L");
  EXPECT_EQ(sent(), (texts{"SSUBSCRIBE " + channel("L"), "EVALSHA"}));
}

TEST_F(ConnectionFsmCluster, TheProtocolsOwnSubscriptionIsThatOfTheNodesSlot) {
  until_up();
  (void)m.fsm.send(protocol::subscribe_command{});
  (void)m.fsm.send(protocol::prove_publish_command{});
  EXPECT_EQ(sent(), (texts{"SSUBSCRIBE " + channel(5u), "SPUBLISH"}));
  m.received(push({"ssubscribe", channel(5u), "1"}) + ":1\r\n");
  EXPECT_EQ(m.received(), (texts{"answer", "answer 1"}));
}

TEST_F(ConnectionFsmCluster, RedirectionsAreForLaterAndTold) {
  until_up();
  ask("L");
  (void)sent();
  m.received(push({"ssubscribe", channel("L"), "1"}) + ":1\r\n");
  m.received();
  for (std::string const words :
       {"MOVED 1 h:1", "ASK 1 h:1", "TRYAGAIN Multiple keys", "CLUSTERDOWN Hash slot not served"}) {
    (void)m.ping();
    (void)sent();
    node.told.clear();
    m.received("-" + words + "\r\n");
    EXPECT_EQ(m.received(), texts{"answer fault " + std::to_string(try_later)}) << words;
    EXPECT_EQ(node.told, texts{"put off: " + words});
  }
  (void)m.ping();
  (void)sent();
  m.received("-ERR no\r\n");
  EXPECT_EQ(m.received(), texts{"answer fault " + std::to_string(static_cast<int>(protocol::fault::refused))});
}

TEST_F(ConnectionFsmCluster, AnEndOfASubscriptionThatNobodyAskedForAnswersNothing) {
  // D7: at every point of an exchange the answers go to what they are of.
  for (int before = 0; before <= 4; ++before) {
    a_node its;
    machine one{machine::tcp(), {}, {}, {.node = &its}};
    one.until_greeting();
    one.received(greeted_by("cluster"));
    one.flush();
    one.received();
    (void)one.fsm.send(protocol::acquire_command{"L", 1});
    (void)one.ping();
    one.flush();
    one.written();
    texts answers{push({"ssubscribe", channel("L"), "1"}), ":1\r\n", "+PONG\r\n"};
    answers.insert(answers.begin() + std::min(before, 3), push({"sunsubscribe", channel("L"), "0"}));
    one.received(joined(answers));
    EXPECT_EQ(one.received(), (texts{"answer 1", "answer"})) << before;
    EXPECT_EQ(its.told, texts{"deaf in " + std::to_string(slot("L"))}) << before;
  }
}

TEST_F(ConnectionFsmCluster, SubscribesAgainWhereTheNodeHasEndedIt) {
  until_up();
  ask("L");
  (void)sent();
  m.received(push({"ssubscribe", channel("L"), "1"}) + ":1\r\n" + push({"sunsubscribe", channel("L"), "0"}));
  ask("L");
  EXPECT_EQ(sent(), (texts{"SSUBSCRIBE " + channel("L"), "EVALSHA"}));
}

TEST_F(ConnectionFsmCluster, ANewConnectionHearsNothingYet) {
  until_up();
  ask("L");
  (void)sent();
  EXPECT_TRUE(m.fsm.life().drop("for a test"));
  m.due();
  m.now += 10s;
  node.home_slot = 6;
  m.due();
  m.resolved(1);
  m.connected();
  m.written();
  m.received(greeted_by("cluster"));
  m.flush();
  ask("L");
  (void)m.fsm.send(protocol::subscribe_command{});
  EXPECT_EQ(sent(), (texts{"SSUBSCRIBE " + channel("L"), "EVALSHA", "SSUBSCRIBE " + channel(6u)}));
  m.received();
  m.received(push({"ssubscribe", channel("L"), "1"}) + ":1\r\n");
  EXPECT_EQ(m.received(), texts{"answer 1"}) << "what the earlier connection was not answered is forgotten";
}

TEST_F(ConnectionFsmCluster, TellsItsSubscriptionFromItsCredentials) {
  // AUTH on the live connection has an answer of its own, too.
  config c;
  c.credentials_provider = [](std::string_view, credentials_handler const&) {};
  for (bool const auth_first : {true, false}) {
    a_node its;
    machine one{machine::tcp(), {}, c, {.node = &its}};
    one.want();
    one.found({"u", "p", 10s});
    one.resolved(1);
    one.connected();
    one.written();
    one.received(greeted_by("cluster"));
    one.flush();
    one.received();
    auto const renew = [&] {
      one.now += 9s;
      one.due();
      one.found({"u", "p2", 10s});
    };
    if (auth_first) renew();
    (void)one.fsm.send(protocol::acquire_command{"L", 1});
    if (!auth_first) renew();
    one.flush();
    one.written();
    std::string const auth = "+OK\r\n", refused = "-MOVED 1 h:1\r\n";
    one.received(auth_first ? auth + refused + ":1\r\n" : refused + ":1\r\n" + auth);
    EXPECT_EQ(one.received(), texts{"answer 1"}) << auth_first;
    EXPECT_EQ(one.fsm.renewal().successes(), 1u) << auth_first;
    EXPECT_EQ(its.told, texts{"put off: MOVED 1 h:1"}) << auth_first;
  }
}

TEST_F(ConnectionFsmCluster, TellsTheProtocolsSubscriptionFromItsCredentials) {
  config c;
  c.credentials_provider = [](std::string_view, credentials_handler const&) {};
  machine one{machine::tcp(), {}, c, {.node = &node}};
  one.want();
  one.found({"u", "p", 10s});
  one.resolved(1);
  one.connected();
  one.written();
  one.received(greeted_by("cluster"));
  one.flush();
  one.received();
  one.now += 9s;
  one.due();
  (void)one.fsm.send(protocol::subscribe_command{});
  (void)one.ping();
  one.found({"u", "p2", 10s});
  one.flush();
  one.written();
  one.received(push({"ssubscribe", channel(5u), "1"}) + "+PONG\r\n+OK\r\n");
  EXPECT_EQ(one.received(), (texts{"answer", "answer"}));
  EXPECT_EQ(one.fsm.renewal().successes(), 1u);
}

TEST_F(ConnectionFsmCluster, RefusesWhatIsNoNodeOrTooOld) {
  m.until_greeting();
  m.received(greeted_by("standalone"));
  EXPECT_EQ(
      m.received(),
      texts{
          "failed " + std::to_string(static_cast<int>(protocol::fault::not_supported)) +
          ": redis://h:6379: the server is not a node of a Cluster; the URL of a single server begins with redis://"});

  machine old{machine::tcp(), {}, {}, {.node = &node}};
  old.until_greeting();
  old.received(greeted_by("cluster", "6.2.14"));
  EXPECT_EQ(old.received(),
            texts{"failed " + std::to_string(static_cast<int>(protocol::fault::not_supported)) +
                  ": redis://h:6379: a Cluster needs version 7.0 or newer, and this node's is '6.2.14'"});
}

TEST(ConnectionFsmOneServer, RefusesANodeOfACluster) {
  machine m;
  m.until_greeting();
  m.received(greeted_by("cluster"));
  EXPECT_EQ(m.received(), texts{"failed " + std::to_string(static_cast<int>(protocol::fault::refused)) +
                                ": redis://h:6379: the server is a Cluster node; this URL form is for one server"});
}

TEST(ConnectionFsmOneServer, TakesARedirectionForARefusal) {
  machine m;
  m.until_up();
  (void)m.ping();
  m.flush();
  m.written();
  m.received("-MOVED 1 h:1\r\n");
  EXPECT_EQ(m.received(), texts{"answer fault " + std::to_string(static_cast<int>(protocol::fault::refused))});
}

/// A server that is not needed now.
struct unneeded final : locator {
  location locate(address&, time_point) override { return {location::kind::not_needed}; }
};

TEST(ConnectionFsmUnneeded, RestsUntilItIsWantedAgain) {
  unneeded where;
  machine m{machine::tcp(), {}, {}, {.finder = &where}};
  EXPECT_EQ(m.want(), "wake");
  m.now += 1h;
  EXPECT_EQ(m.due(), "") << "nothing is to be done";
  EXPECT_EQ(m.received(), texts{});
  EXPECT_EQ(m.want(), "wake") << "asked once more";
}

}  // namespace
}  // namespace conch::redis
