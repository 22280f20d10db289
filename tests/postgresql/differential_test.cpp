// sql/*.sql on a real server against memory://, whose rules are those of lua/*.lua: random commands of a few clients, which now and then lose their
// connection. Every reply, as the client reads it, and every push must be the same.

#include <gtest/gtest.h>

#include <libpq-fe.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "postgresql/codec.hpp"
#include "postgresql/schema.hpp"
#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "support/postgresql_server.hpp"

namespace conch::sim {
namespace {

/// The functions on a real server, which are told the time.
class sql_server {
 public:
  struct outcome {
    any_reply reply = protocol::fault::malformed;
    seen_grants pushes;
    std::string said;
  };

  explicit sql_server(std::vector<std::string> const& clients) : own_{server()}, connection_{PQconnectdb(server().url().c_str()), &PQfinish} {
    PQsetNoticeProcessor(
        connection_.get(), [](void*, char const*) {}, nullptr);
    own_.ask("drop schema if exists conch cascade");
    own_.ask("begin;" + std::string{postgresql::schema()} + ";commit");
    own_.ask(R"(
      create or replace function conch.now_us() returns bigint language sql volatile as $$ select current_setting('conch.test_now')::bigint $$;
      create function conch.test_time(t bigint) returns void language plpgsql as $$
      declare l conch.lock;
      begin  -- what has expired does not come back when the clock does
        perform set_config('conch.test_now', t::text, false);
        for l in select * from conch.lock loop perform conch.put(conch.without_expired(l, t / 1000)); end loop;
      end $$;
      insert into conch.alive values (true, 0, 0, 0))");
    run(postgresql::preparation({"none", "conch:"}));
    for (std::string const& client : clients) {
      connections_.try_emplace(client, server());
      run("listen " + postgresql::channel_of(client));
    }
  }

  void at(std::int64_t now_us) { run("select conch.test_time(" + std::to_string(now_us) + ")"); }

  void subscribe(std::string const& client, bool on) {
    std::string const key = "(conch.key_of('" + client + "'))";
    on ? static_cast<void>(listens_.insert(client)) : static_cast<void>(listens_.erase(client));
    connections_.at(client).ask(on ? "select conch.hear('" + client + "')" : "select pg_advisory_unlock" + key);
  }

  outcome carry_out(protocol::command const& c, std::string const& client) {
    postgresql::statement const s = postgresql::encode(c, {client, "conch:"});
    std::vector<char const*> values;
    std::vector<int> lengths, formats;
    for (int n = 0; n < s.size(); ++n) {
      values.push_back(s.value(n));
      lengths.push_back(s.length(n));
      formats.push_back(s.format(n));
    }
    std::unique_ptr<PGresult, decltype(&PQclear)> const r{
        PQexecPrepared(connection_.get(), s.name(), s.size(), values.data(), lengths.data(), formats.data(), 0), &PQclear};
    outcome all;
    postgresql::reply reply;
    if (PQresultStatus(r.get()) == PGRES_TUPLES_OK) {
      reply.row = {PQgetvalue(r.get(), 0, 0)};
      all.said = reply.row[0];
    } else {
      char const* const state = PQresultErrorField(r.get(), PG_DIAG_SQLSTATE);
      reply.sqlstate = state != nullptr ? state : "08000";
      all.said = PQresultErrorMessage(r.get());
    }
    std::vector<std::int64_t> numbers;
    protocol::answer const a = postgresql::to_answer(reply, numbers);
    EXPECT_TRUE(a.what == protocol::fault::none || a.what == protocol::fault::wrong_type) << all.said;
    all.reply = read_reply(c, a);
    // They are those of this very transaction, in the order in which it made them.
    for (PGnotify* n = PQnotifies(connection_.get()); n != nullptr; n = PQnotifies(connection_.get())) {
      read_push(std::string{n->relname}.substr(6), n->extra, all.pushes);
      PQfreemem(n);
    }
    return all;
  }

  static void start() { server_ = std::make_unique<test::postgresql_server>(test::postgresql_options{.settings = {"fsync=off"}}); }
  static void end() { server_.reset(); }

 private:
  static test::postgresql_server& server() { return *server_; }

  void run(std::string const& statements) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(connection_.get(), statements.c_str()), &PQclear};
    auto const status = PQresultStatus(r.get());
    ASSERT_TRUE(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) << PQresultErrorMessage(r.get());
  }

  void read_push(std::string const& client, std::string const& payload, seen_grants& out) {
    std::string name;
    protocol::pushed_grant grant;
    auto const kind = postgresql::read_push(payload, {client, "conch:"}, name, grant);
    EXPECT_NE(kind, postgresql::push_kind::malformed) << payload;
    if (kind == postgresql::push_kind::requested) grant.fence = requested_mark;
    if (kind == postgresql::push_kind::freed) grant.fence = freed_mark;
    // A grant is for clients that hear it only. All else is notified to whom it may concern.
    if (kind == postgresql::push_kind::grant || listens_.contains(client)) out.push_back(seen(client, grant));
  }

  static inline std::unique_ptr<test::postgresql_server> server_;
  test::postgresql_probe own_;
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  std::set<std::string> listens_;
  std::map<std::string, test::postgresql_probe> connections_;  // of clients that listen
};

/// As this server is asked: it gives no votes. False: not at all.
bool is_for_one_server(protocol::command& c) {
  if (auto* const acquire = std::get_if<protocol::acquire_command>(&c)) acquire->proposal = 0;
  if (auto* const release = std::get_if<protocol::release_command>(&c)) release->floor = release->next_fence_floor = 0;
  return !std::holds_alternative<protocol::confirm_command>(c) && !std::holds_alternative<protocol::prove_publish_command>(c);
}

/// Whoever waits for a free lock is told in the order of asking, and in SQL in any.
void in_order(seen_grants& all) {
  std::stable_sort(all.begin(), all.end(), [](seen_grant const& a, seen_grant const& b) {
    bool const both = a.fence == freed_mark && b.fence == freed_mark;
    return both && std::tie(a.client, a.id) < std::tie(b.client, b.id);
  });
}

template <class Side>
void compare(Side& side, int steps, std::map<std::string, int>& happened) {
  auto const clients = side.clients();
  sql_server sql{clients};
  memory::store store;
  // A function in SQL does not hold up others: it does all at once.
  store.set_bounds({1'000'000, 1'000'000});
  seen_grants pushed;
  listening_clients listeners{clients, store, sql, pushed};
  for (int step = 0; step < steps; ++step) {
    side.step();
    std::string const client = side.client();
    if (side.rarely()) listeners.change(client, sql);
    protocol::command command = side.command(client);
    if (!is_for_one_server(command)) continue;
    sql.at(side.now());
    auto got = sql.carry_out(command, client);
    pushed.clear();
    any_reply const expected = reply_of(store, command, client, side.now());
    in_order(pushed);
    in_order(got.pushes);
    ASSERT_EQ(got.reply, expected) << got.said << " at step " << step << " at " << side.now() << ", " << client << " sends\n" << described(command);
    ASSERT_EQ(got.pushes, pushed) << "step " << step << " at " << side.now() << ", " << client << " sends\n" << described(command);
    ++happened["commands"];
    happened["pushes"] += static_cast<int>(pushed.size());
    if (got.reply.index() == 0) ++happened["wrong type"];
  }
}

/// CONCH_DIFFERENTIAL_STEPS: of each seed.
int steps() {
  char const* const said = std::getenv("CONCH_DIFFERENTIAL_STEPS");
  return said != nullptr ? std::atoi(said) : 1500;
}

class PostgresqlDifferential : public testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() { sql_server::start(); }
  static void TearDownTestSuite() { sql_server::end(); }
};

TEST_P(PostgresqlDifferential, AMutexIsThatOfTheMemoryStore) {
  random_client_side side{GetParam()};
  std::map<std::string, int> happened;
  ASSERT_NO_FATAL_FAILURE(compare(side, steps(), happened));
  EXPECT_GT(happened["pushes"], 10);
  RecordProperty("commands", happened["commands"]);
  RecordProperty("pushes", happened["pushes"]);
}

TEST_P(PostgresqlDifferential, ALockWithSeveralOwnersIsThatOfTheMemoryStore) {
  random_permits side{GetParam()};
  std::map<std::string, int> happened;
  ASSERT_NO_FATAL_FAILURE(compare(side, steps(), happened));
  EXPECT_GT(happened["pushes"], 10);
  EXPECT_GT(happened["wrong type"], 0);
  RecordProperty("commands", happened["commands"]);
  RecordProperty("pushes", happened["pushes"]);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PostgresqlDifferential, testing::Range<std::uint64_t>(1, 4));

}  // namespace
}  // namespace conch::sim
