// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace conch::detail {

/// Completions that the client calls by itself, without a hop through the event loop for each. A turn is one handler of
/// the event loop: what becomes due in it is called when that handler has ended, which is as good as being next in the
/// loop's queue. What becomes due outside a turn needs its own turn (needs_turn). After a few completions a turn ends,
/// so that the loop serves its other handlers.
///
/// Only for config::single_threaded: one thread uses it, so that no mutex guards it. Elsewhere nothing is pushed.
template <class Item>
class turn_queue {
 public:
  /// A handler of the event loop begins that ends with run().
  void begin() noexcept { in_turn_ = true; }

  /// To be asked before push(): true if the caller must post a handler that runs a turn.
  bool needs_turn() const noexcept { return items_.empty() && !in_turn_; }
  void push(Item&& i) { items_.push_back(std::move(i)); }

  /// The handler has ended: calls complete(item) for what is due, in order. An exception of complete() ends it early.
  /// Follow it by leave() in any case.
  template <class Complete>
  void run(Complete const& complete) {
    constexpr std::size_t more = 16;  // of those that become due meanwhile
    for (std::size_t left = items_.size() + more; left != 0 && !items_.empty(); --left) {
      Item i{std::move(items_.front())};
      items_.pop_front();
      complete(i);
    }
  }

  bool in_turn() const noexcept { return in_turn_; }

  /// Ends the turn. True: something is left, and the caller must post a handler that runs a turn.
  bool leave() noexcept {
    in_turn_ = false;
    return !items_.empty();
  }

  void clear() { items_.clear(); }

 private:
  std::deque<Item> items_;
  bool in_turn_ = false;
};

}  // namespace conch::detail
