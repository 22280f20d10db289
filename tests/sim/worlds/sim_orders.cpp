// An operator who uses a client of his own: questions and orders through the engine, with whatever happens to its
// connection.
#include "sim/worlds/sim_client.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using kind = engine::admin_request::kind;

char const* word_of(kind what) {
  switch (what) {
    case kind::inspect: return "inspect";
    case kind::force: return "force";
    case kind::set_limit: return "permit_limit";
    case kind::request: return "request";
    case kind::wait_free: return "watch";
    case kind::downgrade:
    case kind::identify: break;
  }
  return "?";
}

std::string order_words(sim_client const& c, engine::admin_request const& i) {
  return "client " + std::to_string(c.number()) + "'s " + word_of(i.what) + " of " + i.name;
}

}  // namespace

void sim_client::give_orders(actor& a, time_point now) {
  operation const& o = current(a);
  if (o.order == operation::orders::why) {
    if (chains_ != nullptr) chains_->ask_why(a, names_[static_cast<std::size_t>(o.name)]);
    return;
  }
  auto const add = [&](kind what, std::optional<std::int64_t> fence = {}) {
    a.orders.push_back(std::make_unique<sim_order>());
    sim_order& one = *a.orders.back();
    one.who = &a;
    one.client = this;
    one.what = what;
    one.name = name_of(o.name);
    one.lock_number = o.name;
    one.asked_at = world_.now();
    one.fence = fence;
    one.size = static_cast<std::uint32_t>(1 + o.patience % 7);
    if (what == kind::set_limit) {
      nanos const drawn = o.patience / 7;
      if (drawn % 3 == 1) one.by = drawn / 3 % 7 - greatest_change;
      one.if_unset = drawn % 3 == 2;
    }
  };
  // One of those that are told to act only if nobody else has it by now knows the fence from before. Nobody ever has
  // the fence 0.
  auto const owners = world_.watcher().owners_of(o.name);
  std::int64_t const fence = owners.empty() || o.patience % 4 == 1 ? 0 : owners.begin()->second;
  switch (o.order) {
    case operation::orders::none:
    case operation::orders::why: break;
    case operation::orders::inspect: add(kind::inspect); break;
    case operation::orders::force: add(kind::force); break;
    case operation::orders::force_one: add(kind::force, fence); break;
    case operation::orders::limit: add(kind::set_limit); break;
    case operation::orders::request: add(kind::request); break;
    case operation::orders::request_one: add(kind::request, fence); break;
    case operation::orders::wait_free:
      add(kind::wait_free);
      if (o.patience != 0) a.orders.back()->wait = duration{o.patience};
      break;
  }
  if (o.order != operation::orders::inspect && o.abandon) add(kind::inspect);
  world_.say("client " + std::to_string(number_) + " gives an order about lock " + std::to_string(o.name));
  for (std::size_t i = 0; i < a.orders.size(); ++i) backend().administer(*a.orders[i], *this, now);
}

/// P8: it is unknown whether it was carried out, and by now it may meet another owner.
void sim_client::no_order_may_repeat(engine::backend const& at) const {
  for (auto const& a : actors_) {
    for (auto const& one : a->orders) {
      if (one->server != &at) continue;
      bool const takes_from_all = one->what == kind::force && !one->fence && !one->last;
      bool const acts_again = (takes_from_all || (one->what == kind::set_limit && one->by != 0)) && one->written;
      if (acts_again && !one->answered)
        throw violation{8, order_words(*this, *one) + " will be repeated, though it may have been carried out"};
    }
  }
}

/// P4: while the server is away it is waited for this long, and no longer.
void sim_client::orders_end() const {
  if (last_pause_end_ == world_.now()) return;
  nanos const slack = world_.schedule().timer_lateness * 102 / 100 + millisecond;
  for (auto const& a : actors_) {
    for (auto const& one : a->orders) {
      if (one->answered || one->who == nullptr) continue;
      bool const slept = last_pause_end_ >= one->asked_at;
      if (!slept && one->until != timer_queue::never && local_now() > one->until + duration{slack})
        throw violation{4, order_words(*this, *one) + " is not answered, and its time is over"};
    }
  }
}

void sim_client::order_answered(sim_order& one, engine::admin_result const& result, error_code why) {
  std::string const who = order_words(*this, one);
  if (one.answered) throw violation{11, who + " is answered twice"};
  one.answered = true;
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + " hears of its order: " + (why ? why.message() : "done"));
  if (one.what == kind::wait_free && (!why || why == errc::timed_out)) {
    world_.watcher().watcher_ended(one, who, why);
  } else if (!why) {
    if (!world_.was_said(id_, word_of(one.what), one.lock_number, result))
      throw violation{11, who + " is answered with what the server did not say to it"};
  } else {
    world_.watcher().order_failed(*this, who, one.lock_number, one.asked_at, why);
  }
  actor& a = *one.who;
  if (std::all_of(a.orders.begin(), a.orders.end(), [](auto const& other) { return other->answered; }))
    later(a, 0, &sim_client::orders_done);
}

void sim_client::orders_done(actor& a, time_point) {
  a.orders.clear();
  next_round(a);
}

}  // namespace conch::sim
