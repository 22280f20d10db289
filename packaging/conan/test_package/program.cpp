// Takes a lock of memory://, and lets it go.
#include <conch/conch.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <iostream>

boost::asio::awaitable<bool> lock() {
  auto const executor = co_await boost::asio::this_coro::executor;
  conch::client client{executor, "memory://"};
  conch::mutex m{client, "package"};
  conch::hold h = co_await m.async_acquire();
  bool const was_held = co_await h.async_release();
  co_return was_held;
}

int main() {
  boost::asio::io_context context;
  auto locked = boost::asio::co_spawn(context, lock(), boost::asio::use_future);
  context.run();
  bool const was_held = locked.get();
  std::cout << "conch " << conch::version() << (was_held ? ": locked\n" : ": not locked\n");
  return was_held && conch::version() == conch::version_string ? 0 : 1;
}
