#include "value_store.hpp"

#include <utility>

namespace http_counter {

boost::asio::awaitable<bool> value_store::set_guarded(std::string key, std::string value, std::int64_t) {
  co_await set(std::move(key), std::move(value));
  co_return true;
}

}  // namespace http_counter
