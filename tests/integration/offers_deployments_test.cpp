// As offers_test.cpp, for the deployments of Redis that need several servers.

#include "integration/cluster_fixture.hpp"
#include "integration/offers.hpp"
#include "integration/redlock_fixture.hpp"
#include "support/sentinel_set.hpp"

namespace conch::test {
namespace {

TEST(OffersOfDeployments, OfSeveralServersWhatThePagesSay) {
  redlock_servers servers;
  world w;
  expect_as_the_page_says(w, "redlock", servers.calm());
  std::vector<std::string> missing;
  for (auto const& [name, is_offered] : offered_by_the_page("redlock")) {
    if (!is_offered) missing.push_back(name);
  }
  EXPECT_EQ(not_there_by("servers/redlock.md"), missing);
}

TEST(OffersOfDeployments, OfASetWithSentinelsWhatThePageSays) {
  sentinel_set set;
  world w;
  expect_as_the_page_says(w, "redis-sentinel", steady_config(set.url()));
}

TEST(OffersOfDeployments, OfAClusterWhatThePageSays) {
  cluster_set all;
  world w;
  config settings = over(all);
  settings.single_threaded = false;  // threads have clients of their own
  expect_as_the_page_says(w, "redis-cluster", settings);
}

}  // namespace
}  // namespace conch::test
