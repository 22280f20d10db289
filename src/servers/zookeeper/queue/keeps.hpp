// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace conch::zookeeper {

/// The nodes that keep a mutex for a minimum interval (place::at_least), whatever becomes of the node of the grant, of
/// the session and of this client. As long as it lives it removes its own.
class keeps {
 public:
  explicit keeps(common_parts& on) noexcept : on_{on} {}
  keeps(keeps const&) = delete;
  keeps& operator=(keeps const&) = delete;
  ~keeps();

  /// For a place that has its turn. The interval begins with this node.
  void make(queue_place& p, time_point now);
  /// The place has no more use for its node, if it has one: it is removed then.
  void let_go(queue_place& p, time_point not_before, time_point now);
  /// The one of another grant: asks how long it has been there. What is watched next is answered with that.
  void measure(queue_place& p, std::string_view name, time_point now);

  void answered(in_flight const& r, reply const& a, time_point now);
  void interrupted();
  bool has_rest() const noexcept { return !resting_.empty(); }
  /// The first that is due and was not removed for want of a connection.
  void end_next(time_point now);

 private:
  struct kept_node final : list_hook<kept_node> {
    kept_node(keeps& mine, queue_place& p)
        : owner{mine},
          place{p},
          node{p.keep},
          due{this, [](kept_node& k, time_point now) { k.owner.end(k, now); }} {}

    keeps& owner;
    queue_place& place;  // it has a reference to it
    std::string const node;
    timer due;
  };

  void end(kept_node& k, time_point now);

  common_parts& on_;
  std::unordered_map<std::string, std::unique_ptr<kept_node>> all_;  // by path
  // removed, and not answered; due, and not removed
  list<kept_node> sent_, resting_;
};

}  // namespace conch::zookeeper
