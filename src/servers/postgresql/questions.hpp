// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/secrets.hpp"
#include "servers/postgresql/parameters.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <vector>

namespace conch::postgresql {

/// A blocking connection for tools: it neither creates the schema nor listens. From several servers it takes the
/// primary, or else a standby. All functions throw boost::system::system_error, with a printable text.
class questions {
 public:
  /// Connects, within config::connect_timeout and no more than five seconds.
  explicit questions(config const& settings);

  /// The rows of the answer to one statement, which may only read.
  using rows = std::vector<std::vector<std::string>>;
  rows ask(std::string const& statement);

  bool is_standby() const noexcept { return is_standby_; }
  int version() const { return PQserverVersion(connection_.get()); }
  int process() const { return PQbackendPID(connection_.get()); }
  std::string tls() const;  // "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: none
  bool has_password() const { return PQconnectionUsedPassword(connection_.get()) == 1; }
  bool is_on_this_machine() const { return here_; }
  std::string const& shown() const noexcept { return shown_; }

 private:
  struct ends_connection {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };
  struct clears_result {
    void operator()(PGresult* r) const noexcept { PQclear(r); }
  };

  std::vector<named_place> with_addresses(time_point until) const;
  void connect(named_place const& to, time_point until);
  void continue_connecting(time_point until);
  void settle();
  void wait(short what, time_point until) const;
  void read(time_point until);
  [[noreturn]] void fail() const;

  std::vector<secret> secrets_;
  parameters const parameters_;
  std::string const shown_;
  std::unique_ptr<PGconn, ends_connection> connection_;
  std::size_t unread_ = 0;  // bytes of the present answer
  bool is_standby_ = false, here_ = false;
};

}  // namespace conch::postgresql
