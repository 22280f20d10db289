#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace http_counter {

/// The store cannot be reached, or refuses. Its text is fit for the caller of the HTTP API.
struct store_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Text by key, with plain reads and writes, and one that shows a fencing token. All of it throws `store_error`, in bounded
/// time; a failed write may have happened. From any thread.
class value_store {
 public:
  value_store() = default;
  value_store(value_store const&) = delete;
  value_store& operator=(value_store const&) = delete;
  virtual ~value_store() = default;

  virtual boost::asio::awaitable<std::optional<std::string>> get(std::string key) = 0;
  virtual boost::asio::awaitable<void> set(std::string key, std::string value) = 0;
  /// False: somebody with a greater token has written, and nothing was changed. A store that cannot compare writes in any case.
  virtual boost::asio::awaitable<bool> set_guarded(std::string key, std::string value, std::int64_t fence);
  virtual boost::asio::awaitable<void> remove(std::string key) = 0;
  virtual boost::asio::awaitable<void> ping() = 0;
};

}  // namespace http_counter
