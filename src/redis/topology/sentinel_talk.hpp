// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "redis/dialogue.hpp"
#include "redis/topology/sentinel.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

namespace conch::redis {

/// What is said with one Sentinel: HELLO, its id, a subscription to +switch-master, the other Sentinels, and the master, for which it is asked again
/// and again. No I/O.
class sentinel_talk {
 public:
  using progress = dialogue::progress;

  /// It is the Sentinel with this number. `core` outlives this.
  sentinel_talk(sentinels& core, std::size_t number) : core_{core}, number_{number} {}

  std::string begin(address const& where, std::string const& client_name);
  progress heard(std::span<resp::node const> message, bool is_push, time_point now);
  void ended(protocol::fault what, std::string_view why) { core_.failed(number_, what, why); }
  protocol::fault fault() const noexcept { return fault_; }
  std::string const& why() const noexcept { return why_; }

  /// The bytes that ask for the master. Only on a connection of which heard() has said that it is done.
  std::string question();

 private:
  enum class reply : std::uint8_t { hello, id, subscribed, others, epoch, master };

  progress answer(reply what, std::span<resp::node const> message);
  progress hello(std::span<resp::node const> message);
  progress fail(protocol::fault what, std::string_view why);
  void read_others(std::span<resp::node const> message);
  progress read_master(std::span<resp::node const> message);
  void ask(std::string& out);

  sentinels& core_;
  std::size_t const number_;
  std::deque<reply> expected_;
  bool greeted_ = false;
  std::string id_;
  std::int64_t epoch_ = named_master::no_epoch;
  protocol::fault fault_ = protocol::fault::none;
  std::string why_;
};

}  // namespace conch::redis
