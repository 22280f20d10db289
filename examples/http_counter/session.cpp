#include "session.hpp"

#include "as_tuple.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>
#include <string>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

namespace {

// Unknown methods become "other": the word is a label of the metrics, which must stay few.
std::string method_of(request_parser const& parser) {
  auto const method = parser.is_header_done() ? parser.get().method() : http::verb::unknown;
  auto const text = http::to_string(method);
  return method == http::verb::unknown ? "other" : std::string(text.data(), text.size());
}

}  // namespace

session::session(socket peer, service& handler, std::chrono::milliseconds limit, std::vector<std::string> const& names)
    : stream_(std::move(peer)),
      service_(handler),
      limit_(limit),
      names_(names) {}

asio::awaitable<void> session::run(std::shared_ptr<session> self) {
  error_code ignored;
  self->stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  bool more = true;
  while (more) {
    more = co_await self->serve_one();
  }
  self->stream_.close();
}

void session::finish(std::shared_ptr<session> const& self) {
  asio::dispatch(self->stream_.get_executor(), [self] {
    self->finishing_ = true;
    error_code unknown;
    bool const idle = self->reading_ && !self->parser_->got_some() && self->buffer_.size() == 0 &&
                      self->stream_.socket().available(unknown) == 0;
    if (idle) {
      self->stream_.cancel();
    }
    if (self->listener_) {
      self->listener_->wake();
    }
  });
}

// Returns false if the connection must be closed.
asio::awaitable<bool> session::serve_one() {
  error_code const error = co_await read_request();
  if (error) {
    auto const refusal = decide_failure(error);
    if (refusal) {
      response refused = service_.refuse(*refusal, method_of(*parser_));
      bool const written = co_await write(std::move(refused), false);
      if (written) {
        co_await linger();
      }
    }
    co_return false;
  }
  auto const& request = parser_->get();
  route const asked = decide(request, names_);
  bool const wants_more = request.keep_alive();
  std::string const method = method_of(*parser_);
  if (asked.what == action::events) {
    bool const more = co_await stream(method);
    co_return more;
  }
  response out;
  if (asked.what == action::refuse) {
    out = service_.refuse(asked, method);
  } else {
    stream_.expires_never();  // the service has its own timeouts
    out = co_await service_.answer(asked, method);
  }
  bool const keep_alive = wants_more && !finishing_;
  bool const written = co_await write(std::move(out), keep_alive);
  co_return (written && keep_alive);
}

asio::awaitable<error_code> session::read_request() {
  parser_.emplace();
  set_limits(*parser_);
  if (finishing_ && buffer_.size() == 0) {
    co_return asio::error::operation_aborted;
  }
  stream_.expires_after(limit_);
  reading_ = true;
  auto header = co_await http::async_read_header(stream_, buffer_, *parser_, as_tuple);
  error_code error = std::get<0>(header);
  if (!error) {
    error = check_header(*parser_);
  }
  if (!error && !parser_->is_done()) {
    auto const expected = parser_->get()[http::field::expect];
    if (beast::iequals(expected, "100-continue")) {
      static constexpr char continue_100[] = "HTTP/1.1 100 Continue\r\n\r\n";
      auto const bytes = asio::buffer(continue_100, sizeof continue_100 - 1);
      co_await asio::async_write(stream_, bytes, as_tuple);
    }
    auto rest = co_await http::async_read(stream_, buffer_, *parser_, as_tuple);
    error = std::get<0>(rest);
  }
  reading_ = false;
  co_return error;
}

asio::awaitable<bool> session::write(response out, bool keep_alive) {
  out.set(http::field::server, "conch-http-counter");
  out.version(parser_->is_header_done() ? parser_->get().version() : 11);
  out.keep_alive(keep_alive);
  out.prepare_payload();
  stream_.expires_after(limit_);
  auto written = co_await http::async_write(stream_, out, as_tuple);
  co_return !std::get<0>(written);
}

// Server-sent events: a header without a length, then one event per text, until either side ends it. Returns false.
asio::awaitable<bool> session::stream(std::string_view method) {
  constexpr auto keep_alive_every = std::chrono::seconds(10);  // a write to a dead peer fails, sooner or later
  listener_ = service_.listen(stream_.get_executor());
  service_.counters().count(method, "/events", listener_ ? 200 : 503);
  std::string bytes =
      listener_
          ? "HTTP/1.1 200 OK\r\nServer: conch-http-counter\r\nContent-Type: text/event-stream\r\nCache-Control: "
            "no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 1000\n\n"
          : "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  bool more = true;
  std::uint64_t seen = 0;
  while (more) {
    stream_.expires_after(limit_);
    auto const out = asio::buffer(bytes);
    auto written = co_await asio::async_write(stream_, out, as_tuple);
    more = !std::get<0>(written) && listener_ && !finishing_;
    if (more) {
      feed::message const next = co_await listener_->wait(seen, keep_alive_every);
      more = !finishing_;
      bytes = next.number == seen ? ":\n\n" : "id: " + std::to_string(next.number) + "\ndata: " + *next.text + "\n\n";
      seen = next.number;
    }
  }
  listener_.reset();
  co_return false;
}

// Closing a socket with unread input would reset the connection, and the peer might lose the answer that explains the
// error.
asio::awaitable<void> session::linger() {
  constexpr std::size_t most = 1024 * 1024;
  error_code error;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, error);
  stream_.expires_after(std::chrono::seconds(1));
  char dropped[4096];
  std::size_t total = 0;
  while (!error && total < most) {
    auto const space = asio::buffer(dropped);
    auto read = co_await stream_.async_read_some(space, as_tuple);
    error = std::get<0>(read);
    total += std::get<1>(read);
  }
}

}  // namespace http_counter
