#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/string_body.hpp>
#include <conch/client.hpp>
#include <memory>
#include <string_view>

#include "counter.hpp"
#include "page.hpp"
#include "request_counters.hpp"
#include "routes.hpp"
#include "value_store.hpp"

namespace http_counter {

using response = http::response<http::string_body>;

/// Carries out what routes.hpp has decided. Knows HTTP messages but no connections. Thread-safe.
class service {
 public:
  service(conch::client& locks, value_store& values, counter& number, page& live)
      : locks_(locks),
        values_(values),
        counter_(number),
        page_(live) {}

  /// Does not throw if a server fails: the answer is then 500 or 503 with a JSON body.
  boost::asio::awaitable<response> answer(route asked, std::string_view method);

  /// The answer to a refused request.
  response refuse(route const& refusal, std::string_view method);

  /// The source of /events for one connection. Null if there are too many listeners.
  std::shared_ptr<feed::listener> listen(feed::listener::strand where);

  request_counters& counters() noexcept { return counters_; }

 private:
  boost::asio::awaitable<response> act(route const& asked);
  response document();
  response count(response answered, route const& asked, std::string_view method);

  conch::client& locks_;
  value_store& values_;
  counter& counter_;
  page& page_;
  request_counters counters_;
};

}  // namespace http_counter
