// The programs of examples/ as they are, over a ZooKeeper server.

#include "demo/program.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace conch::test {
namespace {

TEST(ZookeeperExamples, EndWell) {
  zookeeper_ensemble server;
  std::size_t ran = 0;
  std::istringstream list{CONCH_EXAMPLES};
  for (std::string path; std::getline(list, path, '|');) {
    program example{{path, server.url()}};
    int const code = example.wait_for_end(std::chrono::seconds{60});
    EXPECT_EQ(code, 0) << path << " ended with " << code << " and wrote\n" << example.output();
    ++ran;
  }
  EXPECT_GE(ran, 11u);
}

}  // namespace
}  // namespace conch::test
