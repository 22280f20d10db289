// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/checked.hpp"
#include "client/completion.hpp"
#include "client/core.hpp"

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
    auto known = std::find_if(clients.begin(), clients.end(), [&](of_client const& c) { return c.core == locks[i]->core; });
    if (known == clients.end()) known = clients.emplace(clients.end(), of_client{locks[i]->core});
    known->wanted.push_back({locks[i], [listener, i](error_code ec, hold h) { listener->answered(i, ec, std::move(h)); }});
  }
  for (settings_ptr const& lock : locks) {
    error_code const wrong = checked_acquire(lock->core->settings(), options);
    if (!wrong) continue;
    asio::post(lock->core->executor(), [listener, wrong, n = locks.size()] {
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
  if (holds.empty()) {
    start_release(node_ref{}, std::move(handler));
    return;
  }
  struct join {
    explicit join(multi_release_handler h) : done{std::move(h)} {}
    multi_release_handler done;
    std::mutex guard;
    std::size_t left = 0;
    bool all_held = true;
    error_code failure;
  };
  asio::any_io_executor const executor = holds.front().node()->core->executor();
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
                    if (last) post_at_once(executor, std::move(state->done), state->failure, state->all_held && !state->failure);
                  }));
  }
}

void start_multi_lost(std::vector<node_ref> const& nodes, multi_lost_handler handler) {
  if (nodes.empty()) {
    start_lost(node_ref{}, std::move(handler));
    return;
  }
  struct first {
    explicit first(multi_lost_handler h) : done{std::move(h)} {}
    multi_lost_handler done;
    std::atomic<bool> told{false};
  };
  asio::any_io_executor const executor = nodes.front()->core->executor();
  auto const state = std::make_shared<first>(std::move(handler));
  for (node_ref const& node : nodes) {
    start_lost(node, asio::bind_executor(executor, [state, executor](error_code ec) {
                 if (!state->told.exchange(true)) post_at_once(executor, std::move(state->done), ec);
               }));
  }
}

}  // namespace detail

}  // namespace conch
