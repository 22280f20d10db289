// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/redis/dialogue.hpp"
#include "servers/redis/locator.hpp"
#include "servers/redis/topology/sentinel.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace conch::redis {

/// The settings of the connections to Sentinels.
config settings_of_sentinels(config c);

/// The master in an answer to SENTINEL GET-MASTER-ADDR-BY-NAME that is not null. None: the answer is not an address.
std::optional<named_master> read_named_master(std::span<resp::node const> message);

/// The exchange with one Sentinel: HELLO, its id, a subscription to +switch-master, the other Sentinels, and the
/// master, for which it is asked again and again. And where that Sentinel is: both roles of the connection to it. No
/// I/O.
class sentinel_talk final : public dialogue, public locator {
 public:
  using owner = topology_owner;

  /// It is the Sentinel with this number. `core` and `of` outlive this.
  sentinel_talk(sentinels& core, std::size_t number, owner& of) : core_{core}, number_{number}, owner_{of} {}

  location locate(address& to, time_point now) override;
  std::string begin(address const& where, std::string const& client_name) override;
  progress received(std::span<resp::node const> message, bool is_push, time_point now) override;
  void ended(protocol::fault what, std::string_view why) override;

  /// The bytes that ask for the master. Only on a connection for which received() has returned `done`.
  std::string question();

 private:
  enum class reply : std::uint8_t { hello, id, subscribed, others, epoch, master };

  progress understood(std::span<resp::node const> message, bool is_push, time_point now);
  progress answer(reply what, std::span<resp::node const> message);
  progress hello(std::span<resp::node const> message);
  void read_others(std::span<resp::node const> message);
  progress read_master(std::span<resp::node const> message);
  void ask(std::string& out);

  sentinels& core_;
  std::size_t const number_;
  owner& owner_;
  std::deque<reply> expected_;
  bool greeted_ = false;
  std::string id_;
  std::int64_t epoch_ = named_master::no_epoch;
};

}  // namespace conch::redis
