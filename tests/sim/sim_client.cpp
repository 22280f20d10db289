#include "sim/sim_client.hpp"

#include "redis/codec.hpp"

#include <algorithm>
#include <cstring>

// The process and its shell; sim_actors.cpp has what the user does with it.
namespace conch::sim {

sim_client::sim_client(world& w, int number)
    : world_{w}, number_{number}, plan_{w.schedule().clients[static_cast<std::size_t>(number)]}, settings_{plan_.settings},
      random_{w.schedule().seed * 1000003 + static_cast<std::uint64_t>(number)}, nonces_{
                                                                                     w.schedule().seed * 7000003 + static_cast<std::uint64_t>(number),
                                                                                     plan_.without_nonces} {
  for (int i = 0; i < w.schedule().names; ++i) names_.push_back(name_of(i));
}

sim_client::~sim_client() {
  // No events from here on.
  actors_.clear();
  server_.reset();
  engine_.reset();
}

// ------------------------------------------------------------------------------------- process

void sim_client::start() {
  if (alive_ || world_.healing()) return;
  alive_ = true;
  closed_ = false;
  stats_ = {};
  process_ = world_.new_process();
  id_ = "c" + std::to_string(number_) + "p" + std::to_string(process_);
  world_.say("client " + std::to_string(number_) + " starts as " + id_);
  engine_ = std::make_unique<engine::cohort>(settings_, timers_, *this, stats_);
  server_ = std::make_unique<engine::server>(settings_, random_.next(), nonces_, timers_, *this, *engine_, *this, stats_);
  engine_->use(*server_);
  boot();
  connect();
}

void sim_client::boot() {
  // After a restart the actors go on with what is left of their work.
  bool const first = actors_.empty();
  for (std::size_t i = 0; i < plan_.actors.size(); ++i) {
    if (first) actors_.push_back(std::make_unique<actor>());
    actor& a = *actors_[i];
    a.todo = &plan_.actors[i];
    ++a.round;
    think(a);
  }
}

void sim_client::die(bool silently, nanos server_notices) {
  if (!alive_) return;
  take_apart();
  if (link_ != nullptr) {
    if (silently) {
      world_.go_silent(link_, server_notices);
    } else {
      world_.hang_up(link_);
    }
  }
  link_.reset();
}

void sim_client::take_apart() {
  alive_ = false;
  paused_ = false;
  up_ = connecting_ = greeting_done_ = drop_wanted_ = false;
  ++wake_version_;
  wake_at_ = 0;
  inbox_.clear();
  outgoing_.clear();
  notices_.clear();
  for (auto& a : actors_) {
    for (auto* slot : {&a->outer, &a->inner}) {
      if (*slot == nullptr) continue;
      world_.watcher().gone(**slot);
      slot->reset();
    }
    if (a->at != actor::state::finished && a->at != actor::state::thinking) ++a->next;
    a->releasing = 0;
    a->downgrade.reset();
    a->orders.clear();
    if (a->several != nullptr) {
      for (auto& slot : a->several->slots) {
        if (slot != nullptr) world_.watcher().gone(*slot);
      }
      a->several.reset();
    }
    ++a->round;
    a->at = actor::state::finished;
  }
  server_.reset();
  engine_.reset();
  dead_ids_.clear();
  open_ids_.clear();
}

void sim_client::close() {
  if (!alive_) return;
  closed_ = true;
  input([this](time_point now) {
    engine_->close(now);
    server_->drop_kicks();
  });
  auto const mine = process_;
  world_.after(random_.between(0, 50) * millisecond, [this, mine] {
    if (alive_ && process_ == mine) input([this](time_point now) { engine_->give_back_everything(now); });
  });
}

void sim_client::pause(nanos length) {
  if (!alive_ || paused_) return;
  paused_ = true;
  paused_in_all_ += length;
  auto const mine = process_;
  world_.after(length, [this, mine] {
    if (alive_ && process_ == mine) resume();
  });
}

void sim_client::resume() {
  world_.say("client " + std::to_string(number_) + " goes on");
  paused_ = false;
  last_pause_end_ = world_.now();
  if (world_.schedule().timers_first) input([this](time_point now) { engine_->tick(now); });
  while (!inbox_.empty() && !paused_ && alive_) {
    auto const what = std::move(inbox_.front());
    inbox_.pop_front();
    what(local_now());
    finish_input();
  }
  if (alive_) input([this](time_point now) { engine_->tick(now); });
}

void sim_client::heal() { backoff_ = 0; }

bool sim_client::finished() const {
  if (paused_) return false;
  if (!alive_) return true;
  return std::all_of(actors_.begin(), actors_.end(), [](auto const& a) { return a->at == actor::state::finished; });
}

bool sim_client::settled() const { return !alive_ || (finished() && server_->settled() && up_ && !paused_); }

std::string sim_client::describe() const {
  std::string text = " [client " + std::to_string(number_) + (alive_ ? up_ ? "" : " not connected" : " dead");
  static char const* const states[] = {"thinking", "acquiring", "inside", "releasing", "finished"};
  for (auto const& a : actors_) text += std::string{" "} + states[static_cast<int>(a->at)];
  return text + "]";
}

time_point sim_client::local(nanos true_time) const {
  return time_point{
      duration{plan_.clock_offset + true_time + true_time / 1'000'000 * plan_.drift_ppm + true_time % 1'000'000 * plan_.drift_ppm / 1'000'000}};
}

nanos sim_client::true_time(time_point local_time) const {
  if (local_time > local(world_.now()) + std::chrono::hours{100}) return world_.now() + 360'000 * second;
  nanos const shown = local_time.time_since_epoch().count() - plan_.clock_offset;
  nanos t = shown - shown / 1'000'000 * plan_.drift_ppm;
  for (int i = 0; i < 4; ++i) t += (local_time - local(t)).count();
  while (local(t) > local_time) --t;
  return t;
}

void sim_client::input(std::function<void(time_point)> what) {
  if (!alive_) return;
  if (paused_) {
    inbox_.push_back(std::move(what));
    return;
  }
  what(local_now());
  finish_input();
}

// What the engine asked for is carried out after it has returned, as the shell must.
void sim_client::finish_input() {
  if (in_input_) return;
  in_input_ = true;
  while (alive_) {
    if (!notices_.empty()) {
      notice const n = notices_.front();
      notices_.pop_front();
      hear(n);
    } else if (!outgoing_.empty()) {
      std::string bytes = std::move(outgoing_);
      outgoing_.clear();
      if (link_ != nullptr) world_.send(link_, std::move(bytes));
    } else if (drop_wanted_) {
      drop_wanted_ = false;
      if (link_ != nullptr) {
        world_.hang_up(link_);
        lose_connection(drop_why_, local_now());
      }
    } else {
      break;
    }
  }
  in_input_ = false;
  if (!alive_) return;
  if (cleanups_are_due_ && up_ && !server_->catching_up()) {
    cleanups_are_due_ = false;
    if (server_->pending() > releases_written_) throw violation{6, id_ + " does not repeat its clean-ups on a new connection"};
  }
  rearm();
  orders_end();
  world_.watcher().checked(*this);
}

void sim_client::rearm() {
  time_point const next = timers_.next();
  if (next == engine::timer_queue::never) return;
  nanos const when = std::max(world_.now(), true_time(next) + 1 + random_.between(0, world_.schedule().timer_lateness));
  if (wake_at_ > world_.now() && wake_at_ <= when) return;  // it will look again by then
  wake_at_ = when;
  auto const version = ++wake_version_;
  world_.at(when, [this, version] { wake(version); });
}

void sim_client::wake(std::uint64_t version) {
  if (!alive_ || version != wake_version_) return;
  wake_at_ = 0;
  if (paused_) return;  // resume() looks at the timers
  input([this](time_point now) { engine_->tick(now); });
}

// ---------------------------------------------------------------------------------- connection

void sim_client::connect() {
  if (!alive_ || up_ || connecting_) return;
  connecting_ = true;
  link_ = std::make_shared<link>(number_, process_, random_.next());
  world_.connect(link_);
  // Name look-up, connection and greeting together.
  world_.after(settings_.connect_timeout.count(), [this, l = link_] {
    if (alive_ && l == link_ && !up_) {
      world_.hang_up(l);
      input([this, l](time_point now) {
        if (l == link_ && !up_) lose_connection("no connection in time", now);
      });
    }
  });
}

void sim_client::connected(link_ptr const& l) {
  input([this, l](time_point now) {
    if (l != link_) return;
    decoder_.reset();
    greeting_done_ = false;
    greeted_at_ = now;
    outgoing_ = greeting_.begin({}, "conch");
  });
}

void sim_client::connection_lost(link_ptr const& l) {
  input([this, l](time_point now) {
    if (l != link_) return;
    l->client_open = false;
    lose_connection("the connection is gone", now);
  });
}

void sim_client::lose_connection(std::string_view why, time_point now) {
  world_.say("client " + std::to_string(number_) + " loses its connection: " + std::string{why});
  link_.reset();
  outgoing_.clear();
  drop_wanted_ = false;
  bool const was_up = up_;
  up_ = connecting_ = cleanups_are_due_ = false;
  if (was_up) server_->disconnected(why, now);
  if (was_up) no_order_may_repeat();
  else server_->connect_failed(engine::fault::try_later, why, now);
  reconnect_later();
}

void sim_client::reconnect_later() {
  nanos const pause = backoff_ == 0 ? 0 : backoff_ / 2 + random_.between(0, backoff_ / 2);
  backoff_ = std::min<nanos>(settings_.reconnect_max.count(), std::max<nanos>(settings_.reconnect_min.count(), backoff_ * 2));
  auto const mine = process_;
  world_.after(pause, [this, mine] {
    if (alive_ && process_ == mine) input([this](time_point) { connect(); });
  });
}

void sim_client::receive(link_ptr const& l, std::string bytes) {
  input([this, l, bytes = std::move(bytes)](time_point now) {
    if (l != link_) return;
    auto const room = decoder_.prepare(bytes.size());
    std::memcpy(room.data(), bytes.data(), bytes.size());
    decoder_.commit(bytes.size());
    decode(now);
  });
}

void sim_client::decode(time_point now) {
  for (link_ptr const mine = link_; link_ == mine;) {
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: return;
      case resp::decoder::progress::failed: throw violation{10, "the decoder refuses what the server sent"};
      case resp::decoder::progress::message: reply(decoder_.message(), now); break;
    }
  }
}

void sim_client::reply(std::span<resp::node const> message, time_point now) {
  if (decoder_.is_push()) {
    engine::pushed_grant grant;
    switch (redis::read_push(message, id_, name_, grant)) {
      case redis::push_kind::grant:
        if (up_) {
          world_.say("client " + std::to_string(number_) + " is pushed " + engine::to_text(grant.id) + " for " + name_);
          auto const* const place = engine_->find(name_);
          bool const part = grant.kind != engine::permit_kind::none;  // of which this client may have several places
          bool const live = part || (place != nullptr && place->id == grant.id && place->at != engine::place::state::idle);
          server_->granted(grant, now);
          bool const flooded = stats_.pushes_stray > 100;  // by somebody who publishes: so many a second are given back
          if (!live && !flooded && server_->pending() == 0) throw violation{6, id_ + " keeps a grant that nobody wants"};
        }
        break;
      case redis::push_kind::revoked:
        world_.say("client " + std::to_string(number_) + " is told that " + engine::to_text(grant.id) + " for " + name_ + " was taken away");
        if (!up_) break;
        server_->revoked(grant.name, grant.id, now);
        for (auto const& a : actors_) {
          for (auto const* slot : {&a->outer, &a->inner}) {
            if (*slot != nullptr && (*slot)->id == grant.id) world_.watcher().told_of_force(slot->get());
          }
        }
        break;
      case redis::push_kind::missed:
        world_.say("client " + std::to_string(number_) + " is told that " + engine::to_text(grant.id) + " for " + name_ + " missed its turn");
        if (up_) server_->missed(grant.name, grant.id, now);
        break;
      case redis::push_kind::subscribed: server_->answered({}, now); break;
      case redis::push_kind::other: break;
      case redis::push_kind::malformed: throw violation{10, "a push that cannot be read"};
    }
    return;
  }
  if (greeting_done_) {
    engine::answer const a = redis::to_answer(message, numbers_);
    if (a.numbers.size() >= 4 && a.numbers[0] == 0 && world_.tracing()) world_.say("client " + std::to_string(number_) + " is answered");
    if (a.what == engine::fault::no_script) world_.watcher().script_was_unknown();
    server_->answered(a, now);
    return;
  }
  switch (greeting_.next(message)) {
    case redis::greeting::progress::more: return;
    case redis::greeting::progress::failed:
      server_->connect_failed(greeting_.fault(), greeting_.why(), now);
      if (greeting_.fault() != engine::fault::try_later && greeting_.fault() != engine::fault::reconnect && !server_->catching_up()) {
        nobody_waits_for_a_refusal();
      }
      drop_wanted_ = true;
      drop_why_ = greeting_.why();
      return;
    case redis::greeting::progress::done:
      greeting_done_ = up_ = true;
      up_since_ = world_.now();
      connecting_ = false;
      backoff_ = 0;
      world_.say("client " + std::to_string(number_) + " is connected");
      releases_written_ = 0;
      renewals_written_.clear();
      server_->connected_as({greeting_.client_id(), greeting_.client_address(), greeting_.server_us(), greeted_at_, greeting_.run()}, now);
      cleanups_are_due_ = true;
      if (!server_->catching_up()) renewed_at_once(now);  // not where it takes several turns
      return;
  }
}

/// P11: what does not get better by waiting is told at once.
void sim_client::nobody_waits_for_a_refusal() const {
  auto const check = [&](sim_acquisition const* x) {
    if (x == nullptr || !x->waiting || x->lock == nullptr) return;
    auto const at = x->lock->place.at;
    if (at == engine::place::state::asking || at == engine::place::state::in_line) {
      throw violation{11, id_ + " lets somebody wait for lock " + std::to_string(x->lock_number) + ", although the server refuses its user"};
    }
  };
  for (auto const& a : actors_) {
    check(a->outer.get());
    check(a->inner.get());
  }
}

/// P9: what a hold has become meanwhile is found out at once, not when it is due.
void sim_client::renewed_at_once(time_point now) const {
  auto const check = [&](sim_acquisition const* x) {
    if (x == nullptr || x->at != engine::acquisition::phase::holding || x->lock == nullptr || !x->lock->place.may_renew(now)) return;
    bool const written = std::find(renewals_written_.begin(), renewals_written_.end(), x->id) != renewals_written_.end();
    if (!written) throw violation{9, id_ + " does not ask on a new connection whether it still has " + engine::to_text(x->id)};
  };
  for (auto const& a : actors_) {
    check(a->outer.get());
    check(a->inner.get());
    if (a->several == nullptr) continue;
    for (auto const& slot : a->several->slots) check(slot.get());
  }
}

// ---------------------------------------------------------------------------- engine's effects

void sim_client::send(engine::command const& c) {
  world_.watcher().writes(*this, c);
  if (std::holds_alternative<engine::release_command>(c)) ++releases_written_;
  if (auto const* renew = std::get_if<engine::renew_command>(&c)) {
    for (engine::renewal const& item : renew->items) renewals_written_.push_back(item.id);
  }
  redis::encode(c, id_, outgoing_);
}

void sim_client::want_connection() {}  // it always tries

void sim_client::drop_connection(std::string_view why) {
  world_.watcher().drops_connection(*this, why);
  drop_wanted_ = true;
  drop_why_ = why;
}

void sim_client::note(bool is_error, std::string_view words) {
  if (world_.tracing()) world_.say("client " + std::to_string(number_) + (is_error ? " error: " : " notes: ") + std::string{words});
}

void sim_client::on_acquired(engine::acquisition& a, engine::acquired how, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  if (how == engine::acquired::granted) {
    mine.id = a.lock->place.id;
    mine.told = false;
    mine.first_deadline = a.deadline();
    world_.watcher().answered(mine, true);
  } else {
    world_.watcher().answered(mine, false);
    if (how == engine::acquired::failed) world_.watcher().failed(mine, why);
    world_.watcher().attempt_failed(mine, how == engine::acquired::busy, why);
    if (how == engine::acquired::busy) world_.watcher().found_busy(mine);
  }
  notices_.push_back({notice::kind::acquired, &mine, how, why, false, local_now()});
}

void sim_client::on_lost(engine::acquisition& a, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  mine.told = true;
  world_.watcher().lost(mine);
  notices_.push_back({notice::kind::lost, &mine, {}, why, false, local_now()});
}

void sim_client::on_released(engine::acquisition& a, bool was_held, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  world_.watcher().release_answered(mine, was_held, static_cast<bool>(why));
  notices_.push_back({notice::kind::released, &mine, {}, why, was_held, local_now()});
}

}  // namespace conch::sim
