// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/back_off.hpp"
#include "protocol/transport.hpp"
#include "servers/scheme.hpp"
#include "servers/simulated/server.hpp"
#include "servers/simulated/stored_command.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace conch::simulated {

/// A client's connection to a simulated server. Both directions keep their order and take their time, and what is on
/// the way is lost when the connection breaks. What arrives waits in the executor until the process has time for it.
class connection final : public transport, private memory::store::listener {
 public:
  connection(servers::client_services const& client, server& to);
  ~connection() override;

  void send(protocol::command const& c) override;
  void want_connection() override;
  void drop_connection(std::string_view why) override;
  std::string unfinished_attempt() const override;
  void shut_down() override;

  // ---- from the world's loop
  std::string const& client_id() const noexcept { return id_; }
  std::string const& who() const noexcept { return who_; }
  bool is_open() const noexcept { return is_open_; }
  /// The network or the server ends it. The client learns of that later.
  void broken(std::string_view why);

 private:
  using input = std::function<void(time_point now)>;

  void on_push(protocol::push const& p) override;

  template <class F>
  void later(duration delay, F f);
  void give(input f);
  void attempt();
  void greet(time_point asked);
  void opened(time_point asked);
  void refused();
  void pause_before_attempt();
  void arrive(stored_command const& c);
  template <class Reply>
  void judge(protocol::command const& c, Reply const& r);
  void answer(input f);
  void end();
  void lost(std::string const& why, time_point now);

  host& host_;
  asio::any_io_executor const on_;
  config const& settings_;
  std::string const id_, who_;
  server& server_;
  std::string const& prefix_;
  back_off back_off_;
  bool is_wanted_ = false, is_attempting_ = false, is_open_ = false;
  std::uint64_t connection_ = 0;  // what is in the network is of one of them, and is lost with it
  std::uint64_t stream_ =
      0;  // what has arrived is of one of them, and can be read until the client knows that it has ended
  duration shortest_lease_ = duration::max();
  time_point up_since_{}, last_arrival_{}, last_answer_{};
  std::shared_ptr<connection*> const self_ = std::make_shared<connection*>(this);  // null when this is destroyed
};

}  // namespace conch::simulated
