// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/sentinel_transport.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace conch::redis {

/// To one Sentinel.
class sentinel_transport::link final {
 public:
  link(sentinel_transport& owner, std::size_t number)
      : talk_{owner.core_, number, owner},
        to_{owner.host_,     owner.on_, owner.of_sentinels_, owner.client_id_, owner.url_.sentinels.front(),
            {&talk_, &talk_}} {}

  void listen() { to_.want_connection(); }
  void ask() { to_.say(talk_.question()); }
  void drop() { to_.drop_connection("no answer"); }
  void shut_down() { to_.shut_down(); }
  void report(statistics& s) const noexcept { to_.report(s); }

 private:
  sentinel_talk talk_;
  connection to_;
};

/// It goes where the first one is sent. The first one asks the Sentinels, and reports their answers.
class sentinel_transport::second_connection final : public transport, private locator {
 public:
  explicit second_connection(sentinel_transport& owner)
      : owner_{owner},
        to_{owner.host_, owner.on_, owner.settings_, owner.client_id_, owner.url_.server, {nullptr, this}} {}

  void send(protocol::command const& c) override { to_.send(c); }
  void want_connection() override { to_.want_connection(); }
  void drop_connection(std::string_view why) override { to_.drop_connection(why); }
  void report_to(protocol::wire_events& e) noexcept override { to_.report_to(e); }
  void report(statistics& s) const noexcept override { to_.report(s); }
  void shut_down() override { to_.shut_down(); }
  void moved() { to_.moved(); }

 private:
  location locate(address& to, time_point) override {
    if (!owner_.begun_) return {};
    return owner_.core_.locate(to);
  }

  sentinel_transport& owner_;
  connection to_;
};

sentinel_transport::sentinel_transport(host& h, asio::any_io_executor on, config const& settings,
                                       std::string const& client_id, sentinel_url url)
    : host_{h},
      on_{on},
      settings_{settings},
      of_sentinels_{settings_of_sentinels(settings)},
      client_id_{client_id},
      url_{std::move(url)},
      core_{url_, {.refresh = settings.topology_refresh, .patience = settings.command_timeout}, settings.address_map},
      to_master_{h, on, settings, client_id, url_.server, {nullptr, this}},
      timer_{h, on, [this](time_point now) {
               core_.due(now);
               carry_out();
             }} {}

sentinel_transport::~sentinel_transport() = default;

std::unique_ptr<transport> sentinel_transport::beside() {
  auto made = std::make_unique<second_connection>(*this);
  second_ = made.get();
  return made;
}

void sentinel_transport::report_to(protocol::wire_events& e) noexcept {
  transport::report_to(e);
  to_master_.report_to(*this);
}

void sentinel_transport::report(statistics& s) const noexcept {
  to_master_.report(s);
  for (auto const& one : links_) one->report(s);
  s.master_switches = core_.switches();
  s.topology_refreshes = core_.refreshes();
  s.failover = failover_;
}

void sentinel_transport::shut_down() {
  to_master_.shut_down();
  asio::post(on_, [this, keep = host_.keep()] {
    timer_.close();
    for (auto const& one : links_) one->shut_down();
  });
}

/// At each attempt to connect to the master: at the first one the Sentinels are asked; at later ones their answers are
/// in doubt.
location sentinel_transport::locate(address& to, time_point now) {
  if (begun_) core_.doubt(now);
  else core_.begin(now);
  begun_ = true;
  location found = core_.locate(to);
  carry_out();
  return found;
}

void sentinel_transport::carry_out() {
  auto const todo = core_.take();
  for (auto const& [level, words] : todo.log) host_.log(level, words);
  if (timer_.is_closed()) return;
  for (std::size_t const number : todo.listen) {
    if (number == links_.size()) links_.push_back(std::make_unique<link>(*this, number));
    links_[number]->listen();
  }
  for (std::size_t const number : todo.ask) links_[number]->ask();
  for (std::size_t const number : todo.drop) links_[number]->drop();
  if (todo.moved) to_master_.moved();
  if (todo.moved && second_ != nullptr) second_->moved();
  timer_.sleep_until(core_.next_due());
}

void sentinel_transport::connected_as(protocol::session const& s, time_point now) {
  fails_over_ = lost_at_ != time_point::max() && s.run != run_;
  if (!fails_over_) lost_at_ = time_point::max();
  run_ = s.run;
  events().connected_as(s, now);
}

void sentinel_transport::connect_failed(protocol::fault what, std::string_view words, time_point now) {
  std::string const found = core_.present();
  events().connect_failed(what, found.empty() ? std::string{words} : std::string{words} + "; " + found, now);
}

void sentinel_transport::disconnected(std::string_view why, time_point now) {
  if (lost_at_ == time_point::max()) lost_at_ = now;
  fails_over_ = false;
  events().disconnected(why, now);
}

void sentinel_transport::answered(protocol::answer const& a, time_point now) {
  if (std::exchange(fails_over_, false)) failover_.add(now - std::exchange(lost_at_, time_point::max()));
  events().answered(a, now);
}

}  // namespace conch::redis
