#include "sim/worlds/sim_cluster.hpp"

#include "sim/worlds/sim_sentinels.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

// To one master. It reports to the protocol, and some of that also to the map.
class sim_cluster::node final : public protocol::wire,
                                private redis::locator,
                                private redis::cluster_node,
                                private protocol::wire_events,
                                private sim_connection::shell {
 public:
  node(sim_cluster& owner, std::size_t number)
      : owner_{owner},
        number_{number},
        to_{*this, owner.settings_, owner.client_id_, owner.random_.next(), owner.habits_, {nullptr, this, this}} {
    to_.report_to(*this);
  }

  void send(protocol::command const& c) override {
    if (std::holds_alternative<protocol::release_command>(c)) ++seen.releases_written;
    if (auto const* renew = std::get_if<protocol::renew_command>(&c)) {
      for (protocol::renewal const& item : renew->items) seen.renewals_written.push_back(item.id);
    }
    owner_.outside_.sends(c);
    to_.send(c);
  }
  void want_connection() override {
    wanted_ = true;
    to_.want();
  }
  void drop_connection(std::string_view why) override {
    owner_.outside_.drops(why);
    to_.drop(why);
  }

  void tell(protocol::wire_events& e) noexcept { events_ = &e; }
  void follow() { to_.moved(); }
  bool end_of_turn() { return to_.end_of_turn(); }
  sim_connection& connection() { return to_; }

  view seen;

 private:
  // redis::locator
  redis::location locate(redis::address& to, time_point) override {
    if (!owner_.core_.map().has_slots(number_) && !wanted_) return {redis::location::kind::not_needed};
    owner_.core_.locate(number_, to);
    return {redis::location::kind::here};
  }
  // redis::cluster_node
  std::string_view digits() const override { return owner_.core_.digits(number_); }
  std::optional<unsigned> home() const override { return owner_.core_.some_slot(number_); }
  void put_off(std::string_view words, time_point now) override {
    if (owner_.world_.tracing()) owner_.world_.say("  (" + owner_.client_id_ + " is told " + std::string{words} + ")");
    auto const asks = redis::read_ask(words);
    std::size_t const before = asks ? owner_.core_.owner(asks->slot) : unknown_master;
    owner_.core_.put_off(words, number_, now);
    if (asks && owner_.core_.owner(asks->slot) != before) {
      throw violation{9,
                      owner_.client_id_ +
                          " takes a slot to be where it is on its way to, where nothing may be asked without ASKING"};
    }
    owner_.carry_out();
  }
  void unsubscribed(unsigned slot, time_point now) override {
    if (owner_.world_.tracing())
      owner_.world_.say("  (" + owner_.client_id_ + " hears nothing of slot " + std::to_string(slot) + " any more)");
    owner_.core_.unsubscribed(now);
    owner_.sharded_->unsubscribed(number_, slot, now);
    owner_.carry_out();
  }
  // sim_connection::shell
  void later(nanos delay, std::function<void(time_point)> what) override {
    owner_.shell_.later(delay, std::move(what));
  }
  nanos until(time_point t) override { return owner_.shell_.until(t); }
  void open(sim_connection&) override { seen.to = owner_.outside_.dial(sim_sentinels::number_in(to_.where().host)); }
  void write(sim_connection&, std::string bytes) override { owner_.outside_.transmit(seen.to, std::move(bytes)); }
  void hang_up(sim_connection&) override {
    if (seen.to != nullptr) owner_.outside_.hang_up(seen.to);
    seen.to.reset();
  }
  void note(sim_connection& c, log_level level, std::string_view words) override {
    owner_.shell_.note(c, level, words);
  }
  // protocol::wire_events
  void connected_as(protocol::session const& s, time_point now) override {
    seen.up = true;
    seen.since = owner_.world_.now();
    seen.releases_written = 0;
    seen.renewals_written.clear();
    owner_.core_.reached(number_, true, now);
    events_->connected_as(s, now);
    seen.cleanups_are_due = true;
    owner_.outside_.node_connected(number_);
    owner_.carry_out();
  }
  void connect_failed(protocol::fault what, std::string_view words, time_point now) override {
    wanted_ = false;
    owner_.core_.reached(number_, false, now);
    events_->connect_failed(what, words, now);
    owner_.outside_.node_failed(what, words);
    owner_.carry_out();
  }
  void disconnected(std::string_view why, time_point now) override {
    wanted_ = false;
    seen.up = seen.cleanups_are_due = false;
    seen.since = owner_.world_.now();
    owner_.core_.reached(number_, false, now);
    events_->disconnected(why, now);
    owner_.outside_.node_disconnected(number_, why);
    owner_.carry_out();
  }
  void answered(protocol::answer const& a, time_point now) override { owner_.outside_.answered_by(*events_, a, now); }
  void pushed(protocol::push const& p, time_point now) override { owner_.outside_.pushed_by(*events_, p, now); }

  sim_cluster& owner_;
  std::size_t const number_;
  bool wanted_ = false;
  protocol::wire_events* events_ = nullptr;
  sim_connection to_;
};

sim_cluster::sim_cluster(world& w, outside& o, sim_connection::shell& of, config const& settings,
                         std::string const& client_id, redis::cluster_url url, sim_connection::habits h,
                         std::uint64_t seed)
    : world_{w},
      outside_{o},
      shell_{of},
      settings_{settings},
      client_id_{client_id},
      url_{std::move(url)},
      habits_{h},
      random_{seed},
      core_{url_.seeds,
            {.refresh = settings.topology_refresh, .patience = settings.command_timeout},
            settings.address_map,
            {settings.connect_timeout, settings.lease}},
      talk_{core_, *this},
      for_map_{*this},
      to_asked_{for_map_, settings, client_id, random_.next(), h, {&talk_, &talk_}} {}

sim_cluster::~sim_cluster() = default;

// ---------------------------------------------------------------------------- connections

void sim_cluster::asked::open(sim_connection& c) {
  of.map_link_ = of.outside_.dial(sim_sentinels::number_in(c.where().host));
}

void sim_cluster::asked::write(sim_connection&, std::string bytes) {
  of.outside_.transmit(of.map_link_, std::move(bytes));
}

void sim_cluster::asked::hang_up(sim_connection&) {
  if (of.map_link_ != nullptr) of.outside_.hang_up(of.map_link_);
  of.map_link_.reset();
}

bool sim_cluster::end_of_turn() {
  if (to_asked_.end_of_turn()) return true;
  return std::any_of(nodes_.begin(), nodes_.end(), [](auto const& one) { return one && one->end_of_turn(); });
}

sim_connection* sim_cluster::connection_of(link const& l) {
  if (map_link_.get() == &l) return &to_asked_;
  for (auto const& one : nodes_) {
    if (one && one->seen.to.get() == &l) return &one->connection();
  }
  return nullptr;
}

sim_cluster::view const* sim_cluster::view_of(link const& l) const {
  for (auto const& one : nodes_) {
    if (one && one->seen.to.get() == &l) return &one->seen;
  }
  return nullptr;
}

sim_cluster::view const* sim_cluster::view_of_node(std::size_t at) const {
  for (auto const& one : nodes_) {
    if (one && one->seen.to != nullptr && one->seen.to->node == at) return &one->seen;
  }
  return nullptr;
}

sim_cluster::view& sim_cluster::view_of_master(std::size_t number) { return nodes_[number]->seen; }

std::vector<link_ptr> sim_cluster::links() const {
  std::vector<link_ptr> all;
  if (map_link_ != nullptr) all.push_back(map_link_);
  for (auto const& one : nodes_) {
    if (one && one->seen.to != nullptr) all.push_back(one->seen.to);
  }
  return all;
}

// --------------------------------------------------------------------- protocol::shards

protocol::wire& sim_cluster::way_to(std::size_t number) {
  if (number == unknown_master) return *this;
  if (number >= nodes_.size()) nodes_.resize(number + 1);
  if (!nodes_[number]) nodes_[number] = std::make_unique<node>(*this, number);
  return *nodes_[number];
}

void sim_cluster::report_to(std::size_t number, protocol::wire_events& e) {
  if (number == unknown_master) unrouted_ = &e;
  else nodes_[number]->tell(e);
}

protocol::shards::detour sim_cluster::detour_of(std::string_view words, std::size_t by) {
  redis::cluster::meaning const m = core_.meaning_of(words, by);
  if (m.moves) return {detour::kind::there, m.there};
  return {m.is_divided ? detour::kind::each_alone : detour::kind::none, unknown_master};
}

void sim_cluster::wait_for_owner(bool wanted, time_point now) {
  core_.wait_for_owner(wanted, now);
  if (!wanted || std::exchange(looks_later_, true)) return;
  shell_.later(0, [this](time_point at) {
    looks_later_ = false;
    core_.due(at);
    carry_out();
  });
}

// ------------------------------------------------------------------------------ the map

void sim_cluster::carry_out() {
  if (std::exchange(carrying_out_, true)) return;  // what this causes is carried out below
  for (bool again = true; again;) {
    again = false;
    auto const todo = core_.take();
    for (auto const& [level, words] : todo.log) shell_.note(to_asked_, level, words);
    if (!todo.leave.empty()) to_asked_.drop(todo.leave);
    if (todo.ask) to_asked_.say(talk_.question());
    for (std::size_t const number : todo.follow) {
      if (number < nodes_.size() && nodes_[number]) nodes_[number]->follow();
    }
    for (std::size_t const number : todo.renew) {
      if (number < nodes_.size() && nodes_[number]) nodes_[number]->drop_connection("its id was not known yet");
    }
    time_point const now = outside_.local_now();
    if (todo.lost.what != protocol::fault::none) unrouted_->connect_failed(todo.lost.what, todo.lost.why, now);
    if (todo.moved) outside_.slots_move([&] { sharded_->moved(now); }, now);
    again = todo.moved || todo.lost.what != protocol::fault::none;
  }
  carrying_out_ = false;
  sleep();
}

void sim_cluster::sleep() {
  time_point const until = core_.next_due();
  if (until == slept_until_) return;
  slept_until_ = until;
  ++sleep_;
  if (until == time_point::max()) return;
  shell_.later(shell_.until(until), [this, mine = sleep_](time_point now) {
    if (mine != sleep_) return;
    slept_until_ = time_point::max();
    core_.due(now);
    carry_out();
  });
}

}  // namespace conch::sim
