#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>

#include "idle_connections.hpp"
#include "postgres_connection.hpp"
#include "value_store.hpp"

namespace http_counter {

/// Keeps the values in the PostgreSQL table `http_counter`, which it creates if needed. Beside each value it keeps the
/// greatest token that was written with it: `set_guarded` compares and writes in one statement. Connections are kept as
/// in redis_values.
class postgres_values : public value_store {
 public:
  /// `limit`: the timeout of one statement, connecting included.
  postgres_values(boost::asio::io_context& ctx, std::string url, std::chrono::milliseconds limit);

  boost::asio::awaitable<std::optional<std::string>> get(std::string key) override;
  boost::asio::awaitable<void> set(std::string key, std::string value) override;
  boost::asio::awaitable<bool> set_guarded(std::string key, std::string value, std::int64_t fence) override;
  boost::asio::awaitable<void> remove(std::string key) override;
  boost::asio::awaitable<void> ping() override;

 private:
  boost::asio::awaitable<postgres_connection::answer> run(postgres_connection::statement what);
  boost::asio::awaitable<postgres_connection::answer> run_once(postgres_connection::statement what);

  boost::asio::io_context& ctx_;
  std::string url_;
  std::chrono::milliseconds limit_;
  idle_connections<postgres_connection> idle_;
  std::atomic<bool> has_table_ = false;
};

}  // namespace http_counter
