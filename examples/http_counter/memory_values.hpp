#pragma once

#include <map>
#include <mutex>

#include "value_store.hpp"

namespace http_counter {

/// In this process. Every call gives way once, as one that goes over the wire does, so that updates
/// can get lost here as well.
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
