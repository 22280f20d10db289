// sql/*.sql on a real server against lua/*.lua on the model of Redis, which follow the rules (tests/sim/differential):
// random commands of a few clients, which now and then lose their connection. Every reply, as the client reads it, and
// every push must be the same, and the rows must agree with each other.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "postgresql/rules/sql_server.hpp"
#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/scripted_server.hpp"

namespace conch::sim {
namespace {

/// CONCH_DIFFERENTIAL_STEPS: of each seed.
int steps() {
  char const* const said = std::getenv("CONCH_DIFFERENTIAL_STEPS");
  return said != nullptr ? std::atoi(said) : 1500;
}

class PostgresqlDifferential : public testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<test::postgresql_server>(test::postgresql_options{.settings = {"fsync=off"}});
  }
  static void TearDownTestSuite() { server_.reset(); }

  template <class Reference, class Side>
  void compare(generator_options const& o) {
    Side side{GetParam(), o};
    sql_server sql{*server_, side.clients(), postgresql::schema(), o.may_go_back};
    Reference reference{side.clients()};
    EXPECT_EQ(difference(side, sql, reference, steps(), happened_), "");
    EXPECT_GT(happened_["pushes"], 10);
    RecordProperty("commands", happened_["commands"]);
    RecordProperty("pushes", happened_["pushes"]);
  }

  std::map<std::string, int> happened_;

 private:
  static inline std::unique_ptr<test::postgresql_server> server_;
};

TEST_P(PostgresqlDifferential, AMutexIsThatOfTheScripts) {
  compare<scripted_server, random_client_side>({.many_names = true, .owners_act = true});
}

TEST_P(PostgresqlDifferential, ALockWithSeveralOwnersIsThatOfTheScripts) {
  compare<scripted_server, random_permits>({.many_names = true, .owners_act = true});
  EXPECT_GT(happened_["wrong type"], 0);
}

TEST_P(PostgresqlDifferential, AMutexIsThatOfTheScriptsAlsoForPatientClients) {
  compare<scripted_server, random_client_side>({.patience = true, .owners_act = true});
}

TEST_P(PostgresqlDifferential, ALockWithSeveralOwnersIsThatOfTheScriptsAlsoForPatientClients) {
  compare<scripted_server, random_permits>({.patience = true, .owners_act = true});
}

/// Here nothing but the commands themselves deletes what has expired.
TEST_P(PostgresqlDifferential, AMutexWhoseRowsStayUntilTheyAreLookedAtIsThatOfTheScripts) {
  compare<scripted_server, random_client_side>({.many_names = true, .may_go_back = false, .owners_act = true});
}

TEST_P(PostgresqlDifferential, ALockWithSeveralOwnersWhoseRowsStayUntilTheyAreLookedAtIsThatOfTheScripts) {
  compare<scripted_server, random_permits>(
      {.patience = true, .many_names = true, .may_go_back = false, .owners_act = true});
}

TEST_P(PostgresqlDifferential, AMutexWhileTheClockIsAbout2020IsThatOfTheScripts) {
  compare<scripted_server, random_client_side>({.near_2020 = true, .owners_act = true});
}

TEST_P(PostgresqlDifferential, ALockWithSeveralOwnersWhileTheClockIsAbout2020IsThatOfTheScripts) {
  compare<scripted_server, random_permits>({.patience = true, .near_2020 = true, .owners_act = true});
}

INSTANTIATE_TEST_SUITE_P(Seeds, PostgresqlDifferential, testing::Values<std::uint64_t>(1, 2));

}  // namespace
}  // namespace conch::sim
