// What a simulated process knows of the master by what simulated Sentinels say: the real rules and the real dialogue
// over simulated connections. What src/servers/redis/sentinel_transport does with Asio, this does with the simulated
// network.
#pragma once

#include "servers/redis/topology/sentinel.hpp"
#include "servers/redis/topology/sentinel_talk.hpp"
#include "sim/worlds/sim_connection.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

// A connection to a Sentinel. What is under way in it outlives both ends.
struct sentinel_line {
  int client = 0;
  std::size_t sentinel = 0;
  bool open = true;  // the client's end
  bool subscribed = false;
  std::string received;              // by the Sentinel, not yet a whole command
  nanos last_up = 0, last_down = 0;  // nothing overtakes
  std::function<void(std::string)> to_client;
};

using sentinel_line_ptr = std::shared_ptr<sentinel_line>;

class sim_sentinels final : public redis::locator, private redis::sentinel_talk::owner {
 public:
  // The simulated network, and its observer.
  class outside {
   public:
    // When what is sent now arrives.
    virtual nanos sentinel_delay(sentinel_line& l, bool up) = 0;
    virtual void to_sentinel(sentinel_line_ptr const& l, std::string bytes) = 0;
    // The master is that server now, as far as this process knows.
    virtual void named(std::size_t server) = 0;

   protected:
    ~outside() = default;
  };

  sim_sentinels(outside& o, sim_connection::shell& of, config const& settings, std::string const& client_id, int client,
                int listed, std::uint64_t seed);
  ~sim_sentinels();

  // The server whose address comes from here.
  void leads(sim_connection& to_master) { to_master_ = &to_master; }
  redis::location locate(redis::address& to, time_point now) override;
  bool end_of_turn();

  static std::string host_of_server(std::size_t server) { return "server" + std::to_string(server); }
  static std::string host_of_sentinel(std::size_t sentinel) { return "sentinel" + std::to_string(sentinel); }
  static std::size_t number_in(std::string_view host);

 private:
  class line;

  void carry_out() override;
  void sleep();
  void look();

  outside& outside_;
  sim_connection::shell& shell_;
  config settings_;
  std::string const client_id_;
  int const client_;
  std::uint64_t const seed_;
  redis::sentinels core_;
  sim_connection* to_master_ = nullptr;
  std::vector<std::unique_ptr<line>> lines_;
  bool begun_ = false;
  time_point slept_until_ = time_point::max();
  std::uint64_t sleep_ = 0;
  std::string named_;
};

}  // namespace conch::sim
