// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"

#include <conch/detail/api.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace conch::net {

/// The addresses of a name. Asio has one thread for all look-ups of an io_context, and waits for it when the context is
/// destroyed: one look-up that hangs would stop every connection of the program, and its end. So conch calls
/// getaddrinfo on its own threads. They are detached, own all that they touch, and reach the event loop through a pipe:
/// nothing waits for them. A numeric address needs no thread.
///
/// All look-ups of the process share the threads. Those of one name share an answer; a second thread asks for it when
/// the first has been asking for two seconds, a third after three more, and so on with growing pauses, for no look-up
/// need ever end: a name that hangs for an hour costs 17 threads, however many connections want it, and fewer where
/// half of the threads are in use. A process has `most_threads` at most, and beside them such as have been asking for
/// two seconds, `most_that_hang` in all; behind them look-ups wait for their turn. How long a look-up may take is for
/// its caller to say.
class name_lookup {
 public:
  using error_code = boost::system::error_code;
  using addresses = std::vector<asio::ip::tcp::endpoint>;
  using handler = std::function<void(error_code, addresses const&)>;

  static constexpr std::size_t most_threads = 64;
  static constexpr std::size_t most_that_hang = 256;
  static constexpr std::size_t most_addresses = 64;  // of one name; the rest of an answer is left out

  CONCH_API explicit name_lookup(asio::any_io_executor const& on);
  CONCH_API ~name_lookup();
  name_lookup(name_lookup const&) = delete;
  name_lookup& operator=(name_lookup const&) = delete;

  /// Calls the handler on the executor, never before this returns. A look-up that is under way is cancelled first.
  CONCH_API void async_find(std::string const& host, std::uint16_t port, handler done);
  /// The look-up is not waited for any more. That of an address in numbers may still call its handler, as if it had
  /// ended before.
  CONCH_API void cancel();

  class request;  // what a connection and a thread share

 private:
  void complete_later(error_code ec, addresses found, handler done);

  asio::posix::stream_descriptor answered_;  // the end to read of the request's pipe
  std::shared_ptr<request> request_;
};

}  // namespace conch::net
