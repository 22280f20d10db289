// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include <vector>

namespace conch::protocol {

namespace {

of_client& shared_or(of_client& own, of_client* shared) { return shared != nullptr ? *shared : own; }

}  // namespace

server::server(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, wire& out,
               backend_events& up, log_sink& log, statistics& stats, of_client* shared)
    : own_{nonces},
      ids_{shared_or(own_, shared).ids},
      moves_{on_, *this, cleanups_, asks_, renews_, asked_, rest_},
      on_{{settings, timers, up, log, stats}, seed,   out,
          shared_or(own_, shared).servers,    moves_, {&rest_, call<&catch_up::resume_backlog>}},
      cleanups_{on_, *this},
      held_{on_, ids_, cleanups_},
      asks_{on_, ids_, cleanups_, held_},
      several_{on_, cleanups_, asks_},
      released_{on_, cleanups_, asks_},
      renews_{on_, held_},
      pushes_{on_, ids_, asks_, *this},
      asked_{on_, ids_, shared_or(own_, shared).watching, *this},
      introduced_{on_},
      rest_{on_, cleanups_, asks_, renews_, pushes_, asked_},
      votes_{on_, asks_, renews_},
      arrivals_{on_, cleanups_, asks_, several_, released_, renews_, pushes_, asked_, introduced_, rest_} {}

std::unique_ptr<engine::place> server::make_place(std::string_view name, engine::permit const& share) {
  return std::make_unique<server_place>(*this, name, share);
}

void server::renew(std::span<engine::place* const> places, time_point now) {
  if (!on_.link.connected()) return;
  std::vector<server_place*> mine;
  for (engine::place* s : places) mine.push_back(made_here(s));
  renews_.send(mine, {}, now);
}

void server::prepare_close(time_point now) {
  cleanups_.drop_kicks(now);
  rest_.end_all_orders(make_error_code(errc::closed), now);
  introduced_.withdraw(now);
}

}  // namespace conch::protocol
