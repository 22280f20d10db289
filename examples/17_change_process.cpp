// A hold that changes its process: this program takes a lock, lets it go, and starts itself again by exec. The new program takes the hold over. In
// between nobody renews it, and nobody else is granted the lock.
//
//   example_17_change_process [URL]        default: $CONCH_URL (the place for a password), else memory://
//
// With memory:// there is no lock outside the process, so both halves run in one.

#include <unistd.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;

constexpr char const* passed_on_in = "EXAMPLE_DETACHED_HOLD";

asio::awaitable<std::string> first_half(std::string url) {
  conch::client client{co_await asio::this_coro::executor, url};
  conch::mutex job{client, "example:job"};
  conch::hold h = co_await job.async_acquire();
  std::cout << "process " << ::getpid() << " has the lock, token " << h.fence() << std::endl;
  std::string text = co_await h.async_detach();  // a secret: who has it can take the hold over
  co_return text;
}

asio::awaitable<bool> second_half(std::string url, std::string text) {
  conch::client client{co_await asio::this_coro::executor, url};
  conch::mutex job{client, "example:job"};
  conch::hold h = co_await job.async_adopt(text);  // errc::lost: it came too late, or somebody else was first
  std::cout << "process " << ::getpid() << " has taken it over, token " << h.fence() << std::endl;
  bool const was_held = co_await h.async_release();
  std::cout << (was_held ? "released" : "lost") << std::endl;
  co_return was_held;
}

template <class Result, class Body>
Result run(Body body) {
  asio::io_context context;
  Result result{};
  std::exception_ptr error;
  asio::co_spawn(context, std::move(body), [&](std::exception_ptr e, Result r) {
    error = e;
    result = std::move(r);
  });
  context.run();  // returns when the client has gone too, with what it still had to send
  if (error) std::rethrow_exception(error);
  return result;
}

int main(int argc, char** argv) {
  char const* const given = argc > 1 ? argv[1] : std::getenv("CONCH_URL");
  std::string const url = given != nullptr ? given : "memory://example";
  try {
    if (char const* const passed_on = std::getenv(passed_on_in)) {
      std::string const text = passed_on;
      ::unsetenv(passed_on_in);  // not for the children of this process
      return run<bool>(second_half(url, text)) ? 0 : 1;
    }
    std::string const text = run<std::string>(first_half(url));
    if (url.starts_with("memory:")) return run<bool>(second_half(url, text)) ? 0 : 1;
    ::setenv(passed_on_in, text.c_str(), 1);
    ::execv("/proc/self/exe", argv);
    std::cerr << "it cannot be started again\n";
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
  }
  return 1;
}
