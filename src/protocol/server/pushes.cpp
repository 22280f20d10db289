// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/pushes.hpp"

#include "protocol/drift.hpp"
#include "protocol/server/place_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::protocol {

namespace {

/// How many stray grants are given back in one second. Normally there is one now and then, but a client that may
/// publish can send any number. A grant that is not given back goes to the next in the queue when its claim ends.
constexpr int strays_per_second = 100;

}  // namespace

/// The place that the grant is for. A lock with several owners may have several places here.
server_place* pushes::wanted(pushed_grant const& g) {
  server_place* const by_id = ids_.place_of(g.id);
  return g.kind == permit_kind::none && by_id == nullptr ? made_here(on_.env.up.find(g.name)) : by_id;
}

void pushes::granted(pushed_grant const& g, time_point now) {
  ++on_.env.stats.pushes;
  server_place* const s = wanted(g);
  if (s == nullptr || s->id != g.id || s->state == place_state::idle) {
    give_back_stray(g, now);
    return;
  }
  if (s->state == place_state::owned || s->adopts()) return;  // the adopter is in no queue
  if (s->of != &mine_) {
    // Granted before its slot moved, or by one that only believes that it still has it.
    s->of->ask_because_of_push(*s, now);
    return;
  }
  asks_.pushed(*s);
  // A claim ends without a delay, and without a minimum interval. The answer makes it a hold, which does not.
  if (on_.env.settings.verify_pushes || on_.env.settings.lock_delay > duration::zero() ||
      s->at_least > milliseconds{}) {
    asks_.ask_because_of_push(*s, now);
    return;
  }
  if (!fits(*s, g) || !is_plausible(g.fence, now)) {
    ++on_.env.stats.pushes_doubted;
    asks_.ask_because_of_push(*s, now);
    return;
  }

  // The lock was not granted before the local time of the clock sample, plus what the server's clock has advanced
  // since. The claim counts for no longer than our own claim. So the effect of a false message has ended by then.
  milliseconds claim = std::min(g.claim, whole_ms(on_.env.settings.claim));
  bool const known = on_.link.clock().can_place(g.granted_us);
  time_point const from = std::min(on_.link.clock().earliest(g.granted_us), now);
  if (known && from + claim - drift_of(claim) - claim / 4 > now) {
    asks_.take_grant(*s, {.fence = g.fence, .chosen = g.chosen, .from = from, .lease = claim, .pushed = true}, now);
    return;
  }
  // The claim may be over already. To ask again renews it if it is still ours, and otherwise puts us back in our place
  // in line.
  ++on_.env.stats.pushes_late;
  asks_.ask_because_of_push(*s, now);
}

/// Does the grant fit the place? It need not come from a script: any client that may publish to our channel, and knows
/// the id, can write one.
bool pushes::fits(server_place const& p, pushed_grant const& g) {
  bool const same_lock = !p.permit || (g.kind == p.permit.kind && g.name == p.name);
  return same_lock && is_possible(p.permit, g.chosen);
}

/// A fence is what the server's clock shows. It is one more than the last fence if that clock was set back, or if other
/// clocks run ahead. The guarded resource refuses all lower fences until the clock has passed this one: so the harm of
/// a false fence is over within a claim, too.
bool pushes::is_plausible(std::int64_t fence, time_point now) const {
  if (!is_usable(fence)) return false;
  if (!on_.link.clock().is_known()) return true;  // without a sample the push is late in any case
  return fence + fence_epoch_us <=
         on_.link.clock().most_us(now) +
             std::chrono::duration_cast<std::chrono::microseconds>(on_.env.settings.claim).count();
}

/// Gives back a grant that no waiter here wants, unless a release for it is already under way. A release that was
/// refused so far is tried again at once: a server that grants may carry it out now.
void pushes::give_back_stray(pushed_grant const& g, time_point now) {
  ++on_.env.stats.pushes_stray;
  if (strays_since_ == time_point::min() || now - strays_since_ >= std::chrono::seconds{1}) {
    strays_since_ = now;
    strays_ = 0;
  }
  if (++strays_ > strays_per_second) {
    if (!std::exchange(logged_strays_, true)) {
      on_.env.log.note(false, "too many grants that were not asked for: another user publishes to our channel");
    }
    return;
  }
  cleanups& there = on_.slots.at(g.name).pending_cleanups();
  if (cleanup* const c = there.find(g.id); c != nullptr) return there.try_again(*c, now);
  permit const permit{.kind = g.kind, .weight = 1};
  there.add(made_here(permit ? on_.env.up.make_permit_place(g.name, permit) : on_.env.up.find_or_make(g.name)), g.id,
            nullptr, now);
}

/// The present owner is not the one that we know of.
void pushes::lease_ends_in(std::string_view name, grant_id id, milliseconds left, time_point now) {
  if (server_place* const s = in_line_under(name, id)) s->of->lease_ends_in(*s, left, now);
}

/// Our turn came at another server. The server of this connection is its replica now, so the other one counted no
/// subscriber for us. To ask again shows this (READONLY), and leads to a new connection. There the place in line is
/// asked for with the old ticket.
void pushes::missed(std::string_view name, grant_id id, time_point now) {
  // A place that is still asking learns the same from its next answer.
  if (server_place* const s = in_line_under(name, id)) s->of->ask_because_of_push(*s, now);
}

/// The place queued for the lock of that name under that id, or none.
server_place* pushes::in_line_under(std::string_view name, grant_id id) {
  server_place* const permit = ids_.place_of(id);
  server_place* const s = permit != nullptr ? permit : made_here(on_.env.up.find(name));
  return s != nullptr && s->name == name && s->id == id && s->state == place_state::in_line ? s : nullptr;
}

/// An operator has taken the lock away.
void pushes::revoked(std::string_view name, grant_id id, time_point now) {
  if (server_place* const s = owned_under(name, id)) s->of->taken_away(*s, id, now);
}

/// The place that has the lock of that name under that id, or none.
server_place* pushes::owned_under(std::string_view name, grant_id id) {
  server_place* const permit = ids_.place_of(id);
  server_place* const s = permit != nullptr ? permit : made_here(on_.env.up.find(name));
  return s != nullptr && s->name == name && s->id == id && s->state == place_state::owned ? s : nullptr;
}

void pushes::watch_requests(server_place& p, time_point now) {
  if (std::exchange(p.owned.watches_requests, true)) return;
  if (p.owned.requested) {
    on_.env.up.requested(p, now);
  } else if (on_.link.connected()) {
    ask_for_requests(p, now);
  }
}

void pushes::ask_for_requests(server_place& p, time_point now) {
  on_.sent.send(requested_command{p.name, p.fence}, {request_kind::requested, p.id, 0, &p, nullptr, now});
}

void pushes::requested_answered(in_flight const& r, answer const& a, time_point now) {
  server_place& p = *r.place;
  bool const still = p.id == r.id && p.state == place_state::owned && !r.moved;
  if (a.what == fault::reconnect) {
    on_.link.drop(a.words);
  } else if (a.what == fault::none && still && read_session(a).count != 0) {
    asked_to_let_go(p, now);
  } else if (a.what != fault::none) {
    on_.link.note_once(a.words);  // the pushes still notify
  }
  on_.all.drop(p);
}

void pushes::requested(std::string_view name, grant_id id, time_point now) {
  if (server_place* const s = owned_under(name, id)) asked_to_let_go(*s, now);
}

void pushes::asked_to_let_go(server_place& p, time_point now) {
  if (std::exchange(p.owned.requested, true)) return;
  on_.env.up.requested(p, now);
}

}  // namespace conch::protocol
