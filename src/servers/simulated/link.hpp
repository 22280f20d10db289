// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/back_off.hpp"
#include "protocol/transport.hpp"
#include "servers/scheme.hpp"
#include "servers/simulated/surroundings.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace conch::simulated {

class server;

/// A client's connections to a simulated server, one after another, whatever they speak. Both directions keep their
/// order and take their time, and what is on the way is lost when the connection breaks. What arrives waits in the
/// executor until the process has time for it.
class link {
 public:
  link(link const&) = delete;
  link& operator=(link const&) = delete;

  std::string const& client_id() const noexcept { return id_; }
  std::string const& who() const noexcept { return who_; }
  bool is_open() const noexcept { return is_open_; }
  /// The network or the server ends it. The client learns of that later.
  void broken(std::string_view why);

 protected:
  /// What is given to the client, with its core locked.
  using input = std::function<void(time_point now)>;

  /// `shown`: the server as the log names it.
  link(servers::client_services const& client, server& to, std::string shown);
  ~link();

  server& at() const noexcept { return server_; }
  host& shell() const noexcept { return host_; }
  std::string const& shown() const noexcept { return shown_; }
  std::string unfinished() const;
  /// A hold with this lease outlives the pause before the next attempt.
  void outlive(duration lease) noexcept { shortest_lease_ = std::min(shortest_lease_, lease); }
  duration lock_delay() const noexcept { return settings_.lock_delay; }

  // ---- from the client, with its core locked
  /// Makes a connection, and keeps one from then on.
  void connect();
  /// f() is called at the server.
  void to_server(std::function<void()> f);
  /// The client ends the connection, and reads no more. It learns that the connection has ended, as from any other end.
  void drop(std::string_view why);
  /// The same, but the client knows it already. `at_once`: without a pause.
  void replace(std::string_view why, bool at_once);

  // ---- from the world's loop
  void to_client(input f);
  /// Ends it for good.
  void finish();

 private:
  /// The client is connected: what it is told of that. `asked`: when it began.
  virtual input welcome(time_point asked) = 0;
  virtual void refused(std::string_view why, time_point now) = 0;
  virtual void lost(std::string_view why, time_point now) = 0;
  /// At the server: the connection has ended.
  virtual void left() = 0;

  void later(duration delay, std::function<void()> f);
  void give(input f);
  void attempt();
  void reach(time_point asked);
  void opened(time_point asked);
  void fail();
  void end();
  void pause();

  host& host_;
  asio::any_io_executor const on_;
  config const& settings_;
  std::string const id_, who_, shown_;
  server& server_;
  back_off back_off_;
  bool is_wanted_ = false, is_attempting_ = false, is_open_ = false;
  std::uint64_t connection_ = 0;  // what is in the network is of one of them, and is lost with it
  std::uint64_t stream_ =
      0;  // what has arrived is of one of them, and can be read until the client knows that it has ended
  duration shortest_lease_ = duration::max();
  time_point up_since_{}, last_arrival_{}, last_answer_{};
  std::shared_ptr<bool> const exists_ = std::make_shared<bool>(true);
};

}  // namespace conch::simulated
