// conch-http-counter: see --help.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <conch/client.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "counter.hpp"
#include "director.hpp"
#include "from_options.hpp"
#include "options.hpp"
#include "server.hpp"
#include "service.hpp"
#include "worker.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace http_counter;

asio::awaitable<bool> serve(server& http, live_page::director& live, conch::client& locks,
                            std::chrono::milliseconds grace) {
  bool const all_answered = co_await http.run(grace);
  co_await live.stop();
  co_await locks.async_close(2s, asio::as_tuple(asio::use_awaitable));
  co_return all_answered;
}

int run(options const& chosen) {
  asio::io_context ctx(chosen.threads);
  conch::client locks(ctx.get_executor(), lock_settings(chosen));
  auto const values = make_store(ctx, chosen);
  counter number(locks, *values, chosen.name, chosen.wait);
  live_page::director live(ctx, locks, *values, number, chosen);
  service handler(locks, *values, number, live);
  server http(ctx, handler, chosen);
  std::cout << "listening on " << http.url() << std::endl;
  if (!live.token().empty()) {
    std::cout << "page: " << http.url() << "/#token=" << live.token() << std::endl;
  }

  int code = 1;
  auto finish = [&](std::exception_ptr failure, bool all_answered) {
    code = failure == nullptr && all_answered ? 0 : 1;
    if (code != 0) {
      std::cerr << "conch-http-counter: some requests were not answered in time\n";
      ctx.stop();
    }
  };
  asio::co_spawn(http.executor(), serve(http, live, locks, chosen.wait + 5s), finish);

  std::vector<std::jthread> others;
  for (int i = 1; i < chosen.threads; ++i) {
    others.emplace_back([&] { ctx.run(); });
  }
  ctx.run();
  others.clear();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a worker may end while the server writes to it
  if (argc == 2 && std::string_view(argv[1]) == "--worker") {
    return live_page::run_worker();
  }
  try {
    auto const chosen = parse_options(argc, argv);
    return chosen.has_value() ? run(*chosen) : 0;
  } catch (usage_error const& error) {
    std::cerr << "conch-http-counter: " << error.what() << "\nTry --help.\n";
    return 2;
  } catch (std::invalid_argument const& error) {
    std::cerr << "conch-http-counter: " << error.what() << '\n';
    return 2;
  } catch (boost::system::system_error const& error) {
    std::cerr << "conch-http-counter: " << error.what() << '\n';
    return error.code() == conch::condition::invalid_request ? 2 : 1;
  } catch (std::exception const& error) {
    std::cerr << "conch-http-counter: " << error.what() << '\n';
    return 1;
  }
}
