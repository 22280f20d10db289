// Several locks at once: the real multi_plan, carried out as include/conch/multi_lock.hpp does.
#include "sim/worlds/sim_client.hpp"

#include <algorithm>
#include <string>

namespace conch::sim {

namespace {

using phase = engine::acquisition_phase;
using conch::detail::multi_plan;

}  // namespace

void sim_client::begin_several(actor& a, time_point now) {
  operation const& o = current(a);
  std::vector<std::string> texts;
  for (int const name : o.all) texts.push_back(name_of(name));
  std::vector<int> names;
  for (std::size_t const i : multi_plan::in_order({texts.begin(), texts.end()})) names.push_back(o.all[i]);
  std::optional<time_point> until;
  bool const at_once = o.how == operation::way::timed && o.patience == 0;
  if (o.how == operation::way::timed && !at_once) until = now + duration{o.patience};
  bool const once = o.how == operation::way::attempt || at_once;
  a.several = std::make_unique<several_locks>(several_locks{
      names, multi_plan{names.size(), until, once}, {}, names.size(), true, false, once, {}, world_.now(), 0, until});
  a.several->slots.resize(names.size());
  if (world_.tracing()) {
    std::string text = "client " + std::to_string(number_) + " wants locks";
    for (int const name : names) text += " " + std::to_string(name);
    world_.say(text + " together");
  }
  if (o.cancel != operation::cancels::never) later(a, o.cancel_after, &sim_client::cancel_several);
  std::vector<engine::named_acquisition> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    sim_acquisition& x = one_of_several(a, i, true, now);
    all.push_back({&x, names_[static_cast<std::size_t>(x.lock_number)]});
  }
  engine_->try_all(all, now);
}

sim_acquisition& sim_client::one_of_several(actor& a, std::size_t which, bool once, time_point now) {
  operation const& o = current(a);
  several_locks& s = *a.several;
  s.slots[which] = std::make_unique<sim_acquisition>();
  sim_acquisition& x = *s.slots[which];
  x.client = this;
  x.who = &a;
  x.lock_number = s.names[which];
  x.order = ++asked_;
  x.once = once;
  x.fixed = o.fixed;
  x.lease = engine::milliseconds{o.lease / millisecond};
  if (s.plan.until()) x.until = std::max(*s.plan.until(), now + duration{1});
  if (o.max_hold != 0) x.max_hold = duration{o.max_hold};
  world_.watcher().asked(x);
  return x;
}

void sim_client::cancel_several(actor& a, time_point now) {
  if (a.several == nullptr || a.at != actor::state::acquiring) return;
  several_locks& s = *a.several;
  world_.say("client " + std::to_string(number_) + " cancels its wait for several locks");
  s.cancelled = true;
  s.cancelled_at = world_.now();
  std::vector<sim_acquisition*> all;
  for (auto const& slot : s.slots) all.push_back(slot.get());
  for (sim_acquisition* const x : all) {
    if (x == nullptr || !x->waiting) continue;
    x->cancelled = true;
    x->cancelled_at = world_.now();
    x->cancel_as = static_cast<engine::cancel_type>(static_cast<int>(current(a).cancel) - 1);
    cancel(*x, x->cancel_as, now);
  }
}

void sim_client::hear_several(notice const& n, time_point now) {
  sim_acquisition& x = *n.about;
  actor& a = *x.who;
  several_locks& s = *a.several;
  auto const slot = std::find_if(s.slots.begin(), s.slots.end(), [&](auto const& one) { return one.get() == &x; });
  switch (n.what) {
    case notice::kind::acquired:
      if (n.how != engine::acquired::granted) {
        if (n.how == engine::acquired::failed && !s.failure) s.failure = n.why;
        // `.wait = 0` of one
        if (n.how == engine::acquired::busy && !s.trying) s.failure = make_error_code(errc::timed_out);
        slot->reset();
      } else if (!s.trying) {
        s.plan.granted();
      }
      if (--s.unanswered == 0) continue_several(a, now);
      return;
    case notice::kind::lost:
      if (a.at == actor::state::inside) later(a, current(a).after_loss, &sim_client::leave_several);
      return;
    case notice::kind::detached: return;  // not of several at once
    case notice::kind::released:
      slot->reset();
      if (--a.releasing == 0) end_several(a);
      return;
  }
}

void sim_client::continue_several(actor& a, time_point now) {
  several_locks& s = *a.several;
  operation const& o = current(a);
  if (s.trying) {
    s.trying = false;
    std::vector<bool> granted;
    for (auto const& slot : s.slots) granted.push_back(slot != nullptr);
    auto const back = s.plan.tried(granted);
    for (std::size_t i = 0; i < back.size(); ++i) {
      if (back[i]) give_one(a, i, true, now);
    }
  }
  bool valid = true;
  for (auto const& slot : s.slots)
    valid = valid && slot != nullptr && slot->phase == phase::holding && now < slot->deadline();
  multi_plan::step const step = s.plan.next(s.failure, s.cancelled, valid, now);
  bool const ended = step != multi_plan::step::wait;
  if (ended) world_.watcher().several_answered(*this, s, step == multi_plan::step::done);
  switch (step) {
    case multi_plan::step::wait: {
      s.unanswered = 1;
      sim_acquisition& x = one_of_several(a, s.plan.waits_for(), s.once, now);
      engine_->acquire(x, name_of(x.lock_number), now);
      return;
    }
    case multi_plan::step::done:
      a.at = actor::state::inside;
      later(a, o.hold, &sim_client::leave_several);
      return;
    case multi_plan::step::busy:
    case multi_plan::step::failed:
      if (s.once && step == multi_plan::step::failed && s.plan.failure() == errc::timed_out && !s.cancelled) {
        throw violation{
            11, "client " + std::to_string(number_) + " was told an error by a try of several locks, and one was busy"};
      }
      for (std::size_t i = 0; i < s.slots.size(); ++i) {
        if (s.slots[i] != nullptr) give_one(a, i, true, now);
      }
      end_several(a);
      return;
  }
}

void sim_client::leave_several(actor& a, time_point now) {
  if (a.several == nullptr || a.at != actor::state::inside) return;
  a.at = actor::state::releasing;
  ++a.round;
  bool const drop = current(a).abandon;
  auto& slots = a.several->slots;
  a.releasing =
      static_cast<int>(std::count_if(slots.begin(), slots.end(), [](auto const& one) { return one != nullptr; }));
  for (std::size_t i = slots.size(); i-- > 0;) {
    if (slots[i] == nullptr) continue;
    give_one(a, i, drop, now);
    if (drop) --a.releasing;
  }
  if (a.releasing == 0) end_several(a);
}

void sim_client::give_one(actor& a, std::size_t which, bool drop, time_point now) {
  auto& slot = a.several->slots[which];
  world_.watcher().released(*slot);
  if (!drop) {
    engine_->release(*slot, now);
    return;
  }
  engine_->abandon(*slot, now);
  world_.watcher().gone(*slot);
  std::erase_if(notices_, [&](notice const& n) { return n.about == slot.get(); });
  slot.reset();
}

void sim_client::end_several(actor& a) {
  a.several.reset();
  next_round(a);
}

}  // namespace conch::sim
