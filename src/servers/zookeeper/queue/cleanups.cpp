// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/cleanups.hpp"

#include "base/failure.hpp"
#include "servers/zookeeper/faults.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

using engine::receipt;

cleanups::~cleanups() {
  pending_.splice_back(resting_);
  pending_.splice_back(delayed_);
  while (!pending_.empty()) delete &pending_.pop_front();
}

cleanup& cleanups::make(queue_place& p) {
  auto* const c = new cleanup{p, p.number};
  c->node = p.node;
  c->made_in = p.made_in;
  by_number_.emplace(c->number, c);
  return *c;
}

/// What is left of an idle place is removed.
void cleanups::add(queue_place& p, receipt* r, time_point now, bool was_valid) {
  cleanup& c = make(p);
  ++count_;
  c.was_valid = was_valid;
  wait_for(c, r);
  pending_.push_back(c);
  if (c.made_in != on_.sent.session_number()) return finish(c, was_valid, {}, now);  // it went with its session
  if (!on_.session.is_open()) return;
  if (!c.node.empty()) {
    send(c, now);
  } else if (p.answers_due == 0) {
    on_.sent.search(p, c.number, &c, now);
  }  // otherwise an answer that is under way shows whether there is one
}

void cleanups::add_later(queue_place& p, time_point not_before) {
  cleanup& c = make(p);
  last_delay_ends_ = c.not_before = std::max(not_before, last_delay_ends_);
  delayed_.push_back(c);
  if (!delay_.armed()) on_.env.timers.arm(delay_, c.not_before);
}

void cleanups::delay_is_over(time_point now) {
  while (!delayed_.empty() && delayed_.front().not_before <= now) {
    ++count_;
    resting_.push_back(delayed_.pop_front());
  }
  on_.env.timers.arm(later_, now);
  if (!delayed_.empty()) on_.env.timers.arm(delay_, delayed_.front().not_before);
}

void cleanups::send(cleanup& c, time_point now) {
  c.sent = true;
  on_.sent.send(about::clean_up, remove{c.node}, c.place, &c, now);
}

void cleanups::answered(in_flight const& r, reply const& a, time_point now) {
  cleanup& c = *r.of_cleanup;
  c.sent = false;
  if (a.what == status::ok) {
    on_.sent.progressed();
    finish(c, true, {}, now);
  } else if (a.what == status::no_node) {
    finish(c, c.resent && c.was_valid, {}, now);
  } else if (refusal_of(a.what).then != remedy::none) {
    send_later(c, now);
  } else {
    refused(c, to_error(a.what, "remove " + c.node, on_.session.server()), now);
  }
}

/// The caller is told. But the node would stay for as long as the session lasts, and keep others out: it is removed as
/// soon as the server lets this client do so.
void cleanups::refused(cleanup& c, error_code why, time_point now) {
  receipt* const caller = c.caller;
  if (caller != nullptr) forget(*caller);
  send_later(c, now);
  if (caller != nullptr)
    on_.env.up.released(*caller, c.was_valid, explained(why, {failed_task::kind::releasing, c.place.name}), now);
}

/// The server could not do it now.
void cleanups::send_later(cleanup& c, time_point now) {
  c.resent = true;
  c.sent = false;
  c.unlink();
  resting_.push_back(c);
  on_.env.timers.arm(later_, now + on_.pause.next());
}

/// What came of a creation that was given up: its node, or none.
void cleanups::came_of(std::uint64_t number, std::string node, time_point now) {
  auto const found = by_number_.find(number);
  if (found == by_number_.end() || !found->second->node.empty()) return;
  cleanup& c = *found->second;
  if (node.empty()) return finish(c, false, {}, now);
  c.node = std::move(node);
  send(c, now);
}

void cleanups::finish(cleanup& c, bool was_mine, error_code why, time_point now) {
  queue_place& p = c.place;
  receipt* const caller = c.caller;
  if (caller != nullptr) forget(*caller);
  by_number_.erase(c.number);
  --count_;
  delete &c;
  if (caller != nullptr) on_.env.up.released(*caller, was_mine, why, now);
  on_.all.drop(p);
}

time_point cleanups::late_after(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c != nullptr && c->sent && on_.session.is_open() ? on_.sent.last_answer() + on_.env.settings.command_timeout
                                                          : time_point::min();
}

error_code cleanups::why_not_done(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c == nullptr ? no_answer() : explained(no_answer(), {failed_task::kind::releasing, c->place.name});
}

error_code cleanups::no_answer() const {
  return make_error_code(errc::unreachable,
                         on_.session.is_open() ? "the server has not answered" : on_.session.why_not_open());
}

cleanup* cleanups::find(std::uint64_t number) const {
  auto const found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

cleanup& cleanups::next() {
  cleanup& c = resting_.pop_front();
  pending_.push_back(c);
  return c;
}

void cleanups::rest_all() {
  pending_.splice_back(resting_);
  resting_.splice_back(pending_);
}

void cleanups::interrupted() {
  auto const again = [](cleanup& c) {
    c.resent = c.resent || c.sent;
    c.sent = false;
  };
  pending_.for_each(again);
  resting_.for_each(again);
  rest_all();
}

}  // namespace conch::zookeeper
