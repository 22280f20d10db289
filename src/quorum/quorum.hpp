// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/backend.hpp"
#include "protocol/drift.hpp"
#include "quorum/attempts.hpp"
#include "quorum/events.hpp"
#include "quorum/holding.hpp"
#include "quorum/locks.hpp"
#include "quorum/minority.hpp"
#include "quorum/quorum_environment.hpp"
#include "quorum/releases.hpp"
#include "quorum/room.hpp"
#include "quorum/servers.hpp"
#include "quorum/vote_requests.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace conch::quorum {

/// Locks over N independent servers: a backend that is made of N times the protocol with one server. What a server
/// answers or pushes is its vote. It owns the parts, and gives each call to one of them (docs/design/quorum.md). No
/// I/O, no clock.
class quorum final : public engine::backend {
 public:
  /// `settings`: its `claim` is the `vote_claim`, as the protocol with a server needs it. `client`: the client's id, 32
  /// hexadecimal digits.
  quorum(config const& settings, std::string_view client, std::uint64_t seed, entropy& nonces, timer_queue& timers,
         engine::backend_events& up, log_sink& log, statistics& stats);

  /// Adds a server. All servers are added before the first input. `shown` names the server in messages.
  protocol::server& add(protocol::wire& out, std::string shown) {
    return *servers_.add(out, std::move(shown), events_).server;
  }

  // From the cohort.
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& p, bool wait, engine::milliseconds lease, time_point now) override;
  void leave_unless_granted(engine::place& p, time_point now) override;
  void give_up(engine::place& p, engine::receipt* r, time_point now) override;
  void release(engine::place& p, std::optional<engine::milliseconds> again, engine::receipt* r,
               time_point now) override;
  void detach(engine::place& p, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override { held_.renew(places, now); }
  bool has_room_for_renewal(engine::place const& p) const noexcept override { return held_.has_room_for_renewal(p); }
  time_point late_after(engine::receipt const& r) const override { return releases_.late_after(r); }
  error_code why_not_done(engine::receipt const& r) const override { return releases_.why_not_done(r); }
  bool connected() const noexcept override { return servers_.connected(); }
  error_code too_late(engine::place const& p, time_point now) const override;
  duration answers_within(engine::place const& p) const noexcept override { return servers_.answers_within(p); }
  error_code no_answer() const override { return servers_.no_answer(); }

  engine::capabilities offers() const noexcept override {
    return {.intervals = true,
            .where = "several servers",
            .instead = "use a client of its own for one server, or for each of them"};
  }
  duration validity(engine::milliseconds lease) const noexcept override { return protocol::good_for(lease); }
  /// Adds what is known of each server, and what their protocols have counted.
  void report(statistics& to) const override { servers_.report(to); }
  bool settled() const noexcept override { return servers_.settled(); }
  std::uint64_t progress() const noexcept override { return servers_.progress(); }
  void introduce(std::string_view client, std::string_view text, time_point now) override {
    for (auto const& m : servers_.all()) m->server->introduce(client, text, now);
  }
  void prepare_close(time_point now) override { servers_.prepare_close(now); }

  std::size_t pending() const noexcept { return servers_.pending(); }
  /// The ticket of the present or last attempt: its position in the queue.
  std::int64_t ticket_of(engine::place const& p) const noexcept { return made_here(p).lock.ticket; }

 private:
  quorum_environment on_;
  servers servers_;
  locks locks_;
  room room_;
  vote_requests requests_;
  releases releases_;
  minority minority_;
  holding held_;
  attempts attempts_;
  events events_;
};

}  // namespace conch::quorum
