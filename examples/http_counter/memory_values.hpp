#pragma once

#include <map>
#include <mutex>

#include "value_store.hpp"

namespace http_counter {

/// Keeps the values in this process. Every call yields once, like one over the network, so that updates can get lost
/// here, too.
class memory_values : public value_store {
 public:
  boost::asio::awaitable<std::optional<std::string>> get(std::string key) override;
  boost::asio::awaitable<void> set(std::string key, std::string value) override;
  boost::asio::awaitable<void> remove(std::string key) override;
  boost::asio::awaitable<void> ping() override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

}  // namespace http_counter
