#include "sim/worlds/sim_sentinels.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::sim {

namespace {

redis::sentinel_url listed_ones(int listed) {
  redis::sentinel_url url;
  url.server.master = "m";
  for (int i = 0; i < listed; ++i) {
    redis::address a;
    a.host = sim_sentinels::host_of_sentinel(static_cast<std::size_t>(i));
    a.port = 26379;
    url.sentinels.push_back(a);
  }
  return url;
}

}  // namespace

// To one Sentinel.
class sim_sentinels::line final : private sim_connection::shell {
 public:
  line(sim_sentinels& owner, std::size_t number)
      : owner_{owner},
        talk_{owner.core_, number, owner},
        connection_{*this, owner.settings_, owner.client_id_, owner.seed_ + number, {}, {&talk_, &talk_}} {}
  ~line() {
    if (to_ != nullptr) to_->open = false;
  }

  void listen() { connection_.want(); }
  void ask() { connection_.say(talk_.question()); }
  void drop() { connection_.drop("no answer"); }
  bool end_of_turn() { return connection_.end_of_turn(); }

 private:
  void later(nanos delay, std::function<void(time_point)> what) override {
    owner_.shell_.later(delay, std::move(what));
  }
  nanos until(time_point t) override { return owner_.shell_.until(t); }
  void open(sim_connection&) override {
    to_ = std::make_shared<sentinel_line>();
    to_->client = owner_.client_;
    to_->sentinel = number_in(connection_.where().host);
    to_->to_client = [this, mine = std::weak_ptr{to_}](std::string bytes) {
      sentinel_line_ptr const l = mine.lock();
      if (l == nullptr || l != to_) return;
      later(owner_.outside_.sentinel_delay(*l, false), [this, l, bytes = std::move(bytes)](time_point now) {
        if (l == to_) connection_.arrived(bytes, now);
      });
    };
    later(owner_.outside_.sentinel_delay(*to_, true) + owner_.outside_.sentinel_delay(*to_, false),
          [this, l = to_](time_point now) {
            if (l == to_) connection_.opened(now);
          });
  }
  void write(sim_connection&, std::string bytes) override { owner_.outside_.to_sentinel(to_, std::move(bytes)); }
  void hang_up(sim_connection&) override {
    if (to_ != nullptr) to_->open = false;
    to_.reset();
  }
  void note(sim_connection& c, log_level level, std::string_view words) override {
    owner_.shell_.note(c, level, words);
  }

  sim_sentinels& owner_;
  redis::sentinel_talk talk_;
  sim_connection connection_;
  sentinel_line_ptr to_;
};

sim_sentinels::sim_sentinels(outside& o, sim_connection::shell& of, config const& settings,
                             std::string const& client_id, int client, int listed, std::uint64_t seed)
    : outside_{o},
      shell_{of},
      settings_{settings},
      client_id_{client_id},
      client_{client},
      seed_{seed},
      core_{listed_ones(listed),
            {.refresh = settings.topology_refresh, .patience = settings.command_timeout},
            settings_.address_map} {}

sim_sentinels::~sim_sentinels() = default;

std::size_t sim_sentinels::number_in(std::string_view host) {
  std::size_t number = 0;
  std::from_chars(host.data() + host.find_first_of("0123456789"), host.data() + host.size(), number);
  return number;
}

redis::location sim_sentinels::locate(redis::address& to, time_point now) {
  if (begun_) core_.doubt(now);
  else core_.begin(now);
  begun_ = true;
  redis::location found = core_.locate(to);
  carry_out();
  return found;
}

bool sim_sentinels::end_of_turn() {
  return std::any_of(lines_.begin(), lines_.end(), [](auto const& one) { return one->end_of_turn(); });
}

void sim_sentinels::carry_out() {
  auto const todo = core_.take();
  for (auto const& [level, words] : todo.log) shell_.note(*to_master_, level, words);
  for (std::size_t const number : todo.listen) {
    if (number == lines_.size()) lines_.push_back(std::make_unique<line>(*this, number));
    lines_[number]->listen();
  }
  for (std::size_t const number : todo.ask) lines_[number]->ask();
  for (std::size_t const number : todo.drop) lines_[number]->drop();
  look();
  if (todo.moved) to_master_->moved();
  sleep();
}

void sim_sentinels::look() {
  redis::address at;
  if (core_.locate(at).what != redis::location::kind::here || at.host == named_) return;
  named_ = at.host;
  outside_.named(number_in(at.host));
}

void sim_sentinels::sleep() {
  time_point const until = core_.next_due();
  if (until == slept_until_) return;
  slept_until_ = until;
  shell_.later(shell_.until(until), [this, mine = ++sleep_](time_point now) {
    if (mine != sleep_) return;
    slept_until_ = time_point::max();
    core_.due(now);
    carry_out();
  });
}

}  // namespace conch::sim
