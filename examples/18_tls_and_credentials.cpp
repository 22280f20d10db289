// A connection over TLS, and a password that is read from a file before each connection and every minute, so that it
// can change without a restart.
//
//   example_18_tls_and_credentials [URL]        default: $CONCH_URL, else memory://
//
// $CONCH_CA: a file with the certificate authorities to trust (default: the system's). $CONCH_PASSWORD_FILE: a file
// with the password. TLS needs a URL that begins with rediss://.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/conch.hpp>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// This runs in a thread of the io_context and must not block. Reading a local file is fast; start a request to a secret
// store here, and call `done` when it completes.
void password_of(std::string const& file, conch::credentials_handler const& done) {
  std::ifstream in{file};
  conch::credentials found;
  if (!std::getline(in, found.password)) {
    done(make_error_code(boost::system::errc::no_such_file_or_directory), {});
    return;
  }
  found.refresh_after = 1min;
  done({}, found);
}

conch::config settings_for(std::string url) {
  conch::config settings;
  settings.url = std::move(url);
  if (char const* const ca = std::getenv("CONCH_CA")) {
    settings.tls.ca_file = ca;
  }
  if (char const* const file = std::getenv("CONCH_PASSWORD_FILE")) {
    settings.credentials_provider = [file](std::string const&, conch::credentials_handler const& done) {
      password_of(file, done);
    };
  }
  settings.log = conch::log_to_stderr();
  return settings;
}

asio::awaitable<void> work(conch::mutex job) {
  conch::hold mine = co_await job.async_acquire({.wait = 5s});
  std::cout << "holds the lock, token " << mine.fence() << '\n';
  co_await mine.async_release();
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), settings_for(url)};
  conch::mutex const job{client, "example:tls"};
  std::exception_ptr failure;
  asio::co_spawn(ctx, work(job), [&](std::exception_ptr error) {
    failure = error;
    client.async_close(1s, [](conch::error_code) {});
  });
  ctx.run();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return 0;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
