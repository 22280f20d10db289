// What the coroutines of a client do: think, acquire, perhaps cancel, hold, perhaps acquire a second lock under
// the first, learn of a loss, release or drop.
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/sim_levels.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using way = operation::way;

engine::milliseconds as_ms(nanos n) { return engine::milliseconds{n / millisecond}; }

}  // namespace

void sim_client::later(actor& a, nanos delay, void (sim_client::*what)(actor&, time_point)) {
  auto is_void = [this, &a, round = a.round, mine = process_] {
    return !alive_ || process_ != mine || a.round != round;
  };
  auto then = [this, &a, is_void, what] {
    if (is_void()) return;
    input([this, &a, round = a.round, what](time_point now) {
      if (a.round == round) (this->*what)(a, now);
    });
  };
  // Where every order is tried, the user takes no time, but any, unless the plan says how long.
  if (steps* const order = world_.order(); order != nullptr && delay < millisecond) {
    bool const cancels = what == &sim_client::cancel_now;
    auto nothing_to_do = [is_void, cancels, &a] {
      return is_void() || (cancels && (a.outer == nullptr || !a.outer->waiting));
    };
    order->add({stream_of_user(), of_client(number_), world_.now() + world_.schedule().jitter, 0, std::move(then),
                std::move(nothing_to_do)});
  } else {
    world_.after(delay, std::move(then));
  }
}

/// Each of the user's steps is a stream of its own: a cancellation may come before or after anything else.
std::uint64_t sim_client::stream_of_user() { return (process_ << 32 | ++steps_of_user_) * 0x9e3779b97f4a7c15U; }

void sim_client::think(actor& a) {
  if (a.next >= a.todo->work.size()) {
    a.at = actor::state::finished;
    return;
  }
  a.at = actor::state::thinking;
  later(a, current(a).think, &sim_client::begin);
}

void sim_client::next_round(actor& a) {
  a.outer.reset();
  a.inner.reset();
  a.downgrade.reset();
  ++a.round;
  ++a.next;
  think(a);
}

void sim_client::begin(actor& a, time_point now) {
  a.at = actor::state::acquiring;
  a.tried = 0;
  operation const& o = current(a);
  if (o.order != operation::orders::none) {
    give_orders(a, now);
    return;
  }
  if (!o.all.empty()) {
    begin_several(a, now);
    return;
  }
  if (!o.levels.empty()) {
    levels_->begin(a, now);
    return;
  }
  if (o.cancel != operation::cancels::never) later(a, o.cancel_after, &sim_client::cancel_now);
  ask(a, a.outer, o.name, false, now);
}

void sim_client::ask(actor& a, std::unique_ptr<sim_acquisition>& slot, int name, bool is_inner, time_point now) {
  operation const& o = current(a);
  slot = std::make_unique<sim_acquisition>();
  sim_acquisition& x = *slot;
  x.client = this;
  x.who = &a;
  x.lock_number = name;
  x.order = ++asked_;
  x.once = o.how == way::attempt && !is_inner;
  x.fixed = o.fixed;
  x.lease = as_ms(o.lease);
  if (is_inner ? !o.inner_waits : o.how == way::timed) x.until = now + duration{o.patience};
  if (o.max_hold != 0) x.max_hold = duration{o.max_hold};
  x.at_least = as_ms(o.at_least);
  if (world_.tracing()) {
    world_.say("client " + std::to_string(number_) + " " + (is_inner ? "under it " : "") + to_words(o));
  }
  plan const& all = world_.schedule();
  if (all.permits != engine::permit_kind::none) {
    x.owner = o.visited;
    x.permit = {all.permits, all.limit,    o.weight, static_cast<std::uint32_t>(random_.below(all.limit)),
                o.visited,   o.weight == 0};
  }
  world_.watcher().asked(x);
  if (chains_ != nullptr) {
    auto const is_it = [&](auto const& one) { return one.get() == &a; };
    auto const number = std::find_if(actors_.begin(), actors_.end(), is_it) - actors_.begin();
    chains_->add(x, names_[static_cast<std::size_t>(name)], static_cast<std::size_t>(number), now);
  }
  if (plan_.id_jumps && server_->ids().last() < 1'000'000'000'000 && random_.chance(60)) {
    server_->ids().skip(server_->ids().last() * 10 + static_cast<std::uint64_t>(random_.below(9)));
  }
  engine_->acquire(x, name_of(name), now);
}

/// From a partial cancellation on it is settled what the caller is told, which waits for the server's answer.
void sim_client::cancel(sim_acquisition& x, engine::cancel_type type, time_point now) {
  bool const settles = type == engine::cancel_type::partial && x.silence_when_left < 0;
  if (settles) x.silence_when_left = world_.now() - heard_at_;
  engine_->cancel(x, type, now);
}

void sim_client::cancel_now(actor& a, time_point now) {
  sim_acquisition* const x = a.inner != nullptr && a.inner->waiting ? a.inner.get() : a.outer.get();
  if (x == nullptr || !x->waiting) return;
  x->cancelled = true;
  x->cancelled_at = world_.now();
  x->cancel_as = static_cast<engine::cancel_type>(static_cast<int>(current(a).cancel) - 1);
  world_.say("client " + std::to_string(number_) + " cancels its wait for lock " + std::to_string(x->lock_number));
  operation const& o = current(a);
  if (o.cancel_again != operation::cancels::never) later(a, o.cancel_again_after, &sim_client::cancel_again);
  cancel(*x, x->cancel_as, now);
}

void sim_client::cancel_again(actor& a, time_point now) {
  sim_acquisition* const x = a.inner != nullptr && a.inner->waiting ? a.inner.get() : a.outer.get();
  if (x == nullptr || !x->waiting || !x->cancelled || x->cancelled_again) return;
  x->cancelled_again = true;
  x->cancelled_again_at = world_.now();
  x->cancel_again_as = static_cast<engine::cancel_type>(static_cast<int>(current(a).cancel_again) - 1);
  world_.say("client " + std::to_string(number_) + " cancels its wait for lock " + std::to_string(x->lock_number) +
             " once more");
  cancel(*x, x->cancel_again_as, now);
}

void sim_client::hear(notice const& n) {
  time_point const now = local_now();
  sim_acquisition& x = *n.about;
  actor& a = *x.who;
  if (a.several != nullptr) {
    hear_several(n, now);
    return;
  }
  if (x.level != nullptr || x.shared != nullptr) {
    levels_->hear(n, now);
    return;
  }
  switch (n.what) {
    case notice::kind::acquired: heard_acquired(n, now); return;
    case notice::kind::lost:
      world_.say("client " + std::to_string(number_) + " loses lock " + std::to_string(x.lock_number));
      if (a.at == actor::state::inside || a.at == actor::state::acquiring)
        later(a, current(a).after_loss, &sim_client::leave);
      return;
    case notice::kind::detached:
      world_.say("client " + std::to_string(number_) + " has let go of lock " + std::to_string(x.lock_number) +
                 (n.why ? ": " + n.why.message() : std::string{}));
      a.outer.reset();
      if (--a.releasing == 0) next_round(a);
      return;
    case notice::kind::released:
      world_.say("client " + std::to_string(number_) + " has released lock " + std::to_string(x.lock_number) +
                 (n.was_held ? "" : ", which it no longer had") + (n.why ? " (" + n.why.message() + ")" : ""));
      if (a.inner.get() == &x) {
        a.inner.reset();
      } else {
        a.outer.reset();
      }
      if (--a.releasing == 0) next_round(a);
      return;
  }
}

void sim_client::heard_acquired(notice const& n, time_point now) {
  sim_acquisition& x = *n.about;
  actor& a = *x.who;
  bool const granted = n.how == engine::acquired::granted;
  if (world_.tracing()) {
    std::string const what = granted ? " has lock " + std::to_string(x.lock_number) + ", fence " +
                                           std::to_string(x.fence) + " id " + engine::to_text(x.id)
                             : n.how == engine::acquired::busy
                                 ? " finds lock " + std::to_string(x.lock_number) + " busy"
                                 : " does not get lock " + std::to_string(x.lock_number) + ": " + n.why.message();
    world_.say("client " + std::to_string(number_) + what);
  }
  operation const& o = current(a);
  bool const is_inner = a.inner.get() == &x;
  if (!granted) {
    bool const again = is_inner && !x.cancelled && !a.outer->told && ++a.tried < o.inner_tries;
    (is_inner ? a.inner : a.outer).reset();
    if (again) {
      later(a, o.hold / 4, &sim_client::go_deeper);
    } else if (a.outer != nullptr) {
      // The body goes on without its second lock.
      a.at = actor::state::inside;
      later(a, o.hold / 2, &sim_client::leave);
    } else {
      next_round(a);
    }
    return;
  }
  if (!is_inner && o.inner >= 0) {
    later(a, o.hold / 4, &sim_client::go_deeper);
    return;
  }
  a.at = actor::state::inside;
  if (o.listens && !is_inner && x.phase == engine::acquisition_phase::holding) {
    x.listens_since = world_.now();
    engine_->watch_requests(x, now);
  }
  if (o.downgrade_after != 0) later(a, o.downgrade_after, &sim_client::downgrade);
  if (o.extend_after != 0) later(a, o.extend_after, &sim_client::extend);
  if (o.guard_after >= 0) later(a, o.guard_after, &sim_client::write_guarded);
  if (o.hold == 0) {
    leave(a, now);
  } else {
    later(a, o.hold, &sim_client::leave);
  }
}

// As client_core does it: the hold is a reader's, or has fewer permits, from here on.
void sim_client::downgrade(actor& a, time_point now) {
  if (a.outer == nullptr || a.at != actor::state::inside || a.outer->phase != engine::acquisition_phase::holding)
    return;
  if (a.outer->permit.weight <= current(a).downgrade_to) return;
  world_.say("client " + std::to_string(number_) + " makes its permit smaller of lock " +
             std::to_string(a.outer->lock_number));
  a.downgrade = std::make_unique<engine::admin_request>();
  engine::admin_request& i = *a.downgrade;
  i.what = engine::admin_request::kind::downgrade;
  i.name = name_of(a.outer->lock_number);
  i.id = a.outer->id;
  i.size = current(a).downgrade_to;
  i.permit = a.outer->permit;
  a.outer->permit.weight = i.size;
  backend().administer(i, *this, now);
}

// As client_core::guard_of makes it. The user's connection is not this client's.
void sim_client::write_guarded(actor& a, time_point) {
  if (a.outer == nullptr || a.at != actor::state::inside || a.outer->phase != engine::acquisition_phase::holding)
    return;
  sim_acquisition const& x = *a.outer;
  guarded_write w{x.lock_number, id_ + "." + engine::to_text(x.id), x.fence / engine::hand_offs_per_grant};
  if (x.permit) w.least_share = x.permit.kind == engine::permit_kind::shared ? x.permit.weight : 1;
  world_.send_guarded(w, current(a).guard_flight);
}

void sim_client::extend(actor& a, time_point now) {
  if (a.outer == nullptr || a.at != actor::state::inside) return;
  operation const& o = current(a);
  sim_acquisition& x = *a.outer;
  if (world_.tracing()) {
    world_.say("client " + std::to_string(number_) + " asks for a lease of " +
               std::to_string(o.extend_to / millisecond) + " ms for lock " + std::to_string(x.lock_number));
  }
  x.extended_at = now;
  x.extension_asked_at = world_.now();
  engine_->extend(x, as_ms(o.extend_to), now);
}

void sim_client::on_admin_answered(engine::admin_request& i, engine::admin_result const& result, error_code why) {
  if (chains_ != nullptr && chains_->answered(i, result, why)) return;
  for (auto const& a : actors_) {
    for (auto const& one : a->orders) {
      if (one.get() != &i) continue;
      order_answered(*one, result, why);
      return;
    }
  }
  if (levels_->answered(i, why)) return;
  bool const done = !why && result.count == 1;
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) +
               (done ? " has a smaller permit of " : " has no smaller permit of ") + i.name);
}

void sim_client::go_deeper(actor& a, time_point now) {
  if (a.outer == nullptr || a.at != actor::state::acquiring) return;
  if (a.outer->told) return;  // lost meanwhile
  ask(a, a.inner, current(a).inner, true, now);
}

void sim_client::leave(actor& a, time_point now) {
  if (!a.orders.empty()) return;
  if (a.at != actor::state::inside && a.at != actor::state::acquiring) return;
  if (a.inner != nullptr && a.inner->waiting) {
    // The body is cancelled: so is what it waits for. It leaves once that is answered.
    if (!a.inner->cancelled) {
      a.inner->cancelled = true;
      a.inner->cancelled_at = world_.now();
      a.inner->cancel_as = engine::cancel_type::terminal;
      cancel(*a.inner, engine::cancel_type::terminal, now);
    }
    return;
  }
  if (current(a).detach && a.outer != nullptr && a.inner == nullptr) {
    let_go(a, now);
    return;
  }
  a.at = actor::state::releasing;
  ++a.round;
  a.releasing = (a.inner != nullptr ? 1 : 0) + (a.outer != nullptr ? 1 : 0);
  if (a.inner != nullptr) give(a, a.inner, now);
  if (a.outer != nullptr) give(a, a.outer, now);
  if (a.releasing == 0) next_round(a);
}

void sim_client::let_go(actor& a, time_point now) {
  sim_acquisition& x = *a.outer;
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + " lets go of lock " + std::to_string(x.lock_number));
  a.at = actor::state::releasing;
  ++a.round;
  a.releasing = 1;
  x.detach_asked_at = world_.now();
  world_.watcher().detaching(x);
  engine_->detach(x, now);
}

void sim_client::adopt(detached_hold const& d) {
  if (!alive_) return;
  input([this, d](time_point now) { take_over(d, now); });
}

/// By an actor that is there for nothing else.
void sim_client::take_over(detached_hold const& d, time_point now) {
  operation o;
  o.name = d.name;
  o.lease = d.lease;
  o.hold = d.hold;
  o.fixed = random_.chance(10);
  o.abandon = random_.chance(15);
  if (random_.chance(15)) o.cancel = static_cast<operation::cancels>(random_.between(1, 3));
  nanos const cancel_after = random_.between(0, 4 * (world_.schedule().latency + world_.schedule().jitter));
  adoptions_.push_back({{o}});
  actor& a = *actors_.emplace_back(std::make_unique<actor>());
  a.todo = &adoptions_.back();
  a.at = actor::state::acquiring;
  a.outer = std::make_unique<sim_acquisition>();
  sim_acquisition& x = *a.outer;
  x.client = this;
  x.who = &a;
  x.lock_number = d.name;
  x.order = ++asked_;
  x.fixed = o.fixed;
  x.lease = as_ms(d.lease);
  x.adopts = std::make_unique<engine::adoption const>(engine::adoption{d.origin, d.first_index});
  plan const& all = world_.schedule();
  if (all.permits != engine::permit_kind::none) x.permit = {all.permits, all.limit, d.share};
  world_.watcher().asked(x);
  if (o.cancel != operation::cancels::never) later(a, cancel_after, &sim_client::cancel_now);
  engine_->acquire(x, name_of(d.name), now);
}

void sim_client::give(actor& a, std::unique_ptr<sim_acquisition>& slot, time_point now) {
  chains_changed(*slot);
  world_.watcher().released(*slot);
  if (!current(a).abandon) {
    engine_->release(*slot, now);
    return;
  }
  world_.say("client " + std::to_string(number_) + " drops lock " + std::to_string(slot->lock_number));
  engine_->abandon(*slot, now);
  world_.watcher().gone(*slot);
  std::erase_if(notices_, [&](notice const& n) { return n.about == slot.get(); });
  slot.reset();
  --a.releasing;
}

}  // namespace conch::sim
