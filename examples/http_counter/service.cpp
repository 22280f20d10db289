#include "service.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <exception>
#include <string>
#include <utility>

#include "random_word.hpp"
#include "stats_json.hpp"

namespace http_counter {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

response with_body(http::status status, char const* type, std::string body) {
  response out{status, 11};
  out.set(http::field::content_type, type);
  out.set(http::field::cache_control, "no-store");
  out.set("X-Content-Type-Options", "nosniff");
  out.body() = std::move(body);
  return out;
}

response with_json(http::status status, json::object const& body) {
  return with_body(status, "application/json", json::serialize(body) + '\n');
}

response unavailable(json::object body) {
  response out = with_json(http::status::service_unavailable, body);
  out.set(http::field::retry_after, "1");
  return out;
}

// "changed" tells the client whether a retry might count twice.
response failed(counter_error const& error) {
  json::object body{{"error", error.what()}};
  if (error.why == counter_error::cause::damaged) {
    return with_json(http::status::internal_server_error, body);
  }
  body["reason"] = error.why == counter_error::cause::busy ? "busy" : "unreachable";
  body["changed"] = error.maybe_changed ? "unknown" : "no";
  return unavailable(std::move(body));
}

}  // namespace

asio::awaitable<response> service::answer(route asked, std::string_view method) {
  response out;
  try {
    out = co_await act(asked);
  } catch (counter_error const& error) {
    out = failed(error);
  } catch (store_error const& error) {
    out = unavailable({{"error", error.what()}, {"reason", "unreachable"}});
  } catch (std::exception const& error) {
    out = with_json(http::status::internal_server_error, {{"error", error.what()}});
  }
  co_return count(std::move(out), asked, method);
}

response service::refuse(route const& refusal, std::string_view method) {
  json::string_view const reason(refusal.reason.data(), refusal.reason.size());
  json::object const body{{"error", reason}};
  response out = with_json(refusal.status, body);
  if (!refusal.allow.empty()) {
    out.set(http::field::allow, {refusal.allow.data(), refusal.allow.size()});
  }
  return count(std::move(out), refusal, method);
}

response service::count(response answered, route const& asked, std::string_view method) {
  counters_.count(method, asked.label, answered.result_int());
  return answered;
}

std::shared_ptr<feed::listener> service::listen(feed::listener::strand where) {
  constexpr std::size_t most = 100;
  return page_.events().listeners() < most ? page_.events().listen(std::move(where)) : nullptr;
}

response service::document() {
  std::string const nonce = random_word();
  response out = with_body(http::status::ok, "text/html; charset=utf-8", page_.document(nonce));
  // The page loads nothing from other sites, sends nothing to them, and cannot be framed. It runs only its own scripts,
  // even if a lock's name contains HTML.
  out.set("Content-Security-Policy",
          "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
              "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  out.set("Cross-Origin-Opener-Policy", "same-origin");
  out.set("Cross-Origin-Resource-Policy", "same-origin");
  out.set("Referrer-Policy", "no-referrer");
  return out;
}

asio::awaitable<response> service::act(route const& asked) {
  switch (asked.what) {
    case action::increment: {
      counter::change const change = co_await counter_.increment(asked.locked);
      json::object body{{"counter", change.value}, {"locked", asked.locked}};
      if (asked.locked) {
        body["fence"] = change.fence;
        page_.counted(change.fence);
      }
      co_return with_json(http::status::ok, body);
    }
    case action::read: {
      std::int64_t const value = co_await counter_.read();
      co_return with_json(http::status::ok, {{"counter", value}});
    }
    case action::reset: co_await counter_.reset(asked.locked); co_return with_json(http::status::ok, {{"counter", 0}});
    case action::stats: co_return with_json(http::status::ok, to_json(locks_.stats()));
    case action::metrics:
      co_return with_body(http::status::ok, "text/plain; version=0.0.4; charset=utf-8",
                          conch::to_prometheus(locks_.stats()) + counters_.to_prometheus());
    case action::health: co_await values_.ping(); co_return with_json(http::status::ok, {{"status", "ok"}});
    case action::page: co_return document();
    case action::page_count:
    case action::page_round:
    case action::page_stop:
    case action::page_sale: {
      page::outcome const outcome = co_await page_.act(asked);
      bool const good = http::to_status_class(outcome.status) == http::status_class::successful;
      json::string_view const words(outcome.words.data(), outcome.words.size());
      co_return with_json(outcome.status, {{good ? "done" : "error", words}});
    }
    case action::events:
    case action::refuse: break;
  }
  co_return with_json(http::status::internal_server_error, {{"error", "no such action"}});
}

}  // namespace http_counter
