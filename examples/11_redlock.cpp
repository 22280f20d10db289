// One lock over several independent servers: a majority of them decides.
//
//   example_11_redlock [URL...]        default: three servers in memory

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/conch.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<bool> pay_out(conch::client& client) {
  conch::mutex account{client, "example:account"};
  conch::hold h = co_await account.async_acquire();
  // Send the token along: the resource refuses a token smaller than the greatest that it has seen.
  std::cout << "paid out with token " << h.fence() << '\n';
  bool const was_held = co_await h.async_release();
  for (auto const& server : client.stats().servers) {
    std::cout << server.url << (server.votes != 0 ? " voted" : " was not needed") << '\n';
  }
  client.async_close(1s, [](conch::error_code) {});
  co_return was_held;
}

int main(int argc, char** argv) try {
  conch::config settings;
  settings.quorum.servers.assign(argv + 1, argv + argc);
  if (settings.quorum.servers.empty() || settings.quorum.servers.front() == "memory://") {
    settings.quorum.servers = {"memory://a", "memory://b", "memory://c"};
  }
  // Shorter, if all servers are Redis: settings.url = "redlock://10.0.0.1,10.0.0.2,10.0.0.3";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), settings};
  bool done = false;
  asio::co_spawn(ctx, pay_out(client),
                 [&](std::exception_ptr failure, bool was_held) { done = failure == nullptr && was_held; });
  ctx.run();
  return done ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
