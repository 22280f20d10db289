// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include <algorithm>
#include <utility>
#include <vector>

// Locks that go from one server to another with their slot. The server that has the slot goes on with them like a new connection: clean-ups, then
// requests under the same ids with the old tickets, then renewals. What the other one has in flight is only marked: its answers come, and are
// those of a server that may not have had the slot any more.
namespace conch::protocol {

bool server::keeps(place const& s) const { return client_.servers == nullptr || &client_.servers->keeper(s.slot) == this; }

bool server::keeps(std::string_view name) const { return client_.servers == nullptr || &client_.servers->keeper(name) == this; }

server& server::keeper_of(std::string_view name) { return client_.servers != nullptr ? client_.servers->keeper(name) : *this; }

void server::part(time_point now) {
  mark_in_flight();
  // Clean-ups first: they know their server by themselves, and their places may be idle.
  auto const part_with = [&](cleanup& c) {
    if (!keeps(*c.lock)) client_.servers->keeper(c.lock->slot).receive(c, now);
  };
  pending_cleanups_.for_each(part_with);
  resting_cleanups_.for_each(part_with);
  auto const part_with_place = [&](place& s) {
    if (!keeps(s)) client_.servers->keeper(s.slot).receive(s, now);
  };
  for (list<place>* of : {&holds_, &resting_holds_, &active_, &again_, &resting_}) of->for_each(part_with_place);
  part_with_admin(now);
}

/// Of places that go: the answers are read for nothing but the clock.
void server::mark_in_flight() {
  in_flight_.for_each([&](in_flight& r) {
    if (r.at == nullptr || keeps(*r.at)) return;
    r.moved = true;
    r.at->of = &client_.servers->keeper(r.at->slot);
  });
  for (renewal_batch& batch : renewing_) {
    for (renewed& one : batch.places) {
      if (!batch.way.asking && !keeps(*one.at)) one.id = 0;
    }
  }
  for (tries& batch : trying_) {
    for (std::vector<tried>* of : {&batch.in_script, &batch.later}) {
      for (tried& one : *of) one.moved = one.moved || !keeps(*one.at);
    }
  }
}

/// A request that must not be repeated stays until it is answered.
void server::part_with_admin(time_point now) {
  admin_requests_.for_each([&](admin_request& i) {
    if (keeps(i.name) || (i.written && !may_be_repeated(i))) return;
    by_serial_.erase(i.serial);
    keeper_of(i.name).receive(i, admin_events_, now);
  });
  auto const gone = std::partition(unwatched_.begin(), unwatched_.end(), [&](auto const& one) { return keeps(one.first); });
  for (auto at = gone; at != unwatched_.end(); ++at) {
    server& there = keeper_of(at->first);
    if (!there.on_.link.connected()) continue;
    there.unwatched_.push_back(std::move(*at));
    there.has_received_ = true;
  }
  unwatched_.erase(gone, unwatched_.end());
}

void server::receive(place& s, time_point now) {
  s.unlink();
  s.check.cancel();
  s.of = this;
  s.told_on = 0;
  s.postponed = s.renewing = s.asks_again = false;
  bool const is_new = !s.written && s.at == place::state::asking;
  s.run = is_new ? on_.link.runs().number() : place::no_run;
  has_received_ = true;
  if (!is_new) on_.link.runs().wait_for_others(now);
  if (s.at == place::state::owned) {
    (on_.link.connected() ? resting_holds_ : holds_).push_back(s);
    return;
  }
  if (on_.link.connected()) {
    resting_.push_back(s);
    return;
  }
  active_.push_back(s);
  bool const waits = s.at == place::state::asking || s.at == place::state::in_line;
  if (waits) patience(s, now);
  if (s.at == place::state::leaving) on_.env.timers.arm(s.check, now + on_.env.settings.command_timeout);
}

/// The other server may have carried it out at any time until now.
void server::receive(cleanup& c, time_point now) {
  auto& from = *static_cast<server*>(c.server_of);
  c.unlink();
  c.server_of = this;
  c.lock->of = this;
  has_received_ = true;
  on_.link.runs().wait_for_others(now);
  if (!c.is_kick) {
    --from.cleanups_;
    ++cleanups_;
    if (c.lapsed) --from.lapsed_;
    if (c.lapsed) ++lapsed_;
    c.resent = c.resent || c.sent;
    c.over = std::max(c.over, forgotten_by(c, now));
    c.patient_until = std::max(c.patient_until, now + time_to_greet);
  }
  c.sent = false;
  (on_.link.connected() ? resting_cleanups_ : pending_cleanups_).push_back(c);
}

void server::receive(admin_request& i, admin_events* whose, time_point now) {
  i.unlink();
  i.at = this;
  i.from_us = 0;  // of the other server's clock and owners
  i.written = false;
  if (std::exchange(i.is_known, false) && i.gives_up) {
    i.until = now + on_.env.settings.offline_timeout;
    on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
  }
  admin_events_ = whose;
  admin_requests_.push_back(i);
  by_serial_.emplace(i.serial, &i);
  has_received_ = true;
}

void server::take_over(time_point now) {
  if (!std::exchange(has_received_, false)) return;
  if (!on_.link.connected()) {
    on_.link.want();
    return;
  }
  go_on(now);
  admin_requests_.for_each([&](admin_request& i) {
    if (i.written || i.is_known) return;
    on_.env.timers.arm(i.due, std::min(i.until, i.wait_ends));
    send_admin(i, false, now);
  });
}

/// Its place is with another server now. If it is under an id that is dead by then, no clean-up of it need be under way: nobody knew that it
/// would be carried out.
void server::owe_if_carried_out(place& s, grant_id id, acquire_reply const& reply, time_point now) {
  using kind = acquire_reply::kind;
  server& there = client_.servers->keeper(s.slot);  // an idle place may not know
  bool const has_left_something = reply.what == kind::granted || reply.what == kind::queued || reply.what == kind::unfinished;
  bool const is_dead = s.id != id || s.at == place::state::idle;
  if (has_left_something && is_dead && there.pending_cleanup(id) == nullptr) there.owe(s, id, nullptr, now);
}

void server::ask_once_more(std::set<unsigned> const& slots, time_point now) {
  if (!on_.link.connected()) return;
  std::vector<place*> asking, holding;
  active_.for_each([&](place& s) {  // what is resting is asked for anyway
    if (slots.contains(s.slot) && (s.at == place::state::asking || s.at == place::state::in_line)) asking.push_back(&s);
  });
  holds_.for_each([&](place& s) {
    if (slots.contains(s.slot)) holding.push_back(&s);
  });
  for (place* s : asking) {
    s->asks_again = true;
    ask_once_more(*s, retry_reason::reconnected, now);
  }
  send_renewals(holding, {}, now);
  pending_cleanups_.for_each([&](cleanup& c) {  // what was put off need wait no longer
    if (!c.sent && c.refusals != 0 && slots.contains(c.lock->slot)) on_.env.timers.arm(c.due, now);
  });
  admin_requests_.for_each([&](admin_request& i) {
    bool const hears_nothing = i.what == admin_request::kind::wait_free && i.is_known && slots.contains(client_.servers->slot_of(i.name));
    if (hears_nothing) send_admin(i, false, now);
  });
}

}  // namespace conch::protocol
