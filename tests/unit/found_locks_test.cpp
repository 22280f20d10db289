// What a probe has found.

#include "servers/found_locks.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace conch::servers {
namespace {

TEST(FoundLocks, AreInOrderAndEachOnce) {
  found_locks all;
  for (std::string const name : {"b", "a", "c", "b", "a"}) all.add(name);
  std::string names;
  for (seen_lock const& one : all.take()) names += one.name;
  EXPECT_EQ(names, "abc");
}

TEST(FoundLocks, AreAtMostAMillion) {
  EXPECT_NO_THROW(found_locks::check_count(1'000'000));
  try {
    found_locks::check_count(1'000'001);
    ADD_FAILURE();
  } catch (boost::system::system_error const& e) {
    EXPECT_EQ(e.code(), errc::server_refused);
    EXPECT_NE(e.code().message().find("give a pattern that matches fewer"), std::string::npos);
  }
}

TEST(FoundLocks, KeepTheFirstStatusOfALock) {
  found_locks all;
  lock_status first;
  first.waiting = 7;
  all.add("a", first);
  all.add("a", lock_status{});
  auto const found = all.take();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].status.value_or(lock_status{}).waiting, 7u);
}

}  // namespace
}  // namespace conch::servers
