#include "sim/model/zookeeper_model.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <utility>

namespace conch::sim {

using zookeeper::reply;
using zookeeper::status;

zookeeper_model::zookeeper_model(settings s, event_queue& events, nanos const& now, outside& out)
    : settings_{s},
      epoch_ms_{s.epoch_ms},
      events_{events},
      now_{now},
      out_{out},
      random_{s.seed},
      servers_(s.servers),
      frozen_(s.servers, std::vector<int>(s.servers, 0)) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < servers_.size(); ++i) all.push_back(i);
  lead(static_cast<std::size_t>(random_.below(std::ssize(servers_))), all);
}

zookeeper_model::~zookeeper_model() {
  for (peering_ptr const& p : peerings_) p->forget();
}

template <class F>
void zookeeper_model::in_service(std::size_t at, nanos delay, F what) {
  after(delay, [this, at, service = servers_[at].service, what = std::move(what)] {
    if (servers_[at].service == service) what();
  });
}

// ------------------------------------------------------------------------------------------------- between servers

/// In order; what arrives while the way is frozen waits.
void zookeeper_model::post(peering_ptr const& p, bool up, std::function<void()> what) {
  nanos& last = up ? p->last_up : p->last_down;
  last = std::max(now_ + settings_.latency + random_.between(0, settings_.jitter), last);
  events_.at(last, [this, p, up, what = std::move(what)] {
    if (!(up ? p->leader_open : p->follower_open)) return;
    if (frozen(p->follower, p->leader)) {
      (up ? p->held_up : p->held_down).push_back(what);
      return;
    }
    deliver(p, up, what);
  });
}

void zookeeper_model::deliver(peering_ptr const& p, bool up, std::function<void()> const& what) {
  if (!(up ? p->leader_open : p->follower_open)) return;
  (up ? p->heard_by_leader : p->heard_by_follower) = now_;
  what();
}

void zookeeper_model::freeze(std::size_t a, std::size_t b) {
  ++frozen_[a][b];
  ++frozen_[b][a];
}

void zookeeper_model::thaw(std::size_t a, std::size_t b) {
  --frozen_[a][b];
  if (--frozen_[b][a] != 0) return;
  std::vector<peering_ptr> const all = peerings_;
  for (peering_ptr const& p : all) {
    if (std::minmax(p->follower, p->leader) != std::minmax(a, b)) continue;
    for (bool const up : {true, false}) {
      auto held = std::exchange(up ? p->held_up : p->held_down, {});
      for (auto const& what : held) deliver(p, up, what);
    }
  }
  std::erase_if(peerings_, [](peering_ptr const& p) {
    bool const is_over = !p->follower_open && !p->leader_open;
    if (is_over) p->forget();
    return is_over;
  });
}

void zookeeper_model::follower_leaves(std::size_t at) {
  server& s = servers_[at];
  peering_ptr const p = std::exchange(s.to_leader, nullptr);
  p->follower_open = false;
  post(p, true, [this, p] { leader_drops(p); });
  if (s.is == role::following) s.is = role::looking;
  stop_serving(at);
  look_for_leader();
}

void zookeeper_model::leader_drops(peering_ptr const& p) {
  if (!std::exchange(p->leader_open, false)) return;
  std::erase(servers_[p->leader].learners, p);
  post(p, false, [this, p] { follower_leaves(p->follower); });
}

void zookeeper_model::step_down(std::size_t at) {
  server& s = servers_[at];
  say("server " + std::to_string(at) + " leads no more");
  auto const all = s.learners;
  for (peering_ptr const& p : all) leader_drops(p);
  s.sessions.clear();
  s.syncs.clear();
  if (s.is == role::leading) s.is = role::looking;
  stop_serving(at);
  look_for_leader();
}

void zookeeper_model::stop_serving(std::size_t at) {
  server& s = servers_[at];
  s.serving = false;
  ++s.service;
  auto const all = s.connections;
  for (connection_id const c : all) close(c);
  s.questions.clear();
  s.watches.clear();
  s.touched.clear();
}

void zookeeper_model::crash(std::size_t at) {
  server& s = servers_[at];
  if (s.is == role::down) return;
  role const was = std::exchange(s.is, role::down);
  if (was == role::leading) step_down(at);
  else if (s.to_leader != nullptr) follower_leaves(at);
}

void zookeeper_model::start(std::size_t at) {
  if (servers_[at].is != role::down) return;
  servers_[at].is = role::looking;
  look_for_leader();
}

void zookeeper_model::build_anew() {
  epoch_ms_ += (static_cast<std::int64_t>(epoch_ - 1) << 32) / 1000 + 1;
  epoch_ = 0;
  latest_ = 0;
  for (server& s : servers_) {
    BOOST_ASSERT_MSG(s.is == role::down, "a server that runs keeps its data");
    s.log.clear();
    s.committed = s.written = 0;
    s.tree = s.ahead = {};
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) start(i);
}

void zookeeper_model::write(std::string const& path) {
  auto const l = leader();
  if (!l || servers_[*l].ahead.find(path) == nullptr) return;
  zookeeper_transaction t;
  t.what = zookeeper_transaction::kind::set_data;
  t.path = path;
  propose(*l, std::move(t));
}

void zookeeper_model::depose() {
  auto const l = leader();
  if (!l) return;
  shunned_ = *l;
  step_down(*l);
}

void zookeeper_model::look_for_leader() {
  if (std::exchange(electing_, true)) return;
  after(settings_.election / 2 + random_.between(0, settings_.election), [this] {
    electing_ = false;
    elect();
  });
}

void zookeeper_model::elect() {
  std::vector<std::size_t> looking;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].is == role::looking) looking.push_back(i);
  }
  auto const l = leader();
  for (std::size_t const one : looking) {
    if (l && !frozen(one, *l)) join(one, *l);
  }
  std::erase_if(looking, [this](std::size_t one) { return servers_[one].is != role::looking; });
  // The server with the most in its log.
  auto const last = [this](std::size_t one) { return servers_[one].log.empty() ? 0 : servers_[one].log.back()->zxid; };
  std::stable_sort(looking.begin(), looking.end(), [&](std::size_t a, std::size_t b) {
    return last(a) != last(b) ? last(a) > last(b) : (a != shunned_ && b == shunned_);
  });
  for (std::size_t const one : looking) {
    std::vector<std::size_t> with;
    for (std::size_t const other : looking) {
      if (!frozen(one, other) && last(other) <= last(one)) with.push_back(other);
    }
    if (with.size() < majority()) continue;
    lead(one, with);
    break;
  }
  if (std::any_of(servers_.begin(), servers_.end(), [](server const& s) { return s.is == role::looking; }))
    look_for_leader();
}

void zookeeper_model::lead(std::size_t at, std::vector<std::size_t> const& with) {
  server& s = servers_[at];
  s.is = role::leading;
  s.epoch = ++epoch_;
  ++s.service;
  s.counter = 0;
  s.written = s.log.size();
  s.last_write = 0;
  say("server " + std::to_string(at) + " leads in epoch " + std::to_string(s.epoch));
  commit(at, s.log.size());
  s.ahead = s.tree;
  latest_ = at;
  s.sessions.clear();
  for (auto const& [id, timeout] : s.tree.sessions()) {
    s.sessions[id].timeout_ms = timeout;
    touch(at, id);
  }
  s.serving = true;
  for (std::size_t const one : with) {
    if (one != at) join(one, at);
  }
  if (servers_.size() > 1) half_tick(at);
  expire(at);
  in_service(at, settings_.check_containers, [this, at] { collect(at); });
}

void zookeeper_model::join(std::size_t at, std::size_t leader) {
  server& s = servers_[at];
  server& l = servers_[leader];
  say("server " + std::to_string(at) + " follows server " + std::to_string(leader));
  s.is = role::following;
  ++s.service;
  s.log = l.log;
  s.tree = l.tree;
  s.committed = l.committed;
  auto const p = std::make_shared<peering>();
  p->follower = at;
  p->leader = leader;
  p->heard_by_follower = p->heard_by_leader = now_;
  p->acknowledged = s.log.size();
  s.to_leader = p;
  s.serving = true;
  l.learners.push_back(p);
  peerings_.push_back(p);
  watch_leader(at);
  advance(leader);
}

/// The leader's ping to each follower; in its answer a follower reports which sessions it has heard from.
void zookeeper_model::half_tick(std::size_t at) {
  server& s = servers_[at];
  nanos const limit = settings_.sync_limit * settings_.tick;
  auto const all = s.learners;
  for (peering_ptr const& p : all) {
    if (now_ - p->heard_by_leader > limit) {
      leader_drops(p);
      continue;
    }
    post(p, false, [this, p, at] {
      auto touched = std::exchange(servers_[p->follower].touched, {});
      post(p, true, [this, at, touched = std::move(touched)] {
        for (std::int64_t const session : touched) touch(at, session);
      });
    });
  }
  if (s.learners.size() + 1 < majority()) {
    step_down(at);
    return;
  }
  in_service(at, after_local(s, settings_.tick / 2), [this, at] { half_tick(at); });
}

void zookeeper_model::watch_leader(std::size_t at) {
  nanos const limit = settings_.sync_limit * settings_.tick, heard = servers_[at].to_leader->heard_by_follower;
  if (now_ - heard > limit) {
    say("server " + std::to_string(at) + " has not heard of its leader for too long");
    follower_leaves(at);
    return;
  }
  in_service(at, heard + limit + 1 - now_, [this, at] { watch_leader(at); });
}

/// At full ticks of the leader's clock.
void zookeeper_model::expire(std::size_t at) {
  server& s = servers_[at];
  nanos const shown = local(s);
  for (auto& [id, t] : s.sessions) {
    if (t.closing || t.expires > shown) continue;
    t.closing = true;
    zookeeper_transaction end;
    end.what = zookeeper_transaction::kind::close_session;
    end.session = id;
    say("the leader ends session " + std::to_string(id));
    propose(at, std::move(end));
  }
  nanos const next = (shown / settings_.tick + 1) * settings_.tick;
  in_service(at, after_local(s, next - shown) + 1000, [this, at] { expire(at); });
}

void zookeeper_model::collect(std::size_t at) {
  server& s = servers_[at];
  for (std::string const& path : s.ahead.spent_containers()) {
    zookeeper_transaction t;
    t.what = zookeeper_transaction::kind::remove;
    t.path = path;
    propose(at, std::move(t));
  }
  in_service(at, settings_.check_containers, [this, at] { collect(at); });
}

// ------------------------------------------------------------------------------------------------------ the leader

bool zookeeper_model::touch(std::size_t leader, std::int64_t session) {
  server& s = servers_[leader];
  auto const at = s.sessions.find(session);
  if (at == s.sessions.end() || at->second.closing) return false;
  at->second.expires = ((local(s) + at->second.timeout_ms * millisecond) / settings_.tick + 1) * settings_.tick;
  return true;
}

void zookeeper_model::decide(std::size_t leader, std::size_t asked_at, std::uint64_t number, std::int64_t session,
                             std::set<std::string> const& who, zookeeper::request const& r) {
  server& s = servers_[leader];
  auto const at = s.sessions.find(session);
  zookeeper_transaction t;
  t.session = session;
  if (std::holds_alternative<zookeeper::close_session>(r)) {  // from any client
    t = s.ahead.prepare(r, session);
    if (at != s.sessions.end()) at->second.closing = true;
  } else if (at == s.sessions.end() || at->second.closing) {
    t.why = status::session_expired;
  } else if (at->second.owner.value_or(asked_at) != asked_at) {
    t.why = status::session_moved;
  } else {
    at->second.owner = asked_at;
    t = s.ahead.prepare(r, session, who);
    if (t.owner == zookeeper_tree::container) t.first_child = settings_.first_sequence;
  }
  t.asked_at = asked_at;
  t.question = number;
  propose(leader, std::move(t));
}

void zookeeper_model::open_session(std::size_t leader, std::size_t asked_at, std::uint64_t number, std::int64_t session,
                                   int timeout_ms) {
  tracked& one = servers_[leader].sessions[session];
  one.timeout_ms = timeout_ms;
  one.owner = asked_at;
  touch(leader, session);
  zookeeper_transaction t;
  t.what = zookeeper_transaction::kind::open_session;
  t.session = session;
  t.timeout_ms = timeout_ms;
  t.asked_at = asked_at;
  t.question = number;
  propose(leader, std::move(t));
}

void zookeeper_model::revalidate(std::size_t leader, std::size_t asked_at, connection_id c, std::int64_t session) {
  bool const valid = touch(leader, session);
  if (valid) servers_[leader].sessions[session].owner = asked_at;
  if (asked_at == leader) {
    finish_greeting(c, valid);
    return;
  }
  for (peering_ptr const& p : servers_[leader].learners) {
    if (p->follower == asked_at) post(p, false, [this, c, valid] { finish_greeting(c, valid); });
  }
}

void zookeeper_model::propose(std::size_t leader, zookeeper_transaction t) {
  server& s = servers_[leader];
  t.zxid = (static_cast<std::int64_t>(s.epoch) << 32) + ++s.counter;
  t.at_ms = epoch_ms_ + local(s) / millisecond;
  s.ahead.apply(t);
  s.log.push_back(std::make_shared<zookeeper_transaction const>(std::move(t)));
  for (peering_ptr const& p : s.learners) {
    post(p, false, [this, p, one = s.log.back()] {
      server& f = servers_[p->follower];
      f.log.push_back(one);
      in_service(p->follower, random_.between(0, settings_.write_time), [this, p, size = f.log.size()] {
        post(p, true, [this, p, size] {
          p->acknowledged = std::max(p->acknowledged, size);
          advance(p->leader);
        });
      });
    });
  }
  s.last_write = std::max(s.last_write, now_ + random_.between(0, settings_.write_time));
  std::size_t const size = s.log.size();
  in_service(leader, s.last_write - now_, [this, leader, size] {
    servers_[leader].written = std::max(servers_[leader].written, size);
    advance(leader);
  });
}

/// What a majority has on its disks is decided.
void zookeeper_model::advance(std::size_t leader) {
  server& s = servers_[leader];
  std::size_t decided_now = s.committed;
  for (std::size_t next = s.committed + 1; next <= s.log.size(); ++next) {
    std::size_t have = s.written >= next ? 1 : 0;
    for (peering_ptr const& p : s.learners) have += p->acknowledged >= next ? 1 : 0;
    if (have < majority()) break;
    decided_now = next;
  }
  if (decided_now == s.committed) return;
  for (peering_ptr const& p : s.learners) {
    post(p, false, [this, p, decided_now] { commit(p->follower, decided_now); });
  }
  commit(leader, decided_now);
  while (!s.syncs.empty() && s.syncs.begin()->first <= s.committed) {
    auto const one = s.syncs.begin()->second;
    s.syncs.erase(s.syncs.begin());
    tell_synced(leader, one.first, one.second);
  }
}

/// For a follower it waits for all that is proposed. A client of the leader waits only for what its own session has
/// asked for, wherever that was.
void zookeeper_model::sync(std::size_t leader, std::size_t asked_at, std::uint64_t number, std::int64_t session) {
  server& s = servers_[leader];
  std::size_t first = s.log.size();
  bool const all = asked_at != leader || servers_.size() == 1;
  while (first > s.committed && !all && s.log[first - 1]->session != session) --first;
  if (first <= s.committed) {
    tell_synced(leader, asked_at, number);
  } else {
    s.syncs.emplace(first, std::pair{asked_at, number});
  }
}

void zookeeper_model::tell_synced(std::size_t leader, std::size_t asked_at, std::uint64_t number) {
  if (asked_at == leader) {
    answer(asked_at, number, {servers_[asked_at].tree.last(), status::ok, {}});
    return;
  }
  for (peering_ptr const& p : servers_[leader].learners) {
    if (p->follower == asked_at)
      post(p, false, [this, asked_at, number] {
        answer(asked_at, number, {servers_[asked_at].tree.last(), status::ok, {}});
      });
  }
}

// ------------------------------------------------------------------------------------------------------ any server

void zookeeper_model::commit(std::size_t at, std::size_t up_to) {
  server& s = servers_[at];
  while (s.committed < std::min(up_to, s.log.size())) {
    txn_ptr const t = s.log[s.committed++];
    decided(at, *t);
  }
}

void zookeeper_model::decided(std::size_t at, zookeeper_transaction const& t) {
  using kind = zookeeper_transaction::kind;
  server& s = servers_[at];
  bool const is_new = servers_[latest_].tree.last() < t.zxid;
  auto const fired = s.tree.apply(t);
  if (is_new) {
    latest_ = at;
    out_.decided(t);
  }
  if (s.is == role::leading && t.what == kind::close_session) s.sessions.erase(t.session);
  for (auto const& one : fired) {
    auto const watched = s.watches.find(one.path);
    if (watched == s.watches.end()) continue;
    auto const watchers = std::move(watched->second);
    s.watches.erase(watched);
    for (connection_id const c : watchers) {
      connections_.at(c).watches.erase(one.path);
      out_.noticed(c, {one.what, 3, one.path});
    }
  }
  if (t.what == kind::close_session && (t.question == 0 || t.asked_at != at)) {
    auto const all = s.connections;
    for (connection_id const c : all) {
      if (connections_.at(c).session == t.session) close(c);
    }
  }
  if (t.question == 0 || t.asked_at != at) return;
  auto const asked = s.questions.find(t.question);
  if (asked == s.questions.end()) return;
  auto const by = connections_.find(asked->second);
  if (by == connections_.end()) return;
  if (by->second.opening == t.question) {
    finish_greeting(by->first, true);
    return;
  }
  reply r{s.tree.last(), t.why, {}};
  if (t.what == kind::create) r.content = zookeeper::created{t.path, s.tree.find(t.path)->stat()};
  answer(at, t.question, std::move(r));
}

void zookeeper_model::answer(std::size_t at, std::uint64_t number, reply r) {
  server& s = servers_[at];
  auto const asked = s.questions.find(number);
  if (asked == s.questions.end()) return;
  connection_id const c = asked->second;
  s.questions.erase(asked);
  auto const by = connections_.find(c);
  if (by == connections_.end()) return;
  for (question& q : by->second.questions) {
    if (q.number == number) q.answer = std::move(r);
  }
  go_on(c);
}

void zookeeper_model::go_on(connection_id id) {
  for (auto at = connections_.find(id); at != connections_.end() && !at->second.questions.empty();
       at = connections_.find(id)) {
    connection& c = at->second;
    question& first = c.questions.front();
    if (first.number != 0 && !first.answer) return;
    question const q = std::move(first);
    c.questions.pop_front();
    if (std::holds_alternative<zookeeper::ping>(q.what)) {
      out_.answered_ping(id, servers_[c.server].tree.last());
      continue;
    }
    reply const r = q.answer ? *q.answer : read(id, q.what);
    if (r.what == status::session_moved) {  // an error of the connection
      close(id);
      return;
    }
    out_.answered(id, q.what, r);
    if (std::holds_alternative<zookeeper::close_session>(q.what)) close(id);
  }
}

reply zookeeper_model::read(connection_id id, zookeeper::request const& what) {
  connection& c = connections_.at(id);
  server& s = servers_[c.server];
  reply r = s.tree.read(what, c.users);
  auto const* const get = std::get_if<zookeeper::get_data>(&what);
  if (get != nullptr && get->watch && r.what == status::ok) {
    s.watches[get->path].insert(id);
    c.watches.insert(get->path);
  }
  if (auto* const all = std::get_if<zookeeper::children>(&r.content)) {
    // In no order.
    for (std::size_t i = settings_.lists_in_order ? 0 : all->names.size(); i > 1; --i)
      std::swap(all->names[i - 1], all->names[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
  }
  return r;
}

// --------------------------------------------------------------------------------------------------------- clients

bool zookeeper_model::is_up(std::size_t at) const { return servers_[at].is != role::down; }

bool zookeeper_model::serves(std::size_t at) const { return servers_[at].serving; }

std::optional<std::size_t> zookeeper_model::leader() const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].is == role::leading && (!found || servers_[i].epoch > servers_[*found].epoch)) found = i;
  }
  return found;
}

std::int64_t zookeeper_model::latest_clock_ms() const {
  nanos most = 0;
  for (server const& s : servers_) most = std::max(most, local(s));
  return epoch_ms_ + most / millisecond;
}

bool zookeeper_model::follows_well(std::size_t at) const {
  auto const l = leader();
  if (!l || !servers_[at].serving) return false;
  if (at == *l) return servers_[at].learners.size() + 1 >= majority();
  peering_ptr const& p = servers_[at].to_leader;
  return p != nullptr && p->leader == *l && p->leader_open && !frozen(at, *l);
}

std::size_t zookeeper_model::watches(std::size_t at) const {
  std::size_t n = 0;
  for (auto const& [path, watchers] : servers_[at].watches) n += watchers.size();
  return n;
}

std::string zookeeper_model::password_of(std::int64_t session) {
  random_source r{static_cast<std::uint64_t>(session)};
  std::string text;
  while (text.size() < 16) text += static_cast<char>(r.next());
  return text;
}

zookeeper_model::connection_id zookeeper_model::connect(std::size_t at) {
  connection_id const id = ++last_connection_;
  connections_[id].server = at;
  servers_[at].connections.insert(id);
  return id;
}

void zookeeper_model::greet(connection_id id, zookeeper::connect_request const& r) {
  auto const found = connections_.find(id);
  if (found == connections_.end()) return;
  connection& c = found->second;
  std::size_t const at = c.server;
  server& s = servers_[at];
  if (!s.serving || r.last_seen > s.tree.last()) {
    close(id);
    return;
  }
  std::size_t const leader = s.is == role::leading ? at : s.to_leader->leader;
  nanos const timeout = std::clamp(r.timeout_ms * millisecond, min_timeout(), max_timeout());
  c.timeout_ms = static_cast<int>(timeout / millisecond);
  if (r.session == 0) {
    c.session = (static_cast<std::int64_t>(at + 1) << 56) + ++last_session_;
    c.opening = ++last_question_;
    s.questions[c.opening] = id;
    auto const open = [this, leader, at, number = c.opening, session = c.session, t = c.timeout_ms] {
      open_session(leader, at, number, session, t);
    };
    if (at == leader) open();
    else post(s.to_leader, true, open);
    return;
  }
  c.session = r.session;
  auto const all = s.connections;
  for (connection_id const other : all) {
    if (other != id && connections_.at(other).session == r.session) close(other);
  }
  if (r.password != password_of(r.session)) {
    finish_greeting(id, false);
    return;
  }
  if (at == leader) revalidate(leader, at, id, r.session);
  else post(s.to_leader, true, [this, leader, at, id, session = r.session] { revalidate(leader, at, id, session); });
}

void zookeeper_model::finish_greeting(connection_id id, bool valid) {
  auto const found = connections_.find(id);
  if (found == connections_.end()) return;
  connection& c = found->second;
  if (!valid) {
    out_.greeted(id, {0, 0, std::string(16, '\0')});
    close(id);
    return;
  }
  c.greeted = true;
  out_.greeted(id, {c.timeout_ms, c.session, password_of(c.session)});
}

void zookeeper_model::ask(connection_id id, zookeeper::request const& r) {
  auto const found = connections_.find(id);
  if (found == connections_.end() || !found->second.greeted) return;
  if (auto const* const a = std::get_if<zookeeper::add_auth>(&r)) {
    authenticate(id, *a);
    return;
  }
  connection& c = found->second;
  std::size_t const at = c.server;
  server& s = servers_[at];
  bool const leads = s.is == role::leading;
  bool const decides = zookeeper::is_write(r) || std::holds_alternative<zookeeper::close_session>(r);
  if (leads) {
    // as a server does: nothing comes back, and the connection is about to be closed
    if (!touch(at, c.session)) return;
    tracked& t = s.sessions[c.session];
    if (t.owner.value_or(at) != at && !decides) {
      close(id);
      return;
    }
  } else {
    s.touched.insert(c.session);
  }
  bool const syncs = std::holds_alternative<zookeeper::sync>(r);
  question q{r, 0, {}};
  if (syncs || decides) {
    q.number = ++last_question_;
    s.questions[q.number] = id;
  }
  std::uint64_t const number = q.number;
  std::int64_t const session = c.session;
  c.questions.push_back(std::move(q));
  if (number == 0) {
    go_on(id);
    return;
  }
  std::size_t const leader = leads ? at : s.to_leader->leader;
  auto const pass_on = [this, syncs, leader, at, number, session, who = c.users, r] {
    if (syncs) sync(leader, at, number, session);
    else decide(leader, at, number, session, who, r);
  };
  if (leads) pass_on();
  else post(s.to_leader, true, pass_on);
}

/// By the server at once, before what was asked earlier. Any password is right: it names another user.
void zookeeper_model::authenticate(connection_id id, zookeeper::add_auth const& a) {
  bool const known = a.scheme == "digest";
  if (known) connections_.at(id).users.insert(a.secret);
  out_.answered(id, a, {0, known ? status::ok : status::auth_failed, {}});
  if (!known) close(id);
}

void zookeeper_model::forget(connection_id id) {
  auto const found = connections_.find(id);
  if (found == connections_.end()) return;
  server& s = servers_[found->second.server];
  for (std::string const& path : found->second.watches) {
    auto const at = s.watches.find(path);
    if (at == s.watches.end()) continue;
    at->second.erase(id);
    if (at->second.empty()) s.watches.erase(at);
  }
  s.connections.erase(id);
  connections_.erase(found);
}

void zookeeper_model::disconnect(connection_id id) { forget(id); }

void zookeeper_model::close(connection_id id) {
  forget(id);
  out_.closed(id);
}

}  // namespace conch::sim
