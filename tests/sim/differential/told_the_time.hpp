// Scripts for a real server and the model at once: they are told the time, so that both sides see the same.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace conch::sim {

/// The last two arguments of the script are the time. Keys live as long as the test: what ends, ends by the time the scripts are told.
inline std::string told_the_time(std::string source) {
  std::pair<std::string, std::string> const changes[] = {
      {"redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}"},
      {"redis.call('PEXPIRE', lock_key, lease)", "redis.call('PEXPIRE', lock_key, 3600000)"},
      {"redis.call('PEXPIRE', queue_key, lives)", "redis.call('PEXPIRE', queue_key, 3600000)"},
      {"redis.call('PEXPIRE', key, lease, 'GT')", "redis.call('PEXPIRE', key, 3600000, 'GT')"},
      {"redis.call('PEXPIRE', ends_key, lease + retention)", "redis.call('PEXPIRE', ends_key, 3600000)"},
      {"redis.call('PEXPIRE', ends_key, math.max(redis.call('PTTL', lock_key), 0) + retention)", "redis.call('PEXPIRE', ends_key, 3600000)"},
      {"redis.call('PEXPIRE', KEYS[2 * count + i], lease + retention)", "redis.call('PEXPIRE', KEYS[2 * count + i], 3600000)"},
      {"redis.pcall('PEXPIRE', requests_key, longest)", "redis.pcall('PEXPIRE', requests_key, 3600000)"},
      {"redis.call('PEXPIRE', key, lease)", "redis.call('PEXPIRE', key, 3600000)"}};
  for (auto const& [from, to] : changes) {
    for (auto at = source.find(from); at != std::string::npos; at = source.find(from, at + to.size())) source.replace(at, from.size(), to);
  }
  EXPECT_EQ(source.find("'TIME'"), std::string::npos);
  return source;
}

}  // namespace conch::sim
