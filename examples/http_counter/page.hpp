#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "feed.hpp"
#include "routes.hpp"

namespace http_counter {

/// Serves the routes of the live page (examples/live_page). Thread-safe.
class page {
 public:
  struct outcome {
    http::status status = http::status::accepted;
    std::string_view words = "started";  ///< static text
  };

  page() = default;
  page(page const&) = delete;
  page& operator=(page const&) = delete;
  virtual ~page() = default;

  /// The HTML document. Its scripts and styles carry `nonce`; browsers run no others.
  virtual std::string document(std::string_view nonce) const = 0;

  /// The events that viewers of the page receive.
  virtual feed& events() noexcept = 0;

  /// Runs the action of a button, if the route has the right token.
  virtual boost::asio::awaitable<outcome> act(route asked) = 0;

  /// Called after an increment over HTTP under the lock.
  virtual void counted(std::int64_t fence) = 0;
};

}  // namespace http_counter
