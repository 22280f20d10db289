// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "client/hold_node.hpp"

#include <conch/observer.hpp>

#include <string>
#include <utility>
#include <vector>

namespace conch::detail {

/// An event for the observer, with what it names. It keeps the node, so that no other acquire gets the same number
/// before the event is reported.
struct told_event {
  told_event(hold_node& n, engine::observation const& o);

  void tell(observer& whom) const;

  node_ref node;
  std::string name;
  engine::observation what;  // but for its name
  std::int64_t fence;
  bool shared;
};

/// The events of a client, in order, that its observer has not received yet. One handler at a time reports them. With
/// the client locked.
class event_queue {
 public:
  /// True: no handler is pending, and the caller must post one that reports.
  bool push(told_event e) {
    events_.push_back(std::move(e));
    return !std::exchange(is_telling_, true);
  }

  std::vector<told_event> take() { return std::exchange(events_, {}); }

  /// What was taken has been reported. True: more has come, and the caller must post another handler.
  bool tell_more() noexcept { return is_telling_ = !events_.empty(); }

 private:
  std::vector<told_event> events_;
  bool is_telling_ = false;
};

}  // namespace conch::detail
