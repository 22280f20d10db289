// A world in which every order is tried: what may happen, and which faults may.
#include "servers/redis/scripts.hpp"
#include "sim/digest.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

using kind = fault_plan::kind;

std::uint64_t stream_of(link const& l, bool up) { return l.number * 2 + (up ? 1 : 0); }

void world::explore() {
  pass_until(plan_.explored_from);
  // who forgets them is a fault
  for (redis::script const& s : redis::all_scripts()) admin({"SCRIPT", "LOAD", mutated_source(s.name)});
  // apply() keeps references
  plan_.faults.reserve(plan_.possible.size() * 4);
  order_ = explores_;
  take_steps(*this, order_);
  limit_ += now_;
  heal();
}

nanos world::next_timer() const { return events_.empty() ? steps::never : events_.next(); }

/// What is still under way then is left to the order of its time: it can only be the end of a connection, or its
/// beginning.
bool world::is_over(bool waiting) const {
  nobody_waits_for_ever();
  auto const is_through = [](auto const& c) { return !c->alive() || (c->finished() && c->owed() == 0); };
  return waiting ? std::all_of(clients_.begin(), clients_.end(), is_through) : all_done();
}

/// But what has been sent to them and is not there yet.
std::uint64_t world::digest_of_servers() const {
  digest d;
  for (node const& n : nodes_) {
    n.model.add_to(d);
    d.add(n.down ? 1 : 0);
    for (batch const& b : n.stream) d.add(b.number);
  }
  for (shard const& s : shards_) d.add(s.master);
  for (auto const& [slot, m] : moves_) {
    for (std::uint64_t const n : {static_cast<std::uint64_t>(slot), m.from, m.to, std::uint64_t{m.decided}}) d.add(n);
  }
  for (std::size_t const address : addresses_) d.add(address);
  return d.value();
}

footprint world::paused() const {
  footprint all = 0;
  for (auto const& c : clients_) all |= c->paused() ? of_client(c->number()) : 0;
  return all;
}

std::vector<steps::fault> world::possible_faults() {
  std::vector<steps::fault> all;
  for (std::size_t i = 0; i < plan_.possible.size(); ++i) {
    fault_plan const& f = plan_.possible[i];
    if (!is_possible(f)) continue;
    footprint const touched = f.what == kind::pause           ? of_client(f.client)
                              : f.what == kind::cut           ? of_client(f.client) | of_servers
                              : f.what == kind::flush_scripts ? of_servers
                                                              : of_all;
    all.push_back({i, touched | of_faults, [this, &f] { strike(f); }});
  }
  return all;
}

bool world::is_possible(fault_plan const& f) const {
  sim_client const& c = *clients_[static_cast<std::size_t>(f.client)];
  switch (f.what) {
    case kind::cut:
      return c.connection() != nullptr && c.connection()->accepted && !c.connection()->cut &&
             c.connection()->server_open;
    case kind::pause: return c.alive() && !c.paused() && !c.finished();
    case kind::die:
    case kind::vanish: return c.alive() && !c.finished();
    case kind::server_restart:
    case kind::server_wiped:
    case kind::role_change: return !nodes_[master()].down;
    case kind::move_slot: return moves_.empty();
    default: return true;
  }
}

void world::strike(fault_plan f) {
  f.at = now_;
  plan_.faults.push_back(std::move(f));
  limit_ += plan_.faults.back().length + plan_.faults.back().length2;
  apply(plan_.faults.back());
}

void world::deliver_later(link_ptr const& l, bool up, std::string bytes, bool end) {
  digest content;
  content.add(bytes);
  content.add(end ? 1 : 0);
  link::direction& way = up ? l->up : l->down;
  way.under_way.push_back({steps::never, std::move(bytes), end});
  auto run = [this, l, up] {
    link::direction& arriving = up ? l->up : l->down;
    if (arriving.under_way.empty()) return;
    arriving.under_way.front().at = now_;
    pump(l, up);
  };
  auto is_void = [l, up] { return up ? !l->client_open && !l->server_open : !l->client_open; };
  order_->add({stream_of(*l, up), up ? of_servers : of_client(l->client), now_ + plan_.jitter, content.value(),
               std::move(run), std::move(is_void)});
}

/// An end of a connection comes to know something, soon (then in any order) or at that moment.
void world::by(nanos latest, link const& l, bool up, footprint touched, std::function<void()> what) {
  if (order_ == nullptr || latest > now_ + plan_.jitter) {
    at(latest, [what = std::move(what)] { what(); });
    return;
  }
  order_->add({~stream_of(l, up), touched, latest, 1, std::move(what)});
}

}  // namespace conch::sim
