// What the pages say is offered works, and all else fails with an error that names it: over every kind of server.

#include "integration/offers.hpp"
#include "integration/each_server.hpp"

#include <algorithm>

namespace conch::test {
namespace {

class Offers : public with_each_server<Offers> {};

INSTANTIATE_TEST_SUITE_P(Of, Offers, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(Offers, WhatThePageSays) { expect_as_the_page_says(w, GetParam().name, steady_config(server())); }

// A page of a kind of server lists the missing features: the same as the table.
TEST_P(Offers, ThePageOfAServerSaysTheSameAsTheTable) {
  std::string const& kind = GetParam().name;
  if (kind != "postgresql" && kind != "zookeeper") GTEST_SKIP() << "it has all, or no page of its own";
  std::vector<std::string> missing;
  for (auto const& [name, is_offered] : offered_by_the_page(kind)) {
    if (!is_offered) missing.push_back(name);
  }
  EXPECT_EQ(not_there_by("servers/" + kind + ".md"), missing);
}

}  // namespace
}  // namespace conch::test
