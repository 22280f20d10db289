// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
// The life of a hold: renewals, its loss, and how it is given back.
#include "zookeeper/queue.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::zookeeper {

using engine::receipt;
using at = engine::place::state;

/// A hold lasts as long as the session does, and not longer than the lease that was asked for. No message: the heartbeat is for all holds.
void queue::renew(std::span<engine::place* const> places, time_point now) {
  bool any_waits = false;
  for (engine::place* p : places) {
    auto& s = static_cast<standing&>(*p);
    if (s.at != at::owned || !s.may_renew(now) || s.made_in != sessions_) continue;
    watch_own(s, now);
    if (prolong(s, now)) {
      up_.extended(s, now);
    } else {
      s.wants_renewal = any_waits = true;
    }
  }
  if (any_waits) session_.prove_soon(now);
}

/// A hold that lasts long enough to be renewed is told if somebody removes its node. A short one costs no message for that.
void queue::watch_own(standing& s, time_point now) {
  if (!connected() || std::exchange(s.watches_itself, true)) return;
  watch(s, s.node, now);
}

/// Nobody asks for it, so others may have the lock by now.
void queue::removed(standing& s, time_point now) {
  std::vector<standing*> const all = sharing_with(s);
  for (standing* one : all) {
    ++one->references;
    dismount(*one);
  }
  all.front()->riders.clear();
  for (standing* one : all) {
    if (one->at == at::owned) {
      become_idle(*one);
      up_.lost(*one, now);
    } else if (one->waits()) {  // it was to have the node as well
      ask_anew(*one, now);
    }
    drop(*one);
  }
}

bool queue::prolong(standing& s, time_point now) {
  time_point const full = now + validity(lease_of(s));
  time_point const until = std::min(session_.deadline(), full);
  if (until <= s.deadline || now >= s.deadline) return false;
  s.deadline = until;
  s.valid_from = s.heard_from = now;
  s.confirmed = s.confirmed || until >= s.full_until;
  s.wants_renewal = false;
  ++stats_.renewals;
  return true;
}

void queue::proved(time_point now) {
  std::vector<standing*> to_look_at;
  active_.for_each([&](standing& s) {
    if (s.made_in != sessions_ || !(s.has_turn || s.wants_renewal)) return;
    ++s.references;
    to_look_at.push_back(&s);
  });
  for (standing* s : to_look_at) {
    if (s->has_turn && (s->waits() || s->at == at::leaving)) take_turn(*s, s->by_push, now);
    else if (s->at == at::owned && s->wants_renewal && s->may_renew(now) && prolong(*s, now)) up_.extended(*s, now);
    drop(*s);
  }
}

void queue::release(engine::place& p, std::optional<engine::milliseconds> again, receipt* r, time_point now) {
  auto& s = static_cast<standing&>(p);
  bool const valid = s.deadline > now;
  ++s.references;
  bool const is_last = step_out(s, now);
  if (!is_last) {
    if (r != nullptr) up_.released(*r, valid || s.made_in == sessions_, {}, now);
  } else {
    owe(s, r, now, valid);
  }
  if (again) ask(s, true, *again, now);
  drop(s);
}

}  // namespace conch::zookeeper
