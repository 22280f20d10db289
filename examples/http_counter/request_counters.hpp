#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

namespace http_counter {

/// Counts HTTP requests and connections. Thread-safe.
class request_counters {
 public:
  /// `route` is one of a few fixed words (route::label), so that the map stays small.
  void count(std::string_view method, std::string_view route, unsigned status);

  void connection_opened() noexcept { ++connections_; }
  void connection_closed() noexcept { --connections_; }

  /// Prometheus text format, to be appended to that of the lock client.
  std::string to_prometheus() const;

 private:
  using key = std::tuple<std::string, std::string, unsigned>;

  mutable std::mutex mutex_;
  std::map<key, std::uint64_t> requests_;
  std::atomic<std::int64_t> connections_ = 0;
};

}  // namespace http_counter
