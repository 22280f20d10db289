#include "routes.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/verb.hpp>
#include <utility>

namespace http_counter {

namespace {

using std::string_view;

string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

route refuse(http::status status, string_view reason, string_view label, string_view allow = {}) {
  route refused;
  refused.status = status;
  refused.reason = reason;
  refused.allow = allow;
  refused.label = label;
  return refused;
}

enum class lock_choice { on, off, wrong };

// Empty, `lock=on` or `lock=off`.
lock_choice parse_query(string_view query) {
  if (query.empty() || query == "lock=on") {
    return lock_choice::on;
  }
  return query == "lock=off" ? lock_choice::off : lock_choice::wrong;
}

route decide_counter(http::verb method, string_view query) {
  auto const choice = parse_query(query);
  if (choice == lock_choice::wrong) {
    return refuse(http::status::bad_request, "the query must be lock=on or lock=off", "/counter");
  }
  route result;
  result.locked = choice == lock_choice::on;
  result.label = "/counter";
  switch (method) {
    case http::verb::post: result.what = action::increment; return result;
    case http::verb::get: result.what = action::read; return result;
    case http::verb::delete_: result.what = action::reset; return result;
    default:
      return refuse(http::status::method_not_allowed, "use GET, POST or DELETE", "/counter", "GET, POST, DELETE");
  }
}

route decide_page(action what, http::verb method, string_view query, string_view label) {
  if (method != http::verb::get) {
    return refuse(http::status::method_not_allowed, "use GET", label, "GET");
  }
  if (!query.empty()) {
    return refuse(http::status::bad_request, "no query is allowed here", label);
  }
  route result;
  result.what = what;
  result.label = label;
  return result;
}

route decide_button(action what, http::request_header<> const& request, string_view query) {
  constexpr string_view label = "/page";
  if (request.method() != http::verb::post) {
    return refuse(http::status::method_not_allowed, "use POST", label, "POST");
  }
  bool const chooses = what == action::page_count || what == action::page_round;
  string_view const word = what == action::page_count ? "lock=" : "go=";
  bool const on = chooses && query == std::string(word) + "on";
  bool const off = chooses && query == std::string(word) + "off";
  if (chooses ? !on && !off : !query.empty()) {
    return refuse(http::status::bad_request,
                  "the query must be lock=on or lock=off (count), go=on or go=off (round), or empty", label);
  }
  route result;
  result.what = what;
  result.label = label;
  result.locked = result.go = on;
  result.token = view(request["X-Conch-Token"]);
  return result;
}

/// The part before the port, of `localhost:8080`, `127.0.0.1` or `[::1]:8080`. Empty: not of this form.
string_view host_without_port(string_view host) {
  auto const end = host.starts_with('[') ? host.find(']') + 1 : std::min(host.find(':'), host.size());
  string_view const port = host.substr(end);
  bool const good =
      end != 0 && (port.empty() || (port[0] == ':' && port.find_first_not_of("0123456789", 1) == port.npos));
  return good ? host.substr(0, end) : string_view{};
}

bool is_ours(string_view host, std::vector<std::string> const& names) {
  string_view const name = host_without_port(host);
  if (name.empty()) return false;
  bool const brackets = name.front() == '[';
  boost::system::error_code no_address;
  auto const parsed =
      boost::asio::ip::make_address(std::string(brackets ? name.substr(1, name.size() - 2) : name), no_address);
  if (!no_address && parsed.is_v6() == brackets) return true;
  auto const same = [name](string_view other) {
    return boost::beast::iequals({name.data(), name.size()}, {other.data(), other.size()});
  };
  return same("localhost") || std::any_of(names.begin(), names.end(), same);
}

/// Did a browser send this for a page of another site? Browsers name the page's origin; other clients do not.
bool from_elsewhere(http::request_header<> const& request, string_view host) {
  for (auto const& field : request) {
    string_view const value = view(field.value());
    if (field.name() == http::field::origin && value != "http://" + std::string(host)) return true;
    if (boost::beast::iequals(field.name_string(), "Sec-Fetch-Site") && value != "same-origin" && value != "none")
      return true;
  }
  return false;
}

}  // namespace

route decide(http::request_header<> const& request, std::vector<std::string> const& names) {
  string_view const target = view(request.target());
  if (request.version() != 10 && request.version() != 11) {
    return refuse(http::status::http_version_not_supported, "use HTTP/1.1", "none");
  }
  if (request.version() == 11 && request.count(http::field::host) != 1) {
    return refuse(http::status::bad_request, "HTTP/1.1 needs exactly one Host", "none");
  }
  string_view const host = view(request[http::field::host]);
  if (request.count(http::field::host) != 0 && !is_ours(host, names)) {
    return refuse(http::status::forbidden,
                  "this Host is not a name of this server: use its address, or start it with --host", "none");
  }
  if (from_elsewhere(request, host)) {
    return refuse(http::status::forbidden, "requests from another site's page are not allowed", "none");
  }
  if (!target.starts_with('/')) {
    return refuse(http::status::bad_request, "the target must begin with /", "none");
  }
  auto const mark = target.find('?');
  string_view const path = target.substr(0, mark);
  string_view const query = mark == target.npos ? string_view{} : target.substr(mark + 1);
  http::verb const method = request.method();
  if (path == "/counter") {
    return decide_counter(method, query);
  }
  if (path == "/stats") {
    return decide_page(action::stats, method, query, "/stats");
  }
  if (path == "/metrics") {
    return decide_page(action::metrics, method, query, "/metrics");
  }
  if (path == "/healthz") {
    return decide_page(action::health, method, query, "/healthz");
  }
  if (path == "/") {
    return decide_page(action::page, method, query, "/");
  }
  if (path == "/events") {
    return decide_page(action::events, method, query, "/events");
  }
  constexpr std::pair<string_view, action> buttons[] = {{"/page/count", action::page_count},
                                                        {"/page/round", action::page_round},
                                                        {"/page/stop", action::page_stop},
                                                        {"/page/sale", action::page_sale}};
  for (auto const& [name, what] : buttons) {
    if (path == name) return decide_button(what, request, query);
  }
  return refuse(http::status::not_found, "not found; use /, /counter, /stats, /metrics or /healthz", "none");
}

void set_limits(request_parser& parser) {
  parser.header_limit(header_limit);
  parser.body_limit(body_limit);
}

boost::system::error_code check_header(request_parser const& parser) {
  return parser.chunked() ? http::error::bad_transfer_encoding : boost::system::error_code();
}

std::optional<route> decide_failure(boost::system::error_code error) {
  if (error == http::error::bad_transfer_encoding) {
    return refuse(http::status::length_required, "send a Content-Length: chunked bodies are not supported", "none");
  }
  if (error == http::error::header_limit) {
    return refuse(http::status::request_header_fields_too_large, "the header is too long", "none");
  }
  if (error == http::error::body_limit) {
    return refuse(http::status::payload_too_large, "the body is too long", "none");
  }
  static boost::system::error_code const one_of_beast = http::error::bad_method;
  if (error.category() == one_of_beast.category() && error != http::error::end_of_stream &&
      error != http::error::partial_message) {
    return refuse(http::status::bad_request, "this is not HTTP", "none");
  }
  return std::nullopt;
}

}  // namespace http_counter
