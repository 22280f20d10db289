// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
// Leaving a line, giving up, and what is still to be removed.
#include "zookeeper/queue.hpp"

#include "base/failure.hpp"
#include "zookeeper/faults.hpp"
#include "zookeeper/names.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

using engine::receipt;
using at = engine::place::state;

void queue::leave_unless_granted(engine::place& p, time_point now) {
  auto& s = static_cast<standing&>(p);
  if (!s.written || s.carrier != nullptr || !s.riders.empty()) {
    ++s.references;
    step_out(s, now);
    up_.left(s, now);
    return drop(s);
  }
  carry_no_more(s);
  enter(s, at::leaving);
  if (!connected()) {
    timers_.arm(s.check, now + settings_.command_timeout);
  } else if (s.told_on == connections_ && (s.node.empty() || may_list())) {
    list(s, now);  // the lock may be its own already, and the event under way
  } else if (s.told_on == connections_) {
    s.told_on = 0;
    s.unlink();
    resting_.push_back(s);
  }  // else go_on comes first
}

/// It is idle. False: others of its owner have its node, or go on asking for it, so there is nothing to remove.
bool queue::step_out(standing& s, time_point now) {
  bool const is_shared = s.carrier != nullptr || !s.riders.empty();
  if (!s.riders.empty()) pass_on(s, now);
  become_idle(s);
  return !is_shared;
}

void queue::leave(standing& s, time_point now) {
  s.has_turn = false;
  s.leave_sent = true;
  carry_no_more(s);
  unwatch(s);
  send(about::leave, remove{s.node}, s, nullptr, now);
}

void queue::leave_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number || !s.leave_sent || !(s.waits() || s.at == at::leaving)) return;
  bool const is_gone = a.what == status::ok || a.what == status::no_node;
  bool const was_leaving = s.at == at::leaving;
  error_code const refusal = s.refusal;
  while (!s.riders.empty()) fail(*s.riders.front(), refusal, now);  // they ask for the same
  become_idle(s);
  if (!is_gone) owe(s, nullptr, now);
  if (was_leaving) up_.left(s, now);
  else if (refusal) up_.failed(s, refusal, now);
  else up_.busy(s, now);
}

void queue::gone_from_line(standing& s, time_point now) {
  become_idle(s);
  up_.left(s, now);
}

void queue::give_up(engine::place& p, receipt* r, time_point now) {
  auto& s = static_cast<standing&>(p);
  ++s.references;
  if (step_out(s, now) && s.written) {
    owe(s, r, now);
  } else if (r != nullptr) {
    up_.released(*r, false, {}, now);
  }
  --s.references;  // the caller looks whether the place is still needed
}

/// What is left of an idle place is removed.
void queue::owe(standing& s, receipt* r, time_point now, bool was_valid) {
  auto* const c = new cleanup{s, s.number};
  ++cleanups_;
  c->node = s.node;
  c->made_in = s.made_in;
  c->was_valid = was_valid;
  c->whom = r;
  if (r != nullptr) r->pending = c;
  pending_.push_back(*c);
  owed_.emplace(c->number, c);
  if (c->made_in != sessions_) return finish(*c, was_valid, {}, now);  // it went with its session
  if (!connected()) return;
  if (!c->node.empty()) {
    send_cleanup(*c, now);
  } else if (s.tellers == 0) {
    search(s, c->number, c, now);
  }  // else an answer that is under way says whether there is one
}

void queue::send_cleanup(cleanup& c, time_point now) {
  c.sent = true;
  send(about::clean_up, remove{c.node}, c.at, &c, now);
}

void queue::cleanup_answer(in_flight const& r, reply const& a, time_point now) {
  cleanup& c = *r.of_cleanup;
  c.sent = false;
  if (a.what == status::ok) {
    ++progress_;
    finish(c, true, {}, now);
  } else if (a.what == status::no_node) {
    finish(c, c.resent && c.was_valid, {}, now);
  } else if (refusal_of(a.what).then != remedy::none) {
    send_later(c, now);
  } else {
    refused_cleanup(c, to_error(a.what, "remove " + c.node, session_.server(), {}), now);
  }
}

/// The caller is told. But the node would stay for as long as the session lasts, and keep others out: it is removed as soon as the server lets this
/// client do so.
void queue::refused_cleanup(cleanup& c, error_code why, time_point now) {
  receipt* const whom = c.whom;
  if (whom != nullptr) forget(*whom);
  send_later(c, now);
  if (whom != nullptr) up_.released(*whom, c.was_valid, explained(why, {failed_task::kind::releasing, c.at.name}), now);
}

/// The server could not do it now.
void queue::send_later(cleanup& c, time_point now) {
  c.resent = true;
  c.sent = false;
  c.unlink();
  resting_cleanups_.push_back(c);
  timers_.arm(later_, now + pause_before_next());
}

void queue::finish(cleanup& c, bool was_mine, error_code why, time_point now) {
  standing& s = c.at;
  receipt* const whom = c.whom;
  if (whom != nullptr) forget(*whom);
  owed_.erase(c.number);
  --cleanups_;
  delete &c;
  if (whom != nullptr) up_.released(*whom, was_mine, why, now);
  drop(s);
}

void queue::forget(receipt& r) noexcept {
  if (r.pending != nullptr) static_cast<cleanup*>(r.pending)->whom = nullptr;
  r.pending = nullptr;
}

time_point queue::late_after(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c != nullptr && c->sent && connected() ? last_answer_ + settings_.command_timeout : time_point::min();
}

error_code queue::why_not_done(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c == nullptr ? no_answer() : explained(no_answer(), {failed_task::kind::releasing, c->at.name});
}

// ------------------------------------------------------------------------------------ a creation without its answer

/// Was a node made under that number? The server first hears of all that the leader knows. What an earlier connection had under way for this session
/// the leader has carried out by then, or refuses: the session has moved.
void queue::search(standing& s, std::uint64_t number, cleanup* c, time_point now) {
  send(about::nothing, sync{s.folder}, s, c, now);
  if (c != nullptr) c->sent = true;
  send(about::search, get_children{s.folder}, s, c, now);
  in_flight_.back().number = number;
}

/// Of a creation that was given up: its node, or none.
void queue::came_of(std::uint64_t number, std::string node, time_point now) {
  auto const owed = owed_.find(number);
  if (owed == owed_.end() || !owed->second->node.empty()) return;
  cleanup& c = *owed->second;
  if (node.empty()) return finish(c, false, {}, now);
  c.node = std::move(node);
  send_cleanup(c, now);
}

void queue::search_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  bool const is_given_up = r.of_cleanup != nullptr || s.number != r.number || s.at == at::idle;
  if (a.what != status::ok && a.what != status::no_node) {
    std::string const asked = "list " + s.folder;
    if (!is_given_up) return request_refused(s, a.what, asked, now);
    auto const owed = owed_.find(r.number);
    if (owed == owed_.end()) return;
    if (refusal_of(a.what).then != remedy::none) return send_later(*owed->second, now);
    return refused_cleanup(*owed->second, to_error(a.what, asked, session_.server(), {}), now);
  }
  std::string found;
  if (auto const* const all = std::get_if<children>(&a.content)) {
    auto const is_it = [&](std::string const& one) {
      auto const name = read_node_name(one);
      return name && name->client == client_id_ && name->number == r.number;
    };
    auto const one = std::find_if(all->names.begin(), all->names.end(), is_it);
    if (one != all->names.end()) found = s.path_of(*one);
  }
  if (is_given_up) return came_of(r.number, std::move(found), now);
  if (found.empty()) return has_no_node(s, now);
  send(about::found, get_data{found, false}, s, nullptr, now, found);
  list(s, now);
}

void queue::found_answer(in_flight const& r, reply const& a, time_point now) {
  standing& s = *r.at;
  if (s.number != r.number || s.at == at::idle) return came_of(r.number, r.path, now);
  auto const* const node = std::get_if<data>(&a.content);
  bool const is_mine = node != nullptr && node->node.owner == session_.id();
  if (is_mine) return found(s, r.path, node->node.created, now);
  if (node != nullptr || a.what == status::no_node) return has_no_node(s, now);
  request_refused(s, a.what, "read " + r.path, now);
}

}  // namespace conch::zookeeper
