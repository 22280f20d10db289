// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "client/noted.hpp"
#include "engine/cohort.hpp"

#include <conch/mutex.hpp>

#include <boost/asio/any_completion_executor.hpp>

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::detail {

/// An operation that is neither an acquire nor a release, and has not completed.
class pending_call {
 public:
  virtual ~pending_call() = default;

  /// Posts the completion.
  virtual void complete(asio::any_io_executor const& io, error_code why, bool is_held) = 0;
  /// The context is gone: destroys the handler without a call.
  virtual void drop() = 0;
};

/// A pending_call with its handler, and what keeps the handler's context at work.
template <class Handler>
struct handler_call : pending_call {
  explicit handler_call(Handler h) : handler{std::move(h)} {}
  /// The handler may own a cancellation slot that refers to the call: this circle ends when the handler is destroyed.
  void drop() final {
    auto const dropped{std::move(handler)};
    runs_on = {};
  }

  Handler handler;
  asio::any_completion_executor runs_on = {};  // work_of the handler
};

/// One async_lost, async_requested, async_renewed or async_endangered.
struct hold_watcher final : handler_call<lost_handler> {
  hold_watcher(lost_handler h, hold_event what) : handler_call{std::move(h)}, event{what} {}
  void complete(asio::any_io_executor const& io, error_code why, bool) override;

  hold_event const event;
  // its entry in pending_calls::watchers; with the client locked
  std::optional<std::list<std::shared_ptr<hold_watcher>>::iterator> at_hold = {};
};

/// One async_extend.
struct extension_call final : handler_call<release_handler> {
  using handler_call::handler_call;
  void complete(asio::any_io_executor const& io, error_code why, bool is_held) override;
};

/// The async_detach of a hold.
struct detach_call final : handler_call<detach_handler> {
  using handler_call::handler_call;
  void complete(asio::any_io_executor const& io, error_code why, bool) override;

  std::string text = {};
};

/// The operations of one hold that have not completed.
struct pending_calls {
  std::list<std::shared_ptr<hold_watcher>> watchers;
  std::vector<std::shared_ptr<extension_call>> extensions;
  std::shared_ptr<detach_call> detaching;
};

/// One acquire and the hold that it becomes: the cohort's record of it, and the handlers to be called. It is counted,
/// because the cohort, a hold, operations under way and their cancellation slots refer to it.
class hold_node final : public engine::acquisition {
 public:
  hold_node(core_ptr c, acquire_handler handler) : core{std::move(c)}, on_acquired{std::move(handler)} {}

  core_ptr core;  // until the last reference goes
  acquire_handler on_acquired;
  release_handler on_released;
  // of the operation under way, work_of its handler; empty: it runs on the client's executor
  asio::any_completion_executor runs_on;
  std::unique_ptr<pending_calls> calls;  // most holds have none; with the client locked
  std::unique_ptr<noted> note;           // most have none
  error_code loss;                       // with the client locked
  std::atomic<bool> given_back{false};   // its hold is released or destroyed
  std::atomic<int> references{0};

  pending_calls& made_calls() {
    if (!calls) calls = std::make_unique<pending_calls>();
    return *calls;
  }

 private:
  friend class node_list;

  node_ref of_engine_;  // the cohort's own; with the client locked
  hold_node* next_ = nullptr;
  hold_node* previous_ = nullptr;
};

/// The nodes that the cohort refers to, each from its acquire to the cohort's last event about it: if the io_context
/// goes away, their handlers are dropped. With the client locked.
class node_list {
 public:
  hold_node& add(node_ref node) noexcept {
    hold_node& n = *node;
    n.of_engine_ = std::move(node);
    n.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &n;
    first_ = &n;
    return n;
  }

  /// The cohort's reference; empty if it was removed before.
  node_ref remove(hold_node& n) noexcept {
    if (!n.of_engine_) return {};
    if (n.next_ != nullptr) n.next_->previous_ = n.previous_;
    if (n.previous_ != nullptr) {
      n.previous_->next_ = n.next_;
    } else {
      first_ = n.next_;
    }
    n.next_ = n.previous_ = nullptr;
    return std::exchange(n.of_engine_, {});
  }

  std::vector<node_ref> remove_all() {
    std::vector<node_ref> all;
    while (first_ != nullptr) all.push_back(remove(*first_));
    return all;
  }

 private:
  hold_node* first_ = nullptr;
};

}  // namespace conch::detail
