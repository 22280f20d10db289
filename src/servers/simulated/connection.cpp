// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/connection.hpp"

#include "base/connection_log.hpp"
#include "protocol/shortest_lease.hpp"
#include "servers/simulated/words.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>
#include <variant>

namespace conch::simulated {

namespace {

/// One way through the network: mostly 50 to 250 µs, one time in sixteen up to 20 ms.
duration latency(surroundings& w) {
  auto const slow = w.below(16) == 0 ? w.below(20'000) : 0;
  return std::chrono::microseconds{50 + w.below(200) + slow};
}

/// A call of the client's core.
class message final : public host::input {
 public:
  explicit message(std::function<void(time_point)> const& f) : f_{f} {}
  void apply(time_point now) override { f_(now); }

 private:
  std::function<void(time_point)> const& f_;
};

bool has_one_owner(engine::permit_kind k) {
  return k == engine::permit_kind::none || k == engine::permit_kind::reentrant;
}

}  // namespace

connection::connection(servers::client_services const& client, server& to)
    : host_{client.shell},
      on_{client.on},
      settings_{client.settings},
      id_{client.client_id},
      who_{to.world().process_of(context_of(client.on))},
      server_{to},
      prefix_{client.settings.key_prefix},
      back_off_{to.world().below(1'000'000'007)} {
  server_.attach(*this);
}

connection::~connection() {
  *self_ = nullptr;
  end();
  server_.detach(*this);
}

/// In the world's loop, unless the connection has ended by then.
template <class F>
void connection::later(duration delay, F f) {
  server_.world().later(delay, [self = self_, mine = connection_, f = std::move(f)] {
    if (connection* const c = *self; c != nullptr && c->connection_ == mine) f(*c);
  });
}

/// Is called as an input of the client, when its process has time for it.
void connection::give(input f) {
  auto keep = host_.keep();
  if (keep == nullptr) return;  // about to be destroyed
  asio::post(on_, [this, mine = stream_, keep = std::move(keep), f = std::move(f)] {
    if (mine == stream_) host_.run(message{f});
  });
}

// ------------------------------------------------------------------------------------------------------- connecting

void connection::want_connection() {
  if (std::exchange(is_wanted_, true)) return;
  give([this](time_point) { attempt(); });
}

void connection::attempt() {
  is_attempting_ = true;
  later(latency(server_.world()), [asked = clock::now()](connection& c) { c.greet(asked); });
}

/// At the server.
void connection::greet(time_point asked) {
  if (!server_.is_up()) return later(latency(server_.world()), [](connection& c) { c.refused(); });
  later(latency(server_.world()), [asked](connection& c) { c.opened(asked); });
}

void connection::opened(time_point asked) {
  if (!server_.is_up()) return refused();
  is_attempting_ = false;
  is_open_ = true;
  up_since_ = last_arrival_ = last_answer_ = clock::now();
  protocol::session s{
      .client_id = server_.next_client_id(), .address = who_, .server_us = server_.world().clock_us(), .asked = asked};
  s.run = server_.run();
  s.uptime = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::microseconds{server_.uptime_us()});
  s.server_address = server_.name();
  server_.world().note(who_, "connected to " + server_.name());
  give([this, s](time_point now) {
    shortest_lease_ = duration::max();
    events().connected_as(s, now);
  });
}

void connection::refused() {
  is_attempting_ = false;
  give([this](time_point now) {
    auto const line = line_of(connection_event::failed, "simulated://" + server_.name(), "connection refused");
    host_.log(line.level, line.words);
    events().connect_failed(fault::try_later, "connection refused", now);
    pause_before_attempt();
  });
}

void connection::pause_before_attempt() {
  later(back_off_.next(settings_, shortest_lease_), [](connection& c) { c.give([&c](time_point) { c.attempt(); }); });
}

std::string connection::unfinished_attempt() const {
  return is_attempting_ ? "simulated://" + server_.name() + ": not connected yet" : std::string{};
}

// -------------------------------------------------------------------------------------------------- commands and
// answers

void connection::send(protocol::command const& c) {
  shortest_lease_ = std::min(shortest_lease_, protocol::shortest_lease(c));
  if (!is_open_) return;  // broken, and the client does not know it yet
  last_arrival_ = std::max(last_arrival_, clock::now() + latency(server_.world()));
  later(last_arrival_ - clock::now(),
        [command = std::make_shared<stored_command>(c)](connection& at) { at.arrive(*command); });
}

/// At the server.
void connection::arrive(stored_command const& stored) {
  protocol::command const& c = stored.get();
  memory::store& locks = server_.store(prefix_);
  if (std::holds_alternative<protocol::subscribe_command>(c)) locks.subscribe(id_, *this);
  std::visit(
      [&](auto const& one) {
        if constexpr (requires { one.name; }) server_.names(prefix_, one.name);
        if constexpr (requires { one.items; }) {
          for (auto const& item : one.items) server_.names(prefix_, item.name);
        }
        if constexpr (requires { one.proposal; }) {
          if (one.proposal != 0) server_.votes_on(one.name);
        }
      },
      c);
  locks.carry_out(c, id_, server_.world().clock_us(), [&](auto reply) {
    if (reply) judge(c, *reply);
    answer([this, reply = std::make_shared<decltype(reply)>(std::move(reply))](time_point now) {
      if (*reply) {
        events().answered({.content = &**reply}, now);
      } else {
        events().answered({protocol::fault::wrong_type, "the name is that of another kind of lock"}, now);
      }
    });
  });
}

/// Tells the world of what the server has granted, and the trace of what it has answered.
template <class Reply>
void connection::judge(protocol::command const& c, Reply const& r) {
  if (server_.world().notes()) {
    if (std::string const words = words_of(c); !words.empty())
      server_.world().note(who_, server_.name() + ": " + words + ": " + words_of(r));
  }
  if constexpr (std::is_same_v<Reply, protocol::acquire_reply>) {
    auto const& asked = std::get<protocol::acquire_command>(c);
    bool const granted = r.what == protocol::acquire_reply::kind::granted;
    if (granted && (asked.permit == nullptr || has_one_owner(asked.permit->kind))) server_.granted(asked.name, r.fence);
  } else if constexpr (std::is_same_v<Reply, protocol::tries_reply>) {
    auto const& asked = std::get<protocol::acquire_all_command>(c);
    for (std::size_t i = 0; i < r.fences.size(); ++i) server_.granted(asked.items[i].name, r.fences[i]);
  }
}

void connection::answer(input f) {
  last_answer_ = std::max(last_answer_, clock::now() + latency(server_.world()));
  later(last_answer_ - clock::now(), [f = std::move(f)](connection& c) { c.give(f); });
}

/// While the store is locked: a command has caused it, perhaps of another client.
void connection::on_push(protocol::push const& p) {
  if (server_.world().notes()) {
    if (std::string const words = words_of(p); !words.empty())
      server_.world().note(who_, server_.name() + " pushes: " + words);
  }
  if (auto const* const g = std::get_if<protocol::pushed_grant>(&p); g != nullptr && has_one_owner(g->kind))
    server_.granted(g->name, g->fence);
  auto name = std::visit([](auto const& one) { return std::string{one.name}; }, p);
  answer([this, name = std::move(name), own = p](time_point now) mutable {
    std::visit([&](auto& one) { one.name = name; }, own);
    events().pushed(own, now);
  });
}

// -------------------------------------------------------------------------------------------------------------- ends

/// Nothing that is on its way arrives.
void connection::end() {
  ++connection_;
  is_attempting_ = is_open_ = false;
  server_.store(prefix_).unsubscribe(id_);
}

void connection::broken(std::string_view why) {
  if (!is_open_) return;
  server_.world().note(who_, "its connection to " + server_.name() + " breaks: " + std::string{why});
  end();
  later(latency(server_.world()),
        [why = std::string{why}](connection& c) { c.give([&c, why](time_point now) { c.lost(why, now); }); });
}

void connection::lost(std::string const& why, time_point now) {
  ++stream_;
  auto const line = line_of(connection_event::lost, "simulated://" + server_.name(), why);
  host_.log(line.level, line.words);
  events().disconnected(why, now);
  back_off_.lasted(now - up_since_);
  pause_before_attempt();
}

void connection::drop_connection(std::string_view why) {
  later(duration::zero(), [why = std::string{why}](connection& c) {
    ++c.stream_;  // the client reads no more
    c.broken(why);
  });
}

void connection::shut_down() {
  ++stream_;
  end();
}

}  // namespace conch::simulated
