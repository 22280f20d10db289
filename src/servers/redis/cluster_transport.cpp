// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/cluster_transport.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace conch::redis {

/// To one master. It reports to the protocol, and some of that also to the map.
class cluster_transport::node final : public protocol::wire,
                                      private locator,
                                      private cluster_node,
                                      private protocol::wire_events {
 public:
  node(cluster_transport& owner, std::size_t number)
      : owner_{owner},
        number_{number},
        to_{owner.host_,          owner.on_, owner.settings_, owner.client_id_, owner.url_.seeds.front(),
            {nullptr, this, this}} {
    to_.report_to(*this);
  }

  void send(protocol::command const& c) override { to_.send(c); }
  void want_connection() override {
    wanted_ = true;
    to_.want_connection();
  }
  void drop_connection(std::string_view why) override { to_.drop_connection(why); }
  std::string unfinished_attempt() const override { return to_.unfinished_attempt(); }

  void tell(protocol::wire_events& e) noexcept { events_ = &e; }
  void report(statistics& s) const noexcept { to_.report(s); }
  void shut_down() { to_.shut_down(); }
  void follow() { to_.moved(); }

 private:
  /// One without slots is connected only on demand: while a slot is on its way there.
  location locate(address& to, time_point) override {
    if (!owner_.core_.map().has_slots(number_) && !wanted_) return {location::kind::not_needed};
    owner_.core_.locate(number_, to);
    return {location::kind::here};
  }

  std::string_view digits() const override { return owner_.core_.digits(number_); }
  std::optional<unsigned> home() const override { return owner_.core_.some_slot(number_); }
  void put_off(std::string_view words, time_point now) override {
    owner_.core_.put_off(words, number_, now);
    owner_.carry_out();
  }
  void unsubscribed(unsigned slot, time_point now) override {
    owner_.core_.unsubscribed(now);
    owner_.sharded_->unsubscribed(number_, slot, now);
    owner_.carry_out();
  }

  void connected_as(protocol::session const& s, time_point now) override {
    owner_.core_.reached(number_, true, now);
    events_->connected_as(s, now);
    owner_.carry_out();
  }
  void connect_failed(protocol::fault what, std::string_view words, time_point now) override {
    wanted_ = false;
    owner_.core_.reached(number_, false, now);
    events_->connect_failed(what, words, now);
    owner_.carry_out();
  }
  void disconnected(std::string_view why, time_point now) override {
    wanted_ = false;
    owner_.core_.reached(number_, false, now);
    events_->disconnected(why, now);
    owner_.carry_out();
  }
  void answered(protocol::answer const& a, time_point now) override { events_->answered(a, now); }
  void pushed(protocol::push const& p, time_point now) override { events_->pushed(p, now); }

  cluster_transport& owner_;
  std::size_t const number_;
  bool wanted_ = false;
  protocol::wire_events* events_ = nullptr;
  connection to_;
};

cluster_transport::cluster_transport(host& h, asio::any_io_executor on, config const& settings,
                                     std::string const& client_id, cluster_url url)
    : host_{h},
      on_{on},
      settings_{settings},
      client_id_{client_id},
      url_{std::move(url)},
      core_{url_.seeds,
            {.refresh = settings.topology_refresh, .patience = settings.command_timeout},
            settings.address_map,
            {settings.connect_timeout, settings.lease}},
      talk_{core_, *this},
      to_asked_{h, on, settings, client_id, url_.seeds.front(), {&talk_, &talk_}},
      timer_{h, on, [this](time_point now) {
               core_.due(now);
               carry_out();
             }} {}

cluster_transport::~cluster_transport() = default;

void cluster_transport::want_connection() { to_asked_.want_connection(); }

void cluster_transport::report(statistics& s) const noexcept {
  to_asked_.report(s);
  for (auto const& one : nodes_) {
    if (one) one->report(s);
  }
  s.topology_refreshes += core_.requests();
}

void cluster_transport::shut_down() {
  to_asked_.shut_down();
  asio::post(on_, [this, keep = host_.keep()] {
    timer_.close();
    for (auto const& one : nodes_) {
      if (one) one->shut_down();
    }
  });
}

protocol::wire& cluster_transport::way_to(std::size_t number) {
  if (number == unknown_master) return *this;
  if (number >= nodes_.size()) nodes_.resize(number + 1);
  if (!nodes_[number]) nodes_[number] = std::make_unique<node>(*this, number);
  return *nodes_[number];
}

void cluster_transport::report_to(std::size_t number, protocol::wire_events& e) {
  if (number == unknown_master) report_to(e);
  else nodes_[number]->tell(e);
}

protocol::shards::detour cluster_transport::detour_of(std::string_view words, std::size_t by) {
  cluster::meaning const m = core_.meaning_of(words, by);
  if (m.moves) return {detour::kind::there, m.there};
  return {m.is_divided ? detour::kind::each_alone : detour::kind::none, unknown_master};
}

void cluster_transport::wait_for_owner(bool wanted, time_point now) {
  core_.wait_for_owner(wanted, now);
  if (wanted) look_later();
}

/// From any thread.
void cluster_transport::look_later() {
  if (std::exchange(looks_later_, true)) return;
  asio::post(on_, [this, keep = host_.keep()] {
    host_.enter([this](time_point now) {
      looks_later_ = false;
      core_.due(now);
      carry_out();
    });
  });
}

void cluster_transport::carry_out() {
  if (std::exchange(carrying_out_, true)) return;  // what this causes is carried out below
  for (bool again = true; again;) {
    again = false;
    auto const todo = core_.take();
    for (auto const& [level, words] : todo.log) host_.log(level, words);
    if (timer_.is_closed()) break;
    if (!todo.leave.empty()) to_asked_.drop_connection(todo.leave);
    if (todo.ask) to_asked_.say(talk_.question());
    for (std::size_t const number : todo.follow) {
      if (number < nodes_.size() && nodes_[number]) nodes_[number]->follow();
    }
    for (std::size_t const number : todo.renew) {
      if (number < nodes_.size() && nodes_[number])
        nodes_[number]->drop_connection("its id was not known yet, or it is another node now");
    }
    if (todo.lost.what != protocol::fault::none) events().connect_failed(todo.lost.what, todo.lost.why, clock::now());
    if (todo.moved) sharded_->moved(clock::now());
    again = todo.moved || todo.lost.what != protocol::fault::none;
  }
  carrying_out_ = false;
  timer_.sleep_until(core_.next_due());
}

}  // namespace conch::redis
