// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/optional_mutex.hpp"
#include "base/url.hpp"
#include "protocol/transport.hpp"
#include "redis/greeting.hpp"
#include "resp/decoder.hpp"

#include <conch/config.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace conch::redis {

/// One connection to one Redis: made when first wanted, and again whenever it is lost. Commands of one turn of the event
/// loop go out in one write. Only the first goes at once, unless an answer is due or has just come in: the server works on
/// it while the others are made, and what began together does not stay together for ever. Replies and pushes go to the
/// engine in the order in which they come.
class link final : public transport {
 public:
  /// `on`: a strand, if there are several threads.
  link(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id, address where);

  // engine::wire, with the engine locked
  void send(engine::command const& c) override;
  void want_connection() override;
  void drop_connection(std::string_view why) override;

  void shut_down() override;

 private:
  enum class state { idle, connecting, greeting, up, pausing, closed };

  void connect();
  void connect_next(std::size_t which, std::string const& last_error);
  void greet();
  void read();
  void on_read(std::size_t size);
  void on_greeted();
  enum class heard { all, more, enough };
  heard hand_over(time_point now);
  void flush();
  void write_rest(std::size_t from);
  void post_flush();
  void failed(engine::fault what, std::string const& why);
  void pause();
  /// Wraps a handler: it keeps the client alive, and runs only if its connection is still the present one.
  template <class F>
  auto bound(F f);

  host& host_;
  asio::any_io_executor const on_;
  config const& settings_;
  std::string const id_;
  address const where_;

  state state_ = state::idle;
  std::uint64_t generation_ = 0;  // of the connection; handlers of an earlier one find it changed
  unsigned attempts_ = 0;         // in a row without success
  time_point up_since_{};
  std::minstd_rand random_;
  asio::ip::tcp::resolver resolver_;
  asio::generic::stream_protocol::socket socket_;
  asio::steady_timer timer_;
  std::vector<asio::generic::stream_protocol::endpoint> endpoints_;
  greeting greeting_;
  time_point greeted_at_{};
  resp::decoder decoder_;
  std::vector<std::int64_t> numbers_;
  std::string name_;
  std::string writing_;
  bool write_under_way_ = false;

  // With the engine locked.
  bool wanted_ = false;
  bool dropping_ = false;
  bool told_of_foreign_pushes_ = false;  // to the log, of this connection
  std::int64_t unanswered_ = 0;          // commands of this connection

  // What was sent and not yet written. Of its own mutex, so that a flush need not wait for the engine.
  optional_mutex outgoing_mutex_;
  std::string outgoing_;
  bool flush_posted_ = false;
};

}  // namespace conch::redis
