// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/transport.hpp"
#include "servers/scheme.hpp"
#include "servers/simulated/link.hpp"
#include "servers/simulated/server.hpp"
#include "servers/simulated/stored_command.hpp"

#include <string>
#include <string_view>

namespace conch::simulated {

/// A client's connection to a simulated server that keeps locks as Redis does.
class connection final : public transport, public link, private memory::store::listener {
 public:
  /// `part`: of the server; its parts share no locks.
  connection(servers::client_services const& client, server& to, std::string shown, std::string_view part);
  ~connection() override;

  void send(protocol::command const& c) override;
  void want_connection() override { connect(); }
  void drop_connection(std::string_view why) override { drop(why); }
  std::string unfinished_attempt() const override { return unfinished(); }
  void shut_down() override { finish(); }

 private:
  void on_push(protocol::push const& p) override;

  // link
  input welcome(time_point asked) override;
  void refused(std::string_view why, time_point now) override;
  void lost(std::string_view why, time_point now) override;
  void left() override;

  void arrive(stored_command const& c);
  template <class Reply>
  void judge(protocol::command const& c, Reply const& r);

  std::string const store_;  // its name at the server
};

}  // namespace conch::simulated
