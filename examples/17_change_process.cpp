// A hold that moves to another process: this program acquires a lock, detaches the hold and executes itself again
// (exec). The new program adopts the hold. In between, no process renews it, and no other client can get the lock.
//
//   example_17_change_process [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://
//
// A memory:// lock does not outlive its process, so with memory:// one process does both.

#include <unistd.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;

constexpr char const* hold_variable = "EXAMPLE_DETACHED_HOLD";

asio::awaitable<std::string> acquire_and_detach(std::string url) {
  conch::client client{co_await asio::this_coro::executor, url};
  conch::mutex job{client, "example:job"};
  conch::hold h = co_await job.async_acquire();
  std::cout << "process " << ::getpid() << " holds the lock, token " << h.fence() << std::endl;
  std::string text = co_await h.async_detach();  // a secret: any program that has it can adopt the hold
  co_return text;
}

asio::awaitable<bool> adopt_and_release(std::string url, std::string text) {
  conch::client client{co_await asio::this_coro::executor, url};
  conch::mutex job{client, "example:job"};
  // throws errc::lost if the lease has expired or another program adopted the hold
  conch::hold h = co_await job.async_adopt(text);
  std::cout << "process " << ::getpid() << " adopted the hold, token " << h.fence() << std::endl;
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
  context.run();  // returns after the client is destroyed and has sent everything
  if (error) std::rethrow_exception(error);
  return result;
}

int main(int argc, char** argv) {
  char const* const given = argc > 1 ? argv[1] : std::getenv("CONCH_URL");
  std::string const url = given != nullptr ? given : "memory://example";
  try {
    if (char const* const detached = std::getenv(hold_variable)) {
      std::string const text = detached;
      ::unsetenv(hold_variable);  // children of this process must not inherit it
      return run<bool>(adopt_and_release(url, text)) ? 0 : 1;
    }
    std::string const text = run<std::string>(acquire_and_detach(url));
    if (url.starts_with("memory:")) return run<bool>(adopt_and_release(url, text)) ? 0 : 1;
    ::setenv(hold_variable, text.c_str(), 1);
    ::execv("/proc/self/exe", argv);
    std::cerr << "exec failed\n";
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
  }
  return 1;
}
