// What `conch doctor` makes of the answers of a PostgreSQL server.

#include "servers/postgresql/examination.hpp"

#include "servers/postgresql/schema.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace conch::postgresql {
namespace {

using servers::finding;
using servers::verdict;

server_facts good_server() {
  server_facts f;
  f.version = "15.14";
  f.version_number = 150014;
  f.connections = 3;
  f.most_connections = 100;
  return f;
}

verdict worst(std::vector<finding> const& all) {
  return std::max_element(all.begin(), all.end(), [](finding const& a, finding const& b) { return a.how < b.how; })
      ->how;
}

TEST(PostgresqlExamination, OfAFitServerIsFine) { EXPECT_EQ(worst(judge_server(good_server())), verdict::ok); }

TEST(PostgresqlExamination, SaysWhatIsWrongWithAServer) {
  auto const judged = [](auto const& change) {
    server_facts f = good_server();
    change(f);
    return worst(judge_server(f));
  };
  EXPECT_EQ(judged([](server_facts& f) { f.version_number = 110000; }), verdict::bad);
  EXPECT_EQ(judged([](server_facts& f) { f.is_standby = true; }), verdict::bad);
  EXPECT_EQ(judged([](server_facts& f) { f.is_pooled = true; }), verdict::bad);
  EXPECT_EQ(judged([](server_facts& f) { f.fsync = false; }), verdict::warning);
  EXPECT_EQ(judged([](server_facts& f) { f.synchronous_commit = false; }), verdict::ok);
  EXPECT_EQ(judged([](server_facts& f) { f.connections = 90; }), verdict::warning);
  EXPECT_EQ(judged([](server_facts& f) { f.oldest_transaction_s = 301; }), verdict::warning);
  EXPECT_EQ(judged([](server_facts& f) { f.oldest_transaction_s = 10; }), verdict::ok);
}

schema_facts good_schema() {
  schema_facts f;
  f.is_there = f.may_use = true;
  f.version = schema_version;
  return f;
}

TEST(PostgresqlExamination, SaysWhatIsWrongWithTheSchema) {
  auto const judged = [](auto const& change) {
    schema_facts f = good_schema();
    change(f);
    return judge_schema(f, "app");
  };
  EXPECT_EQ(worst(judge_schema(good_schema(), "app")), verdict::ok);
  EXPECT_EQ(worst(judged([](schema_facts& f) { f.version = schema_version + 1; })), verdict::ok);
  EXPECT_EQ(worst(judged([](schema_facts& f) { f.version = schema_version - 1; })), verdict::bad);
  EXPECT_EQ(worst(judged([](schema_facts& f) { f.version.reset(); })), verdict::bad);
  EXPECT_EQ(worst(judged([](schema_facts& f) { f.is_there = false; })), verdict::bad);
  EXPECT_EQ(worst(judged([](schema_facts& f) { f.is_there = false, f.may_create = true; })), verdict::ok);
  EXPECT_EQ(judged([](schema_facts& f) { f.owners_trouble = "owned by mallory\x1b"; }).front().words,
            "owned by mallory\\x1b");
  EXPECT_EQ(judged([](schema_facts& f) { f.may_use = false; }).front().advice, "grant usage on schema conch to app");
  EXPECT_EQ(judged([](schema_facts& f) {
              f.no_execute = {"a", "b", "c", "d", "e"};
            })
                .back()
                .words,
            "EXECUTE is missing: a, b, c and 2 more");
  EXPECT_EQ(judged([](schema_facts& f) { f.no_access = {"lock"}; }).back().how, verdict::bad);
}

}  // namespace
}  // namespace conch::postgresql
