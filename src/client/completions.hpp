// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "client/hold_node.hpp"
#include "client/own_executor.hpp"
#include "client/turn_queue.hpp"
#include "protocol/transport.hpp"

#include <memory>
#include <vector>

namespace conch::detail {

/// An operation that has ended. Its handler is called when the client is unlocked.
struct ended {
  enum class kind { granted, not_granted, released, call } what;
  node_ref node;  // of a call: kept until the handler is called; may be empty
  error_code why;
  bool was_held = false;
  std::shared_ptr<pending_call> call = nullptr;
};

/// What has ended with the client locked, and how its handlers are called with the client unlocked: posted to their own
/// executors, posted to the client's, or, if `in_turns` (config::single_threaded), called in a turn.
class completions {
 public:
  completions(own_executor& own, host& owner, node_list& nodes, bool in_turns) noexcept
      : own_executor_{own},
        owner_{owner},
        nodes_{nodes},
        is_in_turns_{in_turns} {}

  // ---- With the client locked.
  void acquired(hold_node& n, bool is_granted, error_code why);
  void released(hold_node& n, bool was_held, error_code why);
  void call(std::shared_ptr<pending_call> c, node_ref keeps, error_code why = {}, bool is_held = false);
  /// Moves what has ended to `batch`, which is empty.
  void take(std::vector<ended>& batch) noexcept { batch.swap(ended_); }

  // ---- With the client unlocked.
  void complete(ended& e);
  /// A handler of the event loop begins, and ends with end_turn(), or with leave_turn() if it throws.
  void begin_turn() noexcept;
  void end_turn();
  void leave_turn();

  /// The context goes away: destroys all handlers without a call. No other thread may use this then.
  void drop();

 private:
  void want_turn();
  template <class Call>
  void end_of_operation(ended& e, Call const& call);

  own_executor& own_executor_;
  host& owner_;
  node_list& nodes_;
  bool const is_in_turns_;
  std::vector<ended> ended_;
  turn_queue<ended> turns_;
};

}  // namespace conch::detail
