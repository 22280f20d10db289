// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/introducing.hpp"

#include "base/introduction.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::engine {

namespace {

constexpr duration introduced_after = std::chrono::seconds{1}, longest_pause = std::chrono::seconds{30};

bool is_introduced(acquisition_phase now) noexcept {
  using phase = acquisition_phase;
  return now == phase::fresh || now == phase::waiting || now == phase::staying || now == phase::holding;
}

}  // namespace

void introducing::add(noted_acquire& n, time_point now) {
  // What introduces this wait arrives before the first question about it.
  n.old_at_ = n.next_look_ = now + introduced_after;
  n.pause_ = introduced_after;
  n.is_introduced_ = !n.note().empty();
  if (n.is_introduced_) {
    introduced_.push_back(n);
    is_outdated_ = true;
  } else {
    young_.push_back(n);
    come_back(n.old_at_);
  }
}

void introducing::changed(noted_acquire& n) noexcept {
  if (!n.linked() || n.is_touched_) return;
  if (n.is_introduced_) {
    is_outdated_ = true;
  } else {
    n.is_touched_ = true;
    n.next_touched_ = std::exchange(touched_, &n);
  }
}

void introducing::settle(time_point now) {
  while (touched_ != nullptr) {
    noted_acquire& one = *std::exchange(touched_, touched_->next_touched_);
    one.is_touched_ = false;
    leave_if_ended(one);
  }
  if (is_outdated_) send_changes(now);
}

void introducing::drop() noexcept {
  touched_ = nullptr;
  for (list<noted_acquire>* const all : {&introduced_, &young_}) all->for_each([](noted_acquire& one) { leave(one); });
  come_back_.cancel();
}

void introducing::leave(noted_acquire& one) noexcept {
  one.unlink();
  one.left();
}

void introducing::leave_if_ended(noted_acquire& one) noexcept {
  if (!is_introduced(one.phase())) leave(one);
}

void introducing::come_back(time_point at) {
  if (!come_back_.armed() || at < come_back_.at()) timers_.arm(come_back_, at);
}

introducing::texts introducing::texts_to_send(time_point now) {
  introduction own{*settings_.label, {}};
  std::map<std::string, introduction, std::less<>> tasks;
  introduced_.for_each([&](noted_acquire& one) {
    bool const is_old = one.old_at_ <= now;
    if (one.has_task() && !is_old) come_back(one.old_at_);
    std::string const lock{one.lock()}, note{one.note()}, task = one.has_task() && is_old ? one.task() : std::string{};
    own.uses.push_back({lock, note, one.fence() / hand_offs_per_grant, task});
    if (!task.empty() && one.phase() != acquisition_phase::holding)
      tasks[task].uses.push_back({lock, note, 0, client_});
  });
  texts all;
  if (!own.label.empty() || !own.uses.empty()) all[client_] = to_text(own);
  for (auto const& [id, task] : tasks) all[id] = to_text(task);
  return all;
}

void introducing::look_for_deadlocks(time_point now) {
  if (!settings_.detect_deadlocks || !servers_->offers().wait_chains) return;
  introduced_.for_each([&](noted_acquire& one) {
    if (!one.has_task() || one.phase() != acquisition_phase::waiting) return;
    if (one.next_look_ <= now) {
      finder_.look_for_deadlock(one);
      one.next_look_ = now + one.pause_;
      one.pause_ = std::min<duration>(2 * one.pause_, longest_pause);
    }
    come_back(one.next_look_);
  });
}

void introducing::send_changes(time_point now) {
  is_outdated_ = false;
  introduced_.for_each(leave_if_ended);
  while (!young_.empty() && young_.front().old_at_ <= now) {
    noted_acquire& one = young_.pop_front();
    one.is_introduced_ = true;
    introduced_.push_back(one);
    leave_if_ended(one);
  }
  if (!young_.empty()) come_back(young_.front().old_at_);
  look_for_deadlocks(now);
  texts texts_now = texts_to_send(now);
  for (auto const& [id, text] : sent_) {
    if (!texts_now.contains(id)) servers_->introduce(id, {}, now);
  }
  for (auto const& [id, text] : texts_now) {
    auto const before = sent_.find(id);
    if (before == sent_.end() || before->second != text) servers_->introduce(id, text, now);
  }
  sent_ = std::move(texts_now);
}

}  // namespace conch::engine
