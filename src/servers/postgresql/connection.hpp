// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/process.hpp"
#include "base/secrets.hpp"
#include "net/name_lookup.hpp"
#include "net/shell.hpp"
#include "protocol/transport.hpp"
#include "servers/postgresql/connection_fsm.hpp"
#include "servers/postgresql/login_guard.hpp"
#include "servers/postgresql/parameters.hpp"

#include <conch/config.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::postgresql {

/// A connection to a PostgreSQL server. It carries out the actions of its connection_fsm with libpq, whose socket Asio
/// waits for, and decides nothing itself. Nothing here blocks: libpq is given addresses, since it would look up names
/// by itself, and wait.
class connection final : public transport, private net::shell<connection> {
 public:
  /// `on`: a strand, unless config::single_threaded. Throws errc::invalid_url for what libpq does not understand.
  connection(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id,
             std::string const& url);

  // protocol::wire, with the client locked
  void send(protocol::command const& c) override;
  void want_connection() override { want(); }
  void drop_connection(std::string_view why) override { drop(why); }
  std::string unfinished_attempt() const override { return fsm_.life().unfinished_attempt(); }

  void report_to(protocol::wire_events& e) noexcept override { fsm_.report_to(e); }
  void shut_down() override { close_life(); }

 private:
  friend net::shell<connection>;

  struct ends_connection {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };
  struct clears_result {
    void operator()(PGresult* r) const noexcept { PQclear(r); }
  };
  using result = std::unique_ptr<PGresult, clears_result>;

  net::lifecycle& life() noexcept { return fsm_.life(); }
  void flush_later();
  void flush();
  void carry_out();
  void close();
  void resolve();
  void look_up(std::size_t number);
  void report_found(bool is_last);
  void connect();
  void poll(PostgresPollingStatusType what);
  void continue_connecting();
  void count_read(std::size_t before);
  bool watch_socket();
  void fail(std::string words);
  void query();
  void begin_pipeline();
  void send_all();
  void push_out();
  void read();
  void read_results();
  bool take_in(time_point now);
  void take_notifications(time_point now);
  bool take_answer(time_point now);
  bool take_query(time_point now);
  static void note(void* self, PGresult const* r);
  std::string why_ended() const;
  std::string said() const { return PQerrorMessage(connection_.get()); }

  config const& settings_;
  std::vector<secret> secrets_;
  secret of_file_;
  parameters const parameters_;  // of the URL, and what it does not contain
  connection_fsm fsm_;
  bool const in_one_thread_;
  asio::posix::stream_descriptor socket_;  // a duplicate of libpq's, so that each closes its own
  own_descriptor own_, of_libpq_;
  asio::steady_timer again_;

  /// A host of the URL.
  struct named_host {
    std::string name, address, port;
    std::unique_ptr<net::name_lookup> lookup = nullptr;  // none: there is nothing to look up
    std::vector<std::string> found{};
    bool is_asked = false;
    std::string why_not{};
  };
  struct place {
    std::string name, address, port;
    bool by_name;
    std::size_t host;  // in hosts_
  };
  std::vector<named_host> hosts_;
  std::vector<place> places_;  // one for each address of each host
  login_guard guard_;
  std::unique_ptr<PGconn, ends_connection> connection_;
  bool is_open_ = false, in_pipeline_ = false, is_querying_ = false, write_waits_ = false;
  bool at_end_ = false;                 // of the results of a statement
  std::deque<std::size_t> unanswered_;  // statements in the pipeline: their sizes
  std::size_t asked_ = 0;               // the sum of these
  // bytes that have come in since an answer was whole, without the notifications among them
  std::size_t unread_ = 0;
  std::string ended_by_;  // the words of the server with which it has ended the connection
  result last_;           // of the query, or of the statement, whose end has not come yet
};

}  // namespace conch::postgresql
