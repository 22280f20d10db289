// The state machine of a connection to PostgreSQL: without libpq, without a server.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/overloaded.hpp"
#include "servers/postgresql/connection_fsm.hpp"
#include "servers/postgresql/schema.hpp"

namespace conch::postgresql {
namespace {

using protocol::fault;
using namespace std::chrono_literals;

struct events final : protocol::wire_events {
  std::string told;
  void connected_as(protocol::session const& s, time_point) override {
    told += "up " + std::to_string(s.client_id) + "@" + s.address + " " + s.run + ";";
  }
  void connect_failed(fault what, std::string_view words, time_point) override {
    told += "failed " + std::to_string(static_cast<int>(what)) + " " + std::string{words} + ";";
  }
  void disconnected(std::string_view why, time_point) override { told += "down " + std::string{why} + ";"; }
  void answered(protocol::answer const& a, time_point) override {
    told += "answer " + std::to_string(a.numbers().size()) + ";";
  }
  void pushed(protocol::push const& p, time_point) override {
    std::visit(overloaded{[&](protocol::pushed_grant const& g) { told += "granted " + std::string{g.name} + ";"; },
                          [&](protocol::revocation const& r) { told += "revoked " + std::string{r.name} + ";"; },
                          [&](protocol::request_to_let_go const&) { told += "requested;"; },
                          [&](protocol::end_of_hold const&) { told += "freed;"; },
                          [&](protocol::missed_turn const&) { told += "missed;"; },
                          [&](protocol::end_of_lease const&) { told += "end;"; }},
               p);
  }

  std::string take() { return std::exchange(told, {}); }
};

class PostgresqlConnection : public testing::Test {
 protected:
  PostgresqlConnection() {
    settings.reconnect_min = 10ms;
    fsm.report_to(seen);
  }

  static reply row(std::vector<std::string_view> values) {
    reply r;
    r.row = std::move(values);
    return r;
  }

  static std::string failed(fault what, std::string const& words) {
    return "failed " + std::to_string(static_cast<int>(what)) + " db: " + words + ";";
  }

  void connect() {
    EXPECT_TRUE(fsm.life().want());
    fsm.life().due(now);
    EXPECT_TRUE(fsm.life().take().resolve);
    fsm.life().resolved({{"a:5432"}}, now);
    EXPECT_TRUE(fsm.life().take().connect);
    fsm.connected({150018, 77, false, false}, now);
    EXPECT_TRUE(fsm.life().take().write);
  }

  void come_up() {
    connect();
    fsm.queried(row({"77", "f", "t", "", ""}), now);
    EXPECT_TRUE(fsm.life().take().write);
    EXPECT_NE(fsm.query().find("listen conch_c1"), std::string::npos);
    fsm.queried(row({std::to_string(schema_version), "1800000000000000", "5.6", "12345"}), now);
    net::steps const todo = fsm.life().take();
    EXPECT_TRUE(todo.read && todo.flush && todo.sleep);
    EXPECT_EQ(seen.take(), "up 77@12345 5.6;");
  }

  time_point now{1h};
  config settings;
  std::string const id = "c1";
  events seen;
  connection_fsm fsm{settings, id, "db", 1};
};

TEST_F(PostgresqlConnection, ComesUpInTwoQuestions) {
  come_up();
  EXPECT_EQ(fsm.send(protocol::ping_command{}), connection_fsm::flush_due::no) << "the flush of the greeting is due";
  EXPECT_EQ(fsm.take_statements().size(), 1u);
  fsm.answered(row({"{}"}), now);
  EXPECT_TRUE(fsm.life().take().flush);
  EXPECT_EQ(seen.take(), "answer 0;");
}

TEST_F(PostgresqlConnection, MakesTheSchemaOnceWhereThereIsNone) {
  connect();
  fsm.queried(row({"77", "f", "f", ""}), now);
  EXPECT_TRUE(fsm.life().take().write);
  EXPECT_NE(fsm.query().find(schema()), std::string::npos);
  fsm.queried({}, now);
  EXPECT_TRUE(fsm.life().take().write);
  fsm.queried({"42883", "function conch.x does not exist", {}}, now);
  EXPECT_EQ(seen.take(), failed(fault::reconnect, "function conch.x does not exist")) << "not again and again";
}

TEST_F(PostgresqlConnection, MakesTheSchemaAnewWhereItIsOlder) {
  connect();
  fsm.queried(row({"77", "f", "t", ""}), now);
  fsm.queried(row({"0", "1", "2", "3"}), now);
  EXPECT_TRUE(fsm.life().take().write);
  EXPECT_NE(fsm.query().find(schema()), std::string::npos);
}

TEST_F(PostgresqlConnection, SaysWhatARoleLacks) {
  connect();
  fsm.queried(row({"77", "f", "f", ""}), now);
  fsm.queried({"42501", "permission denied for database d", {}}, now);
  EXPECT_EQ(seen.take(),
            failed(fault::access_denied,
                   "permission denied for database d; a role that may create a schema runs the schema script "
                   "postgresql.sql once"));
  EXPECT_TRUE(fsm.life().take().close);
}

/// Something is missing in a schema that is there.
TEST_F(PostgresqlConnection, MakesWhatIsMissingInTheSchema) {
  connect();
  fsm.queried(row({"77", "f", "t", ""}), now);
  fsm.queried({"42883", "function conch.connect(unknown) does not exist", {}}, now);
  EXPECT_TRUE(fsm.life().take().write);
  EXPECT_NE(fsm.query().find(schema()), std::string::npos);
}

/// The question is asked before anything of the schema runs, and again by the script, within its transaction.
TEST_F(PostgresqlConnection, RunsNothingOfASchemaThatOthersControl) {
  connect();
  ASSERT_FALSE(owners_question().empty());
  std::string const first = fsm.query();
  EXPECT_NE(first.find(owners_question()), std::string::npos);
  EXPECT_EQ(first.find("conch."), std::string::npos) << first;
  EXPECT_NE(schema().find(owners_question()), std::string_view::npos);
  std::string const why = "the schema conch is owned by mallory: drop it" + std::string(300, 'x') + " and say so";
  fsm.queried(row({"77", "f", "t", why}), now);
  EXPECT_EQ(seen.take(), failed(fault::refused, why));
  EXPECT_FALSE(fsm.life().take().write);
  now += 1s;
  fsm.life().due(now);
  fsm.life().resolved({{"a:5432"}}, now);
  fsm.connected({150018, 77, false, false}, now);
  fsm.queried(row({"77", "f", "f", ""}), now);
  fsm.queried({"CN003", "the table conch.lock is owned by mallory", {}}, now);
  EXPECT_EQ(seen.take(), failed(fault::refused, "the table conch.lock is owned by mallory"));
}

/// Another's transaction may keep what the script needs. When this attempt is given up, nothing of it waits any longer
/// at the server.
TEST_F(PostgresqlConnection, NothingThatItAsksWaitsLongerThanTheAttemptLasts) {
  settings.connect_timeout = 4s;
  settings.command_timeout = 2s;
  connect();
  EXPECT_NE(fsm.query().find("('statement_timeout', '2000', false)"), std::string::npos) << fsm.query();
  EXPECT_NE(fsm.query().find("('lock_timeout', '500', false)"), std::string::npos);
  EXPECT_NE(fsm.query().find("'client_connection_check_interval', '1000'"), std::string::npos);
  fsm.queried(row({"77", "f", "f", ""}), now);
  EXPECT_NE(fsm.query().find("set local statement_timeout=4000;set local lock_timeout=2000;"), std::string::npos);
}

/// Another program keeps making it old, or it lies.
TEST_F(PostgresqlConnection, MakesTheSchemaNewerOnceAndNotAgainAndAgain) {
  connect();
  fsm.queried(row({"77", "f", "t", ""}), now);
  fsm.queried(row({"1", "1800000000000000", "5.6", "12345"}), now);
  EXPECT_NE(fsm.query().find(schema()), std::string::npos);
  fsm.queried({}, now);
  fsm.life().take();
  fsm.queried(row({"1", "1800000000000000", "5.6", "12345"}), now);
  EXPECT_EQ(seen.take(), failed(fault::malformed, "the schema conch is older than it was just made"));
  EXPECT_FALSE(fsm.life().take().write);
}

TEST_F(PostgresqlConnection, WarnsOnceBeforeTheFirstAttempt) {
  connection_fsm other{settings, id, "db", 1, "anybody can read it"};
  other.report_to(seen);
  EXPECT_TRUE(other.life().want());
  for (int attempt = 0; attempt < 2; ++attempt) {
    now += 10s;
    other.life().due(now);
    auto const lines = other.life().take_log();
    ASSERT_EQ(lines.size(), attempt == 0 ? 1u : 0u);
    if (attempt == 0) {
      EXPECT_EQ(lines[0].words, "db: anybody can read it");
      EXPECT_EQ(lines[0].level, log_level::warning);
    }
    EXPECT_TRUE(other.life().take().resolve);
    other.failed("no such host\n", now);
    other.life().take_log();
    other.life().take();
  }
}

TEST_F(PostgresqlConnection, BelievesNoGreetingThatCannotBe) {
  std::string const too_long(65, '1');
  std::vector<std::vector<std::string_view>> const wrong{{"2", "-1", "5.6", "12345"},
                                                         {"2", "0", "5.6", "12345"},
                                                         {"2", "9007199254740992", "5.6", "12345"},
                                                         {"2", "9223372036854775807", "5.6", "12345"},
                                                         {"99999999999", "1800000000000000", "5.6", "12345"},
                                                         {"2", "1800000000000000", too_long, "12345"},
                                                         {"2", "1800000000000000", "5.6", too_long},
                                                         {"2", "1800000000000000", "5.6"}};
  EXPECT_TRUE(fsm.life().want());
  for (auto const& one : wrong) {
    now += 1s;
    fsm.life().due(now);
    fsm.life().resolved({{"a:5432"}}, now);
    fsm.connected({150018, 77, false, false}, now);
    fsm.queried(row({"77", "f", "t", ""}), now);
    fsm.queried(row(one), now);
    EXPECT_TRUE(seen.take().starts_with("failed " + std::to_string(static_cast<int>(fault::malformed)))) << one[1];
    fsm.life().take();
  }
}

TEST_F(PostgresqlConnection, RefusesAPoolAStandbyAndAnOldServer) {
  connect();
  fsm.queried(row({"78", "f", "t", ""}), now);
  EXPECT_NE(seen.take().find("PgBouncer"), std::string::npos);
  now += 1s;
  fsm.life().take();
  fsm.life().due(now);
  fsm.life().resolved({{"a:5432"}}, now);
  fsm.connected({150018, 77, false, false}, now);
  fsm.queried(row({"77", "t", "t", ""}), now);
  EXPECT_EQ(seen.take(), failed(fault::reconnect, "the server is a standby"));
  now += 1s;
  fsm.life().due(now);
  fsm.life().resolved({{"a:5432"}}, now);
  fsm.connected({110005, 77, false, false}, now);
  EXPECT_EQ(seen.take(), failed(fault::refused, "the server's version is 11, 12 is needed"));
}

TEST_F(PostgresqlConnection, AnAttemptThatTakesTooLongIsGivenUp) {
  connect();
  fsm.life().due(now + 1s);
  EXPECT_EQ(seen.take(), "");
  EXPECT_EQ(fsm.life().unfinished_attempt(), "db: no answer to the greeting yet");
  fsm.life().due(now + settings.connect_timeout);
  EXPECT_EQ(seen.take(), failed(fault::try_later, "no answer to the greeting within connect_timeout"));
}

/// With several hosts.
class PostgresqlHosts : public PostgresqlConnection {
 protected:
  using texts = std::vector<std::string>;

  /// "close, 2500 ms, connect 0"
  std::string todo() {
    net::steps const all = fsm.life().take();
    texts words;
    if (all.close) words.emplace_back("close");
    if (all.sleep && all.until != time_point::max()) {
      words.push_back(std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(all.until - now).count()) +
                      " ms");
    }
    if (all.resolve) words.emplace_back("resolve");
    if (all.connect) words.push_back("connect " + std::to_string(fsm.life().address_number()));
    if (all.write) words.emplace_back("query");
    std::string text;
    for (std::string const& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
  }

  void begin() {
    if (!fsm.life().want()) now += 10s;
    fsm.life().due(now);
    EXPECT_EQ(todo(), "5000 ms, resolve");
  }

  void settle(std::string_view is_standby) {
    fsm.connected({150018, 77, true, true}, now);
    EXPECT_TRUE(todo().ends_with("query"));
    fsm.queried(row({"77", is_standby, "t", ""}), now);
  }
};

TEST_F(PostgresqlHosts, ThePrimaryIsFoundThoughTheMachineOfTheFirstSaysNothing) {
  begin();
  fsm.life().resolved({{"a:1", "b:1", "c:1"}}, now);
  EXPECT_EQ(todo(), "1666 ms, connect 0");
  now += 1667ms;
  fsm.life().due(now);
  EXPECT_EQ(todo(), "close, 1666 ms, connect 1");
  settle("t");
  EXPECT_EQ(todo(), "close, 3333 ms, connect 2");
  settle("f");
  fsm.queried(row({std::to_string(schema_version), "1800000000000000", "5.6", "12345"}), now);
  EXPECT_EQ(seen.take(), "up 77@12345 5.6;");
  auto const log = fsm.life().take_log();
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].words,
            "connected to db at c:1; passed over a:1: no connection within its share of connect_timeout; b:1: the "
            "server is a standby");
  todo();
  now += 2s;
  fsm.failed("server closed the connection\n", now);
  todo();
  begin();
  fsm.life().resolved({{"a:1", "b:1", "c:1"}}, now);
  EXPECT_EQ(todo(), "1666 ms, connect 2") << "the last primary first";
}

TEST_F(PostgresqlHosts, WhenNoneIsThePrimaryTheErrorTellsOfEach) {
  begin();
  fsm.life().resolved({{"a:1", "b:1"}}, now);
  fsm.failed("connection refused\n", now);
  settle("t");
  EXPECT_EQ(seen.take(), failed(fault::reconnect, "a:1: connection refused; b:1: the server is a standby"));
}

TEST_F(PostgresqlHosts, AWrongPasswordIsToldAtOnce) {
  begin();
  fsm.life().resolved({{"a:1", "b:1"}}, now);
  fsm.failed("FATAL:  28P01: password authentication failed\n", now);
  EXPECT_EQ(seen.take(), failed(fault::access_denied, "a:1: password authentication failed"));
}

TEST_F(PostgresqlHosts, ANameThatHangsKeepsTheOthersWaitingForAShareOnly) {
  begin();
  fsm.life().resolved({{"b:1"}, false}, now);
  EXPECT_EQ(todo(), "1000 ms");
  now += 1s;
  fsm.life().due(now);
  EXPECT_EQ(todo(), "4000 ms, connect 0");
  fsm.life().resolved({{"a:1", "b:1"}}, now);
  EXPECT_EQ(todo(), "") << "too late for this attempt";
}

TEST_F(PostgresqlHosts, ThatHaveNoAddressAreToldOf) {
  begin();
  fsm.life().resolved({{}, false, "'a': not found"}, now);
  EXPECT_EQ(todo(), "");
  fsm.life().resolved({{}, true, "'b': not found"}, now);
  EXPECT_EQ(seen.take(), failed(fault::try_later, "'b': not found"));
  todo();
  begin();
  now += 5s;
  fsm.life().due(now);
  EXPECT_EQ(seen.take(), failed(fault::try_later, "no connection within connect_timeout"));
}

TEST_F(PostgresqlHosts, WhoseNameMeansAnotherServerAreLeft) {
  begin();
  fsm.life().resolved({{"a:1"}}, now);
  settle("f");
  EXPECT_EQ(todo(), "query");
  fsm.queried(row({std::to_string(schema_version), "1800000000000000", "5.6", "12345"}), now);
  seen.take();
  EXPECT_EQ(todo(), "10000 ms");
  now += 10s;
  fsm.life().due(now);
  EXPECT_EQ(todo(), "10000 ms, resolve");
  fsm.life().resolved({{"z:1"}, false}, now);
  fsm.life().resolved({{"z:1"}, true, "'b': no answer"}, now);
  fsm.life().resolved({{"z:1", "a:1"}}, now);
  EXPECT_EQ(seen.take(), "") << "of some hosts nothing is known, or it is one of them";
  fsm.life().resolved({{"z:1"}}, now);
  EXPECT_EQ(seen.take(), "down the name of the server means another address now: z:1;");
  EXPECT_EQ(todo(), "close, 0 ms");
}

TEST_F(PostgresqlConnection, WhatTheServerRefusesForGoodIsTold) {
  EXPECT_TRUE(fsm.life().want());
  fsm.life().due(now);
  fsm.life().resolved({{"a:5432"}}, now);
  fsm.failed("FATAL:  28P01: password authentication failed\n", now);
  EXPECT_EQ(seen.take(), failed(fault::access_denied, "password authentication failed"));
}

TEST_F(PostgresqlConnection, WhatWasSentOnALostConnectionIsNotSentOnTheNext) {
  come_up();
  EXPECT_TRUE(fsm.take_statements().empty());  // those of the greeting
  EXPECT_EQ(fsm.send(protocol::acquire_command{.name = "a", .id = 7, .lease = 30s}),
            connection_fsm::flush_due::at_once);
  fsm.failed("server closed the connection\n", now);
  EXPECT_EQ(seen.take(), "down server closed the connection;");
  net::steps const todo = fsm.life().take();
  EXPECT_TRUE(todo.close && todo.sleep);
  fsm.life().due(now);
  EXPECT_TRUE(fsm.life().take().resolve) << "at once after a connection that stood";
  fsm.life().resolved({{"a:5432"}}, now);
  fsm.life().take();
  fsm.connected({150018, 78, false}, now);
  fsm.queried(row({"78", "f", "t", ""}), now);
  fsm.queried(row({std::to_string(schema_version), "1800000000000000", "5.6", "12346"}), now);
  EXPECT_EQ(seen.take(), "up 78@12346 5.6;");
  EXPECT_TRUE(fsm.life().take().flush);
  EXPECT_TRUE(fsm.take_statements().empty())
      << "the acquire was asked on a connection that has ended; the protocol repeats it if it still wants it";
  EXPECT_EQ(fsm.send(protocol::ping_command{}), connection_fsm::flush_due::at_once)
      << "nobody owes an answer on this connection";
  auto const sent = fsm.take_statements();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_STREQ(sent[0].name(), "conch_ping");
}

TEST_F(PostgresqlConnection, AConnectionThatIsDroppedReportsNothingMore) {
  come_up();
  EXPECT_TRUE(fsm.is_up());
  EXPECT_TRUE(fsm.life().drop("no answer"));
  EXPECT_FALSE(fsm.is_up());
  EXPECT_FALSE(fsm.life().drop("once more"));
  fsm.life().due(now);
  EXPECT_EQ(seen.take(), "down no answer;");
}

TEST_F(PostgresqlConnection, ForeignNotificationsAreLoggedOnce) {
  come_up();
  fsm.life().take_log();
  fsm.notified("hello", now);
  fsm.notified("hello", now);
  EXPECT_EQ(fsm.life().take_log().size(), 1u);
  fsm.notified("! c1.7 636f6e63683a7b617d", now);
  EXPECT_EQ(seen.take(), "revoked a;");
}

TEST_F(PostgresqlConnection, EndsWhenItIsShutDown) {
  come_up();
  fsm.life().shut_down();
  EXPECT_TRUE(fsm.life().take().close);
  fsm.life().due(now + 1h);
  EXPECT_FALSE(fsm.life().take().any());
}

}  // namespace
}  // namespace conch::postgresql
