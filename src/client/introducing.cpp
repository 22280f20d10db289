// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/introducing.hpp"

#include "base/introduction.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::detail {

namespace {

constexpr duration told_after = std::chrono::seconds{1}, longest_pause = std::chrono::seconds{30};

}  // namespace

void introducing::add(hold_node& n, time_point now) {
  // What is told of this wait arrives before the first question about it.
  all_.push_back({node_ref{&n}, now + told_after, now + told_after, told_after});
  is_outdated_ = true;
}

void introducing::drop() noexcept {
  all_.clear();
  one_is_old_.cancel();
}

introducing::texts introducing::what_to_tell(time_point now) {
  using phase = engine::acquisition_phase;
  introduction own{*settings_.label, {}};
  std::map<std::string, introduction, std::less<>> tasks;
  time_point next = look_for_deadlocks(now);
  for (entry const& one : all_) {
    hold_node const& n = *one.node;
    noted const& of = *n.note;
    bool const is_old = one.old_at <= now, has_task = !of.task.empty();
    if (has_task && !is_old) next = std::min(next, one.old_at);
    if (of.note.empty() && !is_old) continue;
    own.uses.push_back(
        {of.lock->name, of.note, n.fence / engine::hand_offs_per_grant, has_task && is_old ? of.task : std::string{}});
    if (has_task && is_old && n.phase != phase::holding)
      tasks[of.task].uses.push_back({of.lock->name, of.note, 0, client_});
  }
  if (next != timer_queue::never) timers_.arm(one_is_old_, next);
  texts all;
  if (!own.label.empty() || !own.uses.empty()) all[client_] = to_text(own);
  for (auto const& [id, task] : tasks) all[id] = to_text(task);
  return all;
}

time_point introducing::look_for_deadlocks(time_point now) {
  time_point next = timer_queue::never;
  if (!settings_.detect_deadlocks || !servers_.backend->offers().wait_chains) return next;
  for (entry& one : all_) {
    hold_node& n = *one.node;
    if (n.note->task.empty() || n.phase != engine::acquisition_phase::waiting) continue;
    if (one.next_look <= now) {
      finder_.look_for_deadlock(n);
      one.next_look = now + one.pause;
      one.pause = std::min<duration>(2 * one.pause, longest_pause);
    }
    next = std::min(next, one.next_look);
  }
  return next;
}

void introducing::tell(time_point now) {
  using phase = engine::acquisition_phase;
  is_outdated_ = false;
  std::erase_if(all_, [](entry const& one) {
    hold_node const& n = *one.node;
    return n.given_back || (n.phase != phase::fresh && n.phase != phase::waiting && n.phase != phase::staying &&
                            n.phase != phase::holding);
  });
  texts now_told = what_to_tell(now);
  for (auto const& [id, text] : told_) {
    if (!now_told.contains(id)) servers_.backend->introduce(id, {}, now);
  }
  for (auto const& [id, text] : now_told) {
    auto const before = told_.find(id);
    if (before == told_.end() || before->second != text) servers_.backend->introduce(id, text, now);
  }
  told_ = std::move(now_told);
}

}  // namespace conch::detail
