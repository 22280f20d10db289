#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "postgres_connection.hpp"
#include "value_store.hpp"

namespace http_counter {

/// In a table of a PostgreSQL server, `http_counter`, which is made when it is not there. Each value has beside it the greatest token that anybody
/// has written it with: `set_guarded` compares and writes in one statement. Connections as in redis_values.
class postgres_values : public value_store {
 public:
  /// `limit`: for one statement, connecting included.
  postgres_values(boost::asio::io_context& ctx, std::string url, std::chrono::milliseconds limit);

  boost::asio::awaitable<std::optional<std::string>> get(std::string key) override;
  boost::asio::awaitable<void> set(std::string key, std::string value) override;
  boost::asio::awaitable<bool> set_guarded(std::string key, std::string value, std::int64_t fence) override;
  boost::asio::awaitable<void> remove(std::string key) override;
  boost::asio::awaitable<void> ping() override;

 private:
  using connection_ptr = std::shared_ptr<postgres_connection>;

  boost::asio::awaitable<postgres_connection::answer> run(postgres_connection::statement what);
  boost::asio::awaitable<postgres_connection::answer> run_once(postgres_connection::statement what);
  connection_ptr take();
  void give_back(connection_ptr connection);

  boost::asio::io_context& ctx_;
  std::string url_;
  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::vector<connection_ptr> idle_;
  bool has_table_ = false;
};

}  // namespace http_counter
