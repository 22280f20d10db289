// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/connection.hpp"

#include "protocol/shortest_lease.hpp"
#include "servers/simulated/words.hpp"

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace conch::simulated {

connection::connection(servers::client_services const& client, server& to, std::string shown, std::string_view part)
    : link{client, to, std::move(shown)},
      store_{std::string{part} + '\n' + client.settings.key_prefix} {}

connection::~connection() { finish(); }

connection::input connection::welcome(time_point asked) {
  protocol::session s{
      .client_id = at().next_client_id(), .address = who(), .server_us = at().world().clock_us(), .asked = asked};
  s.run = at().run();
  s.uptime = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::microseconds{at().uptime_us()});
  s.server_address = at().name();
  return [this, s](time_point now) { events().connected_as(s, now); };
}

void connection::refused(std::string_view why, time_point now) { events().connect_failed(fault::try_later, why, now); }

void connection::lost(std::string_view why, time_point now) { events().disconnected(why, now); }

void connection::left() { at().store(store_).unsubscribe(client_id()); }

void connection::send(protocol::command const& c) {
  outlive(protocol::shortest_lease(c, lock_delay()));
  to_server([this, command = std::make_shared<stored_command>(c)] { arrive(*command); });
}

/// At the server.
void connection::arrive(stored_command const& stored) {
  protocol::command const& c = stored.get();
  memory::store& locks = at().store(store_);
  if (std::holds_alternative<protocol::subscribe_command>(c)) locks.subscribe(client_id(), *this);
  std::visit(
      [&](auto const& one) {
        if constexpr (requires { one.name; }) at().names(store_, one.name);
        if constexpr (requires { one.items; }) {
          for (auto const& item : one.items) at().names(store_, item.name);
        }
        if constexpr (requires { one.proposal; }) {
          if (one.proposal != 0) at().votes_on(one.name);
        }
      },
      c);
  locks.carry_out(c, client_id(), at().world().clock_us(), [&](auto reply) {
    if (reply) judge(c, *reply);
    to_client([this, reply = std::make_shared<decltype(reply)>(std::move(reply))](time_point now) {
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
  if (at().world().notes()) {
    if (std::string const words = words_of(c); !words.empty())
      at().world().note(who(), at().name() + ": " + words + ": " + words_of(r));
  }
  if constexpr (std::is_same_v<Reply, protocol::acquire_reply>) {
    auto const& asked = std::get<protocol::acquire_command>(c);
    if (r.what == protocol::acquire_reply::kind::granted)
      at().granted(asked.name, asked.permit == nullptr ? engine::permit_kind::none : asked.permit->kind, r.fence);
  } else if constexpr (std::is_same_v<Reply, protocol::tries_reply>) {
    auto const& asked = std::get<protocol::acquire_all_command>(c);
    for (std::size_t i = 0; i < r.fences.size(); ++i)
      at().granted(asked.items[i].name, engine::permit_kind::none, r.fences[i]);
  }
}

/// While the store is locked: a command has caused it, perhaps of another client.
void connection::on_push(protocol::push const& p) {
  if (at().world().notes()) {
    if (std::string const words = words_of(p); !words.empty())
      at().world().note(who(), at().name() + " pushes: " + words);
  }
  if (auto const* const g = std::get_if<protocol::pushed_grant>(&p)) at().granted(g->name, g->kind, g->fence);
  auto name = std::visit([](auto const& one) { return std::string{one.name}; }, p);
  to_client([this, name = std::move(name), own = p](time_point now) mutable {
    std::visit([&](auto& one) { one.name = name; }, own);
    events().pushed(own, now);
  });
}

}  // namespace conch::simulated
