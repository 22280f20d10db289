// Scripts for a real server and the model at once: they are told the time, so that both sides see the same.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::sim {

inline std::string replaced(std::string source, std::string_view from, std::string_view to) {
  for (auto at = source.find(from); at != source.npos; at = source.find(from, at + to.size()))
    source.replace(at, from.size(), to);
  return source;
}

/// The last two arguments of the script are the time (tell_the_time). Keys live as long as the test: what ends, ends by
/// the time the scripts are told.
inline std::string told_the_time(std::string source) {
  std::pair<std::string_view, std::string_view> const changes[] = {
      {"redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}"},
      {"redis.call('PEXPIRE', lock_key, lease)", "redis.call('PEXPIRE', lock_key, 3600000)"},
      {"redis.call('PEXPIRE', queue_key, lives)", "redis.call('PEXPIRE', queue_key, 3600000)"},
      {"redis.call('PEXPIRE', key, lease, 'GT')", "redis.call('PEXPIRE', key, 3600000, 'GT')"},
      {"redis.call('PEXPIRE', ends_key, lease + retention)", "redis.call('PEXPIRE', ends_key, 3600000)"},
      {"redis.call('PEXPIRE', ends_key, math.max(redis.call('PTTL', lock_key), 0) + retention)",
       "redis.call('PEXPIRE', ends_key, 3600000)"},
      {"redis.call('PEXPIRE', KEYS[2 * count + i], lease + retention)",
       "redis.call('PEXPIRE', KEYS[2 * count + i], 3600000)"},
      {"redis.pcall('PEXPIRE', requests_key, longest)", "redis.pcall('PEXPIRE', requests_key, 3600000)"},
      {"redis.call('PEXPIRE', key, lease)", "redis.call('PEXPIRE', key, 3600000)"}};
  for (auto const& [from, to] : changes) source = replaced(std::move(source), from, to);
  EXPECT_EQ(source.find("'TIME'"), std::string::npos);
  return source;
}

inline void tell_the_time(std::vector<std::string>& arguments, std::int64_t now_us) {
  arguments.push_back(std::to_string(now_us / 1'000'000));
  arguments.push_back(std::to_string(now_us % 1'000'000));
}

}  // namespace conch::sim
