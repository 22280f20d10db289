// What clients ask a ZooKeeper server, counted on the way to it.
#pragma once

#include <cstdint>
#include <memory>

namespace conch::bench {

/// Requests, by what they ask for.
struct requests {
  std::uint64_t lists = 0, reads = 0, creations = 0, deletions = 0, writes = 0, pings = 0, others = 0;

  std::uint64_t all() const noexcept { return lists + reads + creations + deletions + writes + pings + others; }
  requests since(requests const& earlier) const noexcept;
};

/// Stands between clients and a ZooKeeper server on 127.0.0.1. It costs time: what is counted is not to be measured by
/// a clock in the same run.
class request_counter {
 public:
  explicit request_counter(std::uint16_t server);
  ~request_counter();
  request_counter(request_counter const&) = delete;
  request_counter& operator=(request_counter const&) = delete;

  std::uint16_t port() const noexcept;
  /// All that have passed, but for greetings.
  requests count() const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace conch::bench
