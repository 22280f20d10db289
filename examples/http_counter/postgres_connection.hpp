#pragma once

#include <libpq-fe.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace http_counter {

/// One connection to a PostgreSQL server, for one statement at a time. The first statement connects. Drop the
/// connection after a failure. Only libpq's look-up of host names blocks the thread: use an address or a socket in the
/// URL.
class postgres_connection {
 public:
  struct statement {
    char const* text = "";
    std::vector<std::string> parameters;  // $1, $2 ...
  };
  struct answer {
    std::optional<std::string> first;  ///< the first column of the first row
    std::string rows;                  ///< the number of rows changed or found
  };

  postgres_connection(boost::asio::io_context& ctx, std::string url);

  /// Throws `store_error` if the server refuses or does not answer within `limit`, connecting included. May be called
  /// from any executor.
  static boost::asio::awaitable<answer> exchange(std::shared_ptr<postgres_connection> self, statement what,
                                                 std::chrono::milliseconds limit);

  /// False if the server has closed the connection. Call it between two exchanges only.
  bool is_open();

 private:
  using strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using descriptor = boost::asio::posix::stream_descriptor;
  struct ends_connection {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };

  static boost::asio::awaitable<answer> run(std::shared_ptr<postgres_connection> self, statement what,
                                            std::chrono::milliseconds limit);
  boost::asio::awaitable<void> connect();
  boost::asio::awaitable<answer> ask(statement what);
  boost::asio::awaitable<void> wait(descriptor::wait_type until);
  void watch_socket();

  std::string url_;
  strand strand_;
  boost::asio::steady_timer timer_;
  descriptor socket_;  // a duplicate of libpq's descriptor, so that Asio and libpq each close their own
  int watched_ = -1;
  std::unique_ptr<PGconn, ends_connection> connection_;
};

}  // namespace http_counter
