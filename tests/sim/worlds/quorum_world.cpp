#include "sim/worlds/quorum_world.hpp"

#include "sim/digest.hpp"
#include "sim/judges/script_calls.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/words.hpp"
#include "support/messages.hpp"

#include <algorithm>
#include <utility>

// The servers and the network; quorum_faults.cpp has the faults, quorum_client.cpp the processes, and
// judges/quorum_*.cpp the judge.
namespace conch::sim {

quorum_world::quorum_world(std::uint64_t with_seed, bool traced)
    : seed{with_seed},
      traced_{traced},
      random_{seed},
      troubles_{seed ^ 0xe44'0425} {
  random_source& r = random_;
  use_small_steps(random_source{seed ^ 0x57e9'5000}.chance(50));
  constexpr int sizes[] = {3, 3, 4, 5, 5, 5, 7};
  servers_count = sizes[r.below(std::size(sizes))];
  needed = static_cast<std::size_t>(servers_count) / 2 + 1;  // not as the library counts
  names = r.chance(80) ? 1 : 2;
  calm = r.chance(30);
  strict = r.chance(40);
  fresh_rule = !calm && r.chance(30);
  lease = r.between(6, 20) * 100 * millisecond;
  claim = r.chance(90) ? r.between(3, 8) * 50 * millisecond : lease * r.between(50, 100) / 100;
  if (r.chance(15)) {
    // Numbers get a digit more, or are zero and less.
    constexpr std::int64_t edges[] = {protocol::fence_epoch_us + 100'000'000'000'000, protocol::fence_epoch_us,
                                      1'000'000'000'000'000};
    // Fences that are not strict, and those of servers that forget, follow the clocks, and these begin in 2020.
    epoch_us_ = edges[r.below(strict && !fresh_rule ? std::ssize(edges) : 1)] - r.between(0, 5'000'000);
  }
  latency = r.between(50, 1000) * microsecond;
  jitter = r.between(0, calm ? latency : 4 * latency);
  bursts = r.chance(50);
  seldom = strict && !calm && !fresh_rule && r.chance(50);
  if (seldom) names = 1;
  steps_of_clocks = !calm && r.chance(25);
  foreign = !calm && strict && r.chance(25);
  no_kill = !calm && !steps_of_clocks && r.chance(20);
  for (int i = 0; i < servers_count; ++i) {
    std::int64_t const offset = seldom ? (i == 0 ? r.between(3, 8) * 1'000'000 : r.between(-20'000, 20'000))
                                       : r.between(-farthest_us(), farthest_us());
    add_server(offset, r.between(-2500, 2500));
  }
  credentials = random_source{seed ^ 0xc4ed'0002}.chance(15);
  random_source p11{seed ^ 0x510'3e7};
  if (calm && p11.chance(30)) {
    slow = true;
    calm = false;
  }
  add_clients(static_cast<int>(seldom ? r.between(3, 6) : r.between(2, 5)));
}

void quorum_world::add_server(std::int64_t offset_us, std::int64_t ppm) {
  auto s = std::make_unique<server>();
  s->offset_us = offset_us;
  s->ppm = ppm;
  s->locks.resize(static_cast<std::size_t>(names));
  s->started_us = clock_us(*s) - 3'600'000'000;
  s->model.set_time_us(s->started_us);
  s->model.restart(true);
  s->model.set_number(static_cast<unsigned>(servers_.size()));
  if (no_kill) s->model.deny("client|kill");
  servers_.push_back(std::move(s));
}

void quorum_world::add_clients(int count) {
  for (int i = 0; i < count; ++i) clients_.push_back(std::make_unique<quorum_client>(*this, i));
  locks_.resize(static_cast<std::size_t>(names));
  // Fences that are not strict follow the clocks, which differ.
  history::specification mutex;
  mutex.fences_rise = strict;
  history_ = user_history{names, mutex};
  for (int i = 0; i < names; ++i) {
    keys_.push_back(key_of(i));
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
    after(explores_ != nullptr ? 0 : random_.between(0, 20) * millisecond, [&c] {
      if (!c->alive) c->start();  // it may have died before, and come back
    });
  if (!calm && !slow && explores_ == nullptr) plan_faults();
  for (int i = 0; i < servers_count; ++i) patrols(i);
  if (explores_ != nullptr) explore();
  else (void)pass_until(4 * second, [] { return false; });
  heal_and_settle();
  history_.demand_order();
}

void quorum_world::heal_and_settle() {
  auto const finished = [&] {
    return revivals_ == 0 && std::all_of(clients_.begin(), clients_.end(), [](auto const& c) { return c->finished(); });
  };
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
  auto const settled = [&] {
    return std::all_of(clients_.begin(), clients_.end(), [](auto const& c) { return c->settled(); });
  };
  if (!pass_until(now_ + 4 * lease + 5 * second, settled)) {
    std::string who;
    for (auto const& c : clients_) {
      if (!c->settled()) who += c->describe();
    }
    throw violation{6, "something is still owed to a server that is there:" + who};
  }
  // A release that meets another program's key is not repeated: the place that it was for lives as long as the queue.
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
    if (servers_[i]->set_back) continue;  // leases there are longer than any client expects
    set_clock(*servers_[i]);
    for (int name = 0; name < names; ++name) {
      std::string const& key = keys_[static_cast<std::size_t>(name)];
      auto const living = [&](std::string const& text) {
        return std::any_of(clients_.begin(), clients_.end(), [&](auto const& c) { return c->alive && c->owns(text); });
      };
      std::string const* const lock = servers_[i]->model.text_at(key);
      if (lock != nullptr && living(*lock))
        throw violation{6, "server " + std::to_string(i) + " still has the lock for " + *lock};
      for (value const& item : servers_[i]->model.peek(key + ":q").items) {
        if (living(item.items[0].text))
          throw violation{6, "server " + std::to_string(i) + " still has in line " + item.items[0].text};
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

std::int64_t quorum_world::clock_us(server const& s) const {
  return epoch_us_ + s.offset_us + (now_ + now_ * s.ppm / 1'000'000) / microsecond;
}

void quorum_world::set_clock(server& s) { s.model.set_time_us(clock_us(s)); }

quorum_world::link_ptr quorum_world::connect(int client, int to) {
  auto const l = std::make_shared<link>();
  quorum_client& c = *clients_[static_cast<std::size_t>(client)];
  l->client = client;
  l->server = to;
  l->process = c.process;
  if (small_ != nullptr) l->number = number_of_dial(client, to);
  links_.push_back(l);
  if (order_ != nullptr) {
    connect_later(l);
    return l;
  }
  after(delay(), [this, l] {
    if (!reach(l)) {
      after(random_.between(1, 30) * millisecond,
            [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "no connection"); });
      return;
    }
    after(delay(), [this, l] {
      if (!l->cut && concerns_its_client(*l)) clients_[static_cast<std::size_t>(l->client)]->accepted(l);
    });
  });
  return l;
}

/// False: nobody is there.
bool quorum_world::reach(link_ptr const& l) {
  server& s = *servers_[static_cast<std::size_t>(l->server)];
  if (!s.up || s.stalled_until > now_ || !reachable(l->client, l->server)) return false;
  set_clock(s);
  l->id = s.model.connect("10.0." + std::to_string(l->client) + ".1:" + std::to_string(++ports_));
  s.links[l->id] = l;
  l->server_open = true;
  return true;
}

bool quorum_world::concerns_its_client(link const& l) const {
  quorum_client const& c = *clients_[static_cast<std::size_t>(l.client)];
  return c.alive && c.process == l.process;
}

void quorum_world::send(link_ptr const& l, std::string bytes) {
  if (l->cut || !l->client_open) return;
  if (order_ != nullptr) {
    deliver_later(l, true, bytes, [this, l, bytes] { arrive(l, bytes); });
    return;
  }
  l->last_up = std::max(now_ + delay(), l->last_up);
  note_sent(now_, bytes);
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
  test::feed(l->commands, std::exchange(l->arrived, {}));
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
  if (auto const shown = number_of_credentials(argv); shown && *shown <= std::exchange(l->credentials, *shown)) {
    throw violation{10, "credentials are shown again that the provider has replaced"};
  }
  bool const script = argv[0].starts_with("EVAL");
  if (script && s.says_until > now_) {
    refuse(l, argv);
    return;
  }
  std::vector<step> about = script ? steps_of(l->server, argv) : std::vector<step>{};
  for (step& one : about) one.of_now = l->client_open;
  value const reply = s.model.execute(l->id, as_executed(argv, script));
  if (traced_ && script) {
    std::string words;
    for (std::size_t i = 3; i < argv.size(); ++i) (words += ' ') += argv[i];
    say("server ", l->server, ": client ", l->client, " ", script_name(argv[1]), words, " -> ", describe(reply));
  }
  // Where old connections cannot be ended, one may still ask when its successor has long given back what it asked for.
  bool const too_late = no_kill && !l->client_open && linked(l->client, l->server, now_);
  for (step const& one : about) {
    value const& answer_of_it = answer_to(reply, one.place, one.gathered);
    if (!answer_of_it.is_error()) {
      judge(l->server, one, answer_of_it, too_late);
    } else if (answer_of_it.error_code() == "NOSCRIPT") {
      // It is looked after, and the same comes again; by then that vote may have ended.
      std::erase(s.forsaken, one.id);
      seen_lock& known = s.locks[static_cast<std::size_t>(one.name)];
      if (known.owner == one.id) known.looked_after = true;
    } else if (answer_of_it.error_code() == "WRONGTYPE" && one.releases) {
      s.denied.push_back(one.id);
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
  for (step const& one : about) {
    if (!one.confirms || !one.of_now) continue;
    value const& said = answer_to(reply, one.place, one.gathered);
    if (!said.is_error() && said.items[2 * one.index + 1].integer > 0) confirmed_at(l->server, one, l->last_down);
  }
  for (auto const id : s.model.take_killed()) {
    if (auto const victim = s.links.find(id); victim != s.links.end()) victim->second->server_open = false;
  }
}

/// P10: a client that is told so does not ask again at once.
void quorum_world::refuse(link_ptr const& l, std::span<std::string_view const> argv) {
  std::string bytes = "-";
  (bytes += servers_[static_cast<std::size_t>(l->server)]->says) += "\r\n";
  answer(l, std::move(bytes));
  for (auto const& call : calls_in(argv)) refuse_call(l, call);
}

void quorum_world::refuse_call(link_ptr const& l, std::span<std::string_view const> argv) {
  server& s = *servers_[static_cast<std::size_t>(l->server)];
  std::string_view const id = argv[3 + static_cast<std::size_t>(number(argv[2]))];
  say("server ", l->server, ": client ", l->client, " ", script_name(argv[1]), " ", id, " -> ", s.says);
  if (script_name(argv[1]) == "release")
    (s.says.starts_with("NOPERM") || s.says.starts_with("WRONGTYPE") ? s.denied : s.put_off).emplace_back(id);
  if (script_name(argv[1]) != "acquire" || s.says.starts_with("READONLY")) return;
  // What was held up comes all at once, also what connections sent that are gone.
  if (!l->client_open || s.stalled_until == now_ || l->held_up_until == now_) return;
  auto& [times, since] = clients_[static_cast<std::size_t>(l->client)]->refused_[{l->server, std::string{vote_of(id)}}];
  if (times == 0) since = l->last_down;  // when that is received
  if (times != 0 && now_ < since) return;
  if (times++ == 0) return;
  constexpr nanos shortest_pause = 15 * millisecond;
  if (times > 6 + (now_ - since) / shortest_pause) {
    throw violation{10, "client " + std::to_string(l->client) + " has asked server " + std::to_string(l->server) + " " +
                            std::to_string(times) + " times within " + std::to_string((now_ - since) / millisecond) +
                            " ms, and is refused"};
  }
}

void quorum_world::answer(link_ptr const& l, std::string bytes) {
  if (l->cut) return;
  if (order_ != nullptr) {
    if (!l->deaf) deliver_later(l, false, bytes, [this, l, bytes] { receive(l, bytes); });
    return;
  }
  note_sent(now_, bytes);
  server const& s = *servers_[static_cast<std::size_t>(l->server)];
  l->last_down = std::max(now_ + delay() + (s.slow_until > now_ ? s.slow_by : 0), l->last_down);
  after(l->last_down - now_, [this, l, bytes = std::move(bytes)] { receive(l, bytes); });
}

void quorum_world::receive(link_ptr const& l, std::string const& bytes) {
  if (!l->cut && l->client_open && concerns_its_client(*l))
    clients_[static_cast<std::size_t>(l->client)]->receive(l, bytes);
}

void quorum_world::hang_up(link_ptr const& l, bool silently) {
  if (!l->client_open) return;
  l->client_open = false;
  if (order_ != nullptr) {
    trouble(now_ + jitter);
    deliver_later(l, true, {}, [this, l] { close_at_server(*l); });
    return;
  }
  nanos const noticed =
      silently ? random_.between(0, 2 * lease / millisecond) * millisecond : std::max(l->last_up - now_, delay());
  trouble(now_ + noticed);
  after(noticed, [this, l] { close_at_server(*l); });
}

void quorum_world::close_at_server(link& l) {
  if (!std::exchange(l.server_open, false)) return;
  servers_[static_cast<std::size_t>(l.server)]->model.disconnect(l.id);
}

void quorum_world::cut(link_ptr const& l, nanos client_notices, nanos server_notices) {
  l->cut = true;
  trouble(now_ + std::max(client_notices, server_notices));
  by(client_notices, l, false, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "cut"); });
  by(server_notices, l, true, [this, l] { close_at_server(*l); });
}

/// Nothing comes back any more; what the client has sent stays in some buffer, and is carried out late unless a client
/// ends the connection.
void quorum_world::half_cut(link_ptr const& l, nanos client_notices, nanos arrives) {
  l->held_up_until = now_ + arrives;
  l->deaf = true;
  l->last_down = now_ + 1000 * second;
  trouble(now_ + std::max(client_notices, arrives) + second / 2);
  after(client_notices, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "cut"); });
  after(std::max(client_notices, arrives) + random_.between(0, 500) * millisecond, [this, l] { close_at_server(*l); });
}

quorum_outcome run_quorum(std::uint64_t seed, bool traced) {
  quorum_world w{seed, traced};
  try {
    w.run();
  } catch (violation const& v) {
    w.result.promise = v.promise;
    w.result.words = v.what();
    w.result.in_history = w.what_users_saw().judged().broken();
  }
  w.result.trace = std::move(w.lines);
  return w.result;
}

}  // namespace conch::sim
