#include "sim/quorum_world.hpp"

#include "redis/codec.hpp"
#include "sim/mutants.hpp"
#include "sim/words.hpp"

#include <algorithm>
#include <cstring>

// The servers, the network, the faults and the judge; quorum_client.cpp has the processes.
namespace conch::sim {

namespace {

void put(resp::decoder& in, std::string_view bytes) {
  auto const room = in.prepare(bytes.size());
  std::memcpy(room.data(), bytes.data(), bytes.size());
  in.commit(bytes.size());
}

}  // namespace

quorum_world::quorum_world(std::uint64_t with_seed, bool traced) : seed{with_seed}, traced_{traced}, random_{seed} {
  random_source& r = random_;
  use_small_steps(random_source{seed ^ 0x57e9'5000}.chance(50));
  constexpr int sizes[] = {3, 3, 4, 5, 5, 5, 7};
  servers_count = sizes[r.below(std::size(sizes))];
  needed = quorum::majority_of(static_cast<std::size_t>(servers_count));
  names = r.chance(80) ? 1 : 2;
  calm = r.chance(30);
  strict = r.chance(40);
  fresh_rule = !calm && r.chance(30);
  lease = r.between(6, 20) * 100 * millisecond;
  claim = r.chance(90) ? r.between(3, 8) * 50 * millisecond : lease * r.between(50, 100) / 100;
  if (r.chance(15)) {
    // Numbers get a digit more, or are zero and less.
    constexpr std::int64_t edges[] = {engine::fence_epoch_us + 100'000'000'000'000, engine::fence_epoch_us, 1'000'000'000'000'000};
    // Fences that are not strict, and those of servers that forget, follow the clocks, and these begin in 2020.
    epoch_us_ = edges[r.below(strict && !fresh_rule ? std::ssize(edges) : 1)] - r.between(0, 5'000'000);
  }
  latency = r.between(50, 1000) * microsecond;
  jitter = r.between(0, calm ? latency : 4 * latency);
  bursts = r.chance(50);
  seldom = strict && !calm && !fresh_rule && r.chance(50);
  if (seldom) names = 1;
  steps = !calm && r.chance(25);
  foreign = !calm && strict && r.chance(25);
  no_kill = !calm && !steps && r.chance(20);
  for (int i = 0; i < servers_count; ++i) {
    auto s = std::make_unique<server>();
    s->offset_us = seldom ? (i == 0 ? r.between(3, 8) * 1'000'000 : r.between(-20'000, 20'000)) : r.between(-farthest_us(), farthest_us());
    s->ppm = r.between(-2500, 2500);
    s->locks.resize(static_cast<std::size_t>(names));
    if (no_kill) s->model.deny("client|kill");
    s->started_us = clock_us(*s) - 3'600'000'000;
    servers_.push_back(std::move(s));
  }
  random_source p11{seed ^ 0x510'3e7};
  if (calm && p11.chance(30)) {
    slow = true;
    calm = false;
  }
  int const clients = static_cast<int>(seldom ? r.between(3, 6) : r.between(2, 5));
  for (int i = 0; i < clients; ++i) clients_.push_back(std::make_unique<quorum_client>(*this, i));
  locks_.resize(static_cast<std::size_t>(names));
  for (int i = 0; i < names; ++i) {
    keys_.push_back("conch:{" + redis::escape_name(name_of(i)) + "}");
    fence_keys_.push_back(keys_.back() + ":f");
    lock_names_.push_back(name_of(i));
  }
}

quorum_world::~quorum_world() = default;

/// Where fences are not strict, or servers forget them, clocks differ by less than a claim.
std::int64_t quorum_world::farthest_us() const { return strict && !fresh_rule ? 5'000'000 : claim / microsecond / 3; }

template <class F>
bool quorum_world::pass_until(nanos until, F const& done) {
  while (!events_.empty() && events_.next() <= until && !done()) {
    events_.run_next([this](nanos at) { now_ = at; });
  }
  return done();
}

void quorum_world::run() {
  for (auto const& c : clients_)
    after(random_.between(0, 20) * millisecond, [&c] {
      if (!c->alive) c->start();  // it may have died before, and come back
    });
  if (!calm && !slow) plan_faults();
  for (int i = 0; i < servers_count; ++i) patrols(i);
  auto const finished = [&] { return revivals_ == 0 && std::all_of(clients_.begin(), clients_.end(), [](auto const& c) { return c->finished(); }); };
  (void)pass_until(4 * second, [] { return false; });
  say("all faults are over");
  healing_ = true;
  for (auto const& s : servers_) s->stalled_until = s->says_until = s->slow_until = 0;
  window_.assign(window_.size(), true);
  // Every wait ends: a lease of one that died, claims of those that are next, the slowest reconnect.
  nanos const bound = now_ + 60 * lease + 20 * second;
  if (!pass_until(bound, finished)) {
    std::string who;
    for (auto const& c : clients_) {
      if (!c->finished()) who += c->describe();
    }
    throw violation{4, "somebody still waits long after all faults were over:" + who};
  }
  auto const settled = [&] { return std::all_of(clients_.begin(), clients_.end(), [](auto const& c) { return c->settled(); }); };
  if (!pass_until(now_ + 4 * lease + 5 * second, settled)) {
    std::string who;
    for (auto const& c : clients_) {
      if (!c->settled()) who += c->describe();
    }
    throw violation{6, "something is still owed to a server that is there:" + who};
  }
  // A release that meets somebody else's key is not repeated: the place in line that it was for lives as long as the line.
  (void)pass_until(now_ + (foreign || errors_ ? 3 * lease : 100 * millisecond), [] { return false; });
  nothing_left();
  for (auto const& c : clients_) {
    result.given_back += c->stats.votes_given_back;
    result.fence_rounds += c->stats.fence_rounds;
    if (calm) result.calm_given_back += c->stats.votes_given_back;
  }
}

void quorum_world::nothing_left() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i]->set_back) continue;  // leases there are longer than anybody reckons with
    set_clock(*servers_[i]);
    for (int name = 0; name < names; ++name) {
      std::string const& key = keys_[static_cast<std::size_t>(name)];
      auto const living = [&](std::string const& text) {
        return std::any_of(clients_.begin(), clients_.end(), [&](auto const& c) { return c->alive && c->owns(text); });
      };
      std::string const* const lock = servers_[i]->model.text_at(key);
      if (lock != nullptr && living(*lock)) throw violation{6, "server " + std::to_string(i) + " still has the lock for " + *lock};
      for (value const& item : servers_[i]->model.peek(key + ":q").items) {
        if (living(item.items[0].text)) throw violation{6, "server " + std::to_string(i) + " still has in line " + item.items[0].text};
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------- the network

nanos quorum_world::delay() {
  nanos const usual = latency + random_.between(0, jitter);
  if (calm || !random_.chance(slow ? 35 : 1)) return usual;
  nanos const longer = slow ? random_.between(0, slowest()) : random_.between(0, spike / millisecond) * millisecond;
  spiked_ = std::max(spiked_, now_ + longer);
  return usual + longer;
}

std::int64_t quorum_world::clock_us(server const& s) const { return epoch_us_ + s.offset_us + (now_ + now_ * s.ppm / 1'000'000) / microsecond; }

/// As Redis has it: the difference of two seconds of its clock. One that is 0.2 s old may say 1.
std::chrono::seconds quorum_world::uptime(server const& s) const {
  constexpr std::int64_t us = 1'000'000;
  return std::chrono::seconds{clock_us(s) / us - s.started_us / us};
}

void quorum_world::set_clock(server& s) { s.model.set_time_us(clock_us(s)); }

void quorum_world::connect(int client, int to) {
  auto const l = std::make_shared<link>();
  quorum_client& c = *clients_[static_cast<std::size_t>(client)];
  l->client = client;
  l->server = to;
  l->process = c.process;
  links_.push_back(l);
  time_point const asked = c.local();
  after(2 * delay(), [this, l, asked] {
    server& s = *servers_[static_cast<std::size_t>(l->server)];
    if (!s.up || s.stalled_until > now_ || !reachable(l->client, l->server)) {
      after(random_.between(1, 30) * millisecond, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "no connection"); });
      return;
    }
    set_clock(s);
    std::string const address = "10.0." + std::to_string(l->client) + ".1:" + std::to_string(++ports_);
    l->id = s.model.connect(address);
    s.links[l->id] = l;
    l->server_open = true;
    l->up_since = now_;
    std::string_view const hello[] = {"HELLO", "3"};
    (void)s.model.execute(l->id, hello);
    engine::session session{l->id, address, clock_us(s), asked, "run" + std::to_string(s.runs), uptime(s)};
    nanos const arrives = std::max(now_ + delay(), l->last_down);
    l->last_down = arrives;
    after(arrives - now_, [this, l, session] {
      quorum_client& to_whom = *clients_[static_cast<std::size_t>(l->client)];
      if (!l->cut && to_whom.alive && to_whom.process == l->process) to_whom.connected(l, session);
    });
  });
}

void quorum_world::send(link_ptr const& l, std::string bytes) {
  if (l->cut || !l->client_open) return;
  l->last_up = std::max(now_ + delay(), l->last_up);
  after(l->last_up - now_, [this, l, bytes = std::move(bytes)] { arrive(l, bytes); });
}

void quorum_world::arrive(link_ptr const& l, std::string const& bytes) {
  server& s = *servers_[static_cast<std::size_t>(l->server)];
  if (l->cut || !l->server_open || !s.up) return;
  l->arrived += bytes;
  read(l);
}

/// In the order in which it was sent, also what comes while the first of it is held up.
void quorum_world::read(link_ptr const& l) {
  server& s = *servers_[static_cast<std::size_t>(l->server)];
  if (l->cut || !l->server_open || !s.up) return;
  if (nanos const until = std::max(s.stalled_until, l->held_up_until); until > now_) {
    l->last_up = std::max(l->last_up, until);
    after(until - now_, [this, l] { read(l); });
    return;
  }
  put(l->commands, std::exchange(l->arrived, {}));
  while (l->server_open && l->commands.next() == resp::decoder::progress::message) {
    argv_.clear();
    for (auto const& node : l->commands.message().subspan(1)) argv_.emplace_back(node.text);
    execute(l, argv_);
  }
}

/// With the script that the active mutant has changed, if any.
std::span<std::string_view const> quorum_world::as_executed(std::span<std::string_view const> argv, bool script) {
  if (!script) return argv;
  std::string_view const changed = mutated_script(argv[1]);
  if (changed.data() == argv[1].data()) return argv;
  changed_argv_.assign(argv.begin(), argv.end());
  changed_argv_[1] = changed;
  return changed_argv_;
}

void quorum_world::execute(link_ptr const& l, std::span<std::string_view const> argv) {
  server& s = *servers_[static_cast<std::size_t>(l->server)];
  set_clock(s);
  bool const script = argv[0].starts_with("EVAL");
  if (script && s.says_until > now_) {
    refuse(l, argv);
    return;
  }
  std::vector<step> const about = script ? steps_of(l->server, argv) : std::vector<step>{};
  value const reply = s.model.execute(l->id, as_executed(argv, script));
  if (traced_ && script) {
    std::string words;
    for (std::size_t i = 3; i < argv.size(); ++i) (words += ' ') += argv[i];
    say("server ", l->server, ": client ", l->client, " ", script_name(argv[1]), words, " -> ", describe(reply));
  }
  if (!reply.is_error()) {
    // Where old connections cannot be ended, one may still ask when its successor has long given back what it asked for.
    bool const too_late = no_kill && !l->client_open && linked(l->client, l->server, now_);
    for (step const& one : about) judge(l->server, one, reply, too_late);
  } else if (reply.error_code() == "NOSCRIPT") {
    for (step const& one : about) {
      // It is looked after, and the same comes again; by then that vote may have ended.
      std::erase(s.forsaken, one.id);
      seen_lock& known = s.locks[static_cast<std::size_t>(one.name)];
      if (known.owner == one.id) known.looked_after = true;
    }
  } else if (reply.error_code() == "WRONGTYPE") {
    for (step const& one : about) {
      if (one.releases) s.denied.push_back(one.id);
    }
  }
  for (auto const& p : s.model.take_pushes()) {
    auto const to = s.links.find(p.to);
    if (to == s.links.end() || !to->second->server_open) continue;
    std::string bytes;
    append_resp(bytes, p.message);
    answer(to->second, std::move(bytes));
  }
  std::string bytes;
  if (!reply.is(value::kind::none)) append_resp(bytes, reply);
  if (!bytes.empty()) answer(l, std::move(bytes));
  for (auto const id : s.model.take_killed()) {
    if (auto const victim = s.links.find(id); victim != s.links.end()) victim->second->server_open = false;
  }
}

/// P10: who is told so does not ask again at once.
void quorum_world::refuse(link_ptr const& l, std::span<std::string_view const> argv) {
  server& s = *servers_[static_cast<std::size_t>(l->server)];
  std::string_view const id = argv[3 + static_cast<std::size_t>(number(argv[2]))];
  say("server ", l->server, ": client ", l->client, " ", script_name(argv[1]), " ", id, " -> ", s.says);
  if (script_name(argv[1]) == "release" && (s.says.starts_with("NOPERM") || s.says.starts_with("WRONGTYPE"))) s.denied.emplace_back(id);
  std::string bytes = "-";
  (bytes += s.says) += "\r\n";
  answer(l, std::move(bytes));
  if (script_name(argv[1]) != "acquire" || s.says.starts_with("READONLY")) return;
  // What was held up comes all at once, also what connections sent that are gone.
  if (!l->client_open || s.stalled_until == now_ || l->held_up_until == now_) return;
  auto& [times, since] = clients_[static_cast<std::size_t>(l->client)]->refused_[{l->server, std::string{vote_of(id)}}];
  if (times++ == 0) since = now_;
  constexpr nanos shortest_pause = 15 * millisecond;
  if (times > 6 + (now_ - since) / shortest_pause) {
    throw violation{10, "client " + std::to_string(l->client) + " has asked server " + std::to_string(l->server) + " " + std::to_string(times) +
                            " times within " + std::to_string((now_ - since) / millisecond) + " ms, and is refused"};
  }
}

void quorum_world::answer(link_ptr const& l, std::string bytes) {
  if (l->cut) return;
  server const& s = *servers_[static_cast<std::size_t>(l->server)];
  l->last_down = std::max(now_ + delay() + (s.slow_until > now_ ? s.slow_by : 0), l->last_down);
  after(l->last_down - now_, [this, l, bytes = std::move(bytes)] {
    quorum_client& c = *clients_[static_cast<std::size_t>(l->client)];
    if (!l->cut && l->client_open && c.alive && c.process == l->process) c.receive(l, bytes);
  });
}

void quorum_world::hang_up(link_ptr const& l, bool silently) {
  if (!l->client_open) return;
  l->client_open = false;
  nanos const noticed = silently ? random_.between(0, 2 * lease / millisecond) * millisecond : std::max(l->last_up - now_, delay());
  trouble(now_ + noticed);
  after(noticed, [this, l] {
    if (!l->server_open) return;
    l->server_open = false;
    servers_[static_cast<std::size_t>(l->server)]->model.disconnect(l->id);
  });
}

void quorum_world::cut(link_ptr const& l, nanos client_notices, nanos server_notices) {
  l->cut = true;
  trouble(now_ + std::max(client_notices, server_notices));
  after(client_notices, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "cut"); });
  after(server_notices, [this, l] {
    if (!l->server_open) return;
    l->server_open = false;
    servers_[static_cast<std::size_t>(l->server)]->model.disconnect(l->id);
  });
}

/// Nothing comes back any more; what the client has sent stays in some buffer, and is carried out late unless somebody
/// ends the connection.
void quorum_world::half_cut(link_ptr const& l, nanos client_notices, nanos arrives) {
  l->held_up_until = now_ + arrives;
  l->deaf = true;
  l->last_down = now_ + 1000 * second;
  trouble(now_ + std::max(client_notices, arrives) + second / 2);
  after(client_notices, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "cut"); });
  after(std::max(client_notices, arrives) + random_.between(0, 500) * millisecond, [this, l] {
    if (!l->server_open) return;
    l->server_open = false;
    servers_[static_cast<std::size_t>(l->server)]->model.disconnect(l->id);
  });
}

// ----------------------------------------------------------------------------------------------------- the faults

void quorum_world::plan_faults() {
  for (std::int64_t n = random_.between(1, 8); n > 0; --n) after(random_.between(0, 3500) * millisecond, [this] { strike(); });
  if (steps) {
    for (std::int64_t n = random_.between(1, 5); n > 0; --n) {
      after(random_.between(0, 3500) * millisecond, [this] { step_clock(static_cast<int>(random_.below(servers_count))); });
    }
  }
  if (seldom) open_windows();
  if (fresh_rule && random_.chance(60)) {
    // Shortly before a second of the servers' clocks is full: soon after they say that they are a second old.
    after(random_.between(1, 3) * second - random_.between(10, 150) * millisecond, [this] { forget_everything(); });
  }
  if (foreign) {
    after(random_.between(0, 3000) * millisecond,
          [this] { be_in_the_way(static_cast<int>(random_.below(servers_count)), random_.between(5, 500) * millisecond); });
  }
}

bool quorum_world::reachable(int client, int which) const { return !seldom || which != 0 || window_[static_cast<std::size_t>(client)]; }

/// To the first server, now and then, for some; and the others do not answer at once all the time.
void quorum_world::open_windows() {
  window_.assign(clients_.size(), false);
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    for (std::int64_t n = random_.between(0, 3); n > 0; --n) {
      nanos const at = random_.between(0, 3500) * millisecond, length = random_.between(3, 150) * millisecond;
      after(at, [this, i] { window_[i] = true; });
      after(at + length, [this, i] {
        if (healing_) return;
        window_[i] = false;
        for (auto const& l : links_) {
          if (l->client == static_cast<int>(i) && l->server == 0 && l->client_open && !l->cut) cut(l, random_.between(0, 30) * millisecond, 0);
        }
      });
    }
  }
  for (nanos at = 0; at < 3500 * millisecond; at += random_.between(50, 400) * millisecond) {
    after(at, [this] {
      server& s = *servers_[static_cast<std::size_t>(random_.between(1, servers_count - 1))];
      s.stalled_until = now_ + random_.between(5, 100) * millisecond;
      ill(s, s.stalled_until);
    });
  }
}

void quorum_world::step_clock(int which) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  std::int64_t const before = s.offset_us;
  // Back only, or anywhere.
  s.offset_us = random_.chance(70) ? random_.between(std::min(-farthest_us(), before), before) : random_.between(-farthest_us(), farthest_us());
  (s.offset_us > before ? forgot : s.set_back) = true;
  say("fault: the clock of server ", which, " is set by ", s.offset_us - before, " us");
  ill(s, now_);
}

void quorum_world::revive(quorum_client& c, nanos in) {
  ++revivals_;
  after(in, [this, &c] {
    --revivals_;
    c.revive();
  });
}

void quorum_world::ill(server& s, nanos until) {
  s.disturbed = std::max(s.disturbed, until);
  trouble(until);
}

/// Somebody else's key where the lock should be, until he takes it away. A vote that was there is lost.
void quorum_world::be_in_the_way(int which, nanos length) {
  say("fault: somebody writes something else into the lock's key at server ", which);
  by_hand(which, {"DEL", keys_[0]}, 0);
  by_hand(which, {"HSET", keys_[0], "something", "else"}, 0);
  ill(*servers_[static_cast<std::size_t>(which)], now_ + length);
  after(length, [this, which] { by_hand(which, {"DEL", keys_[0]}, 0); });
}

/// Nobody is told.
void quorum_world::delete_by_hand(int name) {
  auto const first = random_.below(servers_count), count = random_.between(1, servers_count);
  say("fault: somebody deletes lock ", name, " at ", count, " servers, from ", first);
  for (auto i = first; i < first + count; ++i) {
    auto const which = static_cast<int>(i % servers_count);
    if (servers_[static_cast<std::size_t>(which)]->up) by_hand(which, {"DEL", keys_[static_cast<std::size_t>(name)]}, name);
  }
}

void quorum_world::by_hand(int which, std::initializer_list<std::string_view> words, int name) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  forgot = true;
  seen_lock& known = s.locks[static_cast<std::size_t>(name)];
  known = {};
  known.since = now_;
  set_clock(s);
  auto const id = s.model.connect("10.9.9.9:9");
  std::vector<std::string_view> const argv{words};
  (void)s.model.execute(id, argv);
  s.model.disconnect(id);
  ill(s, now_);
}

void quorum_world::patrols(int which) {
  patrol(which);
  judge_holds();
  after(claim, [this, which] { patrols(which); });
}

void quorum_world::strike() {
  auto const which = static_cast<std::size_t>(random_.below(std::ssize(servers_)));
  auto who = static_cast<std::size_t>(random_.below(std::ssize(clients_)));
  for (watch const& w : locks_) {
    // Rather somebody who holds something.
    if (!w.active.empty() && random_.chance(50)) who = static_cast<std::size_t>(w.active.front()->client->number);
  }
  quorum_client& c = *clients_[who];
  nanos const a_while = random_.between(1, 1000) * millisecond;
  switch (random_.below(fresh_rule ? 14 : 12)) {
    case 0:
    case 1: {
      say("fault: a connection of client ", who, " breaks");
      for (auto const& l : links_) {
        if (l->client == static_cast<int>(who) && l->server == static_cast<int>(which) && l->client_open && !l->cut) {
          if (random_.chance(50)) {
            half_cut(l, random_.between(0, 300) * millisecond, random_.between(0, 1000) * millisecond);
          } else {
            cut(l, random_.between(0, 300) * millisecond, random_.between(0, 1000) * millisecond);
          }
        }
      }
      return;
    }
    case 2:
      say("fault: server ", which, " stands still");
      servers_[which]->stalled_until = now_ + a_while;
      ill(*servers_[which], now_ + a_while);
      return;
    case 3: stop_server(static_cast<int>(which), true, a_while); return;
    case 4:
      say("fault: client ", who, " stands still");
      c.pause(a_while * 2);
      return;
    case 5:
    case 6:
      if (!strict && random_.chance(50)) return;
      say("fault: client ", who, " dies");
      c.die(random_.chance(50));
      if (random_.chance(50)) revive(c, random_.between(1, 500) * millisecond);
      return;
    case 7:
      say("fault: answers of server ", which, " are late");
      ill(*servers_[which], now_ + a_while);
      for (auto const& l : links_) {
        if (l->server == static_cast<int>(which) && l->client_open && !l->cut && random_.chance(70))
          l->last_down = std::max(l->last_down, now_ + a_while / 2);
      }
      return;
    case 8:
    case 9:
      // What is written now arrives when the claims of now are over, and so late is it heard.
      say("fault: client ", who, " is slow to ask, and then stands still");
      for (auto const& l : links_) {
        if (l->client == static_cast<int>(who) && l->client_open && !l->cut) l->held_up_until = now_ + random_.between(claim / 2, 2 * claim);
      }
      trouble(now_ + 2 * claim);
      after(random_.between(0, claim / 2), [this, &c] { c.pause(random_.between(claim, 3 * claim)); });
      return;
    case 10: answer_errors(static_cast<int>(which), a_while); return;
    case 11: be_slow(static_cast<int>(which), 2 * a_while); return;
    case 12:
    case 13:
      stop_server(static_cast<int>(which), false, a_while / 4);
      stop_server(static_cast<int>(random_.below(std::ssize(servers_))), false, a_while / 4);
      return;
    default: return;
  }
}

/// Any connection has the same user, the same memory, the same role.
void quorum_world::answer_errors(int which, nanos length) {
  static constexpr std::string_view errors[] = {
      "NOPERM this user has no permissions to run the 'evalsha' command",
      "OOM command not allowed when used memory > 'maxmemory'.",
      "LOADING Redis is loading the dataset in memory",
      "READONLY You can't write against a read only replica.",
      "WRONGTYPE Operation against a key holding the wrong kind of value",
      "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
  };
  server& s = *servers_[static_cast<std::size_t>(which)];
  s.says = errors[random_.below(std::size(errors))];
  s.says_until = now_ + length;
  errors_ = true;
  say("fault: server ", which, " answers ", s.says);
  ill(s, s.says_until);
}

/// Not silent: each answer comes, and each late.
void quorum_world::be_slow(int which, nanos length) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  s.slow_by = random_.between(5, 150) * millisecond;
  s.slow_until = now_ + length;
  say("fault: server ", which, " is slow by ", s.slow_by / millisecond, " ms");
  ill(s, s.slow_until + s.slow_by);
}

/// Nobody tells the holder, and whoever asks finds a majority that knows nothing.
void quorum_world::forget_everything() {
  watch const& w = locks_[0];
  if (w.active.empty()) return;
  say("fault: a majority restarts empty, and the holder stands still");
  w.active.front()->client->pause(2 * lease);
  auto const first = static_cast<std::size_t>(random_.below(servers_count));
  for (std::size_t i = 0; i < needed; ++i) stop_server(static_cast<int>((first + i) % servers_.size()), false, random_.between(1, 8) * millisecond);
}

void quorum_world::stop_server(int which, bool keep, nanos length) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  if (!s.up) return;
  say("fault: server ", which, keep ? " restarts" : " restarts empty");
  s.up = false;
  for (auto const& l : links_) {
    if (l->server != which || !l->server_open) continue;
    l->server_open = false;
    cut(l, random_.between(0, 50) * millisecond, 0);
  }
  s.model.restart(keep);
  s.links.clear();
  ill(s, now_ + length);
  if (!keep) s.locks.assign(s.locks.size(), {});
  after(length, [this, &s] {
    s.up = true;
    if (fresh_rule) s.votes_from = now_ + youth();
    trouble(std::max(now_, s.votes_from));
    s.started_us = clock_us(s);
    ++s.runs;
  });
}

// ------------------------------------------------------------------------------------------------------ the judge

void quorum_world::asks(quorum_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  h.fence_rounds = h.client->stats.fence_rounds;
  // Once the scripts are known everywhere.
  bool const nothing_on_its_way = w.last_stir + 2 * (latency + jitter) < now_;
  h.alone = calm && result.grants > 2 && now_ > second && w.active.empty() && w.waiting.empty() && w.tries == 0 && nothing_on_its_way;
  for (std::size_t i = 0; i < servers_.size() && h.alone; ++i) {
    patrol(static_cast<int>(i));
    h.alone = servers_[i]->locks[static_cast<std::size_t>(h.name)].owner.empty();
  }
  for (quorum_hold* other : w.waiting) other->alone = false;
  for (quorum_hold* other : w.active) other->alone = false;
  if (h.once) {
    h.tries = true;
    ++w.tries;
  } else {
    w.waiting.push_back(&h);
  }
}

void quorum_world::granted(quorum_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  auto const who = [&h] { return "client " + std::to_string(h.client->number) + " is granted lock " + std::to_string(h.name); };
  say("client ", h.client->number, " is granted lock ", h.name, " with fence ", h.fence, w.active.empty() ? "" : ", others active");
  for (quorum_hold* other : w.active) {
    quorum_client& c = *other->client;
    auto const whose = [&c] { return "client " + std::to_string(c.number); };
    other->superseded = true;
    if (!other->told && &c == h.client) throw violation{9, who() + " before it is told of the loss of what it had"};
    if (other->told || forgot) continue;
    if (c.local() < other->deadline()) throw violation{1, who() + " while " + whose() + " holds it"};
    if (!c.paused) throw violation{9, who() + " and " + whose() + " has not been told of its loss"};
  }
  // (Of two that have the lock at once, because a server has given it away too early, the second may be the one to be refused.
  // Who has it may hand it on in memory when the other is done already.)
  bool const in_memory = h.fence % 4096 != 0;
  bool const two = forgot && (in_memory || std::any_of(w.active.begin(), w.active.end(), [&](quorum_hold* other) { return other->fence > h.fence; }));
  if (h.fence <= w.highest && !two) {
    throw violation{2, who() + " with fence " + std::to_string(h.fence) + " after " + std::to_string(w.highest)};
  }
  if (h.deadline() <= h.client->local()) throw violation{3, who() + " when its validity is over"};
  // Of a lock that is free and asked for, with nobody ill: what a claim that ran out would cost is too much.
  if (calm && w.active.empty() && now_ > 200 * millisecond) {
    nanos first = now_;
    for (quorum_hold* one : w.waiting) first = std::min(first, one->asked_at);
    nanos const idle = now_ - std::max({w.free_since, first, 200 * millisecond});
    if (idle > claim / 2) {
      throw violation{
          4, "lock " + std::to_string(h.name) + " was left alone for " + std::to_string(idle / millisecond) + " ms although it was asked for"};
    }
  }
  waited_too_long(h);
  // P5: clients are served in the order in which they queued; requests that cross on the way, in either. What this client
  // hands on by itself is no turn.
  // Nor do those count who asked while the first servers only had told their time.
  constexpr nanos all_connected = 200 * millisecond;
  if (calm && h.fence % 4096 == 0 && h.asked_at > all_connected) {
    // What the two clients' ideas of the servers' clocks may differ by: half a round trip, and drift since they last heard.
    nanos const allowance = 4 * (latency + jitter) + lease / 50;
    auto const queued_at = [](engine::place const& s) { return static_cast<nanos>(s.id.count) * microsecond; };
    for (auto const& c : clients_) {
      bool const early =
          std::any_of(w.waiting.begin(), w.waiting.end(), [&](quorum_hold* one) { return one->client == c.get() && one->asked_at <= all_connected; });
      if (c.get() == h.client || !c->alive || early) continue;
      engine::place const* const place = c->cohort->find(name_of(h.name));
      bool const waits = place != nullptr && place->wait && place->written &&
                         (place->at == engine::place::state::asking || place->at == engine::place::state::in_line);
      if (waits && queued_at(*place) + allowance < queued_at(h.lock->place)) {
        ++result.overtakings;
        throw violation{5, who() + " before client " + std::to_string(c->number) + ", who queued earlier"};
      }
    }
  }
  ++result.grants;
  if (calm) ++result.calm_grants;
  w.highest = std::max(w.highest, h.fence);
  w.given_back.clear();
  h.active = true;
  h.granted_at = now_;
  h.ticket = static_cast<std::int64_t>(h.lock->place.id.count);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    seen_lock const& vote = servers_[i]->locks[static_cast<std::size_t>(h.name)];
    if (is_vote_of(h, vote.owner) && well(*h.client, static_cast<int>(i), vote.since)) h.votes_since[i] = vote.since;
  }
  told_in_time(h);
  std::erase(w.waiting, &h);
  stirs(h);
  if (h.tries) --w.tries;
  w.active.push_back(&h);
  if (seldom && !healing_ && random_.chance(25)) {
    quorum_client& c = *h.client;
    after(random_.between(0, claim / 4), [this, &c, mine = c.process] {
      if (!c.alive || c.process != mine) return;
      say("fault: client ", c.number, " dies with the lock");
      c.die(true);
      revive(c, random_.between(10, 600) * millisecond);
    });
  }
}

void quorum_world::stirs(quorum_hold const& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  if (h.serial != w.last_to_stir) w.stir_of_others = w.last_stir;
  w.last_to_stir = h.serial;
  w.last_stir = now_;
}

void quorum_world::present(quorum_hold const& h) { locks_[static_cast<std::size_t>(h.name)].present.insert(h.serial); }

/// `no_attempt`: its user has ended it, or its time.
void quorum_world::answered(quorum_hold& h, bool failed, bool no_attempt, std::string const& words) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  if (h.tries) --w.tries;
  answered_in_time(h);
  w.present.erase(h.serial);
  nanos const others = h.serial == w.last_to_stir ? w.stir_of_others : w.last_stir;
  stirs(h);
  auto const who = [&h] { return "client " + std::to_string(h.client->number); };
  // P11: what is not had was somebody's, and servers that are there can be reached.
  if (slow && failed) throw violation{11, "an acquire of " + who() + " failed although nobody is ill: " + words};
  nanos const settled = 2 * claim + 30 * (latency + jitter + slowest());
  if ((calm || slow) && !no_attempt && w.present.empty() && others + settled < h.asked_at) {
    throw violation{11, who() + " was told that lock " + std::to_string(h.name) + " is not free, and nobody has it or asked for it"};
  }
  if (calm && failed) throw violation{4, "an acquire of " + who() + " failed although nobody is ill: " + words};
  if (!failed) return;
  // Those of one process share their questions, and so what was answered before the last of them came.
  auto& [at, asked] = h.client->failed_[static_cast<std::size_t>(h.name)];
  asked = std::exchange(at, now_) == now_ ? std::min(asked, h.asked_at) : h.asked_at;
  if (well_servers(*h.client, asked) >= needed) throw violation{4, "an acquire of " + who() + " failed although a majority is well: " + words};
}

/// With nobody ill a hold is soon on all servers: no vote stays with those who have too few.
void quorum_world::whole(quorum_hold const& h) {
  nanos const age = now_ - h.granted_at;
  // (A try does not stand in line for the rest, nor does who was about to leave: that is mended when it is confirmed.)
  bool const in_line = !h.once && !h.cancelled && h.until == time_point::max();
  if (!calm || !in_line || h.granted_at < 300 * millisecond || age < 60 * (latency + jitter) || age > claim / 2 || h.fence % 4096 != 0) return;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    set_clock(*servers_[i]);
    std::string const* const lock = servers_[i]->model.text_at(keys_[static_cast<std::size_t>(h.name)]);
    if (lock == nullptr || !h.client->owns(*lock)) {
      throw violation{10, "server " + std::to_string(i) + " is still kept from client " + std::to_string(h.client->number) + ", who has the lock"};
    }
  }
}

void quorum_world::ended(quorum_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  w.present.erase(h.serial);
  stirs(h);
  if (h.waiting && h.tries) --w.tries;  // it dies
  if (h.active) judge_holds();
  if (h.active && !h.told) {
    whole(h);
    mended(h);
  }
  if (std::erase(w.active, &h) != 0 && w.active.empty()) w.free_since = now_;
  w.given_back.clear();
  h.active = false;
}

quorum_outcome run_quorum(std::uint64_t seed, bool traced) {
  quorum_world w{seed, traced};
  try {
    w.run();
  } catch (violation const& v) {
    w.result.promise = v.promise;
    w.result.words = v.what();
  }
  w.result.trace = std::move(w.lines);
  return w.result;
}

}  // namespace conch::sim
