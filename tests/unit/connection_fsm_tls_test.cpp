// The state machine of a connection over TLS, and of one whose credentials change.

#include "unit/connection_fsm_fixture.hpp"

#include <conch/error.hpp>

namespace conch::redis {
namespace {

constexpr connection_fsm::stream_kind over_tls{.handshakes = true};

TEST(ConnectionFsmTls, D29TheReadBehindTheHandshakeTellsWhyTheGreetingCannotBeWritten) {
  machine m{machine::tcp(), over_tls};
  m.want();
  m.resolved(1);
  m.connected();
  m.handshaken();
  m.fsm.write_failed("write: reset", m.now);
  EXPECT_EQ(m.todo(), nothing) << "the server may have said why, and then closed";
  EXPECT_EQ(m.received(), texts{});
  m.fsm.failed("read: certificate required", m.now, protocol::fault::tls_failed);
  EXPECT_EQ(m.todo(), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"failed 8: redis://h:6379: read: certificate required"});
}

TEST(ConnectionFsmTls, AWriteThatFailsLaterEndsTheConnection) {
  machine m{machine::tcp(), over_tls};
  m.want();
  m.resolved(1);
  m.connected();
  m.handshaken();
  m.written();
  m.received(greeting_answer);
  m.flush();
  m.received();
  m.ping();
  m.flush();
  m.fsm.write_failed("write: reset", m.now);
  EXPECT_EQ(m.received(), texts{"disconnected: write: reset"});
}

TEST(ConnectionFsmTls, AHandshakeThatHangsIsATroubleOfTlsOnlyUntilTheFirstConnection) {
  machine m{machine::tcp(), over_tls};
  std::string const words =
      ": redis://h:6379: no answer to the TLS handshake within connect_timeout; is this a TLS port?";
  m.want();
  m.resolved(1);
  m.connected();
  m.now += 5s;
  m.due();
  EXPECT_EQ(m.received(), texts{"failed 8" + words});
  m.due();
  m.resolved(1);
  m.connected();
  m.handshaken();
  m.written();
  m.received(greeting_answer);
  m.flush();
  m.received();
  m.now += 2s;
  m.failed("read: end");
  m.received();
  m.due();
  m.resolved(1);
  m.connected();
  m.now += 5s;
  m.due();
  EXPECT_EQ(m.received(), texts{"failed 2" + words});
}

TEST(ConnectionFsmTls, SaysWhatAnUnfinishedAttemptWaitsFor) {
  config c;
  c.credentials_provider = [](std::string const&, credentials_handler const&) {};
  machine m{machine::tcp(), over_tls, c};
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "");
  m.want();
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "redis://h:6379: credentials_provider has not answered yet");
  m.found({"u", "p"});
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "redis://h:6379: the name is not looked up yet");
  m.resolved(1);
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "redis://h:6379: not connected yet");
  m.connected();
  EXPECT_EQ(m.fsm.life().unfinished_attempt(),
            "redis://h:6379: no answer to the TLS handshake yet; is this a TLS port?");
  m.handshaken();
  m.written();
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "redis://h:6379: no answer to the greeting yet");
  m.received(greeting_answer);
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "");
  m.failed("read: end");
  EXPECT_EQ(m.fsm.life().unfinished_attempt(), "") << "it pauses: why the connection has ended was told";
}

TEST(ConnectionFsmTls, D30ASentinelThatIsAskedWithoutTlsIsNamedByItsOwnScheme) {
  address where = machine::tcp();
  where.is_sentinel = true;
  machine m{where};
  m.until_greeting();
  m.failed("read: reset");
  EXPECT_EQ(m.received(), texts{"failed 2: redis-sentinel://h:6379: read: reset; if this is a TLS port, the URL begins "
                                "with rediss-sentinel://"});
}

TEST(ConnectionFsmTls, D30APlainConnectionThatEndsBeforeAWordIsAskedWhetherItShouldBeTls) {
  machine m;
  m.want();
  m.resolved(1);
  m.connected();
  m.failed("read: reset");
  EXPECT_EQ(m.received(),
            texts{"failed 2: redis://h:6379: read: reset; if this is a TLS port, the URL begins with rediss://"});
  m.due();
  m.resolved(1);
  m.connected();
  m.written();
  m.received("%4\r\n");
  m.failed("read: reset");
  EXPECT_EQ(m.received(), texts{"failed 2: redis://h:6379: read: reset"}) << "it speaks RESP";
}

TEST(ConnectionFsmTls, AnAttemptIsCountedOnce) {
  machine m{machine::tcp(), over_tls};
  auto const counts = [&] {
    return std::pair{m.fsm.life().counted().handshakes, m.fsm.life().counted().handshakes_failed};
  };
  auto const begin = [&] {
    m.due();
    m.resolved(1);
    m.connected();
  };
  EXPECT_TRUE(m.fsm.life().want());
  begin();
  m.fsm.failed("wrong", m.now, protocol::fault::tls_failed);
  EXPECT_EQ(counts(), std::pair(std::uint64_t{0}, std::uint64_t{1}));
  m.now += 10s;
  begin();
  m.now += 10s;
  m.due();
  EXPECT_EQ(counts(), std::pair(std::uint64_t{0}, std::uint64_t{2})) << "too late";
  m.now += 10s;
  begin();
  m.handshaken();
  m.fsm.failed("read: certificate required", m.now, protocol::fault::tls_failed);
  EXPECT_EQ(counts(), std::pair(std::uint64_t{0}, std::uint64_t{3})) << "behind the handshake";
  m.now += 10s;
  begin();
  m.handshaken();
  m.written();
  m.received(greeting_answer);
  EXPECT_EQ(counts(), std::pair(std::uint64_t{1}, std::uint64_t{3}));
  m.flush();
  m.fsm.failed("read: bad record", m.now, protocol::fault::tls_failed);
  EXPECT_EQ(counts(), std::pair(std::uint64_t{1}, std::uint64_t{3})) << "that was not a handshake";
}

TEST(ConnectionFsmTls, NothingIsCountedWithoutIt) {
  machine m;
  m.until_up();
  m.failed("read: end");
  EXPECT_EQ(m.fsm.life().counted().handshakes + m.fsm.life().counted().handshakes_failed, 0u);
}

// ------------------------------------------------------------------------------------------------------ credentials

config with_provider() {
  config c;
  c.credentials_provider = [](std::string const&, credentials_handler const&) {};
  return c;
}

address without_password() {
  address a;
  a.host = "h";
  return a;
}

/// A machine that asks a provider.
struct asking_machine : machine {
  asking_machine() : machine{without_password(), {}, with_provider()} {}

  /// Greeted with these.
  void up_with(credentials c) {
    (void)(fsm.life().want() ? due() : due());
    found(std::move(c));
    resolved(1);
    connected();
    written();
    received(greeting_answer);
    flush();
    received();
    log.clear();
  }
};

credentials good_for(duration d, std::string password = "one") {
  credentials c;
  c.user = "u";
  c.password = std::move(password);
  c.refresh_after = d;
  return c;
}

TEST(ConnectionFsmCredentials, AreAskedForBeforeEachConnection) {
  asking_machine m;
  EXPECT_EQ(m.want(), "sleep(5000) ask");
  EXPECT_EQ(m.found(good_for(duration::max())), "resolve");
  m.resolved(1);
  m.connected();
  EXPECT_NE(m.fsm.bytes().find("AUTH\r\n$1\r\nu\r\n$3\r\none\r\n"), std::string::npos) << m.fsm.bytes();
  m.written();
  EXPECT_EQ(m.received(greeting_answer), "log wake flush read");
  m.flush();
  m.failed("read: end");
  EXPECT_EQ(m.due(), "sleep(5000) ask");
  m.found(good_for(duration::max(), "two"));
  m.resolved(1);
  m.connected();
  EXPECT_NE(m.fsm.bytes().find("\r\ntwo\r\n"), std::string::npos) << m.fsm.bytes();
}

TEST(ConnectionFsmCredentials, ThatCannotBeHadEndTheAttemptWithTheReason) {
  asking_machine m;
  m.want();
  EXPECT_EQ(m.not_found("the vault is sealed"), "log close sleep(0)");
  EXPECT_EQ(m.received(), texts{"failed 2: redis://h:6379: credentials_provider: the vault is sealed"});
  EXPECT_EQ(m.due(), "sleep(5000) ask");
  m.now += 5s;
  EXPECT_TRUE(m.due().starts_with("log close sleep"));
  EXPECT_EQ(m.received(), texts{"failed 2: redis://h:6379: credentials_provider: no answer within connect_timeout"});
  EXPECT_EQ(m.found(good_for(1s)), nothing) << "too late";
  EXPECT_EQ(m.not_found("x"), nothing);
}

TEST(ConnectionFsmCredentials, D34AreRenewedOnTheLiveConnectionAndTheAnswerIsNobodyElses) {
  asking_machine m;
  m.up_with(good_for(10s));
  EXPECT_EQ(m.slept, 9s);
  m.now += 9s;
  EXPECT_EQ(m.due(), "sleep(5000) ask");
  m.ping();  // written before
  m.fsm.send(protocol::subscribe_command{});
  EXPECT_EQ(m.found(good_for(20s, "two")), nothing) << "a flush is due already";
  m.ping();  // and behind
  EXPECT_EQ(m.flush(), "write");
  std::string const sent{m.fsm.bytes()};
  EXPECT_TRUE(sent.ends_with("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$3\r\ntwo\r\n" + ping_bytes)) << sent;
  m.written();
  EXPECT_EQ(m.received("+PONG\r\n" + push({"subscribe", "conch:me", "1"})), "flush read");
  EXPECT_EQ(m.received(), (texts{"answer", "answer"}));
  m.flush();
  EXPECT_EQ(m.received("+OK\r\n+PONG\r\n"), "sleep(18000) flush read");
  m.flush();
  EXPECT_EQ(m.received(), texts{"answer"}) << "not that of AUTH";
  EXPECT_EQ(m.log, texts{});
  m.now += 18s;
  EXPECT_EQ(m.due(), "sleep(5000) ask");
  EXPECT_EQ(m.found(good_for(duration::max(), "three")), "flush");
  EXPECT_EQ(m.flush(), "write");
  m.written();
  EXPECT_EQ(m.received("+OK\r\n"), "flush read");
  m.now += 1h;
  EXPECT_EQ(m.due(), nothing) << "these are good until the connection ends";
  EXPECT_EQ(m.fsm.renewal().successes(), 2u);
  EXPECT_EQ(m.fsm.renewal().failures(), 0u);
}

TEST(ConnectionFsmCredentials, ThatCannotBeRenewedLeaveTheConnectionAndAreTriedAgain) {
  asking_machine m;
  m.up_with(good_for(10s));
  m.now += 9s;
  m.due();
  EXPECT_EQ(m.not_found("the vault is sealed"), "log sleep(3000)");
  EXPECT_EQ(m.log, texts{"redis://h:6379: cannot renew the credentials: credentials_provider: the vault is sealed"});
  m.now += 3s;
  EXPECT_EQ(m.due(), "sleep(5000) ask");
  m.now += 5s;
  EXPECT_EQ(m.due(), "log sleep(3000)") << "it did not answer";
  EXPECT_EQ(m.found(good_for(1s)), nothing) << "too late";
  m.now += 3s;
  EXPECT_EQ(m.due(), "sleep(5000) ask");
  m.log.clear();
  EXPECT_EQ(m.found(good_for(10s, "wrong")), "flush");
  m.flush();
  m.written();
  EXPECT_EQ(m.received("-WRONGPASS invalid\r\n"), "log sleep(3000) flush read");
  EXPECT_EQ(m.log, texts{"redis://h:6379: cannot renew the credentials: WRONGPASS invalid"});
  EXPECT_EQ(m.received(), texts{}) << "the connection is kept";
  EXPECT_EQ(m.fsm.renewal().failures(), 3u);
  EXPECT_EQ(m.fsm.renewal().successes(), 0u);
}

TEST(ConnectionFsmCredentials, ARenewalEndsWithItsConnection) {
  asking_machine m;
  m.up_with(good_for(10s));
  m.now += 9s;
  m.due();
  m.found(good_for(10s));
  m.flush();
  m.written();
  m.failed("read: end");  // AUTH is not answered
  m.received();
  m.up_with(good_for(10s, "two"));
  m.ping();
  m.flush();
  m.written();
  m.received("+PONG\r\n");
  EXPECT_EQ(m.received(), texts{"answer"}) << "of the new connection";
}

TEST(ConnectionFsmCredentials, AreNotAskedForWithoutAProvider) {
  machine m;
  EXPECT_EQ(m.want(), "sleep(5000) resolve");
  EXPECT_EQ(m.found(good_for(1s)), nothing);
  EXPECT_NE(m.fsm.where().password, "one");
}

}  // namespace
}  // namespace conch::redis
