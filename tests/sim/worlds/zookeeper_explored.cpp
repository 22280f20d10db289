// A small world of one ZooKeeper server in which every order is tried: what may happen, and which faults may.
#include "sim/digest.hpp"
#include "sim/worlds/zookeeper_world.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

std::uint64_t stream_of(zookeeper_world::line const& l, bool up) {
  return (l.number * 2 + (up ? 1 : 0)) * 0x9e3779b97f4a7c15U;
}

void add(digest& d, zookeeper::stat const& s) {
  for (std::int64_t const n :
       {s.created, s.created_ms, s.modified, std::int64_t{s.version}, s.owner, std::int64_t{s.children}})
    d.add(static_cast<std::uint64_t>(n));
}

struct adds {
  digest& d;
  void operator()(std::monostate) const {}
  void operator()(zookeeper::created const& c) const {
    d.add(c.path);
    add(d, c.node);
  }
  void operator()(zookeeper::data const& c) const {
    d.add(c.bytes);
    add(d, c.node);
  }
  void operator()(zookeeper::children const& c) const {
    for (std::string const& name : c.names) d.add(name);
  }
  void operator()(zookeeper::rights const&) const {}
};

}  // namespace

std::uint64_t zookeeper_world::content_of(zookeeper::connect_response const& r) {
  digest d;
  d.add(static_cast<std::uint64_t>(r.timeout_ms));
  d.add(static_cast<std::uint64_t>(r.session));
  return d.value();
}

std::uint64_t zookeeper_world::content_of(zookeeper::reply const& r) {
  digest d;
  d.add(static_cast<std::uint64_t>(r.zxid));
  d.add(static_cast<std::uint64_t>(r.what));
  d.add(r.content.index());
  std::visit(adds{d}, r.content);
  return d.value();
}

zookeeper_world::zookeeper_world(plan const& small, bool traced, steps& order)
    : seed{small.seed},
      of_all_kinds{false},
      small_{&small},
      explores_{&order},
      traced_{traced},
      random_{small.seed},
      shares_{small.seed},
      intervals_{small.seed} {
  config const& c = small.clients.front().settings;
  calm = small.possible.empty();
  names = small.names;
  lease = c.lease.count();
  margin = tick = c.zookeeper.session_margin.count();
  latency = small.latency;
  jitter = small.jitter;
  sync_limit = 5;
  zookeeper_model::settings s;
  s.servers = 1;
  s.tick = tick;
  s.sync_limit = sync_limit;
  s.lists_in_order = true;
  model_ = std::make_unique<zookeeper_model>(s, events_, now_, static_cast<zookeeper_model::outside&>(*this));
  for (int i = 0; i < static_cast<int>(small.clients.size()); ++i)
    clients_.push_back(std::make_unique<zookeeper_client>(*this, i));
  for (int i = 0; i < names; ++i) locks_.push_back({.plan = {}, .line = zookeeper_line_judge{name_of(i)}});
  history_ = user_history{names, {}};
}

void zookeeper_world::explore() {
  pass_until(small_->explored_from);
  order_ = explores_;
  take_steps(*this, order_);
}

nanos zookeeper_world::next_timer() const { return events_.empty() ? steps::never : events_.next(); }

void zookeeper_world::pass_until(nanos until) {
  while (!events_.empty() && events_.next() <= until) events_.run_next([this](nanos at) { now_ = at; });
  now_ = std::max(now_, until);
}

/// What is still under way then is left to the order of its time.
bool zookeeper_world::is_over(bool waiting) const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [&](auto const& c) { return c->finished() && (!waiting || !c->alive || c->backend->settled()); });
}

footprint zookeeper_world::paused() const {
  footprint all = 0;
  for (auto const& c : clients_) all |= c->paused ? of_client(c->number) : 0;
  return all;
}

std::uint64_t zookeeper_world::digest_of_servers() const {
  digest d;
  model_->add_to(d);
  return d.value();
}

// ---------------------------------------------------------------------------------------------------------- faults

std::vector<steps::fault> zookeeper_world::possible_faults() {
  std::vector<steps::fault> all;
  for (std::size_t i = 0; i < small_->possible.size(); ++i) {
    fault_plan const& f = small_->possible[i];
    if (!is_possible(f)) continue;
    footprint const touched = f.what == kind::pause ? of_client(f.client) : of_client(f.client) | of_servers;
    all.push_back({i, touched | of_faults, [this, &f] { strike(f); }});
  }
  return all;
}

bool zookeeper_world::is_possible(fault_plan const& f) const {
  zookeeper_client const& c = *clients_[static_cast<std::size_t>(f.client)];
  if (f.what == kind::pause) return c.alive && !c.paused && !c.finished();
  line_ptr const& l = c.line;
  return l != nullptr && l->client_open && l->server_open && !l->cut && !l->deaf;
}

void zookeeper_world::strike(fault_plan const& f) {
  zookeeper_client& c = *clients_[static_cast<std::size_t>(f.client)];
  if (f.what == kind::pause) {
    say("fault: client ", f.client, " is paused");
    c.pause(f.length);
    return;
  }
  say("fault: the connection of client ", f.client, " breaks");
  line_ptr const l = c.line;
  if (f.variant != 0) {
    cut(l, f.length, f.length2);
    return;
  }
  // Nothing comes back any more, and what is under way to the server arrives.
  l->deaf = true;
  by(f.length, l, false, [this, l] { clients_[static_cast<std::size_t>(l->client)]->lost_line(l); });
  by(f.length2, l, true, [this, l] { close_at_server(*l); });
}

// ------------------------------------------------------------------------------------------------------ the network

void zookeeper_world::connect_later(line_ptr const& l) {
  auto then = [this, l] {
    zookeeper_client& c = *clients_[static_cast<std::size_t>(l->client)];
    if (!c.alive || c.process != l->process || !l->client_open) return;
    if (reach(l)) {
      c.accepted(l);
    } else {
      c.lost_line(l);
    }
  };
  order_->add({~stream_of(*l, true), of_client(l->client) | of_servers, now_ + jitter, 1, std::move(then)});
}

void zookeeper_world::deliver_later(line_ptr const& l, bool up, std::uint64_t content, std::function<void()> what) {
  auto is_void = [l, up] { return up ? !l->server_open || l->cut : !l->client_open || l->cut || l->deaf; };
  order_->add({stream_of(*l, up), up ? of_servers : of_client(l->client), now_ + jitter, content, std::move(what),
               std::move(is_void)});
}

/// An end of a connection comes to know something, soon (then in any order) or after that time.
void zookeeper_world::by(nanos within, line_ptr const& l, bool up, std::function<void()> what) {
  if (order_ == nullptr || within > jitter) {
    after(within, [what = std::move(what)] { what(); });
    return;
  }
  auto is_void = [l, up] { return up ? !l->server_open : !l->client_open; };
  order_->add({~stream_of(*l, up), up ? of_servers : of_client(l->client), now_ + within, 1, std::move(what),
               std::move(is_void)});
}

// -------------------------------------------------------------------------------------------------------- a client

void zookeeper_client::follow(client_plan const& p) {
  offset = second + p.clock_offset;
  ppm = p.drift_ppm;
  settings = p.settings;
  coroutines_.clear();
  for (actor_plan const& a : p.actors) {
    coroutine& one = coroutines_.emplace_back();
    one.todo = &a;
    one.left = static_cast<int>(a.work.size());
  }
}

/// Null: what that coroutine does is drawn.
operation const* zookeeper_client::planned(int which) const {
  coroutine const& c = coroutines_[static_cast<std::size_t>(which)];
  return c.todo == nullptr ? nullptr : &c.todo->work[c.todo->work.size() - static_cast<std::size_t>(c.left)];
}

void zookeeper_client::take_over(operation const& o, zookeeper_hold& h, time_point now) const {
  h.name = o.name;
  h.lease = std::chrono::milliseconds{o.lease / millisecond};
  h.once = o.how == operation::way::attempt;
  if (o.how == operation::way::timed) h.until = now + duration{o.patience};
}

/// Each of the user's steps is a stream of its own: a cancellation may come before or after anything else.
std::uint64_t zookeeper_client::stream_of_user() { return (process << 32 | ++steps_of_user_) * 0xbf58476d1ce4e5b9U; }

/// Having been paused: where every order is tried, before or after what has arrived meanwhile.
void zookeeper_client::look_at_timers() {
  if (world.order_ == nullptr) {
    tick();
    return;
  }
  world.order_->add({stream_of_user(), of_client(number), world.now(), 0, [this] { tick(); },
                     [this, mine = process] { return !alive || process != mine; }});
}

}  // namespace conch::sim
