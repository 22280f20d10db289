#include "sim/worlds/sim_levels.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using step_of = engine::owner_levels::step;
using wait_end = engine::owner_levels::wait_end;
using after_exit = engine::owner_levels::after_exit;
using state = sim_level::state;
using phase = engine::acquisition_phase;

}  // namespace

actor::actor() = default;
actor::~actor() = default;

void sim_level::wake() noexcept { of.end_wait_soon(*this); }

sim_levels::sim_levels(sim_client& c) : client_{c}, judge_{c.world_, c} {}

sim_levels::~sim_levels() = default;

void sim_levels::later(sim_level& l, nanos delay, step what) {
  actor& a = l.who;
  client_.world_.after(delay, [this, &l, &a, round = a.round, mine = client_.process_, what] {
    if (!client_.alive_ || client_.process_ != mine || a.round != round) return;
    client_.input([this, &l, &a, round, what](time_point now) {
      if (a.round == round) (this->*what)(l, now);
    });
  });
}

void sim_levels::say(sim_level const& l, std::string const& what) const {
  if (!client_.world_.tracing()) return;
  client_.world_.say("client " + std::to_string(client_.number_) + ", " + l.by.id + " " + what + " lock " +
                     std::to_string(l.lock_number) + (l.todo.writes ? " to write" : " to read"));
}

engine::level_lock sim_levels::lock_of(sim_level const& l) const {
  return {&client_, client_.names_[static_cast<std::size_t>(l.lock_number)], client_.world_.schedule().permits};
}

std::vector<sim_level const*> sim_levels::all() const {
  std::vector<sim_level const*> found;
  for (auto const& a : client_.actors_) {
    for (auto const& l : a->levels) found.push_back(l.get());
  }
  return found;
}

// ------------------------------------------------------------------------------------------------------------ an
// acquire

void sim_levels::begin(actor& a, time_point) {
  operation const& o = client_.current(a);
  auto& by = owners_[o.owner];
  if (by == nullptr) by = std::make_unique<sim_owner>(sim_owner{o.owner, "owner L" + std::to_string(o.owner), {}});
  a.levels.clear();
  for (operation::level const& todo : o.levels) {
    a.levels.push_back(std::make_unique<sim_level>(*this, a, *by, todo));
    a.levels.back()->lock_number = o.name;
    later(*a.levels.back(), todo.after, &sim_levels::begin_one);
  }
}

void sim_levels::begin_one(sim_level& l, time_point now) {
  if (l.todo.how == operation::way::timed && l.todo.patience != 0) l.until = now + duration{l.todo.patience};
  if (l.todo.cancel != operation::cancels::never) later(l, l.todo.cancel_after, &sim_levels::cancel);
  enter(l, now);
}

void sim_levels::enter(sim_level& l, time_point now) {
  auto const entered = l.by.levels.enter(lock_of(l), l.use(), l.is_attempt(), now);
  judge_.entered(l, entered, all(), now);
  switch (entered.next) {
    case step_of::nests:
      say(l, "nests in");
      l.in = std::static_pointer_cast<sim_hold>(entered.in);
      inside(l, now);
      return;
    case step_of::refused:
      say(l, "would wait for itself at");
      over(l);
      return;
    case step_of::busy:
      say(l, "is busy with");
      over(l);
      return;
    case step_of::waits:
      say(l, "waits for itself at");
      l.at = state::in_line;
      l.called = l.has_turn = l.ending = false;
      l.by.levels.wait(lock_of(l), l);
      if (l.until != time_point::max()) later(l, client_.until(l.until), &sim_levels::too_late);
      return;
    case step_of::asks: ask(l, now); return;
  }
}

void sim_levels::ask(sim_level& l, time_point now) {
  say(l, "asks for");
  operation const& o = client_.current(l.who);
  l.at = state::asking;
  l.asked = std::make_unique<sim_acquisition>();
  sim_acquisition& x = *l.asked;
  x.client = &client_;
  x.who = &l.who;
  x.level = &l;
  x.owner = l.by.id;
  x.lock_number = l.lock_number;
  x.order = ++client_.asked_;
  x.once = l.todo.how == operation::way::attempt;
  x.fixed = o.fixed;
  x.lease = engine::milliseconds{o.lease / millisecond};
  if (l.todo.how == operation::way::timed) x.until = l.todo.patience == 0 ? now : std::max(l.until, now + duration{1});
  if (o.max_hold != 0) x.max_hold = duration{o.max_hold};
  x.permit = engine::permit_of_level(client_.world_.schedule().permits, l.by.id, l.use());
  client_.world_.watcher().asked(x);
  client_.engine_->acquire(x, name_of(l.lock_number), now);
}

void sim_levels::too_late(sim_level& l, time_point) {
  if (l.at == state::in_line) end_wait_soon(l);
}

/// The timer of the wait has fired; its handler runs in its turn.
void sim_levels::end_wait_soon(sim_level& l) {
  if (std::exchange(l.ending, true)) return;
  later(l,
        client_.random_.chance(50) ? 0
                                   : client_.random_.between(0, client_.world_.schedule().timer_lateness + millisecond),
        &sim_levels::end_wait);
}

void sim_levels::end_wait(sim_level& l, time_point now) {
  if (l.at != state::in_line) return;
  wait_end const why = l.by.levels.end_wait(lock_of(l), l, l.cancelled);
  judge_.waited(l, why, now);
  switch (why) {
    case wait_end::asks: ask(l, now); return;
    case wait_end::looks_anew: enter(l, now); return;
    case wait_end::timed_out:
    case wait_end::is_cancelled:
      say(l, "waits no more for");
      over(l);
      return;
  }
}

void sim_levels::cancel(sim_level& l, time_point now) {
  if (l.at == state::in_line) {
    say(l, "cancels its wait for");
    l.cancelled = true;
    end_wait_soon(l);
  } else if (l.at == state::asking && l.asked->waiting) {
    say(l, "cancels its wait for");
    sim_acquisition& x = *l.asked;
    x.cancelled = true;
    x.cancelled_at = client_.world_.now();
    x.cancel_as = static_cast<engine::cancel_type>(static_cast<int>(l.todo.cancel) - 1);
    client_.cancel(x, x.cancel_as, now);
  }
}

void sim_levels::hear(sim_client::notice const& n, time_point now) {
  sim_acquisition& x = *n.about;
  switch (n.what) {
    case sim_client::notice::kind::acquired: {
      sim_level& l = *std::exchange(x.level, nullptr);
      if (n.how == engine::acquired::granted) {
        say(l, "has");
        auto const first = std::make_shared<sim_hold>(l.use(), std::move(l.asked));
        x.shared = first.get();
        holds_.push_back(first);
        auto const before = l.by.levels.granted(lock_of(l), first);
        l.in = first;
        inside(l, now);
        judge_.granted(l);
      } else {
        say(l, n.how == engine::acquired::busy ? "finds busy" : "does not get");
        l.asked.reset();
        if (client_.world_.schedule().permits == engine::permit_kind::shared) l.by.levels.not_granted(lock_of(l));
        over(l);
      }
      return;
    }
    case sim_client::notice::kind::lost:
      client_.world_.say("client " + std::to_string(client_.number_) + " loses lock " + std::to_string(x.lock_number) +
                         " and all its levels");
      for (auto const& a : client_.actors_) {
        for (auto const& l : a->levels) {
          if (l->at == state::inside && l->in.get() == x.shared) later(*l, l->todo.after_loss, &sim_levels::leave);
        }
      }
      return;
    case sim_client::notice::kind::released: {
      sim_hold const& h = *x.shared;
      for (auto const& a : client_.actors_) {
        for (auto const& l : a->levels) {
          if (l->at != state::releasing || l->in.get() != &h) continue;
          say(*l, n.was_held ? "has released" : "has released what it no longer had:");
          forget(h);
          over(*l);
          return;
        }
      }
      return;
    }
    case sim_client::notice::kind::detached: return;  // no hold of levels leaves its client
  }
}

// ------------------------------------------------------------------------------------------------------------- the end

void sim_levels::inside(sim_level& l, time_point) {
  l.at = state::inside;
  operation const& o = client_.current(l.who);
  if (o.guard_after >= 0) later(l, o.guard_after, &sim_levels::write_guarded);
  later(l, l.todo.hold, &sim_levels::leave);
}

/// As sim_client::write_guarded. Once its owner only reads, the guard of every level is a reader's.
void sim_levels::write_guarded(sim_level& l, time_point) {
  if (l.at != state::inside || l.in->x->phase != phase::holding) return;
  sim_acquisition const& x = *l.in->x;
  guarded_write w{x.lock_number, client_.id_ + "." + engine::to_text(x.id), x.fence / engine::hand_offs_per_grant};
  w.least_share = x.permit.kind == engine::permit_kind::shared ? x.permit.weight : 1;
  client_.world_.send_guarded(w, client_.current(l.who).guard_flight);
}

void sim_levels::leave(sim_level& l, time_point now) {
  if (l.at != state::inside) return;
  say(l, l.todo.abandon ? "drops a level of" : "leaves a level of");
  l.at = state::releasing;
  after_exit const left = l.by.levels.exit(lock_of(l), *l.in, l.use(), now);
  judge_.left(l, left, all());
  switch (left) {
    case after_exit::nothing: over(l); return;
    case after_exit::release: give_back(l, now); return;
    case after_exit::becomes_reader:
      l.at = state::becomes_reader;
      order(l.in, l.todo.abandon ? nullptr : &l, now);
      if (l.todo.abandon) over(l);
      return;
  }
}

void sim_levels::give_back(sim_level& l, time_point now) {
  sim_hold& h = *l.in;
  h.given_back = true;
  client_.world_.watcher().released(*h.x);
  if (!l.todo.abandon) {
    client_.engine_->release(*h.x, now);
    return;
  }
  client_.engine_->abandon(*h.x, now);
  client_.turn_is_over(*h.x);
  client_.world_.watcher().gone(*h.x);
  std::erase_if(client_.notices_, [&](sim_client::notice const& n) { return n.about == h.x.get(); });
  forget(h);
  over(l);
}

/// As client_core::ask and answered_here.
void sim_levels::order(std::shared_ptr<sim_hold> of, sim_level* whose, time_point now) {
  if (client_.world_.tracing())
    client_.world_.say("client " + std::to_string(client_.number_) + " makes a reader of its writer");
  reader_order& o = orders_.emplace_back();
  o.of = std::move(of);
  o.whose = whose;
  o.asked_at = client_.world_.now();
  o.what = engine::admin_request::kind::downgrade;
  o.size = 1;
  o.gives_up = whose != nullptr;
  o.permit = o.of->asked_for;
  sim_acquisition& x = *o.of->x;
  o.name = name_of(x.lock_number);
  x.permit.weight = 1;  // nobody of the owner writes from here on
  bool const held = x.phase == phase::holding && !o.of->given_back;
  if (held && !client_.closed_) {
    o.held_at = x.lock->place.get();
    client_.engine_->administer(o, client_, now);
  } else {
    answered(o, make_error_code(client_.closed_ ? errc::closed : x.phase == phase::lost ? errc::lost : errc::not_held));
  }
}

bool sim_levels::answered(engine::admin_request const& i, error_code why) {
  auto const found = std::find_if(orders_.begin(), orders_.end(), [&](reader_order const& o) { return &o == &i; });
  if (found == orders_.end()) return false;
  if (found->answered) throw violation{11, client_.id_ + " is answered twice that a writer reads"};
  found->answered = true;
  found->why = why;
  client_.later(0, [this, o = &*found](time_point now) { end_order(*o, now); });
  return true;
}

void sim_levels::end_order(reader_order& o, time_point now) {
  auto const end = engine::end_of_reader_order(o.why, o.of->given_back, now < o.of->deadline());
  auto const [told, was_held, again] = end;
  if (client_.world_.tracing())
    client_.world_.say("client " + std::to_string(client_.number_) +
                       (o.why ? " has made no reader: " + o.why.message() : " has made a reader"));
  judge_.order_ended(*o.of, o.why, end, o.asked_at, now);
  std::shared_ptr<sim_hold> const of = std::move(o.of);
  sim_level* const whose = o.whose;
  if (told && told != errc::unreachable) of->order_refused = true;  // that is told later
  std::erase_if(orders_, [&](reader_order const& other) { return &other == &o; });
  if (again && whose != nullptr) order(of, nullptr, now);
  if (whose != nullptr) over(*whose);
}

void sim_levels::forget(sim_hold const& h) {
  std::erase_if(holds_, [&](auto const& one) { return one.get() == &h; });
}

void sim_levels::over(sim_level& l) {
  l.at = state::over;
  l.in.reset();
  judge_.over(l, all());
  auto const& levels = l.who.levels;
  if (std::all_of(levels.begin(), levels.end(), [](auto const& one) { return one->at == state::over; }))
    client_.next_round(l.who);
}

// --------------------------------------------------------------------------------------------------------- the process

void sim_levels::for_each(std::function<void(sim_acquisition&)> const& f) {
  for (auto const& h : holds_) f(*h->x);
  for (auto const& a : client_.actors_) {
    for (auto const& l : a->levels) {
      if (l->asked != nullptr) f(*l->asked);
    }
  }
}

void sim_levels::checked(time_point now) {
  if (owners_.empty()) return;
  auto const levels = all();
  judge_.nobody_waits_for_ever(levels);
  for (auto const& h : holds_) {
    bool const told = std::any_of(orders_.begin(), orders_.end(), [&](reader_order const& o) { return o.of == h; });
    if (!told) judge_.counts_a_reader(*h, levels, now);
  }
}

void sim_levels::clear() {
  for_each([&](sim_acquisition& x) { client_.world_.watcher().gone(x); });
  orders_.clear();
  for (auto const& a : client_.actors_) a->levels.clear();
  owners_.clear();
  holds_.clear();
  judge_.clear();
}

}  // namespace conch::sim
