#include "sim/worlds/zookeeper_world.hpp"

#include "servers/zookeeper/jute.hpp"
#include "sim/digest.hpp"
#include "sim/mutants/mutants.hpp"

#include <algorithm>
#include <limits>

// The network, and what goes wrong; zookeeper_client.cpp has the processes, and judges/zookeeper_judge.cpp the judge.
namespace conch::sim {

/// As it would be on the wire. What numbers the requests of a connection is not simulated.
std::string zookeeper_world::as_bytes(message const& m) {
  std::string bytes;
  if (auto const* const greeting = std::get_if<zookeeper::connect_request>(&m)) {
    zookeeper::append(bytes, *greeting);
  } else {
    zookeeper::append(bytes, 0, std::get<zookeeper::request>(m));
  }
  return bytes;
}

zookeeper_world::zookeeper_world(std::uint64_t with_seed, zookeeper_locks locks, bool traced)
    : seed{with_seed},
      of_all_kinds{locks == zookeeper_locks::of_all_kinds},
      with_intervals{locks == zookeeper_locks::with_intervals},
      traced_{traced},
      random_{seed},
      shares_{seed ^ 0x9a27'5f00},
      intervals_{seed ^ 0x6b65'6570'0000} {
  random_source& r = random_;
  calm = r.chance(25);
  names = r.chance(75) ? 1 : 2;
  tick = r.between(1, 10) * 200 * millisecond;
  latency = r.between(50, 1000) * microsecond;
  jitter = r.between(0, calm ? latency : 4 * latency);
  lease = tick * r.between(4, 12);
  sync_limit = static_cast<int>(r.between(2, 12));
  margin = tick;
  if (!calm && r.chance(20)) {
    late_pings = true;
    sync_limit = static_cast<int>(r.between(1, 2));
    margin = tick * (sync_limit + 1);
    lease = tick * r.between(4 * (sync_limit + 1), 16);  // or the session would be longer than the lease
  }
  slow_answers = !calm && r.chance(25);
  zookeeper_model::settings s;
  constexpr std::size_t sizes[] = {1, 3, 3, 3, 3, 5};
  s.servers = sizes[r.below(std::size(sizes))];
  s.tick = tick;
  s.sync_limit = sync_limit;
  s.latency = latency / 2;
  s.jitter = r.between(0, latency);
  s.write_time = r.between(0, 2000) * microsecond;
  s.election = r.between(50, 500) * millisecond;
  s.check_containers = r.chance(70) ? 60 * second : r.between(100, 3000) * millisecond;
  if (r.chance(40))
    s.first_sequence = static_cast<std::int32_t>(
        r.chance(50) ? std::numeric_limits<std::int32_t>::max() - r.between(0, 12) : r.between(0, 12));
  s.epoch_ms += r.between(0, 1'000'000);
  s.seed = r.next();
  model_ = std::make_unique<zookeeper_model>(s, events_, now_, static_cast<zookeeper_model::outside&>(*this));
  for (std::size_t i = 0; i < model_->size(); ++i) model_->set_clock(i, r.between(-2500, 2500));
  auto const clients = r.between(2, 5);
  for (int i = 0; i < clients; ++i) clients_.push_back(std::make_unique<zookeeper_client>(*this, i));
  for (int i = 0; i < names; ++i) {
    locks_.push_back({.plan = of_all_kinds ? draw_zookeeper_lock(shares_) : zookeeper_lock_plan{},
                      .line = zookeeper_line_judge{name_of(i)}});
  }
  history_ = user_history{names, {}};
}

zookeeper_world::~zookeeper_world() = default;

template <class F>
bool zookeeper_world::pass_until(nanos until, F const& done) {
  while (!events_.empty() && events_.next() <= until && !done()) {
    events_.run_next([this](nanos at) { now_ = at; });
  }
  return done();
}

void zookeeper_world::run() {
  for (auto const& c : clients_) {
    after(explores_ != nullptr ? 0 : random_.between(0, 20) * millisecond, [&c] {
      if (!c->alive && c->process == 0) c->start();
    });
  }
  nanos const length = 6 * lease + 2 * second;
  if (!calm && explores_ == nullptr) plan_faults();
  auto const never = [] { return false; };
  if (explores_ != nullptr) explore();
  else (void)pass_until(length, never);
  say("all faults are over");
  healing_ = true;
  healed_at_ = now_;
  slow_answers = false;
  for (auto const& [id, l] : by_id_) l->slow_by = 0;
  for (auto const& c : clients_) c->only_until = 0;
  auto const every = [&](auto const& what) {
    return std::all_of(clients_.begin(), clients_.end(), [&](auto const& c) { return what(*c); });
  };
  auto const tell = [&](int promise, std::string words, auto const& what) {
    for (auto const& c : clients_) {
      if (!what(*c)) words += c->describe();
    }
    throw violation{promise, words};
  };
  auto const finished = [](zookeeper_client const& c) { return c.finished(); };
  auto const settled = [](zookeeper_client const& c) { return c.settled(); };
  // more coroutines, and holds of up to three leases
  nanos const patience_with_all = (of_all_kinds || with_intervals ? 150 : 40) * lease + 20 * second;
  if (!pass_until(now_ + patience_with_all, [&] { return revivals_ == 0 && every(finished); }))
    tell(4, "somebody still waits long after all faults were over:", finished);
  if (!pass_until(now_ + 2 * lease + 2 * second, [&] { return every(settled); }))
    tell(6, "something is still owed to servers that are there:", settled);
  // a wait that was ended is left behind: nobody is told when its place is gone
  (void)pass_until(now_ + lease / 2, never);
  nothing_left(true);
  (void)pass_until(now_ + lease + 3 * tick, never);
  nothing_left(false);
  history_.demand_order();
  for (auto const& c : clients_) {
    if (!calm) continue;
    result.calm_lists += c->lists_;
    result.calm_creations += c->creations_;
  }
}

/// B3: no node but those of sessions that are to be ended. (A leader that is cut off may say that a session has ended,
/// and the next leader gives it its timeout once more.)
void zookeeper_world::nothing_left(bool only_of_the_living) {
  for (watch const& w : locks_) {
    for (auto const& c : clients_) {
      if (c->alive) w.line.keeps_nothing(c->id, lease + 2 * second, now_);
    }
  }
  for (auto const& [path, n] : model_->truth().nodes()) {
    if (n.owner == 0 || n.owner == zookeeper_tree::container || path.find("/.clients/") != std::string::npos) continue;
    bool const of_the_living =
        std::any_of(clients_.begin(), clients_.end(), [&](auto const& c) { return c->alive && c->session == n.owner; });
    if (!only_of_the_living || of_the_living)
      throw violation{6, "the node " + path + " is still there, and nobody waits or holds"};
  }
}

// ----------------------------------------------------------------------------------------------------- the network

nanos zookeeper_world::delay() {
  if (small_ != nullptr) return latency;  // what happens before and behind what is explored is the same in each run
  nanos const usual = latency + random_.between(0, jitter);
  return calm || !random_.chance(1) ? usual : usual + random_.between(0, 20 * millisecond);
}

zookeeper_world::line_ptr zookeeper_world::connect(int client, std::size_t to) {
  auto const l = std::make_shared<line>();
  zookeeper_client& c = *clients_[static_cast<std::size_t>(client)];
  l->client = client;
  l->process = c.process;
  l->server = to;
  l->number = static_cast<std::uint64_t>(client) << 32 | ++c.dials_;
  if (order_ != nullptr) {
    connect_later(l);
    return l;
  }
  if (slow_answers && random_.chance(50)) l->slow_by = random_.between(0, lease / 4);
  after(delay(), [this, l, &c] {
    if (!reach(l)) {
      after(delay(), [&c, l] { c.lost_line(l); });
      return;
    }
    after(delay(), [&c, l] {
      if (!l->cut && c.alive && c.process == l->process) c.accepted(l);
    });
  });
  return l;
}

/// False: nobody is there.
bool zookeeper_world::reach(line_ptr const& l) {
  zookeeper_client const& c = *clients_[static_cast<std::size_t>(l->client)];
  if (!model_->is_up(l->server) || (c.only_until > now_ && c.only_server != l->server)) return false;
  l->id = model_->connect(l->server);
  l->server_open = true;
  by_id_[l->id] = l;
  return true;
}

void zookeeper_world::send(line_ptr const& l, message m) {
  if (l->cut || !l->client_open) return;
  if (order_ != nullptr) {
    std::uint64_t const content = std::hash<std::string>{}(as_bytes(m));
    l->under_way.push_back(std::move(m));
    deliver_later(l, true, content, [this, l] { arrive(l); });
    return;
  }
  l->last_up = std::max({now_ + delay(), l->last_up, l->held_up_until});
  if (notes_sent()) note_sent(now_, as_bytes(m));
  l->under_way.push_back(std::move(m));
  after(l->last_up - now_, [this, l] { arrive(l); });
}

/// The first of those that are under way: nothing that was sent later arrives before it.
void zookeeper_world::arrive(line_ptr const& l) {
  if (l->server_open && l->held_up_until > now_) {  // since it was sent
    l->last_up = std::max(l->last_up, l->held_up_until);
    after(l->held_up_until - now_, [this, l] { arrive(l); });
    return;
  }
  message const m = std::move(l->under_way.front());
  l->under_way.pop_front();
  if (!l->server_open || (l->cut && l->held_up_until < now_)) return;
  if (l->trap == 0) {
    say("fault: the connection of client ", l->client, " breaks before what arrives");
    l->trap = -1;
    cut(l, random_.between(0, 200) * millisecond, random_.between(0, 500) * millisecond);
    return;
  }
  if (l->trap > 0) --l->trap;
  if (auto const* const greeting = std::get_if<zookeeper::connect_request>(&m)) model_->greet(l->id, *greeting);
  else model_->ask(l->id, std::get<zookeeper::request>(m));
  if (l->trap == 0 && random_.chance(50)) {
    say("fault: the connection of client ", l->client, " breaks behind what has arrived");
    l->trap = -1;
    cut(l, random_.between(0, 200) * millisecond, random_.between(0, 500) * millisecond);
  }
}

void zookeeper_world::hang_up(line_ptr const& l, bool silently) {
  if (!l->client_open) return;
  l->client_open = false;
  if (order_ != nullptr) {
    deliver_later(l, true, 0, [this, l] { close_at_server(*l); });
    return;
  }
  nanos const noticed =
      silently ? random_.between(0, 2 * lease / millisecond) * millisecond : std::max(l->last_up - now_, delay());
  after(noticed, [this, l] { close_at_server(*l); });
}

void zookeeper_world::close_at_server(line& l) {
  if (!std::exchange(l.server_open, false)) return;
  by_id_.erase(l.id);
  model_->disconnect(l.id);
}

/// Nothing passes any more, in either direction.
void zookeeper_world::cut(line_ptr const& l, nanos client_notices, nanos server_notices) {
  if (std::exchange(l->cut, true)) return;
  by(client_notices, l, false, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_line(l); });
  by(server_notices, l, true, [this, l] { close_at_server(*l); });
}

void zookeeper_world::tell(zookeeper_model::connection_id id, std::uint64_t content, delivery what) {
  auto const at = by_id_.find(id);
  if (at == by_id_.end()) return;
  line_ptr const l = at->second;
  if (l->cut) return;
  auto receive = [this, l, what = std::move(what)] {
    zookeeper_client& c = *clients_[static_cast<std::size_t>(l->client)];
    if (!l->cut && l->client_open && c.alive && c.process == l->process) c.receive(l, what);
  };
  if (order_ != nullptr) {
    if (!l->deaf) deliver_later(l, false, content, std::move(receive));
    return;
  }
  l->last_down = std::max(now_ + delay() + l->slow_by, l->last_down);
  after(l->last_down - now_, std::move(receive));
}

void zookeeper_world::greeted(zookeeper_model::connection_id c, zookeeper::connect_response const& r) {
  if (auto const at = by_id_.find(c); at != by_id_.end())
    clients_[static_cast<std::size_t>(at->second->client)]->session = r.session;
  tell(c, content_of(r), [r](zookeeper::wire_events& e, time_point now) { e.greeted(r, now); });
}

void zookeeper_world::answered(zookeeper_model::connection_id c, zookeeper::request const& to,
                               zookeeper::reply const& r) {
  tell(c, content_of(r), [r](zookeeper::wire_events& e, time_point now) { e.answered(r, now); });
  // B2: cut off at the moment at which a write is committed.
  if (calm || explores_ != nullptr || !zookeeper::is_write(to)) return;
  auto const at = by_id_.find(c);
  if (at == by_id_.end()) return;
  int const client = at->second->client;
  bool const holds = std::any_of(locks_.begin(), locks_.end(), [&](watch const& w) {
    return !w.active.empty() && w.active.front()->client->number == client;
  });
  if (holds && std::holds_alternative<zookeeper::set_data>(to) && random_.chance(5))
    isolate_with(*clients_[static_cast<std::size_t>(client)]);
}

void zookeeper_world::answered_ping(zookeeper_model::connection_id c, std::int64_t zxid) {
  tell(c, static_cast<std::uint64_t>(zxid),
       [zxid](zookeeper::wire_events& e, time_point now) { e.answered_ping(zxid, now); });
}

void zookeeper_world::noticed(zookeeper_model::connection_id c, zookeeper::notice const& n) {
  tell(c, std::hash<std::string>{}(n.path) + static_cast<std::uint64_t>(n.what),
       [n](zookeeper::wire_events& e, time_point now) { e.noticed(n, now); });
}

void zookeeper_world::closed(zookeeper_model::connection_id c) {
  auto const at = by_id_.find(c);
  if (at == by_id_.end()) return;
  line_ptr const l = at->second;
  by_id_.erase(at);
  l->server_open = false;
  if (l->cut) return;
  auto lose = [this, l] {
    if (!l->cut) clients_[static_cast<std::size_t>(l->client)]->lost_line(l);
  };
  if (order_ != nullptr) {
    if (!l->deaf) deliver_later(l, false, 0, std::move(lose));
    return;
  }
  l->last_down = std::max(now_ + delay(), l->last_down);
  after(l->last_down - now_, std::move(lose));
}

// ---------------------------------------------------------------------------------------------------------- faults

void zookeeper_world::plan_faults() {
  for (std::int64_t n = random_.between(1, 10); n > 0; --n) after(random_.between(0, 5 * lease), [this] { strike(); });
  plan_new_ensemble();
}

/// B16: in few schedules all servers lose their data, and start as a new ensemble. Not before all sessions have ended:
/// an earlier hold would be believed in beside one of the new ensemble. (With numbers of its own, so that it changes no
/// other schedule.)
void zookeeper_world::plan_new_ensemble() {
  random_source r{seed ^ 0x6275'696c'7400};
  if (!r.chance(4)) return;
  nanos const begin = r.between(0, 3 * lease), end = begin + lease + r.between(0, lease);
  after(begin, [this] {
    say("fault: all servers lose their data");
    all_are_down_ = true;
    for (std::size_t i = 0; i < model_->size(); ++i) model_->crash(i);
  });
  after(end, [this] {
    say("the servers start as a new ensemble");
    all_are_down_ = false;
    ++result.built_anew;
    for (watch& w : locks_) w.line.built_anew(now_);
    model_->build_anew();
  });
}

void zookeeper_world::start(std::size_t which) {
  if (!all_are_down_) model_->start(which);
}

void zookeeper_world::revive(zookeeper_client& c, nanos in) {
  ++revivals_;
  after(in, [this, &c] {
    --revivals_;
    c.revive();
  });
}

void zookeeper_world::break_line(zookeeper_client& c) {
  line_ptr const l = c.line;
  if (l == nullptr || l->cut || !l->client_open) return;
  nanos const client_notices = random_.between(0, lease / 2), server_notices = random_.between(0, lease);
  switch (random_.below(3)) {
    case 0:
      say("fault: the connection of client ", c.number, " breaks");
      cut(l, client_notices / 4, server_notices);
      return;
    case 1:
      // What is written stays in some buffer, and is carried out late; no answer comes back.
      say("fault: the connection of client ", c.number, " breaks, and what is under way arrives late");
      l->held_up_until = now_ + random_.between(0, lease / 4);
      l->last_down = now_ + 1000 * second;
      after(std::min(client_notices, lease / 4), [this, l, &c] {
        l->cut = true;
        c.lost_line(l);
      });
      after(l->held_up_until - now_ + random_.between(1, 500) * millisecond, [this, l] {
        if (!std::exchange(l->server_open, false)) return;
        by_id_.erase(l->id);
        model_->disconnect(l->id);
      });
      return;
    default: l->trap = static_cast<int>(random_.between(0, 5));
  }
}

/// From all other servers. Whether it was the leader or not, what it has not received by the end of it it will not
/// receive, unless clients reckon with pings that are so late.
void zookeeper_world::isolate(std::size_t which) {
  if (model_->size() == 1 || frozen_until_ > now_ || healing_) return;
  nanos length = sync_limit * tick + 2 * tick + random_.between(0, 2 * lease);
  if (late_pings && random_.chance(70)) length = random_.between(0, (sync_limit + 2) * tick);
  else if (random_.chance(30) && short_freeze() > 0) length = random_.between(0, short_freeze());
  frozen_until_ = now_ + length + 2 * tick;
  say("fault: server ", which, " is cut off from the others for ", length / millisecond, " ms");
  for (std::size_t i = 0; i < model_->size(); ++i) {
    if (i != which) model_->freeze(which, i);
  }
  after(length, [this, which] {
    say("server ", which, " is no longer cut off");
    for (std::size_t i = 0; i < model_->size(); ++i) {
      if (i != which) model_->thaw(which, i);
    }
  });
}

/// And that client reaches no other.
void zookeeper_world::isolate_with(zookeeper_client& c) {
  if (c.line == nullptr || frozen_until_ > now_ || healing_ || model_->size() == 1) return;
  isolate(c.line->server);
  c.only_server = c.line->server;
  c.only_until = frozen_until_;
}

/// B6: another client writes to the node of a lock, which uses up watches.
void zookeeper_world::write_by_hand() {
  std::vector<std::string> all;
  for (auto const& [path, n] : model_->truth().nodes()) {
    if (n.owner != 0 && n.owner != zookeeper_tree::container && path.find("/.clients/") == std::string::npos)
      all.push_back(path);
  }
  if (all.empty()) return;
  std::string const& path = all[static_cast<std::size_t>(random_.below(std::ssize(all)))];
  say("fault: somebody writes to ", path);
  model_->write(path);
}

void zookeeper_world::strike() {
  auto who = static_cast<std::size_t>(random_.below(std::ssize(clients_)));
  for (watch const& w : locks_) {
    // Preferably a client that holds something.
    if (!w.active.empty() && random_.chance(50)) who = static_cast<std::size_t>(w.active.front()->client->number);
  }
  zookeeper_client& c = *clients_[who];
  auto which = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(model_->size())));
  nanos const a_while = random_.chance(70) ? random_.between(1, 1000) * millisecond : random_.between(0, 2 * lease);
  switch (random_.below(15)) {
    case 0:
    case 1:
    case 2: break_line(c); return;
    case 3:
      say("fault: client ", who, " is paused");
      c.pause(a_while);
      return;
    case 4:
      say("fault: client ", who, " dies");
      c.die(random_.chance(50));
      if (random_.chance(60)) revive(c, random_.between(1, 500) * millisecond);
      return;
    case 5:
      say("fault: client ", who, " is closed");
      c.close();
      if (random_.chance(60)) revive(c, random_.between(1, 500) * millisecond);
      return;
    case 6:
    case 7:
    case 8:
      if (c.line != nullptr && random_.chance(80)) which = c.line->server;
      isolate(which);
      return;
    case 9:
      say("fault: server ", which, " dies");
      model_->crash(which);
      after(a_while, [this, which] { start(which); });
      return;
    case 10:
      say("fault: another leader");
      model_->depose();
      return;
    case 11:
      say("fault: answers to client ", who, " are late");
      if (c.line != nullptr) c.line->last_down = std::max(c.line->last_down, now_ + a_while);
      return;
    case 12:
      say("fault: what client ", who, " says is late");
      if (c.line != nullptr) c.line->held_up_until = std::max(c.line->held_up_until, now_ + a_while);
      return;
    case 13: write_by_hand(); return;
    default:
      for (auto const& one : clients_) {
        if (one->line != nullptr && random_.chance(70)) one->line->trap = static_cast<int>(random_.between(0, 3));
      }
      return;
  }
}

std::string_view name_of(zookeeper_locks locks) {
  constexpr std::string_view names[] = {"zookeeper", "zookeeper of all kinds", "zookeeper with intervals"};
  return names[static_cast<int>(locks)];
}

std::span<mutant const> mutants_of(zookeeper_locks locks) {
  switch (locks) {
    case zookeeper_locks::of_all_kinds: return zookeeper_kinds_mutants();
    case zookeeper_locks::with_intervals: return zookeeper_interval_mutants();
    default: return zookeeper_mutants();
  }
}

zookeeper_outcome run_zookeeper(std::uint64_t seed, bool traced, zookeeper_locks locks) {
  auto const w = std::make_unique<zookeeper_world>(seed, locks, traced);
  try {
    w->run();
  } catch (violation const& v) {
    w->result.promise = v.promise;
    w->result.words = v.what();
    w->result.in_history = w->what_users_saw().judged().broken();
    w->say(w->result.words);
  }
  w->result.trace = std::move(w->lines);
  return w->result;
}

}  // namespace conch::sim
