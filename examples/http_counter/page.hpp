#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "feed.hpp"
#include "routes.hpp"

namespace http_counter {

/// What is behind the routes of the live page (examples/live_page). From any thread.
class page {
 public:
  struct outcome {
    http::status status = http::status::accepted;
    std::string_view words = "it has begun";  ///< static text
  };

  page() = default;
  page(page const&) = delete;
  page& operator=(page const&) = delete;
  virtual ~page() = default;

  /// The document, in which only scripts and styles that carry `nonce` are its own.
  virtual std::string document(std::string_view nonce) const = 0;

  /// What is sent to those who look at it.
  virtual feed& events() noexcept = 0;

  /// Carries out one of the buttons, if the route has the right token.
  virtual boost::asio::awaitable<outcome> act(route asked) = 0;

  /// An increment over HTTP, under the lock.
  virtual void counted(std::int64_t fence) = 0;
};

}  // namespace http_counter
