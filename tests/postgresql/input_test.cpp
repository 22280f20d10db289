// How much libpq has read, by what waits in the socket before and behind it.
#include "servers/postgresql/input.hpp"

#include <gtest/gtest.h>

namespace conch::postgresql {
namespace {

TEST(PostgresqlInput, CountsWhatIsGoneFromTheSocket) {
  EXPECT_EQ(taken(0, 0), 0u);
  EXPECT_EQ(taken(100, 0), 100u) << "a notification, and not what libpq could have read";
  EXPECT_EQ(taken(20'000, 0), 20'000u);
  EXPECT_EQ(taken(20'000, 5'000), 15'000u);
}

TEST(PostgresqlInput, CountsOneReadWhereMoreHasComeMeanwhile) {
  EXPECT_EQ(taken(100, 100), 100u);
  EXPECT_EQ(taken(100, 50'000), 100u);
  EXPECT_EQ(taken(20'000, 50'000), 8'192u);
}

}  // namespace
}  // namespace conch::postgresql
