#include "memory_values.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;

asio::awaitable<std::optional<std::string>> memory_values::get(std::string key) {
  std::optional<std::string> found;
  {
    std::scoped_lock const guard(mutex_);
    if (auto const at = values_.find(key); at != values_.end()) {
      found = at->second;
    }
  }
  co_await asio::post(asio::use_awaitable);
  co_return found;
}

asio::awaitable<void> memory_values::set(std::string key, std::string value) {
  co_await asio::post(asio::use_awaitable);
  std::scoped_lock const guard(mutex_);
  values_[std::move(key)] = std::move(value);
}

asio::awaitable<void> memory_values::remove(std::string key) {
  co_await asio::post(asio::use_awaitable);
  std::scoped_lock const guard(mutex_);
  values_.erase(key);
}

asio::awaitable<void> memory_values::ping() { co_return; }

}  // namespace http_counter
