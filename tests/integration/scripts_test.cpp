// The embedded scripts, as a server sees them.

#include "redis/scripts.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "support/redis_server.hpp"

namespace {

using conch::redis::all_scripts;
using conch::redis::find_script;

TEST(EmbeddedScripts, HaveTheSha1ThatTheServerComputes) {
  conch::test::redis_server server;
  conch::test::redis_probe probe(server);
  for (auto const& script : all_scripts()) {
    // SCRIPT LOAD compiles too: a syntax error is an error reply here.
    EXPECT_EQ(probe.command({"SCRIPT", "LOAD", script.source}), script.sha1) << script.name;
  }
}

TEST(EmbeddedScripts, AreFoundByName) {
  for (auto const& script : all_scripts()) {
    EXPECT_EQ(&find_script(script.name), &script);
  }
  EXPECT_THROW(find_script("no such script"), std::out_of_range);
}

}  // namespace
