#include "sim/worlds/world.hpp"

#include "sim/digest.hpp"
#include "sim/judges/muted_observer.hpp"
#include "sim/judges/permits_observer.hpp"
#include "sim/judges/script_calls.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::sim {

namespace {

constexpr nanos longest_search = 31 * second;  // between two looks for a deadlock

std::int64_t drifted(nanos n, std::int64_t ppm) { return n + n / 1'000'000 * ppm; }

}  // namespace

world::world(plan const& p, bool traced, steps* order)
    : plan_{p},
      explores_{order},
      random_{p.seed ^ 0x5eedf00d},
      replica_{p.epoch_us} {
  bool const mutexes = p.permits == engine::permit_kind::none;
  if (others_are_muted) {
    if (mutexes) observer_ = std::make_unique<muted<observer>>(*this, plan_);
    else observer_ = std::make_unique<muted<permits_observer>>(*this, plan_);
  } else if (mutexes) {
    observer_ = std::make_unique<observer>(*this, plan_);
  } else {
    observer_ = std::make_unique<permits_observer>(*this, plan_);
  }
  if (p.chains) chains_ = std::make_unique<chains_judge>(*this, plan_);
  trace_.on = traced;
  use_small_steps(p.small_steps);
  make_nodes();
  make_sentinels();
}

world::~world() = default;

void world::say(std::string line) {
  if (!trace_.on) return;
  std::string const us = std::to_string(now_ / microsecond % 1000);
  trace_.lines.push_back(std::to_string(now_ / millisecond) + "." + std::string(3 - us.size(), '0') + us + "  " +
                         std::move(line));
}

// ---------------------------------------------------------------------------------------- time

std::int64_t world::server_us(nanos true_time) const { return server_us(true_time, nodes_[master()]); }

std::int64_t world::server_us(nanos true_time, node const& of) const {
  return plan_.epoch_us + drifted(true_time, plan_.server_drift_ppm) / microsecond + stepped_us_ + of.ahead_us;
}

// When the server's clock has gone past this millisecond, if nobody sets it meanwhile.
nanos world::true_time_of_server_ms(std::int64_t unix_ms) const {
  nanos const wanted = ((unix_ms + 1) * 1000 - plan_.epoch_us - stepped_us_ - nodes_[master()].ahead_us) * microsecond;
  nanos t = wanted;
  // each time the error is 200 times smaller
  for (int i = 0; i < 4; ++i) t += wanted - drifted(t, plan_.server_drift_ppm);
  return t;
}

void world::set_clock() {
  for (node& n : nodes_) {
    n.model.set_time_us(server_us(now_, n));
    if (plan_.expires_actively) n.model.expire_cycle();
  }
  observer_->clock_shows(server_us(now_) / 1000);
}

void world::pass_until(nanos until) {
  while (!events_.empty() && events_.next() <= until) {
    events_.run_next([this](nanos at) { now_ = at; });
  }
  now_ = std::max(now_, until);
}

void world::run() {
  for (std::size_t i = 0; i < std::min(plan_.first_fences.size(), static_cast<std::size_t>(plan_.names)); ++i) {
    std::int64_t const fence = plan_.first_fences[i];
    if (fence == 0) continue;
    std::string const key = key_of(static_cast<int>(i)) + ":f";
    std::int64_t const ahead_ms = std::max<std::int64_t>(fence + protocol::fence_epoch_us - plan_.epoch_us, 0) / 1000;
    admin({"SET", key, std::to_string(fence), "PX", std::to_string(ahead_ms + 20'000)});
    observer_->first_fence(static_cast<int>(i), fence);
  }
  for (std::size_t i = 0; i < plan_.clients.size(); ++i) {
    clients_.push_back(std::make_unique<sim_client>(*this, static_cast<int>(i)));
    refused_until_.push_back(0);
    addresses_.push_back(0);
    sim_client* const c = clients_.back().get();
    after(plan_.clients[i].start, [c] { c->start(); });
  }
  nanos last_fault = 0;
  for (fault_plan const& f : plan_.faults) {
    at(f.at, [this, &f] { apply(f); });
    last_fault =
        std::max(last_fault, f.at + f.length + f.length2 + (plan_.shards != 0 ? std::max<nanos>(f.told, 0) : 0));
  }
  if (plan_.slow_until != 0) at(plan_.slow_until, [this] { quicken_replicas(); });
  // Faults come to an end: what was promised "as soon as the server can be reached" is then due.
  if (explores_ == nullptr) at(last_fault + millisecond, [this] { heal(); });

  // Time enough for every actor to have its turn at the price of a lease each.
  nanos limit = std::max(last_fault, plan_.slow_until) + 2 * millisecond + plan_.set_back();
  if (plan_.shards != 0) limit += 2 * second;  // a client that was told a wrong map asks for another in a second
  nanos const each = 2 * plan_.longest_lease() + second;
  for (client_plan const& c : plan_.clients) {
    for (actor_plan const& a : c.actors) {
      for (operation const& o : a.work)
        limit += o.think + o.hold + o.after_loss + each +
                 (o.detach ? o.adopt_after + o.adopt_too_after + o.adopted_hold + each : 0);
    }
  }
  if (plan_.chains) limit += 20 * longest_search;
  limit_ = limit;
  if (explores_ != nullptr) explore();
  nanos const step = std::max<nanos>(plan_.longest_lease() / 8, 10 * millisecond);
  while (!(healing_ && all_done())) {
    nobody_waits_for_ever();
    pass_until(now_ + step);
  }
  settle_and_judge();
}

void world::nobody_waits_for_ever() const {
  if (now_ <= limit_) return;
  std::string who;
  for (auto const& c : clients_) who += c->describe();
  throw violation{4, "somebody still waits after " + std::to_string(now_ / millisecond) + " ms:" + who};
}

bool world::all_done() const {
  return letters_ == 0 && std::all_of(clients_.begin(), clients_.end(), [](auto const& c) { return c->finished(); });
}

void world::send_detached(int to, nanos delay, detached_hold const& d) {
  // a plan that is made smaller may have lost that client
  if (to < 0 || static_cast<std::size_t>(to) >= clients_.size()) return;
  ++letters_;
  after(delay, [this, to, d] {
    --letters_;
    say("client " + std::to_string(to) + " is told of a hold of lock " + std::to_string(d.name) + " that was let go");
    clients_[static_cast<std::size_t>(to)]->adopt(d);
  });
}

void world::settle_and_judge() {
  // Everything owed is paid within some time-outs, pauses between attempts included.
  nanos longest_timeout = 0;
  for (client_plan const& c : plan_.clients) {
    longest_timeout = std::max<nanos>(longest_timeout, c.settings.command_timeout.count());
  }
  nanos const patience = now_ + 4 * longest_timeout + 3 * second + 4 * plan_.spike + plan_.longest_lease();
  auto const settled = [&] {
    return std::all_of(clients_.begin(), clients_.end(), [](auto const& c) { return c->settled(); });
  };
  while (!settled()) {
    if (now_ > patience) throw violation{6, "a clean-up is still owed long after everything was over"};
    pass_until(now_ + 20 * millisecond);
  }
  // What the last scripts have pushed may still be under way, and be answered.
  pass_until(now_ + 4 * (plan_.latency + plan_.jitter) + 2 * plan_.spike + 20 * millisecond);
  while (!settled() && now_ <= patience + second) pass_until(now_ + 20 * millisecond);
  set_clock();
  observer_->nothing_owned_by_the_living();
  observer_->cost();
  pass_until(now_ + plan_.set_back() + 3 * plan_.longest_lease() + 2 * plan_.longest_claim() + second);
  set_clock();
  observer_->nothing_left();
}

// ------------------------------------------------------------------------------------- network

nanos world::delay(link& l) {
  // All clients of a Cluster that is explored are ready at the same moment.
  if (explores_ != nullptr && plan_.shards != 0) return plan_.latency;
  nanos d = plan_.latency + l.random.between(0, plan_.jitter);
  if (plan_.spikes != 0 && !healing_ && l.random.below(1000) < plan_.spikes) d += l.random.between(0, plan_.spike);
  return d;
}

void world::push(link_ptr const& l, bool up, std::string bytes, bool end) {
  if (order_ != nullptr) {
    deliver_later(l, up, std::move(bytes), end);
    return;
  }
  link::direction& way = up ? l->up : l->down;
  nanos const late = !up && now_ < slow_until_ ? slow_by_ : 0;
  nanos const when = std::max(way.last, now_ + delay(*l) + late);
  way.last = when;
  note_sent(now_, bytes);
  way.under_way.push_back({when, std::move(bytes), end});
  at(when, [this, l, up] { pump(l, up); });
}

void world::pump(link_ptr const& l, bool up) {
  link::direction& way = up ? l->up : l->down;
  nanos const stalled_until =
      up && l->accepted ? std::max(way.stalled_until, nodes_[l->node].frozen_until) : way.stalled_until;
  if (now_ < stalled_until) {
    at(stalled_until, [this, l, up] { pump(l, up); });
    return;
  }
  while (!way.under_way.empty() && way.under_way.front().at <= now_) {
    link::piece p = std::move(way.under_way.front());
    way.under_way.pop_front();
    if (up) {
      if (p.end) {
        close_server_end(l, false);
      } else if (l->server_open) {
        serve(l, p.bytes);
      } else if (l->accepted && !nodes_[l->node].down && !l->cut) {
        push(l, false, {}, true);  // RST: the server knows nothing of this connection
      }
    } else if (l->client_open) {
      sim_client& c = *clients_[static_cast<std::size_t>(l->client)];
      if (!c.alive() || c.process() != l->process) continue;
      if (p.end) {
        c.connection_lost(l);
      } else {
        c.receive(l, std::move(p.bytes));
      }
    }
  }
}

void world::connect(link_ptr const& l) {
  links_.push_back(l);
  if (order_ != nullptr) {
    by(now_ + plan_.jitter, *l, true, of_client(l->client) | of_servers, [this, l] { reach(l); });
  } else {
    at(now_ + plan_.connect_time + delay(*l), [this, l] { reach(l); });
  }
}

void world::reach(link_ptr const& l) {
  sim_client& c = *clients_[static_cast<std::size_t>(l->client)];
  if (!c.alive() || c.process() != l->process || !l->client_open) return;
  std::size_t const to = sentinels_.empty() && plan_.shards == 0 ? address_of(l->client) : l->node;
  node& n = nodes_[to];
  if (n.down) {
    if (!n.silent) c.connection_lost(l);
    return;
  }
  if (now_ < refused_until_[static_cast<std::size_t>(l->client)]) {
    c.connection_lost(l);
    return;
  }
  set_clock();
  l->node = to;
  l->id = n.model.connect("10.0.0." + std::to_string(l->client + 1) + ":" + std::to_string(++ports_));
  l->accepted = l->server_open = true;
  n.by_id[l->id] = l;
  c.accepted(l);
}

void world::lose(link& l, bool up) {
  (up ? l.up : l.down).under_way.clear();
  if (order_ != nullptr) order_->drop(stream_of(l, up));
}

/// The client has no connection while bytes of its last one still arrive.
void world::refuse_until(int client, nanos until) {
  refused_until_[static_cast<std::size_t>(client)] = until;
  observer_->trouble(until, client);
  say("  (no other connection of client " + std::to_string(client) + " until then)");
}

void world::send(link_ptr const& l, std::string bytes) {
  if (l->cut || !l->client_open) return;
  if (plan_.splits != 0 && bytes.size() > 1 && l->random.chance(plan_.splits)) {
    auto const first = static_cast<std::size_t>(l->random.between(1, static_cast<std::int64_t>(bytes.size()) - 1));
    push(l, true, bytes.substr(0, first), false);
    push(l, true, bytes.substr(first), false);
    return;
  }
  push(l, true, std::move(bytes), false);
}

void world::hang_up(link_ptr const& l) {
  if (!l->client_open) return;
  l->client_open = false;
  if (!l->cut) push(l, true, {}, true);
}

void world::go_silent(link_ptr const& l, nanos server_notices) {
  l->client_open = false;
  l->cut = true;
  at(now_ + server_notices, [this, l] { close_server_end(l, false); });
}

// `tell`: the client's end is told.
void world::close_server_end(link_ptr const& l, bool tell) {
  if (!l->server_open) return;
  l->server_open = false;
  set_clock();
  nodes_[l->node].model.disconnect(l->id);
  nodes_[l->node].by_id.erase(l->id);
  if (tell && !l->cut) push(l, false, {}, true);
}

void world::break_link(link_ptr const& l, nanos client_notices, nanos server_notices) {
  l->cut = true;
  by(now_ + client_notices, *l, false, of_client(l->client), [this, l] {
    sim_client& c = *clients_[static_cast<std::size_t>(l->client)];
    if (l->client_open && c.alive() && c.process() == l->process) c.connection_lost(l);
  });
  by(now_ + server_notices, *l, true, of_servers, [this, l] { close_server_end(l, false); });
}

// -------------------------------------------------------------------------------------- server

bool next_command(std::string_view& bytes, std::vector<std::string_view>& argv) {
  std::string_view rest = bytes;
  auto const number = [&](char mark) -> std::int64_t {
    auto const end = rest.find("\r\n");
    if (end == std::string_view::npos) return -1;
    if (rest[0] != mark) throw violation{10, "the client sent something that is not RESP"};
    std::int64_t n = -1;
    std::from_chars(rest.data() + 1, rest.data() + end, n);
    rest.remove_prefix(end + 2);
    return n;
  };
  argv.clear();
  std::int64_t const count = number('*');
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t const size = number('$');
    if (size < 0 || rest.size() < static_cast<std::size_t>(size) + 2) return false;
    argv.push_back(rest.substr(0, static_cast<std::size_t>(size)));
    rest.remove_prefix(static_cast<std::size_t>(size) + 2);
  }
  if (count < 0) return false;
  bytes = rest;
  return true;
}

void world::serve(link_ptr const& l, std::string const& bytes) {
  if (l->trap == link::trap::late) {
    // They stay in a buffer on the way, while the client notices and connects anew.
    l->trap = link::trap::none;
    nanos const late = now_ + l->random.between(0, std::max(plan_.longest_lease(), l->trap_latest));
    l->up.under_way.push_front({late, bytes});
    l->up.stalled_until = late;
    at(late, [this, l] { pump(l, true); });
    break_link(l, l->trap_notice, late - now_ + l->random.between(0, plan_.longest_lease()));
    say("  (the bytes stay behind for " + std::to_string((late - now_) / millisecond) + " ms)");
    if (l->random.chance(30)) refuse_until(l->client, late);
    return;
  }
  if (l->trap == link::trap::before) {
    l->trap = link::trap::none;
    l->up.under_way.clear();
    break_link(l, l->trap_notice, l->random.between(0, plan_.longest_lease()));
    say("  (the bytes are lost)");
    return;
  }
  bool const snap = l->trap == link::trap::after;
  l->trap = link::trap::none;
  if (snap) l->cut = true;  // before the answers are made
  l->received += bytes;
  read_on(l);
  if (snap) {
    break_link(l, l->trap_notice, l->random.between(0, plan_.longest_lease()));
    say("  (the answer is lost)");
  }
}

/// A WAIT holds up what is behind it.
void world::read_on(link_ptr const& l) {
  std::string_view rest = l->received;
  std::vector<std::string_view> argv;
  while (l->server_open && !rest.empty() && !nodes_[l->node].model.waits(l->id) && next_command(rest, argv))
    execute(l, argv);
  l->received.erase(0, l->received.size() - rest.size());
}

void world::execute(link_ptr const& l, std::span<std::string_view const> argv) {
  set_clock();
  ++executed_;
  std::vector<std::string_view> changed{argv.begin(), argv.end()};
  bool const script = argv[0].starts_with("EVAL");
  node& n = nodes_[l->node];
  if (argv[0] == "HELLO") l->greeted_by_replica = !n.takes_writes;
  if (auto const shown = number_of_credentials(argv); shown && *shown <= std::exchange(l->credentials, *shown)) {
    throw violation{10, "credentials are shown again that the provider has replaced"};
  }
  // A replica writes nothing: its scripts have no effect that could be judged. What a former master writes is lost.
  bool const judged = script && may_decide(l->node, argv[3]);
  std::string_view const its_name = script ? script_name(argv[1]) : std::string_view{};
  std::optional<order_in_hand> order;
  if (script) {
    changed[1] = mutated_script(argv[1]);
    if (is_order(its_name)) order = take_order(its_name, argv, judged);
    else if (judged) observer_->before(argv, l.get());
    else observer_->asked_elsewhere(argv, n.model);
  }
  auto const calls = judged ? calls_in(argv) : std::vector<script_call_words>{};
  std::vector<observer::freeing> freeing;
  for (auto const& one : calls) {
    freeing.push_back(observer_->about_to_free(one));
    freeing.back().of = calls.size();
  }
  value const reply = n.model.execute(l->id, changed);
  if (trace_.on && (script || argv[0] == "CLIENT" || argv[0] == "WAIT")) {
    std::string line = (plan_.shards != 0  ? "node " + std::to_string(l->node) + ": client "
                        : is_at_master(*l) ? "server: client "
                        : n.takes_writes   ? "former master: client "
                                           : "replica: client ") +
                       std::to_string(l->client) + " ";
    line += script ? script_name(argv[1]) : argv[0];
    for (std::size_t i = script ? 3 : 1; i < argv.size(); ++i) line += " " + std::string{argv[i]};
    say(line + " -> " + describe(reply));
  }
  auto pushes = n.model.take_pushes();
  // Few, and in the order in which they were first written to: not that of addresses, or no run would repeat.
  std::vector<std::pair<link_ptr, std::string>> out;
  auto const bytes_for = [&](link_ptr const& to) -> std::string& {
    for (auto& [known, bytes] : out) {
      if (known == to) return bytes;
    }
    return out.emplace_back(to, std::string{}).second;
  };
  auto const add = [&](bool after_reply) {
    for (auto const& p : pushes) {
      if (p.after_reply != after_reply) continue;
      auto const to = n.by_id.find(p.to);
      if (!p.message.items.empty() && p.message.items.back().text.starts_with('~'))
        observer_->told_end(p.message.items.back().text);
      if (to != n.by_id.end()) append_resp(bytes_for(to->second), p.message);
    }
  };
  add(false);
  if (!reply.is(value::kind::none)) append_resp(bytes_for(l), reply);
  add(true);
  for (auto& [to, bytes] : out) {
    if (to->cut) continue;
    if (plan_.splits != 0 && bytes.size() > 1 && to->random.chance(plan_.splits)) {
      auto const first = static_cast<std::size_t>(to->random.between(1, static_cast<std::int64_t>(bytes.size()) - 1));
      push(to, false, bytes.substr(0, first), false);
      bytes.erase(0, first);
    }
    push(to, false, std::move(bytes), false);
  }
  drop_killed(n);
  if (plan_.synced && (its_name == "renew" || its_name == "permit_renew") && !reply.is_error())
    observer_->renewed(*l, argv);
  if (argv[0] == "WAIT" && reply.is(value::kind::integer)) observer_->waited(*l, reply.integer);
  if (n.model.waits(l->id)) {
    std::int64_t const timeout_ms = std::stoll(std::string{argv[2]});
    after(timeout_ms * millisecond * 101 / 100 + 2 * millisecond, [this, at = l->node] { answer_waits(at); });
  }
  if (script && is_redirected(reply)) {
    observer_->redirected();
  } else if (order) {
    order_carried_out(*order, *l, reply, pushes);
  } else if (script) {
    judged ? observer_->after(argv, reply) : observer_->answered_elsewhere(argv, reply);
  }
  if (chains_ != nullptr) chains_->look_at_locks(*observer_);
  for (std::size_t i = 0; i < freeing.size(); ++i) observer_->freed(freeing[i], answer_to(reply, i, is_gathered(argv)));
  replicate(l->node);
}

void world::drop_killed(node& n) {
  for (auto const id : n.model.take_killed()) {
    auto const victim = n.by_id.find(id);
    if (victim == n.by_id.end()) continue;
    link_ptr const v = victim->second;
    v->server_open = false;
    n.by_id.erase(victim);
    if (!v->cut) push(v, false, {}, true);
  }
}

void world::admin(std::initializer_list<std::string_view> argv) {
  std::vector<std::string_view> const words{argv};
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    bool const meant =
        slot_owners_.empty() ? i == master() : !words[1].starts_with("conch:") || i == master(shard_of_key(words[1]));
    if (meant) (void)ask_node(i, words);
  }
}

// -------------------------------------------------------------------------------------- faults

link_ptr world::link_of(int client) {
  if (static_cast<std::size_t>(client) >= clients_.size()) return nullptr;
  return clients_[static_cast<std::size_t>(client)]->connection();
}

void world::apply(fault_plan const& f) {
  using kind = fault_plan::kind;
  say("fault: " + to_words(f));
  if (!troubles_slots(f)) observer_->trouble(now_ + f.length + f.length2, f.concerns_one_client() ? f.client : -1);
  if (apply_to_servers(f) || static_cast<std::size_t>(f.client) >= clients_.size()) return;
  sim_client& c = *clients_[static_cast<std::size_t>(f.client)];
  link_ptr const l = plan_.shards != 0               ? link_for(f)
                     : plan_.synced && f.at % 2 != 0 ? c.sync_connection()
                                                     : link_of(f.client);
  switch (f.what) {
    case kind::cut:
      if (l != nullptr) {
        // What is under way may arrive yet, and late.
        if ((f.variant & 1) != 0) lose(*l, true);
        if ((f.variant & 2) != 0) lose(*l, false);
        if ((f.variant & 4) != 0) l->up.stalled_until = now_ + l->random.between(0, f.length2);
        break_link(l, f.length, f.length2);
      }
      break;
    case kind::cut_before:
    case kind::cut_after:
      if (l != nullptr) {
        l->trap = f.what == kind::cut_after ? link::trap::after
                  : (f.variant & 1) != 0    ? link::trap::late
                                            : link::trap::before;
        l->trap_notice = f.length;
        l->trap_latest = f.length2;
      }
      break;
    case kind::stall_up:
      if (l != nullptr) l->up.stalled_until = now_ + f.length;
      break;
    case kind::stall_down:
      if (l != nullptr) l->down.stalled_until = now_ + f.length;
      break;
    case kind::pause: c.pause(f.length); break;
    case kind::die:
    case kind::vanish:
      if (c.alive()) {
        c.die(f.what == kind::vanish, f.length2);
        if ((f.variant & 1) != 0) after(f.length + millisecond, [&c] { c.start(); });
      }
      break;
    case kind::close: c.close(); break;
    case kind::cut_sentinel:
      if (!sentinels_.empty()) {
        cut_from_sentinels_[static_cast<std::size_t>(f.client)][static_cast<std::size_t>(f.name) % sentinels_.size()] =
            now_ + f.length;
      }
      break;
    case kind::server_restart: stop_server(f, true); break;
    case kind::server_wiped: stop_server(f, false); break;
    case kind::role_change: change_roles(f); break;
    case kind::promotion:
    case kind::move_slot:
    case kind::move_at_once:
    case kind::fail_over:
    case kind::cluster_down:
    case kind::misdirect: break;  // apply_to_servers
    case kind::failover:
      replica_.copy_data(server());
      after(f.length / 4 + millisecond, [this, &f] { stop_server(f, false); });
      break;
    case kind::step_back: stepped_us_ -= f.length / microsecond; break;
    case kind::step_forward:
      stepped_us_ += f.length / microsecond;
      observer_->clock_forward();
      break;
    case kind::flush_scripts: admin({"SCRIPT", "FLUSH"}); break;
    case kind::delete_lock:
      admin({"DEL", key_of(f.name)});
      observer_->lock_tampered(f.name);
      break;
    case kind::clobber_lock: clobber(f); break;
    case kind::spoil_fence: {
      std::string const key = key_of(f.name) + ":f";
      static constexpr std::string_view values[] = {
          "2251799813685247", "2251799813685245", "1e300", "inf", "nan", "-7", "none", "list"};
      std::string_view const written = values[static_cast<std::size_t>(f.variant) % std::size(values)];
      admin({"DEL", key});
      if (written == "list") {
        admin({"HSET", key, "what", "else"});
      } else {
        admin({"SET", key, written});
      }
      admin({"PEXPIRE", key, "5000"});
      observer_->lock_tampered(f.name);
      observer_->fence_spoilt(f.name);
      break;
    }
    case kind::refuse:
    case kind::refuse_inside: inject(f); break;
    case kind::intrude: intrude(f.name); break;
    case kind::force: force(f.name, f.variant); break;
    case kind::forge: forge(f.name, f.variant); break;
    case kind::set_limit: set_limit(f.name, f.variant); break;
    case kind::deny: deny(f, l); break;
    case kind::refuse_greeting: refuse_greetings(f, l); break;
    case kind::slow: slow_down(f); break;
  }
}

void world::stop_server(fault_plan const& f, bool keep) {
  node& n = nodes_[master()];
  if (n.down) return;
  observer_->trouble(now_ + f.length2 + millisecond);
  stop_node(master(), (f.variant & 1) != 0);
  set_clock();
  n.model.restart(keep);
  if (plan_.watched) watch_channels(n.model);
  if (!keep) {
    observer_->data_lost();  // before its clock shows another time, at which fences may be forgotten
    if (f.what == fault_plan::kind::failover) {
      n.model.copy_data(replica_);
      // The clocks of the two differ by less than the failover takes.
      stepped_us_ += random_.between(-f.length2, f.length2) / microsecond;
      set_clock();
    }
  }
  after(f.length2 + millisecond, [this, &n] {
    n.down = false;
    say("the server is back");
  });
}

void world::inject(fault_plan const& f) {
  static constexpr std::string_view errors[] = {
      "OOM command not allowed when used memory > 'maxmemory'.",
      "LOADING Redis is loading the dataset in memory",
      "READONLY You can't write against a read only replica.",
      "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
      "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
      "TRYAGAIN Multiple keys request during rehashing of slot",
  };
  if (f.what == fault_plan::kind::refuse) {
    std::string const error{errors[static_cast<std::size_t>(f.variant) % std::size(errors)]};
    std::size_t const times = static_cast<std::size_t>(f.variant / 8 + 1);
    server().inject({"evalsha", error, 0, times, redis_model::where::client});
    server().inject({"eval", error, 0, times, redis_model::where::client});
    after(f.length + millisecond, [this] {
      for (node& n : nodes_) n.model.clear_faults();
    });
    return;
  }
  // A script that has written once may go on writing in Redis: only its first write is refused.
  if (f.variant % 3 == 0) {
    server().set_out_of_memory(true);
    memory_is_full_ = true;
  } else if (f.variant % 3 == 1) {
    server().inject({"publish", "ERR something unforeseen", 0, static_cast<std::size_t>(f.variant / 16 + 1),
                     redis_model::where::script});
    commands_fail_ = true;
  } else {
    server().inject({"get", "ERR something unforeseen", 0, 1, redis_model::where::script});
    commands_fail_ = true;
  }
  after(f.length + millisecond, [this] {
    server().clear_faults();
    server().set_out_of_memory(false);
    memory_is_full_ = commands_fail_ = false;
  });
}

// Pushes caused by a client that is not ours.
void world::distribute(std::size_t of, std::vector<redis_model::pushed> const& pushes) {
  for (auto const& p : pushes) {
    auto const to = nodes_[of].by_id.find(p.to);
    if (to == nodes_[of].by_id.end() || to->second->cut) continue;
    std::string bytes;
    append_resp(bytes, p.message);
    push(to->second, false, std::move(bytes), false);
  }
}

void world::heal() {
  say("all faults are over");
  healing_ = true;
  observer_->trouble(now_ + (plan_.spikes != 0 ? plan_.spike : 0));
  for (node& n : nodes_) {
    n.model.clear_faults();
    for (char const* const one : {"subscribe", "publish", "eval", "evalsha"}) n.model.allow(one);
  }
  server().set_out_of_memory(false);
  for (int name = 0; name < plan_.names; ++name) {
    // A replica may have brought back what an operator wrote.
    std::string const key = key_of(name);
    bool const is_lock = !keys_of(name).with(key).peek(key).is(
        plan_.permits == engine::permit_kind::none ? value::kind::map : value::kind::bulk);
    if (plan_.has(fault_plan::kind::spoil_fence, name)) {
      admin({"DEL", key + ":f"});
      observer_->lock_tampered(name);
      observer_->fence_spoilt(name);
    }
    if (!is_lock) {
      admin({"DEL", key});
      observer_->lock_tampered(name);
    }
  }
  for (std::size_t i = 0; i < nodes_.size() && plan_.shards != 0; ++i) {
    nodes_[i].model.set_cluster_down(false);
    nodes_[i].lies.clear();
    hears_news(i);
  }
  for (auto const& weak : links_) {
    if (auto const l = weak.lock()) l->trap = link::trap::none;
  }
  refused_until_.assign(refused_until_.size(), 0);
}

}  // namespace conch::sim
