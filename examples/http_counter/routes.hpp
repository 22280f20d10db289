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

// What a request asks for. No sockets here: bytes, a parser and decisions.
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
  events,  ///< what it shows, as server-sent events
  // Its buttons, which need the token:
  page_count,
  page_round,
  page_stop,
  page_sale,
  refuse
};

struct route {
  action what = action::refuse;
  bool locked = true;  ///< for increment, reset and page_count
  bool go = true;      ///< for page_round: begin it, or end it
  std::string token;   ///< for a button: what the request has given, not compared yet

  // Of a refusal:
  http::status status = http::status::ok;
  std::string_view reason = {};  ///< static text
  std::string_view allow = {};   ///< with 405: the methods that would do

  /// For the metrics: one of a few fixed words, whatever was asked for.
  std::string_view label = "none";
};

/// Everything that is neither understood nor expected is refused with 400, 404 or 405; with 403 what a browser sends for another
/// site. Such a site may have given its own name the server's address (DNS rebinding), so `Host` must be an address,
/// `localhost`, or one of `names` (lower case); and what says where it comes from must come from there.
route decide(http::request_header<> const& request, std::vector<std::string> const& names = {});

/// Nobody needs a body to count; what is longer is refused.
inline constexpr std::uint32_t header_limit = 8 * 1024;
inline constexpr std::uint64_t body_limit = 4 * 1024;

using request_parser = http::request_parser<http::string_body>;

void set_limits(request_parser& parser);

/// What is wrong with a header that could be read; to be asked before a body is. Bodies in chunks are not taken: nobody
/// needs them here, and Beast of Boost 1.81 asserts on some that are merely cut in an unlucky place.
boost::system::error_code check_header(request_parser const& parser);

/// What to answer to input on which the parser failed; empty when there is nobody to answer to
/// (the connection ended or timed out).
std::optional<route> decide_failure(boost::system::error_code error);

}  // namespace http_counter
