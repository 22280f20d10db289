#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace http_counter {

/// The store cannot be reached or refuses. The text may be shown to the HTTP client.
struct store_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A key-value store with plain reads and writes, and one write with a fencing token. All functions end in bounded time
/// and may throw `store_error`; a failed write may have happened. Thread-safe.
class value_store {
 public:
  value_store() = default;
  value_store(value_store const&) = delete;
  value_store& operator=(value_store const&) = delete;
  virtual ~value_store() = default;

  virtual boost::asio::awaitable<std::optional<std::string>> get(std::string key) = 0;
  virtual boost::asio::awaitable<void> set(std::string key, std::string value) = 0;
  /// Returns false, without a write, if a greater token has written already. A store that cannot compare tokens always
  /// writes.
  virtual boost::asio::awaitable<bool> set_guarded(std::string key, std::string value, std::int64_t fence);
  virtual boost::asio::awaitable<void> remove(std::string key) = 0;
  virtual boost::asio::awaitable<void> ping() = 0;
};

}  // namespace http_counter
