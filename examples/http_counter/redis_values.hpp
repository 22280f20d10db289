#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>

#include "idle_connections.hpp"
#include "redis_address.hpp"
#include "redis_connection.hpp"
#include "value_store.hpp"

namespace http_counter {

/// Keeps the values in Redis. A command takes an idle connection or makes a new one, and gives it back. A failure drops
/// all idle connections, so that the next command connects again.
class redis_values : public value_store {
 public:
  /// `limit`: the timeout of one command, connecting included.
  redis_values(boost::asio::io_context& ctx, redis_address address, std::chrono::milliseconds limit);

  boost::asio::awaitable<std::optional<std::string>> get(std::string key) override;
  boost::asio::awaitable<void> set(std::string key, std::string value) override;
  /// KEY:fence keeps the greatest token; one script compares and writes.
  boost::asio::awaitable<bool> set_guarded(std::string key, std::string value, std::int64_t fence) override;
  boost::asio::awaitable<void> remove(std::string key) override;
  boost::asio::awaitable<void> ping() override;

 private:
  boost::asio::awaitable<resp2_reply> run(std::string command);

  boost::asio::io_context& ctx_;
  redis_address address_;
  std::chrono::milliseconds limit_;
  idle_connections<redis_connection> idle_;
};

}  // namespace http_counter
