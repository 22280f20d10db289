#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Decides what a request asks for, without sockets.
namespace http_counter {

namespace http = boost::beast::http;

enum class action {
  increment,
  read,
  reset,
  stats,
  metrics,
  health,
  page,    ///< the live page
  events,  ///< the page's data, as server-sent events
  // The page's buttons, which need the token:
  page_count,
  page_round,
  page_stop,
  page_sale,
  refuse
};

struct route {
  action what = action::refuse;
  bool locked = true;  ///< for increment, reset and page_count
  bool go = true;      ///< for page_round: start or stop
  std::string token;   ///< for a button: the request's token, not yet checked

  // For `refuse`:
  http::status status = http::status::ok;
  std::string_view reason = {};  ///< static text
  std::string_view allow = {};   ///< with 405: the allowed methods

  /// For the metrics: one of a few fixed words, whatever the request says.
  std::string_view label = "none";
};

/// Refuses unknown requests with 400, 404 or 405, and requests that a browser sends for another site with 403. Another
/// site may point its own name at this server's address (DNS rebinding), so `Host` must be an address, `localhost`, or
/// one of `names` (lower case). A request with `Origin` or `Sec-Fetch-Site` must come from this server's own page.
route decide(http::request_header<> const& request, std::vector<std::string> const& names = {});

/// No request needs a body, so the limits are small.
inline constexpr std::uint32_t header_limit = 8 * 1024;
inline constexpr std::uint64_t body_limit = 4 * 1024;

using request_parser = http::request_parser<http::string_body>;

void set_limits(request_parser& parser);

/// Checks a header before the body is read. Chunked bodies are refused: no request needs one, and Beast of Boost 1.81
/// fails an assertion on some that are cut in an unlucky place.
boost::system::error_code check_header(request_parser const& parser);

/// The answer to input on which the parser failed; empty if nothing can be answered (the connection ended or timed
/// out).
std::optional<route> decide_failure(boost::system::error_code error);

}  // namespace http_counter
