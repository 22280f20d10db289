// sql/*.sql on a real server against src/rules, the definition of a lock: random commands of a few clients, which now
// and then lose their connection. Each reply as the client reads it, each push and all that the rows say of a lock must
// be the same.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "postgresql/rules/cases.hpp"
#include "postgresql/rules/sql_server.hpp"
#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"

namespace conch::sim {
namespace {

class PostgresqlRulesOfCases : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<test::postgresql_server>(test::postgresql_options{.settings = {"fsync=off"}});
  }
  static void TearDownTestSuite() { server_.reset(); }
  static test::postgresql_server& server() { return *server_; }

 private:
  static inline std::unique_ptr<test::postgresql_server> server_;
};

class PostgresqlRules : public PostgresqlRulesOfCases, public testing::WithParamInterface<std::uint64_t> {
 protected:
  template <class Side>
  void compare(generator_options const& o) {
    char const* const said = std::getenv("CONCH_DIFFERENTIAL_STEPS");
    int const steps = said != nullptr ? std::atoi(said) : 1000;
    Side side{GetParam(), o};
    bool const sweeps = o.may_go_back && !o.comes_back;
    sql_server sql{server(), side.clients(), postgresql::schema(), sweeps};
    rules_server rules{sweeps};
    EXPECT_EQ(difference(side, sql, rules, steps, happened_), "");
    for (auto const& [what, times] : happened_) RecordProperty(what, times);
    if (testing::Test::HasFailure()) return;
    for (char const* const what : {"states", "owners", "in line", "pushes"}) EXPECT_GT(happened_[what], 10) << what;
    for (char const* const what :
         {"granted", "queued", "busy", "too late", "still owned", "released", "left", "renewed", "not renewed", "order",
          "order about nobody", "free", "not free", "report", "report of nobody"}) {
      EXPECT_GT(happened_[what], 0) << what;
    }
  }

  std::map<std::string, int> happened_;
};

TEST_P(PostgresqlRules, TheSqlDoesWithAMutexWhatTheRulesSay) {
  compare<random_client_side>({.patience = GetParam() % 2 == 0, .many_names = true, .owners_act = true});
}

TEST_P(PostgresqlRules, TheSqlDoesWithALockOfSeveralOwnersWhatTheRulesSay) {
  compare<random_permits>({.patience = GetParam() % 2 == 0, .many_names = true, .owners_act = true});
  EXPECT_GT(happened_["wrong type"], 0);
}

/// Here nothing but the commands themselves, and the sweep that new names pay for, deletes what has expired.
TEST_P(PostgresqlRules, TheSqlDoesWithAMutexWhoseRowsStayWhatTheRulesSay) {
  compare<random_client_side>(
      {.patience = GetParam() % 2 == 1, .many_names = true, .may_go_back = false, .owners_act = true});
}

TEST_P(PostgresqlRules, TheSqlDoesWithALockOfSeveralOwnersWhoseRowsStayWhatTheRulesSay) {
  compare<random_permits>(
      {.patience = GetParam() % 2 == 1, .many_names = true, .may_go_back = false, .owners_act = true});
}

/// The same, and the clock goes back: what has expired may be there again.
TEST_P(PostgresqlRules, TheSqlDoesWithAMutexWhoseRowsComeBackWhatTheRulesSay) {
  compare<random_client_side>(
      {.patience = GetParam() % 2 == 0, .many_names = true, .comes_back = true, .owners_act = true});
  EXPECT_GT(happened_["came back"], 0);
}

TEST_P(PostgresqlRules, TheSqlDoesWithALockOfSeveralOwnersWhoseRowsComeBackWhatTheRulesSay) {
  compare<random_permits>(
      {.patience = GetParam() % 2 == 0, .many_names = true, .comes_back = true, .owners_act = true});
  EXPECT_GT(happened_["came back"], 0);
}

TEST_P(PostgresqlRules, TheSqlDoesWithAMutexAbout2020WhatTheRulesSay) {
  compare<random_client_side>({.patience = GetParam() % 2 == 1, .near_2020 = true, .owners_act = true});
}

TEST_P(PostgresqlRules, TheSqlDoesWithALockOfSeveralOwnersAbout2020WhatTheRulesSay) {
  compare<random_permits>({.patience = GetParam() % 2 == 1, .near_2020 = true, .owners_act = true});
}

TEST_F(PostgresqlRulesOfCases, TheSqlDoesWhatTheRulesSayInCasesThatAreSeldom) {
  for (told_case const& one : told_cases()) {
    told_side side{one};
    sql_server sql{server(), side.clients(), postgresql::schema(), one.sweeps};
    rules_server rules{one.sweeps};
    std::map<std::string, int> happened;
    EXPECT_EQ(difference(side, sql, rules, side.steps(), happened), "") << one.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PostgresqlRules, testing::Values<std::uint64_t>(1, 2));

}  // namespace
}  // namespace conch::sim
