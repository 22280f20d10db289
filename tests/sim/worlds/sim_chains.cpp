#include "sim/worlds/sim_chains.hpp"

#include "base/introduction.hpp"
#include "sim/judges/chains_judge.hpp"
#include "sim/worlds/sim_client.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

using engine::acquisition_phase;
using question = engine::wait_walk::question;

}  // namespace

sim_noted::sim_noted(sim_chains& in, sim_acquisition& x, std::string_view lock, std::string_view task)
    : of{&x},
      in_{in},
      lock_{lock},
      task_{task} {
  x.noted_as = this;
}

sim_noted::~sim_noted() {
  if (of != nullptr) of->noted_as = nullptr;
}

acquisition_phase sim_noted::phase() const noexcept { return of != nullptr ? of->phase : acquisition_phase::over; }

std::int64_t sim_noted::fence() const noexcept { return of != nullptr ? of->fence : 0; }

void sim_noted::left() noexcept { in_.forget(*this); }

sim_acquisition::~sim_acquisition() {
  if (noted_as != nullptr) noted_as->of = nullptr;
}

void sim_chains::add(sim_acquisition& x, std::string_view lock, std::size_t actor_number, time_point now) {
  while (tasks_.size() <= actor_number) tasks_.push_back(client_.id() + "t" + std::to_string(tasks_.size()));
  x.task = tasks_[actor_number];
  noted_.push_back(std::make_unique<sim_noted>(*this, x, lock, tasks_[actor_number]));
  told_.add(*noted_.back(), now);
}

void sim_chains::changed(sim_acquisition& x) {
  if (x.noted_as != nullptr) told_.changed(*x.noted_as);
}

void sim_chains::forget(sim_noted const& one) noexcept {
  std::erase_if(noted_, [&](auto const& n) { return n.get() == &one; });
}

/// Its walk begins when this input is over, as the library posts it.
void sim_chains::look_for_deadlock(engine::noted_acquire& n) {
  sim_acquisition const* const x = static_cast<sim_noted&>(n).of;
  walks_.push_back(std::make_unique<walk>(n.lock()));
  walks_.back()->of_acquire = x->order;
}

void sim_chains::ask_why(actor& a, std::string_view lock) {
  walks_.push_back(std::make_unique<walk>(lock));
  walks_.back()->who = &a;
  walks_.back()->round = a.round;
}

bool sim_chains::answered(engine::admin_request const& i, engine::admin_result const& result, error_code why) {
  auto const found = std::find_if(walks_.begin(), walks_.end(), [&](auto const& w) { return w->question.get() == &i; });
  if (found == walks_.end()) return false;
  walk& w = **found;
  if (why) w.failed = true;
  else w.answer = std::make_unique<engine::admin_result>(result);
  return true;
}

bool sim_chains::settle(time_point now) {
  told_.settle(now);
  bool did_something = false;
  // A question may be answered at once, and an end may begin another walk.
  for (std::size_t i = 0; i < walks_.size(); ++i) did_something = go_on(*walks_[i], now) || did_something;
  std::erase_if(walks_, [](auto const& w) { return w->is_over; });
  return did_something;
}

bool sim_chains::go_on(walk& w, time_point now) {
  if (w.is_over) return false;
  if (w.failed) {
    end(w, now);
    return true;
  }
  if (w.question != nullptr && w.answer == nullptr) return false;
  if (w.question == nullptr) w.circle_since = client_.true_now();
  else take_answer(w);
  if (w.steps.next()) ask(w, now);
  else end(w, now);
  return true;
}

void sim_chains::take_answer(walk& w) {
  bool const of_lock = w.steps.next()->what == question::of::lock;
  std::size_t const links = w.steps.links().size();
  if (of_lock) w.steps.answer(*w.answer->status);
  else w.steps.answer(read_introduction(w.answer->identity));
  w.question.reset();
  w.answer.reset();
  // A circle is complete: it is looked at once more.
  if (of_lock && w.steps.next() && w.steps.links().size() <= links) w.circle_since = client_.true_now();
}

void sim_chains::ask(walk& w, time_point now) {
  using kind = engine::admin_request::kind;
  w.question = std::make_unique<engine::admin_request>();
  w.question->what = w.steps.next()->what == question::of::lock ? kind::inspect : kind::identify;
  w.question->name = w.steps.next()->name;
  client_.ask_server(*w.question, now);
}

void sim_chains::end(walk& w, time_point now) {
  w.is_over = true;
  bool const is_deadlock = w.steps.how() == engine::wait_walk::ending::deadlock;
  if (is_deadlock) client_.chains_watcher().reported(client_, w.steps, w.circle_since);
  if (w.who != nullptr) client_.knows_why(*w.who, w.round);
  else client_.end_if_victim(w.of_acquire, w.steps, w.circle_since, now);
}

// ---------------------------------------------------------------------------- the client of it

std::vector<sim_acquisition*> sim_client::acquires_of_tasks() const {
  std::vector<sim_acquisition*> all;
  for (auto const& a : actors_) {
    for (auto const* slot : {&a->outer, &a->inner}) {
      sim_acquisition* const x = slot->get();
      bool const is_there =
          x != nullptr && (x->phase == acquisition_phase::waiting || x->phase == acquisition_phase::staying ||
                           x->phase == acquisition_phase::holding);
      if (is_there) all.push_back(x);
    }
  }
  return all;
}

bool sim_client::settle_chains() {
  if (chains_ == nullptr) return false;
  auto const all = acquires_of_tasks();
  world_.chains_watcher()->tasks_of(*this, {all.begin(), all.end()});
  return chains_->settle(local_now());
}

void sim_client::knows_why(actor& a, std::uint64_t round) {
  if (a.round == round) later(a, 0, &sim_client::orders_done);
}

/// As client_core::refuse does it. The user hears of it as of a cancellation.
void sim_client::end_if_victim(std::uint64_t order, engine::wait_walk const& walk, nanos since, time_point now) {
  for (sim_acquisition* const x : acquires_of_tasks()) {
    bool const waits = x->order == order && x->phase == acquisition_phase::waiting;
    if (!waits || !walk.is_to_end(id_, x->task, name_of(x->lock_number))) continue;
    world_.say("client " + std::to_string(number_) + " ends its wait for lock " + std::to_string(x->lock_number));
    world_.chains_watcher()->ended(*x, walk, since);
    x->cancelled = true;
    x->cancelled_at = world_.now();
    x->cancel_as = engine::cancel_type::terminal;
    cancel(*x, x->cancel_as, now);
    return;
  }
}

}  // namespace conch::sim
