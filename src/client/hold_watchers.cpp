// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/hold_watchers.hpp"

#include <boost/asio/error.hpp>

#include <utility>

namespace conch::detail {

void hold_watchers::add(hold_node& n, std::shared_ptr<hold_watcher> w) {
  auto& watchers = n.made_calls().watchers;
  hold_watcher& added = *w;
  added.at_hold = watchers.insert(watchers.end(), std::move(w));
}

void hold_watchers::stop(hold_node& n, std::shared_ptr<hold_watcher> const& w) {
  if (!w->at_hold) return;
  n.calls->watchers.erase(*std::exchange(w->at_hold, std::nullopt));
  results_.call(w, node_ref{&n}, asio::error::operation_aborted);
}

void hold_watchers::stop_all(hold_node& n, error_code why) {
  if (!n.calls) return;
  for (auto const& w : n.calls->watchers) {
    w->at_hold.reset();
    results_.call(w, node_ref{&n}, why);
  }
  n.calls->watchers.clear();
}

void hold_watchers::requested(hold_node& n) {
  notify(n, [](hold_event const& e) { return e.what == hold_event::kind::request; });
}

void hold_watchers::renewed(hold_node& n) {
  if (!n.calls) return;
  time_point const deadline = n.deadline();
  notify(n, [deadline](hold_event const& e) { return e.what == hold_event::kind::renewal && deadline > e.known; });
}

void hold_watchers::endangered(hold_node& n) {
  notify(n, [](hold_event const& e) { return e.what == hold_event::kind::danger; });
}

/// Completes those that wait for what has happened.
template <class Predicate>
void hold_watchers::notify(hold_node& n, Predicate wants) {
  if (!n.calls) return;
  auto& watchers = n.calls->watchers;
  for (auto it = watchers.begin(); it != watchers.end();) {
    std::shared_ptr<hold_watcher> const w = *it;
    if (!wants(w->event)) {
      ++it;
      continue;
    }
    it = watchers.erase(it);
    w->at_hold.reset();
    results_.call(w, node_ref{&n});
  }
}

}  // namespace conch::detail
