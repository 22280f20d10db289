// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/introducing.hpp"

#include "base/introduction.hpp"
#include "client/levels.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::detail {

namespace {

constexpr duration told_after = std::chrono::seconds{1}, longest_pause = std::chrono::seconds{30};

bool has_ended(hold_node const& n) noexcept {
  using phase = engine::acquisition_phase;
  return n.given_back || (n.phase != phase::fresh && n.phase != phase::waiting && n.phase != phase::staying &&
                          n.phase != phase::holding);
}

}  // namespace

void introducing::add(hold_node& n, time_point now) {
  noted& one = *n.note;
  one.keeps_node = node_ref{&n};
  // What is told of this wait arrives before the first question about it.
  one.old_at = one.next_look = now + told_after;
  one.pause = told_after;
  one.is_told = !one.note.empty();
  if (one.is_told) {
    told_of_.push_back(one);
    is_outdated_ = true;
  } else {
    young_.push_back(one);
    come_back(one.old_at);
  }
}

void introducing::changed(hold_node& n) noexcept {
  if (!n.note || !n.note->linked() || n.note->is_touched) return;
  noted& one = *n.note;
  if (one.is_told) {
    is_outdated_ = true;
  } else {
    one.is_touched = true;
    one.next_touched = std::exchange(touched_, &one);
  }
}

void introducing::settle(time_point now) {
  while (touched_ != nullptr) {
    noted& one = *std::exchange(touched_, touched_->next_touched);
    one.is_touched = false;
    if (has_ended(one.of)) leave(one);
  }
  if (is_outdated_) tell(now);
}

void introducing::drop() noexcept {
  touched_ = nullptr;
  for (list<noted>* const all : {&told_of_, &young_}) all->for_each([](noted& one) { leave(one); });
  come_back_.cancel();
}

void introducing::leave(noted& one) noexcept {
  one.unlink();
  node_ref const last{std::move(one.keeps_node)};
}

void introducing::come_back(time_point at) {
  if (!come_back_.armed() || at < come_back_.at()) timers_.arm(come_back_, at);
}

introducing::texts introducing::what_to_tell(time_point now) {
  introduction own{*settings_.label, {}};
  std::map<std::string, introduction, std::less<>> tasks;
  told_of_.for_each([&](noted& one) {
    hold_node const& n = one.of;
    std::string const task = one.task && one.old_at <= now ? to_word(one.task->id) : std::string{};
    if (one.task && task.empty()) come_back(one.old_at);
    own.uses.push_back({one.lock->name, one.note, n.fence / engine::hand_offs_per_grant, task});
    if (!task.empty() && n.phase != engine::acquisition_phase::holding)
      tasks[task].uses.push_back({one.lock->name, one.note, 0, client_});
  });
  texts all;
  if (!own.label.empty() || !own.uses.empty()) all[client_] = to_text(own);
  for (auto const& [id, task] : tasks) all[id] = to_text(task);
  return all;
}

void introducing::look_for_deadlocks(time_point now) {
  if (!settings_.detect_deadlocks || !servers_.backend->offers().wait_chains) return;
  told_of_.for_each([&](noted& one) {
    if (!one.task || one.of.phase != engine::acquisition_phase::waiting) return;
    if (one.next_look <= now) {
      finder_.look_for_deadlock(one.of);
      one.next_look = now + one.pause;
      one.pause = std::min<duration>(2 * one.pause, longest_pause);
    }
    come_back(one.next_look);
  });
}

void introducing::tell(time_point now) {
  is_outdated_ = false;
  auto const leave_if_ended = [](noted& one) {
    if (has_ended(one.of)) leave(one);
  };
  told_of_.for_each(leave_if_ended);
  while (!young_.empty() && young_.front().old_at <= now) {
    noted& one = young_.pop_front();
    one.is_told = true;
    told_of_.push_back(one);
    leave_if_ended(one);
  }
  if (!young_.empty()) come_back(young_.front().old_at);
  look_for_deadlocks(now);
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
