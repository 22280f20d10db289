// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/simulated/ensemble.hpp"
#include "servers/simulated/link.hpp"
#include "servers/simulated/server.hpp"
#include "servers/zookeeper/wire.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::simulated {

/// A client's connection to a simulated ensemble, beneath the session and the queue that conch has for ZooKeeper.
class ensemble_connection final : public zookeeper::wire,
                                  public server_connection,
                                  public link,
                                  private ensemble::peer {
 public:
  ensemble_connection(servers::client_services const& client, server& to, std::string shown)
      : link{client, to, std::move(shown)} {}
  ~ensemble_connection() { finish(); }

  /// The receiver of the events. To be called once, before anything else.
  void report_to(zookeeper::wire_events& e) noexcept { events_ = &e; }
  void shut_down() override { finish(); }

  // zookeeper::wire
  void want(duration lease, time_point now) override;
  void in_use(duration lease, time_point) override { outlive(lease); }
  void greet(zookeeper::connect_request const& c) override;
  void send(zookeeper::request const& r) override;
  void drop(std::string_view why, zookeeper::ending how, time_point now) override;
  std::string unfinished_attempt() const override { return unfinished(); }
  std::string shown() const override { return link::shown(); }
  void log(log_line line) override { shell().log(line.level, line.words); }

 private:
  // ensemble::peer
  std::string const& process() const noexcept override { return who(); }
  void greeted(zookeeper::connect_response const& r) override;
  void answered(zookeeper::reply r) override;
  void answered_ping(std::int64_t zxid) override;
  void noticed(zookeeper::notice n) override;
  void closed(std::string_view why) override { broken(why); }

  // link
  input welcome(time_point asked) override;
  void refused(std::string_view why, time_point now) override;
  void lost(std::string_view why, time_point now) override;
  void left() override { at().nodes().forget(*this); }

  zookeeper::wire_events* events_ = nullptr;
  std::int64_t session_ = 0;
};

}  // namespace conch::simulated
