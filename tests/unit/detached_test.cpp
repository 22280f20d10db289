// The text of a hold between two clients.
#include "engine/detached.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace conch::engine {
namespace {

using namespace std::chrono_literals;

detached const of_a_mutex{"stock:iphone", "0123abc.7-0000000000A", 5'000'000'000 * 4096 + 3, 30s, permit_kind::none, 1};

TEST(Detached, IsOneWordThatNamesTheLockTheGrantTheTokenAndTheLease) {
  EXPECT_EQ(to_text(of_a_mutex), "conch1:m:1:30000:20480000000003:0123abc.7-0000000000A:stock%3Aiphone");
  EXPECT_EQ(of_a_mutex.origin(), "0123abc.7-0000000000A 5000000000");
}

TEST(Detached, IsReadAsItWasWritten) {
  std::string every_byte;
  for (int c = 0; c < 256; ++c) every_byte += static_cast<char>(c);
  for (detached const& one :
       {of_a_mutex, detached{every_byte, "c.18446744073709551615", 4096, 100ms, permit_kind::semaphore, 1'000'000},
        detached{"a", "c.1", 9'223'372'036'854'775'807, 24h, permit_kind::shared, 1'000'000},
        detached{"a", "c.1", 4096, 1s, permit_kind::shared, 1},
        detached{"a", "c.1", 4096, 1s, permit_kind::segments, 1},
        detached{std::string(512, ' '), "c.1", 4096, 1s, permit_kind::none, 1}}) {
    std::string const text = to_text(one);
    for (char const c : text) EXPECT_TRUE(c > ' ' && c < 127) << text;
    auto const read = read_detached(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, one);
  }
}

TEST(Detached, IsNotReadIfItIsAnythingElse) {
  for (std::string_view const text : {"",
                                      "conch1",
                                      "conch1:",
                                      "conch2:m:1:30000:20480000000003:c.7:stock",
                                      "CONCH1:m:1:30000:20480000000003:c.7:stock",
                                      " conch1:m:1:30000:20480000000003:c.7:stock",
                                      "conch1:e:1:30000:20480000000003:c.7:stock",
                                      "conch1:x:1:30000:20480000000003:c.7:stock",
                                      "conch1::1:30000:20480000000003:c.7:stock",
                                      "conch1:m:2:30000:20480000000003:c.7:stock",
                                      "conch1:g:2:30000:20480000000003:c.7:stock",
                                      "conch1:r:2:30000:20480000000003:c.7:stock",
                                      "conch1:s:0:30000:20480000000003:c.7:stock",
                                      "conch1:s:1000001:30000:20480000000003:c.7:stock",
                                      "conch1:m:1:0:20480000000003:c.7:stock",
                                      "conch1:m:1:86400001:20480000000003:c.7:stock",
                                      "conch1:m:1:30000:4095:c.7:stock",
                                      "conch1:m:1:30000:-20480000000003:c.7:stock",
                                      "conch1:m:1:30000:9223372036854775808:c.7:stock",
                                      "conch1:m:1:30000:20480000000003x:c.7:stock",
                                      "conch1:m:1:30000:20480000000003:c7:stock",
                                      "conch1:m:1:30000:20480000000003:.7:stock",
                                      "conch1:m:1:30000:20480000000003:c.:stock",
                                      "conch1:m:1:30000:20480000000003:c.0:stock",
                                      "conch1:m:1:30000:20480000000003:c.7 x:stock",
                                      "conch1:m:1:30000:20480000000003:c c.7:stock",
                                      "conch1:m:1:30000:20480000000003:c.7-123:stock",
                                      "conch1:m:1:30000:20480000000003:c.7:",
                                      "conch1:m:1:30000:20480000000003:c.7:stock iphone",
                                      "conch1:m:1:30000:20480000000003:c.7:stock%",
                                      "conch1:m:1:30000:20480000000003:c.7:stock%2",
                                      "conch1:m:1:30000:20480000000003:c.7:stock%2g",
                                      "conch1:m:1:30000:20480000000003:c.7:stock%3a",
                                      "conch1:m:1:30000:20480000000003:c.7:stock\n"}) {
    EXPECT_FALSE(read_detached(text)) << text;
  }
  std::string longest = to_text(of_a_mutex);
  longest.replace(longest.rfind(':') + 1, std::string::npos, std::string(513, 'a'));
  EXPECT_FALSE(read_detached(longest));
}

TEST(Detached, GivesWhoeverTakesItOverAGreaterTokenWhileThereIsOne) {
  detached d = of_a_mutex;
  EXPECT_EQ(d.next_index(), 4);
  d.token = 5'000'000'000 * 4096;
  EXPECT_EQ(d.next_index(), 1);
  d.token = 5'000'000'000 * 4096 + 4094;
  EXPECT_EQ(d.next_index(), 4095);
  d.token = 5'000'000'000 * 4096 + 4095;
  EXPECT_EQ(d.next_index(), 4095);
}

}  // namespace
}  // namespace conch::engine
