// The state machine of a connection to PostgreSQL: without libpq, without a server.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "postgresql/connection_fsm.hpp"
#include "postgresql/schema.hpp"

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
  void answered(protocol::answer const& a, time_point) override { told += "answer " + std::to_string(a.numbers().size()) + ";"; }
  void granted(protocol::pushed_grant const& g, time_point) override { told += "granted " + std::string{g.name} + ";"; }
  void revoked(std::string_view name, engine::grant_id, time_point) override { told += "revoked " + std::string{name} + ";"; }
  void requested(std::string_view, engine::grant_id, time_point) override { told += "requested;"; }
  void freed(std::string_view, engine::grant_id, bool, time_point) override { told += "freed;"; }
  void missed(std::string_view, engine::grant_id, time_point) override { told += "missed;"; }

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
    EXPECT_TRUE(fsm.want_connection());
    fsm.due(now);
    EXPECT_TRUE(fsm.take().resolve);
    fsm.resolved();
    EXPECT_TRUE(fsm.take().connect);
    fsm.connected({150018, 77, false}, now);
    EXPECT_TRUE(fsm.take().query);
  }

  void come_up() {
    connect();
    fsm.queried(row({"77", "f", "warning"}), now);
    EXPECT_TRUE(fsm.take().query);
    EXPECT_NE(fsm.query().find("listen conch_c1"), std::string::npos);
    fsm.queried(row({"1", "1800000000000000", "5.6", "12345"}), now);
    connection_actions const todo = fsm.take();
    EXPECT_TRUE(todo.pipeline && todo.flush && todo.sleep);
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
  EXPECT_TRUE(fsm.take().flush);
  EXPECT_EQ(seen.take(), "answer 0;");
}

TEST_F(PostgresqlConnection, MakesTheSchemaOnceWhereThereIsNone) {
  connect();
  fsm.queried(row({"77", "f"}), now);
  fsm.queried({"3F000", "schema \"conch\" does not exist", {}}, now);
  EXPECT_TRUE(fsm.take().query);
  EXPECT_NE(fsm.query().find(schema()), std::string::npos);
  fsm.queried({}, now);
  EXPECT_TRUE(fsm.take().query);
  fsm.queried({"42883", "function conch.x does not exist", {}}, now);
  EXPECT_EQ(seen.take(), failed(fault::reconnect, "function conch.x does not exist")) << "not again and again";
}

TEST_F(PostgresqlConnection, MakesTheSchemaAnewWhereItIsOlder) {
  connect();
  fsm.queried(row({"77", "f"}), now);
  fsm.queried(row({"0", "1", "2", "3"}), now);
  EXPECT_TRUE(fsm.take().query);
  EXPECT_NE(fsm.query().find(schema()), std::string::npos);
}

TEST_F(PostgresqlConnection, SaysWhatARoleLacks) {
  connect();
  fsm.queried(row({"77", "f"}), now);
  fsm.queried({"3F000", "", {}}, now);
  fsm.queried({"42501", "permission denied for database d", {}}, now);
  EXPECT_EQ(seen.take(), failed(fault::access_denied,
                                "permission denied for database d; a role that may create a schema runs the schema script "
                                "postgresql.sql once"));
  EXPECT_TRUE(fsm.take().close);
}

TEST_F(PostgresqlConnection, RefusesAPoolAStandbyAndAnOldServer) {
  connect();
  fsm.queried(row({"78", "f"}), now);
  EXPECT_NE(seen.take().find("PgBouncer"), std::string::npos);
  now += 1s;
  fsm.take();
  fsm.due(now);
  fsm.resolved();
  fsm.connected({150018, 77, false}, now);
  fsm.queried(row({"77", "t"}), now);
  EXPECT_EQ(seen.take(), failed(fault::reconnect, "the server is a standby"));
  now += 1s;
  fsm.due(now);
  fsm.resolved();
  fsm.connected({110005, 77, false}, now);
  EXPECT_EQ(seen.take(), failed(fault::refused, "the server's version is 11, 12 is needed"));
}

TEST_F(PostgresqlConnection, AnAttemptThatTakesTooLongIsGivenUp) {
  connect();
  fsm.due(now + 1s);
  EXPECT_EQ(seen.take(), "");
  EXPECT_EQ(fsm.unfinished_attempt(), "db: no answer to the greeting yet");
  fsm.due(now + settings.connect_timeout);
  EXPECT_EQ(seen.take(), failed(fault::try_later, "no connection within connect_timeout"));
}

TEST_F(PostgresqlConnection, WhatTheServerRefusesForGoodIsTold) {
  EXPECT_TRUE(fsm.want_connection());
  fsm.due(now);
  fsm.resolved();
  fsm.failed("FATAL:  28P01: password authentication failed\n", now);
  EXPECT_EQ(seen.take(), failed(fault::access_denied, "password authentication failed"));
}

TEST_F(PostgresqlConnection, WhatWasSentOnALostConnectionIsNotSentOnTheNext) {
  come_up();
  fsm.send(protocol::ping_command{});
  fsm.failed("server closed the connection\n", now);
  EXPECT_EQ(seen.take(), "down server closed the connection;");
  EXPECT_TRUE(fsm.take_statements().empty());
  connection_actions const todo = fsm.take();
  EXPECT_TRUE(todo.close && todo.sleep);
  fsm.due(now);
  EXPECT_TRUE(fsm.take().resolve) << "at once after a connection that stood";
}

TEST_F(PostgresqlConnection, AConnectionThatIsDroppedReportsNothingMore) {
  come_up();
  EXPECT_TRUE(fsm.is_up());
  EXPECT_TRUE(fsm.drop_connection("no answer"));
  EXPECT_FALSE(fsm.is_up());
  EXPECT_FALSE(fsm.drop_connection("once more"));
  fsm.due(now);
  EXPECT_EQ(seen.take(), "down no answer;");
}

TEST_F(PostgresqlConnection, ForeignNotificationsAreLoggedOnce) {
  come_up();
  fsm.take_log();
  fsm.notified("hello", now);
  fsm.notified("hello", now);
  EXPECT_EQ(fsm.take_log().size(), 1u);
  fsm.notified("! c1.7 636f6e63683a7b617d", now);
  EXPECT_EQ(seen.take(), "revoked a;");
}

TEST_F(PostgresqlConnection, EndsWhenItIsShutDown) {
  come_up();
  fsm.shut_down();
  EXPECT_TRUE(fsm.take().close);
  fsm.due(now + 1h);
  EXPECT_FALSE(fsm.take().any());
}

}  // namespace
}  // namespace conch::postgresql
