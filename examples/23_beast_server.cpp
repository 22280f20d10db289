// An HTTP server (Boost.Beast) whose handlers work under a lock. A handler answers 503 if it does not get the lock in
// time, and stops waiting when its HTTP client disconnects.
//
//   example_23_beast_server [URL]       serves three requests of its own, then ends
//   example_23_beast_server URL PORT    serves at 127.0.0.1:PORT until you end it: curl http://127.0.0.1:PORT/
//
// Default of URL: $CONCH_URL (use it if the URL has a password), else memory://.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <conch/conch.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;

struct shop {
  conch::client& client;
  conch::duration max_wait = 2s;  // how long a request waits for the lock
};

// The work of a request. The answer is 503 if another client holds the lock for too long or the lock's server does not
// answer.
asio::awaitable<http::response<http::string_body>> sell(shop const& s) {
  http::response<http::string_body> response{http::status::ok, 11};
  conch::mutex stock{s.client, "example:stock"};
  auto body = [](conch::hold& h) -> asio::awaitable<std::string> {
    co_return "sold with fence " + std::to_string(h.fence()) + '\n';
  };
  try {
    response.body() = co_await conch::with_lock(stock, {.wait = s.max_wait}, body);
  } catch (boost::system::system_error const& e) {
    if (e.code() != conch::errc::timed_out && e.code() != conch::condition::unreachable) throw;
    response.result(http::status::service_unavailable);
    response.body() = e.code().message() + '\n';  // what() would add the number of the error
  }
  co_return response;
}

struct connection {
  explicit connection(tcp::socket peer) : stream{std::move(peer)} {}
  beast::tcp_stream stream;
  asio::cancellation_signal gone{};
};

// Cancels `serve` when its client disconnects. It only peeks: bytes that arrive meanwhile belong to the next request.
void watch(std::shared_ptr<connection> const& c) {
  c->stream.socket().async_wait(tcp::socket::wait_read, [c](conch::error_code ec) {
    if (ec) return;
    char next = 0;
    conch::error_code ended;
    c->stream.socket().receive(asio::buffer(&next, 1), tcp::socket::message_peek, ended);
    if (ended) c->gone.emit(asio::cancellation_type::terminal);
  });
}

// Reads one request and answers it.
asio::awaitable<void> serve(std::shared_ptr<connection> c, shop const& s) {
  beast::flat_buffer buffer;
  http::request<http::empty_body> request;
  c->stream.expires_after(10s);
  co_await http::async_read(c->stream, buffer, request, asio::use_awaitable);
  c->stream.expires_never();  // max_wait limits `sell`

  watch(c);
  http::response<http::string_body> response = co_await sell(s);
  c->stream.socket().cancel();

  response.version(request.version());
  response.keep_alive(false);
  response.prepare_payload();
  c->stream.expires_after(10s);
  co_await http::async_write(c->stream, response, asio::use_awaitable);
}

using completion = std::function<void(std::exception_ptr)>;

asio::awaitable<void> listen(tcp::acceptor& acceptor, shop const& s, completion on_served) {
  for (;;) {
    tcp::socket peer = co_await acceptor.async_accept(asio::use_awaitable);
    auto const c = std::make_shared<connection>(std::move(peer));
    asio::co_spawn(acceptor.get_executor(), serve(c, s), asio::bind_cancellation_slot(c->gone.slot(), on_served));
  }
}

// Counts what has happened, so that the demonstration can wait for it.
class event_counts final : public conch::observer {
 public:
  explicit event_counts(asio::any_io_executor const& executor)
      : changed_{executor, asio::steady_timer::time_point::max()} {}
  void on_queued(conch::lock_event const&) override { count(queued); }
  void count(int& what) {
    ++what;
    changed_.cancel();
  }
  asio::awaitable<void> until(int const& what, int wanted = 1) {
    while (what < wanted) {
      auto waited = co_await changed_.async_wait(asio::as_tuple(asio::use_awaitable));
      (void)waited;
    }
  }
  int queued = 0, gave_up = 0, answered = 0, closed = 0;

 private:
  asio::steady_timer changed_;
};

asio::awaitable<http::response<http::string_body>> get(tcp::endpoint server) {
  tcp::socket to{co_await asio::this_coro::executor};
  co_await to.async_connect(server, asio::use_awaitable);
  http::request<http::empty_body> request{http::verb::get, "/", 11};
  request.set(http::field::host, "localhost");
  co_await http::async_write(to, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  co_await http::async_read(to, buffer, response, asio::use_awaitable);
  co_return response;
}

asio::awaitable<bool> demonstrate(std::string url) {
  auto const executor = co_await asio::this_coro::executor;
  auto const seen = std::make_shared<event_counts>(executor);
  conch::client client{executor, conch::config{.url = url, .observer = seen}};
  shop s{.client = client, .max_wait = std::chrono::hours{1}};
  conch::client elsewhere{executor, url};
  conch::mutex stock{elsewhere, "example:stock"};
  tcp::acceptor acceptor{executor, tcp::endpoint{asio::ip::address_v4::loopback(), 0}};
  auto on_served = [seen](std::exception_ptr why) { seen->count(why ? seen->gave_up : seen->answered); };
  asio::co_spawn(executor, listen(acceptor, s, on_served), [seen](std::exception_ptr) { seen->count(seen->closed); });

  // Another client holds the lock. A request waits, then its HTTP client disconnects.
  conch::hold busy = co_await stock.async_acquire();
  tcp::socket impatient{executor};
  co_await impatient.async_connect(acceptor.local_endpoint(), asio::use_awaitable);
  std::string const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  co_await asio::async_write(impatient, asio::buffer(request), asio::use_awaitable);
  co_await seen->until(seen->queued);
  std::cout << "a request waits\n";
  impatient.close();
  co_await seen->until(seen->gave_up);
  std::cout << "its client disconnected, and the handler gave up\n";
  bool const none_served = seen->answered == 0;

  // The request does not get the lock in time.
  s.max_wait = 100ms;
  http::response<http::string_body> const late = co_await get(acceptor.local_endpoint());
  std::cout << late.result_int() << ' ' << late.body();

  // The lock is free.
  s.max_wait = std::chrono::hours{1};
  co_await busy.async_release();
  http::response<http::string_body> const sold = co_await get(acceptor.local_endpoint());
  std::cout << sold.result_int() << ' ' << sold.body();
  co_await seen->until(seen->answered, 2);
  acceptor.close();
  co_await seen->until(seen->closed);
  bool const as_expected = none_served && seen->gave_up == 1 && late.result() == http::status::service_unavailable &&
                           sold.body().starts_with("sold with fence ");
  co_return as_expected;
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  asio::io_context context;
  if (argc > 2) {
    conch::client client{context.get_executor(), url};
    shop const s{.client = client};
    tcp::acceptor acceptor{
        context, tcp::endpoint{asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(std::atoi(argv[2]))}};
    auto on_served = [](std::exception_ptr why) {
      if (why) std::cerr << "a request got no answer\n";
    };
    asio::co_spawn(context, listen(acceptor, s, on_served), [](std::exception_ptr why) {
      if (why) std::rethrow_exception(why);
    });
    context.run();
    return EXIT_SUCCESS;
  }
  bool ok = false;
  asio::co_spawn(context, demonstrate(url), [&ok](std::exception_ptr failed, bool as_expected) {
    if (failed) std::rethrow_exception(failed);
    ok = as_expected;
  });
  context.run();
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
