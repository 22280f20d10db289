#include "sim/worlds/sim_client.hpp"

#include "base/overloaded.hpp"
#include "engine/detached.hpp"
#include "sim/worlds/sim_levels.hpp"

#include <algorithm>
#include <map>
#include <vector>

// The process and its shell; sim_actors.cpp has what the user does with it.
namespace conch::sim {

namespace {

std::string words_of(protocol::push const& p) {
  using engine::to_text;
  return std::visit(
      overloaded{
          [](protocol::pushed_grant const& g) { return "pushed " + to_text(g.id) + " for " + std::string{g.name}; },
          [](protocol::request_to_let_go const& r) {
            return "asked for " + to_text(r.id) + " of " + std::string{r.name};
          },
          [](protocol::end_of_hold const& e) {
            return "told that " + std::string{e.name} + " is free, which " + to_text(e.id) + " waits for";
          },
          [](protocol::revocation const& r) {
            return "told that " + to_text(r.id) + " for " + std::string{r.name} + " was taken away";
          },
          [](protocol::missed_turn const& m) {
            return "told that " + to_text(m.id) + " for " + std::string{m.name} + " missed its turn";
          },
          [](protocol::end_of_lease const& e) {
            return "told that the lease which " + to_text(e.id) + " for " + std::string{e.name} +
                   " waits for ends in " + std::to_string(e.left.count()) + " ms";
          }},
      p);
}

}  // namespace

sim_client::sim_client(world& w, int number)
    : world_{w},
      number_{number},
      plan_{w.schedule().clients[static_cast<std::size_t>(number)]},
      settings_{plan_.settings},
      random_{w.schedule().seed * 1000003 + static_cast<std::uint64_t>(number)},
      nonces_{w.schedule().seed * 7000003 + static_cast<std::uint64_t>(number), plan_.without_nonces} {
  for (int i = 0; i < w.schedule().names; ++i) names_.push_back(name_of(i));
  levels_ = std::make_unique<sim_levels>(*this);
  if (w.schedule().credentials) take_credentials(settings_);
}

sim_client::~sim_client() {
  // No events from here on.
  chains_.reset();
  actors_.clear();
  levels_.reset();
  connection_.reset();
  sentinels_.reset();
  sync_.reset();
  engine_.reset();
  synced_.reset();
  sharded_.reset();
  cluster_.reset();
  alone_.reset();
}

// ------------------------------------------------------------------------------------- process

void sim_client::start() {
  if (alive_ || world_.healing()) return;
  alive_ = true;
  closed_ = false;
  stats_ = {};
  process_ = world_.new_process();
  id_ = "c" + std::to_string(number_) + "p" + std::to_string(process_);
  // As those of the library: a report about a lock has the words of an id.
  if (world_.schedule().chains) {
    id_ = detail::id_of({static_cast<std::uint32_t>(number_), static_cast<std::uint32_t>(process_), 0, 7});
  }
  world_.say("client " + std::to_string(number_) + " starts as " + id_);
  plan const& plan = world_.schedule();
  engine_ = std::make_unique<engine::cohort>(settings_, timers_, *this, stats_);
  sim_connection::habits how;
  how.tears = plan.splits;
  how.dead_addresses = plan.is_explored() ? 0 : 10;
  if (plan.shards != 0) {
    how.in_turns = random_.chance(50);
    if (random_.chance(30)) how.slowest_write = plan.latency;
    cluster_ = std::make_unique<sim_cluster>(world_, *this, *this, settings_, id_, world_.seeds_for(number_), how,
                                             random_.next());
    sharded_ = std::make_unique<protocol::sharded>(settings_, random_.next(), nonces_, timers_, *cluster_, *engine_,
                                                   *this, stats_);
    server_ = &sharded_->unrouted();
    engine_->use(backend());
    started_at_ = world_.now();
    boot();
    cluster_->want_connection();
    return;
  }
  if (plan.synced) {
    sync_ = std::make_unique<sync_side>(*this);
    synced_ = std::make_unique<protocol::synced_server>(settings_, random_.next(), nonces_, timers_, *this, *sync_,
                                                        *engine_, *this, stats_);
    server_ = &synced_->first();
  } else {
    alone_ =
        std::make_unique<protocol::server>(settings_, random_.next(), nonces_, timers_, *this, *engine_, *this, stats_);
    server_ = alone_.get();
  }
  engine_->use(backend());
  if (plan.chains) {
    chains_ = std::make_unique<sim_chains>(*this, settings_, id_, timers_);
    chains_->begin(backend(), local_now());
  }
  how.in_turns = random_.chance(50) || plan.is_explored();
  if (random_.chance(30) && !plan.is_explored()) how.slowest_write = plan.latency;
  auto const seed = random_.next();
  if (plan.sentinels != 0) {
    sentinels_ = std::make_unique<sim_sentinels>(*this, *this, settings_, id_, number_, plan.listed_sentinels, ~seed);
    named_.reset();
  }
  connection_ = std::make_unique<sim_connection>(*this, settings_, id_, seed, how,
                                                 redis::connection_fsm::roles{nullptr, sentinels_.get()});
  connection_->report_to(*this);
  if (sentinels_ != nullptr) sentinels_->leads(*connection_);
  started_at_ = world_.now();
  if (sync_) {
    sync_->connection = std::make_unique<sim_connection>(*this, settings_, id_, random_.next(), how);
    sync_->connection->report_to(*sync_);
  }
  boot();
  connection_->want();  // as if a caller always asked
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
  std::vector<link_ptr> const all = links();
  take_apart();
  link_.reset();
  sync_link_.reset();
  for (link_ptr const& one : all) {
    if (silently) {
      world_.go_silent(one, server_notices);
    } else {
      world_.hang_up(one);
    }
  }
}

std::vector<link_ptr> sim_client::links() const {
  if (cluster_) return cluster_->links();
  std::vector<link_ptr> all;
  for (link_ptr const& one : {link_, sync_link_}) {
    if (one != nullptr) all.push_back(one);
  }
  return all;
}

void sim_client::take_apart() {
  alive_ = false;
  paused_ = false;
  up_ = cleanups_are_due_ = false;
  ++wake_version_;
  wake_at_ = 0;
  inbox_.clear();
  notices_.clear();
  chains_.reset();
  levels_->clear();
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
  connection_.reset();
  sentinels_.reset();
  sync_.reset();
  engine_.reset();
  synced_.reset();
  sharded_.reset();
  cluster_.reset();
  alone_.reset();
  locks_of_ids_.clear();
  dead_ids_.clear();
  open_ids_.clear();
}

void sim_client::close() {
  if (!alive_) return;
  closed_ = true;
  input([this](time_point now) {
    engine_->close(now);
    if (sharded_) sharded_->prepare_close(now);
    else server_->drop_kicks(now);
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
  if (world_.schedule().timers_first && world_.order() == nullptr)
    input([this](time_point now) { engine_->tick(now); });
  while (!inbox_.empty() && !paused_ && alive_) {
    auto const what = std::move(inbox_.front());
    inbox_.pop_front();
    what(local_now());
    finish_input();
  }
  steps* const order = world_.order();
  if (order == nullptr) {
    if (alive_) input([this](time_point now) { engine_->tick(now); });
    return;
  }
  // Before or after what has arrived meanwhile.
  auto look_at_timers = [this] { input([this](time_point now) { engine_->tick(now); }); };
  auto is_void = [this, mine = process_] { return !alive_ || process_ != mine; };
  order->add({stream_of_user(), of_client(number_), world_.now(), 0, std::move(look_at_timers), std::move(is_void)});
}

bool sim_client::finished() const {
  if (paused_) return false;
  if (!alive_) return true;
  return std::all_of(actors_.begin(), actors_.end(), [](auto const& a) { return a->at == actor::state::finished; });
}

bool sim_client::settled() const {
  if (!alive_) return true;
  bool const nothing_owed = sharded_ ? sharded_->settled() : server_->settled() && up_;
  return finished() && nothing_owed && levels_->idle() && !paused_;
}

link_ptr sim_client::connection(int name) const {
  if (!cluster_) return link_;
  auto const* const to = cluster_->view_of_node(world_.decides(name));
  return to != nullptr ? to->to : nullptr;
}

bool sim_client::up(int name) const {
  if (!cluster_) return up_;
  auto const* const to = cluster_->view_of_node(world_.decides(name));
  return to != nullptr && to->up;
}

nanos sim_client::up_since(int name) const {
  if (!cluster_) return up_since_;
  auto const* const to = cluster_->view_of_node(world_.decides(name));
  return to != nullptr ? to->since : world_.now();
}

link_ptr sim_client::shared(link const& l) const {
  if (!cluster_) return link_.get() == &l ? link_ : sync_link_.get() == &l ? sync_link_ : nullptr;
  auto const* const to = cluster_->view_of(l);
  return to != nullptr ? to->to : nullptr;
}

bool sim_client::is_up(link const& l) const {
  if (!cluster_) return link_.get() == &l && up_;
  auto const* const to = cluster_->view_of(l);
  return to != nullptr && to->up;
}

std::string sim_client::describe() const {
  std::string text = " [client " + std::to_string(number_) + (alive_ ? up_ ? "" : " not connected" : " dead");
  static char const* const states[] = {"thinking", "acquiring", "inside", "releasing", "finished"};
  for (auto const& a : actors_) text += std::string{" "} + states[static_cast<int>(a->at)];
  return text + "]";
}

time_point sim_client::local(nanos true_time) const {
  return time_point{duration{plan_.clock_offset + true_time + true_time / 1'000'000 * plan_.drift_ppm +
                             true_time % 1'000'000 * plan_.drift_ppm / 1'000'000}};
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
    } else if (settle_chains()) {
      continue;
    } else if (cluster_) {
      if (!cluster_->end_of_turn()) break;
    } else if (connection_->end_of_turn() || (sentinels_ != nullptr && sentinels_->end_of_turn()) ||
               (sync_ && sync_->connection->end_of_turn())) {
      continue;
    } else {
      break;
    }
  }
  in_input_ = false;
  if (!alive_) return;
  cleanups_repeated();
  rearm();
  orders_end();
  levels_->checked(local_now());
  for (auto const& a : actors_) {
    for (auto const& one : a->orders) world_.watcher().watcher_hears(*one);
  }
  world_.watcher().checked(*this);
}

void sim_client::rearm() {
  time_point const next = timers_.next();
  if (next == timer_queue::never) return;
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

/// P6.
void sim_client::cleanups_repeated() {
  auto const judge = [&](bool& due, protocol::server const& s, std::size_t written) {
    if (!due || s.catching_up()) return;
    due = false;
    if (s.pending() > written) throw violation{6, id_ + " does not repeat its clean-ups on a new connection"};
  };
  if (!cluster_) {
    if (up_) judge(cleanups_are_due_, *server_, releases_written_);
    return;
  }
  for (std::size_t i = 0; i < sharded_->size(); ++i) {
    protocol::server const* const s = sharded_->at(i);
    if (s == nullptr) continue;
    sim_cluster::view& to = cluster_->view_of_master(i);
    if (to.up) judge(to.cleanups_are_due, *s, to.releases_written);
  }
}

// ---------------------------------------------------------------------------------- connection

void sim_client::later(nanos delay, std::function<void(time_point)> what) {
  world_.after(delay, [this, mine = process_, what = std::move(what)] {
    if (alive_ && process_ == mine) input(what);
  });
}

nanos sim_client::until(time_point t) {
  return std::max<nanos>(true_time(t) + 1 - world_.now(), 0) + random_.between(0, world_.schedule().timer_lateness);
}

void sim_client::open(sim_connection& c) {
  link_ptr& l = is_of_sync(c) ? sync_link_ : link_;
  l = std::make_shared<link>(number_, process_, random_.next());
  if (sentinels_ != nullptr) l->node = sim_sentinels::number_in(connection_->where().host);
  world_.connect(l);
}

void sim_client::write(sim_connection& c, std::string bytes) {
  world_.send(is_of_sync(c) ? sync_link_ : link_, std::move(bytes));
}

void sim_client::hang_up(sim_connection& c) {
  link_ptr& l = is_of_sync(c) ? sync_link_ : link_;
  if (l != nullptr) world_.hang_up(l);
  l.reset();
}

void sim_client::note(sim_connection&, log_level level, std::string_view words) {
  if (words.starts_with("ignored a push")) throw violation{10, "a push that cannot be read"};
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + (level == log_level::info ? " is " : " notes: ") +
               std::string{words});
}

void sim_client::accepted(link_ptr const& l) {
  input([this, l](time_point now) {
    if (sim_connection* const c = connection_of(l)) c->opened(now);
  });
}

void sim_client::connection_lost(link_ptr const& l) {
  input([this, l](time_point now) {
    sim_connection* const c = connection_of(l);
    if (c == nullptr) return;
    l->client_open = false;
    c->ended("the connection is gone", now);
  });
}

/// However many Sentinels have missed the last failover.
void sim_client::named(std::size_t server) {
  if (named_ && world_.order_of(server) < world_.order_of(*named_))
    throw violation{1, id_ + " believes a Sentinel that names a former master"};
  named_ = server;
  world_.named(number_, server);
}

/// What is above the connection leaves a server when it learns that another one is the master, also in the middle of a
/// greeting.
void sim_client::told_of_switch() {
  input([this](time_point now) {
    link_ptr const l = sync_link_;
    if (l == nullptr || !l->accepted || l->node == world_.address_of(number_)) return;
    sim_connection& c = *sync_->connection;
    if (c.is_up()) {
      c.drop("another server is the master");
    } else {
      c.ended("another server is the master", now);
    }
  });
  input([this](time_point now) {
    if (link_ == nullptr || !link_->accepted || link_->node == world_.address_of(number_)) return;
    if (up_) {
      drop_connection("another server is the master");
    } else {
      connection_->ended("another server is the master", now);
    }
  });
}

void sim_client::receive(link_ptr const& l, std::string bytes) {
  input([this, l, bytes = std::move(bytes)](time_point now) {
    if (sim_connection* const c = connection_of(l)) c->arrived(bytes, now);
  });
}

void sim_client::connected_as(protocol::session const& s, time_point now) {
  if (link_->greeted_by_replica) throw violation{4, id_ + " takes a replica for the master"};
  up_ = true;
  up_since_ = world_.now();
  longest_absence_ = std::max(longest_absence_, up_since_ - down_since_);
  releases_written_ = 0;
  renewals_written_.clear();
  server_->receiver().connected_as(s, now);
  cleanups_are_due_ = true;
  if (!server_->catching_up()) renewed_at_once(renewals_written_, nullptr, now);  // not where it takes several turns
  world_.watcher().connected(*this);
}

void sim_client::connect_failed(protocol::fault what, std::string_view words, time_point now) {
  server_->receiver().connect_failed(what, words, now);
  bool const for_now = what == protocol::fault::try_later || what == protocol::fault::reconnect;
  bool const refused =
      words.find(": NOPERM ") != std::string_view::npos || words.find(": WRONGPASS ") != std::string_view::npos;
  if (for_now && refused)
    throw violation{11, id_ + " asks again, although the server refuses its user: " + std::string{words}};
  if (!for_now && !server_->catching_up()) nobody_waits_for_a_refusal();
}

void sim_client::disconnected(std::string_view why, time_point now) {
  if (why != "the connection is gone" && why != "another server is the master" && why != drop_why_ &&
      !(sentinels_ != nullptr && why.ends_with(" has taken its place")))
    throw violation{10, "the connection does not understand what the server sent: " + std::string{why}};
  if (up_) down_since_ = world_.now();
  up_ = cleanups_are_due_ = false;
  server_->receiver().disconnected(why, now);
  no_order_may_repeat(*server_);
}

void sim_client::answered(protocol::answer const& a, time_point now) { answered_by(server_->receiver(), a, now); }

void sim_client::answered_by(protocol::wire_events& s, protocol::answer const& a, time_point now) {
  if (!a.numbers().empty() && world_.tracing()) world_.say("client " + std::to_string(number_) + " is answered");
  if (a.what == protocol::fault::no_script) world_.watcher().script_was_unknown();
  heard_at_ = world_.now();
  s.answered(a, now);
}

void sim_client::pushed(protocol::push const& p, time_point now) { pushed_by(server_->receiver(), p, now); }

void sim_client::pushed_by(protocol::wire_events& s, protocol::push const& p, time_point now) {
  if (world_.tracing()) world_.say("client " + std::to_string(number_) + " is " + words_of(p));
  if (auto const* const g = std::get_if<protocol::pushed_grant>(&p)) return granted_by(s, *g, now);
  s.pushed(p, now);
  if (auto const* const r = std::get_if<protocol::revocation>(&p)) told_of_force(r->id);
}

void sim_client::granted_by(protocol::wire_events& s, protocol::pushed_grant const& g, time_point now) {
  auto const* const place = place_of(engine_->find(g.name));
  bool const permit = g.kind != engine::permit_kind::none;  // of which this client may have several places
  bool const live = permit || (place != nullptr && place->id == g.id && place->state != engine::place_state::idle);
  s.pushed(g, now);
  // by a stranger that publishes: only this many a second are given back
  bool const flooded = stats_.pushes_stray > 100;
  if (!live && !flooded && owed() == 0) throw violation{6, id_ + " keeps a grant that nobody wants"};
}

void sim_client::told_of_force(engine::grant_id id) {
  for (auto const& a : actors_) {
    for (auto const* slot : {&a->outer, &a->inner}) {
      if (*slot != nullptr && (*slot)->id == id) world_.watcher().told_of_force(slot->get());
    }
  }
  levels_->for_each([&](sim_acquisition const& x) {
    if (x.id == id) world_.watcher().told_of_force(&x);
  });
}

/// P11: what does not get better by waiting is told at once.
void sim_client::nobody_waits_for_a_refusal() const {
  auto const check = [&](sim_acquisition const* x) {
    if (x == nullptr || !x->waiting || x->lock == nullptr) return;
    auto const state = x->lock->place->state;
    if (state == engine::place_state::asking || state == engine::place_state::in_line) {
      throw violation{11, id_ + " lets somebody wait for lock " + std::to_string(x->lock_number) +
                              ", although the server refuses its user"};
    }
  };
  for (auto const& a : actors_) {
    check(a->outer.get());
    check(a->inner.get());
  }
  levels_->for_each([&](sim_acquisition const& x) { check(&x); });
}

/// That is to be renewed: the server has said no more of it than that it was granted.
void sim_client::for_each_hold(time_point now, std::function<void(sim_acquisition const&)> const& what) const {
  auto const look = [&](sim_acquisition const* x) {
    if (x != nullptr && x->phase == engine::acquisition_phase::holding && x->lock != nullptr &&
        x->lock->place->may_renew(now))
      what(*x);
  };
  for (auto const& a : actors_) {
    look(a->outer.get());
    look(a->inner.get());
    if (a->several == nullptr) continue;
    for (auto const& slot : a->several->slots) look(slot.get());
  }
  levels_->for_each([&](sim_acquisition const& x) { look(&x); });
}

/// P9: what a hold has become meanwhile is found out at once, not when it is due.
void sim_client::renewed_at_once(std::vector<engine::grant_id> const& written_ids, engine::backend const* by,
                                 time_point now) const {
  for_each_hold(now, [&](sim_acquisition const& x) {
    if (by != nullptr && keeper_of_place(x) != by) return;
    bool const written = std::find(written_ids.begin(), written_ids.end(), x.id) != written_ids.end();
    if (!written)
      throw violation{9, id_ + " does not ask on a new connection whether it still has " + engine::to_text(x.id)};
  });
}

/// P9, where a slot has another master: likewise, of each hold that has come to a master with a connection.
void sim_client::slots_move(std::function<void()> const& move, time_point now) {
  std::map<engine::grant_id, protocol::server const*> keepers;
  std::map<protocol::server const*, std::size_t> written;
  for_each_hold(now, [&](sim_acquisition const& x) { keepers[x.id] = keeper_of_place(x); });
  for_each_connected(
      [&](protocol::server const& s, sim_cluster::view const& to) { written[&s] = to.renewals_written.size(); });
  move();
  for_each_connected([&](protocol::server const& s, sim_cluster::view const& to) {
    auto const known = written.find(&s);
    if (known == written.end() || s.catching_up()) return;
    auto const since = to.renewals_written.begin() + static_cast<std::ptrdiff_t>(known->second);
    for_each_hold(now, [&](sim_acquisition const& x) {
      auto const before = keepers.find(x.id);
      if (place_of(x.lock->place.get())->of != &s || before == keepers.end() || before->second == &s) return;
      if (std::find(since, to.renewals_written.end(), x.id) == to.renewals_written.end())
        throw violation{9,
                        id_ + " does not ask the new master of its slot whether it still has " + engine::to_text(x.id)};
    });
  });
}

void sim_client::for_each_connected(
    std::function<void(protocol::server const&, sim_cluster::view const&)> const& what) const {
  for (std::size_t i = 0; i < sharded_->size(); ++i) {
    if (protocol::server const* const s = sharded_->at(i); s != nullptr && cluster_->view_of_master(i).up)
      what(*s, cluster_->view_of_master(i));
  }
}

// ---------------------------------------------------------------------------- engine's effects

void sim_client::sends(protocol::command const& c) { world_.watcher().writes(*this, c); }

void sim_client::send(protocol::command const& c) {
  sends(c);
  if (std::holds_alternative<protocol::release_command>(c)) ++releases_written_;
  if (auto const* renew = std::get_if<protocol::renew_command>(&c)) {
    for (protocol::renewal const& item : renew->items) renewals_written_.push_back(item.id);
  }
  connection_->send(c);
}

void sim_client::want_connection() { connection_->want(); }

void sim_client::drop_connection(std::string_view why) {
  world_.watcher().drops_connection(*this, why);
  if (connection_->drop(why)) drop_why_ = why;
}

// --------------------------------------------------------------------------------- in a Cluster

link_ptr sim_client::dial(std::size_t node) {
  auto l = std::make_shared<link>(number_, process_, random_.next());
  l->node = node;
  world_.connect(l);
  return l;
}

void sim_client::drops(std::string_view why) {
  world_.watcher().drops_connection(*this, why);
  dropped_for_.insert(std::string{why});
}

void sim_client::node_connected(std::size_t number) {
  sim_cluster::view const& to = cluster_->view_of_master(number);
  if (to.to->greeted_by_replica) throw violation{4, id_ + " takes a replica for the master"};
  if (!up_) up_since_ = world_.now();
  up_ = true;
  longest_absence_ = std::max(longest_absence_, world_.now() - down_since_);
  protocol::server const* const s = sharded_->at(number);
  if (!s->catching_up()) renewed_at_once(to.renewals_written, s, local_now());
  world_.watcher().node_connected(*this, to.to);
}

link_ptr sim_client::keeper_of(sim_acquisition const& a) const {
  if (!cluster_) return link_;
  if (a.lock == nullptr) return nullptr;
  protocol::server const* const keeper = keeper_of_place(a);
  for (std::size_t i = 0; i < sharded_->size(); ++i) {
    if (sharded_->at(i) == keeper) return cluster_->view_of_master(i).to;
  }
  return nullptr;
}

void sim_client::node_failed(protocol::fault what, std::string_view words) {
  bool const for_now = what == protocol::fault::try_later || what == protocol::fault::reconnect;
  if (!for_now) throw violation{11, id_ + " takes it for final that " + std::string{words}};
}

void sim_client::node_disconnected(std::size_t number, std::string_view why) {
  if (why != "the connection is gone" && !dropped_for_.contains(why) && !why.ends_with(" has taken its place"))
    throw violation{10, "the connection does not understand what the server sent: " + std::string{why}};
  down_since_ = world_.now();
  no_order_may_repeat(*sharded_->at(number));
}

void sim_client::note(bool is_error, std::string_view words) {
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + (is_error ? " error: " : " notes: ") + std::string{words});
}

void sim_client::on_acquired(engine::acquisition& a, engine::acquired how, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  chains_changed(mine);
  if (how == engine::acquired::granted) {
    mine.id = place_of(a.lock->place.get())->id;
    mine.told = false;
    mine.first_deadline = a.deadline();
    world_.watcher().answered(mine, true);
  } else {
    world_.watcher().answered(mine, false);
    if (how == engine::acquired::failed) world_.watcher().failed(mine, why);
    world_.watcher().attempt_failed(mine, how == engine::acquired::busy, why);
    if (how == engine::acquired::busy) world_.watcher().found_busy(mine);
    turn_is_over(mine);
  }
  notices_.push_back({notice::kind::acquired, &mine, how, why, false, local_now()});
}

void sim_client::on_lost(engine::acquisition& a, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  chains_changed(mine);
  mine.told = true;
  world_.watcher().lost(mine);
  notices_.push_back({notice::kind::lost, &mine, {}, why, false, local_now()});
}

void sim_client::on_released(engine::acquisition& a, bool was_held, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  turn_is_over(mine);
  world_.watcher().release_answered(mine, was_held, static_cast<bool>(why));
  notices_.push_back({notice::kind::released, &mine, {}, why, was_held, local_now()});
}

void sim_client::turn_is_over(sim_acquisition const& a) { turns_over_[{a.lock_number, a.owner}] = world_.now(); }

nanos sim_client::last_turn_over(int lock, std::string const& owner) const {
  auto const at = turns_over_.find({lock, owner});
  return at == turns_over_.end() ? 0 : at->second;
}

void sim_client::on_requested(engine::acquisition& a) {
  auto& mine = static_cast<sim_acquisition&>(a);
  if (mine.listens_since < 0) return;  // none of its operations waits for that
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + " hears that another client asks for lock " +
               std::to_string(mine.lock_number));
  world_.watcher().told_of_request(mine);
  if (current(*mine.who).lets_go) later(*mine.who, 0, &sim_client::leave);
}

void sim_client::on_endangered(engine::acquisition& a, engine::danger const&) {
  auto& mine = static_cast<sim_acquisition&>(a);
  mine.warned = true;
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + " is warned that it will lose lock " +
               std::to_string(mine.lock_number));
}

void sim_client::on_safe_again(engine::acquisition& a) {
  auto& mine = static_cast<sim_acquisition&>(a);
  mine.warned = false;
  if (world_.tracing())
    world_.say("client " + std::to_string(number_) + " is safe again with lock " + std::to_string(mine.lock_number));
}

void sim_client::on_detached(engine::acquisition& a, error_code why) {
  auto& mine = static_cast<sim_acquisition&>(a);
  operation const& o = current(*mine.who);
  world_.watcher().detached(mine, why);
  if (!why) {
    engine::detached const text{name_of(mine.lock_number), id_ + "." + engine::to_text(mine.id), mine.fence,
                                mine.lock->place->lease};
    detached_hold const d{mine.lock_number, text.origin(),     text.next_index(), text.lease.count() * millisecond,
                          o.adopted_hold,   mine.permit.weight};
    world_.send_detached(o.adopt_by, o.adopt_after, d);
    world_.send_detached(o.adopt_too, o.adopt_too_after, d);
  }
  notices_.push_back({notice::kind::detached, &mine, {}, why, false, local_now()});
}

void sim_client::on_extended(engine::acquisition& a, bool is_held, error_code why) {
  world_.watcher().extended(static_cast<sim_acquisition&>(a), is_held, why);
}

}  // namespace conch::sim
