// A small world of several servers in which every order is tried: what may happen, and which faults may.
#include "servers/redis/scripts.hpp"
#include "sim/digest.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/quorum_world.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

std::uint64_t stream_of(quorum_world::link const& l, bool up) { return l.number * 2 + (up ? 1 : 0); }

}  // namespace

quorum_world::quorum_world(plan const& small, int servers, bool traced, steps& order)
    : seed{small.seed},
      small_{&small},
      explores_{&order},
      traced_{traced},
      random_{small.seed},
      troubles_{small.seed} {
  use_small_steps(small.small_steps);
  config const& c = small.clients.front().settings;
  servers_count = servers;
  needed = static_cast<std::size_t>(servers_count) / 2 + 1;
  names = small.names;
  calm = small.possible.empty();
  strict = c.quorum.strict_fence;
  lease = c.lease.count();
  claim = c.quorum.vote_claim.count();
  latency = small.latency;
  jitter = small.jitter;
  for (int i = 0; i < servers_count; ++i) add_server(0, 0);
  add_clients(static_cast<int>(small.clients.size()));
  dials_.resize(clients_.size() * servers_.size());
}

void quorum_world::explore() {
  pass_until(small_->explored_from);
  for (auto const& s : servers_) {
    set_clock(*s);
    auto const id = s->model.connect("10.9.9.9:9");
    for (redis::script const& one : redis::all_scripts()) {
      std::string_view const argv[] = {"SCRIPT", "LOAD", mutated_source(one.name)};
      (void)s->model.execute(id, argv);
    }
    s->model.disconnect(id);
  }
  order_ = explores_;
  take_steps(*this, order_);
}

nanos quorum_world::next_timer() const { return events_.empty() ? steps::never : events_.next(); }

void quorum_world::pass_until(nanos until) {
  while (!events_.empty() && events_.next() <= until) events_.run_next([this](nanos at) { now_ = at; });
  now_ = std::max(now_, until);
}

/// What is still under way then is left to the order of its time.
bool quorum_world::is_over(bool waiting) const {
  return std::all_of(clients_.begin(), clients_.end(), [&](auto const& c) {
    return c->finished() && (!waiting || !c->alive || c->owner->pending() == 0);
  });
}

footprint quorum_world::paused() const {
  footprint all = 0;
  for (auto const& c : clients_) all |= c->paused ? of_client(c->number) : 0;
  return all;
}

std::uint64_t quorum_world::digest_of_servers() const {
  digest d;
  for (auto const& s : servers_) {
    s->model.add_to(d);
    d.add(s->up ? 1 : 0);
  }
  return d.value();
}

// --------------------------------------------------------------------------------------------------------- faults

std::vector<steps::fault> quorum_world::possible_faults() {
  std::vector<steps::fault> all;
  for (std::size_t i = 0; i < small_->possible.size(); ++i) {
    fault_plan const& f = small_->possible[i];
    if (!is_possible(f)) continue;
    footprint const touched = f.what == kind::pause ? of_client(f.client)
                              : f.what == kind::cut ? of_client(f.client) | of_server(f.name)
                                                    : of_all;
    all.push_back({i, touched | of_faults, [this, &f] { strike(f); }});
  }
  return all;
}

/// `name`: of the server.
quorum_world::link_ptr quorum_world::link_for(fault_plan const& f) const {
  quorum_client const& c = *clients_[static_cast<std::size_t>(f.client)];
  return c.alive ? c.ways_[static_cast<std::size_t>(f.name)]->link : nullptr;
}

bool quorum_world::is_possible(fault_plan const& f) const {
  quorum_client const& c = *clients_[static_cast<std::size_t>(f.client)];
  switch (f.what) {
    case kind::cut: {
      link_ptr const l = link_for(f);
      return l != nullptr && l->client_open && l->server_open && !l->cut && !l->deaf;
    }
    case kind::pause: return c.alive && !c.paused && !c.finished();
    case kind::server_restart: return servers_[static_cast<std::size_t>(f.name)]->up;
    default: return false;
  }
}

void quorum_world::strike(fault_plan const& f) {
  quorum_client& c = *clients_[static_cast<std::size_t>(f.client)];
  switch (f.what) {
    case kind::cut:
      say("fault: the connection of client ", f.client, " to server ", f.name, " breaks");
      if (f.variant == 0) {
        deafen(link_for(f));
      } else {
        cut(link_for(f), f.length, f.length2);
      }
      return;
    case kind::pause:
      say("fault: client ", f.client, " is paused");
      c.pause(f.length);
      return;
    default: stop_server(f.name, true, f.length2); return;
  }
}

/// Nothing comes back any more, and what is under way to the server arrives.
void quorum_world::deafen(link_ptr const& l) {
  l->deaf = true;
  trouble(now_ + jitter);
  by(jitter, l, false, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_link(l, "cut"); });
  by(jitter, l, true, [this, l] { close_at_server(*l); });
}

// ------------------------------------------------------------------------------------------------------ the network

/// The same in every order: it counts the connections of one client to one server.
std::uint64_t quorum_world::number_of_dial(int client, int to) {
  std::size_t const of = static_cast<std::size_t>(client) * servers_.size() + static_cast<std::size_t>(to);
  return (dials_[of]++ << 8 | of) * 0x9e3779b97f4a7c15U;
}

void quorum_world::connect_later(link_ptr const& l) {
  auto then = [this, l] {
    if (!concerns_its_client(*l) || !l->client_open) return;
    quorum_client& c = *clients_[static_cast<std::size_t>(l->client)];
    if (reach(l)) {
      c.accepted(l);
    } else {
      c.lost_link(l, "no connection");
    }
  };
  order_->add({~stream_of(*l, true), of_client(l->client) | of_server(l->server), now_ + jitter, 1, std::move(then)});
}

void quorum_world::deliver_later(link_ptr const& l, bool up, std::string_view bytes, std::function<void()> what) {
  digest content;
  content.add(bytes);
  auto is_void = [l, up] { return up ? !l->server_open || l->cut : !l->client_open || l->cut || l->deaf; };
  order_->add({stream_of(*l, up), up ? of_server(l->server) : of_client(l->client), now_ + jitter, content.value(),
               std::move(what), std::move(is_void)});
}

/// An end of a connection comes to know something, soon (then in any order) or after that time.
void quorum_world::by(nanos within, link_ptr const& l, bool up, std::function<void()> what) {
  if (order_ == nullptr || within > jitter) {
    after(within, [what = std::move(what)] { what(); });
    return;
  }
  auto is_void = [l, up] { return up ? !l->server_open : !l->client_open; };
  order_->add({~stream_of(*l, up), up ? of_server(l->server) : of_client(l->client), now_ + within, 1, std::move(what),
               std::move(is_void)});
}

// ------------------------------------------------------------------------------------------------------- a client

void quorum_client::follow(client_plan const& p) {
  offset = p.clock_offset;
  ppm = p.drift_ppm;
  settings = p.settings;
  settings.quorum.servers.resize(static_cast<std::size_t>(world.servers_count));
  coroutines_.clear();
  for (actor_plan const& a : p.actors) {
    coroutine& one = coroutines_.emplace_back();
    one.todo = &a;
    one.left = static_cast<int>(a.work.size());
  }
}

/// Null: what that coroutine does is drawn.
operation const* quorum_client::planned(int which) const {
  coroutine const& c = coroutines_[static_cast<std::size_t>(which)];
  return c.todo == nullptr ? nullptr : &c.todo->work[c.todo->work.size() - static_cast<std::size_t>(c.left)];
}

void quorum_client::take_over(operation const& o, quorum_hold& h, time_point now) const {
  h.name = o.name;
  h.lease = std::chrono::milliseconds{o.lease / millisecond};
  h.once = o.how == operation::way::attempt;
  if (o.how == operation::way::timed) h.until = now + duration{o.patience};
}

/// Each of the user's steps is a stream of its own: a cancellation may come before or after anything else.
std::uint64_t quorum_client::stream_of_user() { return (process << 32 | ++steps_of_user_) * 0xbf58476d1ce4e5b9U; }

/// Having been paused: where every order is tried, before or after what has arrived meanwhile.
void quorum_client::look_at_timers() {
  auto const look = [this] { input([this](time_point now) { cohort->tick(now); }); };
  if (world.order_ == nullptr) {
    look();
    return;
  }
  world.order_->add({stream_of_user(), of_client(number), world.now(), 0, look,
                     [this, mine = process] { return !alive || process != mine; }});
}

}  // namespace conch::sim
