// The programs of examples/ as they are, over a PostgreSQL server.

#include "demo/program.hpp"
#include "support/postgresql_server.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace conch::test {
namespace {

/// The programs of the list in CONCH_EXAMPLES, but those about what only another kind of server has.
std::vector<std::string> examples() {
  std::vector<std::string> all;
  std::istringstream list{CONCH_EXAMPLES};
  for (std::string one; std::getline(list, one, '|');) all.push_back(one);
  return all;
}

TEST(PostgresqlExamples, EndWell) {
  postgresql_server server;
  std::size_t ran = 0;
  for (std::string const& path : examples()) {
    program example{{path, server.url()}};
    int const code = example.wait_for_end(std::chrono::seconds{60});
    EXPECT_EQ(code, 0) << path << " ended with " << code << " and wrote\n" << example.output();
    ++ran;
  }
  EXPECT_GE(ran, 15u);
}

}  // namespace
}  // namespace conch::test
