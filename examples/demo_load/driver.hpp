#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "http_client.hpp"
#include "options.hpp"

namespace demo_load {

using clock = std::chrono::steady_clock;

struct result {
  int confirmed = 0;  ///< increments that the server answered with 200
  int failures = 0;   ///< increments without such an answer; they may have happened
  int retries = 0;    ///< answers 503 that said that nothing changed
  clock::duration elapsed{};
  std::vector<clock::duration> latencies;  ///< of the confirmed increments, including retries; sorted
  std::optional<std::int64_t> counter;     ///< the final value, read from the first server
  std::string first_failure{};
};

/// Increments the counter as the options say. Not thread-safe.
class driver {
 public:
  explicit driver(options const& chosen) : options_(chosen) {}

  /// Takes little longer than `options::limit` at most.
  result run();

 private:
  boost::asio::awaitable<void> reset();
  boost::asio::awaitable<void> drive(server_address server);
  boost::asio::awaitable<bool> increment(http_client& client, std::string target);
  boost::asio::awaitable<void> show_progress();
  boost::asio::awaitable<void> read_counter();
  void fail(std::string why);
  int answered() const { return result_.confirmed + result_.failures; }

  options options_;
  boost::asio::io_context ctx_{1};
  int started_ = 0;
  result result_;
};

}  // namespace demo_load
