// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/checked.hpp"
#include "client/completion.hpp"
#include "client/core.hpp"
#include "client/hold_node.hpp"

#include <conch/multi_lock.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

// Several locks at once: operations that wait for several answers.
namespace conch {

bool multi_hold::valid() const noexcept {
  return !holds_.empty() && std::all_of(holds_.begin(), holds_.end(), [](hold const& h) { return h.valid(); });
}

time_point multi_hold::deadline() const noexcept {
  time_point first = holds_.empty() ? time_point::min() : time_point::max();
  for (hold const& h : holds_) first = std::min(first, h.deadline());
  return first;
}

std::int64_t multi_hold::fence(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < holds_.size(); ++i) {
    if ((*locks_)[i].name() == name) return holds_[i].fence();
  }
  return 0;
}

multi_lock::multi_lock(std::vector<mutex> locks) {
  if (locks.empty()) {
    throw boost::system::system_error{make_error_code(errc::invalid_config, "a multi_lock needs at least one mutex")};
  }
  std::vector<std::string_view> names;
  for (mutex const& one : locks) names.push_back(one.name());
  std::vector<mutex> ordered;
  for (std::size_t const i : detail::multi_plan::in_order(names)) ordered.push_back(locks[i]);
  locks_ = std::make_shared<std::vector<mutex> const>(std::move(ordered));
}

namespace detail {

void start_tries(std::vector<settings_ptr> const& locks, acquire_options const& options, asio::cancellation_slot slot,
                 std::shared_ptr<tries_listener> listener) {
  struct of_client {
    core_ptr core;
    std::vector<client_core::wanted> wanted = {};
    std::vector<node_ref> nodes = {};
  };
  std::list<of_client> clients;
  for (std::size_t i = 0; i < locks.size(); ++i) {
    auto known =
        std::find_if(clients.begin(), clients.end(), [&](of_client const& c) { return c.core == locks[i]->core; });
    if (known == clients.end()) known = clients.emplace(clients.end(), of_client{locks[i]->core});
    known->wanted.push_back(
        {locks[i], [listener, i](error_code ec, hold h) { listener->answered(i, ec, std::move(h)); }});
  }
  for (settings_ptr const& lock : locks) {
    error_code wrong = lock->core->refusal_of(options);
    // What it gives back because it cannot have all of them would stay locked.
    if (!wrong && options.at_least > duration::zero())
      wrong = make_error_code(errc::not_supported, "acquire_options::at_least of a multi_lock");
    if (!wrong) continue;
    asio::post(lock->core->failures_run_on(), [listener, wrong, n = locks.size()] {
      for (std::size_t i = 0; i < n; ++i) listener->answered(i, wrong, {});
    });
    return;
  }
  listener.reset();  // only the handlers keep it from now on: a client drops its handlers when its context goes
  std::vector<node_ref> all;
  for (of_client& c : clients) {
    c.nodes = c.core->prepare_tries(c.wanted, options);
    all.insert(all.end(), c.nodes.begin(), c.nodes.end());
  }
  // Before any of them can be answered: the operation uses the same slot again after the answers.
  if (slot.is_connected()) {
    slot.assign([all = std::move(all)](asio::cancellation_type type) {
      std::vector<node_ref> const outlive = all;
      for (node_ref const& n : outlive) n->core->cancel(*n, type);
    });
  }
  for (of_client& c : clients) c.core->try_all(c.wanted, std::move(c.nodes), options.wait);
}

void start_multi_release(std::vector<hold> holds, multi_release_handler handler) {
  struct join {
    explicit join(multi_release_handler h) : done{std::move(h)} {}
    multi_release_handler done;
    std::mutex guard;
    std::size_t left = 0;
    bool all_held = true;
    error_code failure;
  };
  asio::any_io_executor const executor = holds.front().node()->core->failures_run_on();
  auto const state = std::make_shared<join>(std::move(handler));
  state->left = holds.size();
  for (auto h = holds.rbegin(); h != holds.rend(); ++h) {
    start_release(h->node(), asio::bind_executor(executor, [state, executor](error_code ec, bool was_held) {
                    bool last = false;
                    {
                      std::lock_guard const guard{state->guard};
                      if (ec && !state->failure) state->failure = ec;
                      state->all_held = state->all_held && was_held;
                      last = --state->left == 0;
                    }
                    if (last)
                      post_at_once(executor, std::move(state->done), state->failure,
                                   state->all_held && !state->failure);
                  }));
  }
}

namespace {

/// Watches several holds. It ends with the first that has something to report, or its cancellation; for renewals with
/// the last, or the first error.
class multi_watch final : public std::enable_shared_from_this<multi_watch> {
 public:
  multi_watch(asio::any_io_executor executor, multi_watch_handler handler)
      : executor_{std::move(executor)},
        runs_on_{work_of(executor_, handler)},
        done_{std::move(handler)} {}

  void start(std::vector<node_ref> const& nodes, hold_event event) {
    left_ = event.what == hold_event::kind::renewal ? nodes.size() : 1;
    auto slot = asio::get_associated_cancellation_slot(done_);
    if (slot.is_connected()) {
      // Weak: the slot may belong to what the handler keeps.
      slot.assign([me = weak_from_this()](asio::cancellation_type) {
        if (auto const self = me.lock()) self->end(asio::error::operation_aborted);
      });
    }
    for (node_ref const& node : nodes) {
      auto handler = asio::bind_executor(executor_, [self = shared_from_this()](error_code ec) { self->ended(ec); });
      std::shared_ptr<hold_watcher> const one = node->core->watch(node, event, std::move(handler));
      std::lock_guard const guard{mutex_};
      watchers_.emplace_back(node, one);
    }
    if (ended_) stop();
  }

 private:
  void ended(error_code ec) {
    if (ec || left_.fetch_sub(1) == 1) end(ec);
  }

  void end(error_code ec) {
    if (ended_.exchange(true)) return;
    post_completion(executor_, std::move(runs_on_), std::move(done_), ec);
    stop();
  }

  void stop() {
    std::vector<std::pair<node_ref, std::weak_ptr<hold_watcher>>> rest;
    {
      std::lock_guard const guard{mutex_};
      rest.swap(watchers_);
    }
    for (auto const& [node, watcher] : rest) {
      if (auto const one = watcher.lock()) node->core->stop_watching(*node, one);
    }
  }

  asio::any_io_executor executor_;
  asio::any_completion_executor runs_on_;
  multi_watch_handler done_;
  std::atomic<std::size_t> left_{1};  // that have nothing to report yet
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::vector<std::pair<node_ref, std::weak_ptr<hold_watcher>>> watchers_;  // weak: each keeps this alive
};

}  // namespace

void start_multi_watch(std::vector<node_ref> const& nodes, hold_event event, multi_watch_handler handler) {
  auto const watch = std::make_shared<multi_watch>(nodes.front()->core->failures_run_on(), std::move(handler));
  watch->start(nodes, event);
}

}  // namespace detail

}  // namespace conch
