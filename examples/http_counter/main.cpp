// conch-http-counter: see --help.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <conch/client.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "counter.hpp"
#include "memory_values.hpp"
#include "options.hpp"
#include "redis_address.hpp"
#include "redis_values.hpp"
#include "server.hpp"
#include "service.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace http_counter;

// For one command at Redis, to lock or to count. Requests shall be answered soon, also with 503.
conch::duration command_limit(options const& chosen) { return std::min<conch::duration>(1s, chosen.lease / 3); }

conch::config lock_settings(options const& chosen) {
  conch::config c;
  switch (chosen.lock_servers.size()) {
    case 0: c.url = chosen.redis; break;
    case 1: c.url = chosen.lock_servers.front(); break;
    default: c.quorum.servers = chosen.lock_servers;
  }
  c.lease = chosen.lease;
  c.stop_margin = std::min<conch::duration>(c.stop_margin, c.lease / 4);
  c.local_slice = std::min<conch::duration>(c.local_slice, c.lease);
  c.claim = std::min<conch::duration>(c.claim, c.lease);
  c.command_timeout = command_limit(chosen);
  c.connect_timeout = 1s;
  c.offline_timeout = std::clamp<conch::duration>(chosen.wait, 200ms, 2s);  // also the first request has to connect
  c.reconnect_max = 500ms;
  c.client_name = "conch-http-counter";
  c.log = [](conch::log_level level, std::string_view text) {
    if (level >= conch::log_level::warning) {
      std::fprintf(stderr, "conch: %.*s\n", static_cast<int>(text.size()), text.data());
    }
  };
  return c;
}

/// The lock may be on several servers; the counter is on one, the first of them.
std::string server_of_values(std::string const& url) {
  constexpr std::string_view several = "redlock://";
  if (!url.starts_with(several)) return url;
  return "redis://" + url.substr(several.size(), url.find(',') - several.size());
}

std::unique_ptr<value_store> make_store(asio::io_context& ctx, options const& chosen) {
  redis_address address = parse_address(server_of_values(chosen.redis));
  if (address.in_memory) {
    return std::make_unique<memory_values>();
  }
  auto const limit = std::chrono::duration_cast<std::chrono::milliseconds>(command_limit(chosen));
  return std::make_unique<redis_values>(ctx, std::move(address), limit);
}

asio::awaitable<bool> serve(server& http, conch::client& locks, std::chrono::milliseconds grace) {
  bool const all_answered = co_await http.run(grace);
  co_await locks.async_close(2s, asio::as_tuple(asio::use_awaitable));
  co_return all_answered;
}

int run(options const& chosen) {
  asio::io_context ctx(chosen.threads);
  conch::client locks(ctx.get_executor(), lock_settings(chosen));
  auto const values = make_store(ctx, chosen);
  counter number(locks, *values, chosen.name, chosen.wait);
  service does(locks, *values, number);
  server http(ctx, does, chosen);
  std::cout << "listening on " << http.url() << std::endl;

  int code = 1;
  auto finish = [&](std::exception_ptr failure, bool all_answered) {
    code = failure == nullptr && all_answered ? 0 : 1;
    if (code != 0) {
      std::cerr << "conch-http-counter: not everything was answered in time\n";
      ctx.stop();
    }
  };
  asio::co_spawn(http.executor(), serve(http, locks, chosen.wait + 5s), finish);

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
