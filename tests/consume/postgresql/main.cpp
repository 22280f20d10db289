// Says what comes of a lock in PostgreSQL. Without a URL: where there is no such server.
#include <conch/conch.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <iostream>

int main(int argc, char** argv) {
  boost::asio::io_context context;
  conch::config settings;
  settings.url = "postgresql:///none?host=/nowhere";
  settings.offline_timeout = std::chrono::milliseconds{50};
  if (argc > 1) {
    settings.url = argv[1];
    settings.offline_timeout = std::chrono::seconds{60};
  }
  try {
    conch::client client{context.get_executor(), settings};
    conch::mutex lock{client, "lock"};
    lock.async_try_acquire([&](conch::error_code ec, conch::hold held) {
      if (held) {
        std::cout << "held\n";
      } else {
        std::cout << ec.to_string() << ' ' << ec.message() << '\n';
      }
      client.async_close(std::chrono::seconds{1}, [](conch::error_code) {});
    });
    context.run();
  } catch (boost::system::system_error const& e) {
    std::cout << e.code().to_string() << ' ' << e.what() << '\n';
  }
}
