// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/backend.hpp"
#include "protocol/drift.hpp"
#include "protocol/server/arrivals.hpp"
#include "protocol/server/introducer.hpp"
#include "protocol/server/moves.hpp"
#include "protocol/server/place_keeper.hpp"
#include "protocol/server/votes.hpp"
#include "protocol/siblings.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace conch::protocol {

using namespace engine;

/// The protocol with one server: ids and tickets, claims, the order of a new connection, safety checks, kicks, and the
/// clean-ups. No I/O, no clock: inputs carry the time, outputs go to `wire`. This class owns the parts and gives each
/// call to one of them. A part uses only those before it (docs/design/server.md).
class server final : public backend, public place_keeper {
 public:
  /// `shared`: what it shares with the other servers of its client, and outlives it; none: there are no others.
  server(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, wire& out,
         backend_events& up, log_sink& log, statistics& stats, of_client* shared = nullptr);

  /// What the wire reports to.
  wire_events& receiver() noexcept { return arrivals_; }
  /// For src/quorum.
  votes& as_votes() noexcept { return votes_; }
  votes const& as_votes() const noexcept { return votes_; }
  server_link const& link() const noexcept { return on_.link; }
  /// Connects, if it is not connected.
  void reach() {
    if (!on_.link.connected()) on_.link.want();
  }
  /// For synced_server.
  holds& held() noexcept { return held_; }
  /// For sharded.
  moves& as_neighbour() noexcept { return moves_; }
  moves const& as_neighbour() const noexcept { return moves_; }
  /// For tests and the simulator.
  grant_ids& ids() noexcept { return ids_; }
  /// Releases and leaves that are not answered yet.
  std::size_t pending() const noexcept { return cleanups_.count(); }
  void drop_kicks(time_point now) { cleanups_.drop_kicks(now); }
  /// As catch_up::is_under_way.
  bool catching_up() const noexcept { return rest_.is_under_way(); }

  // From the cohort.
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& p, bool wait, milliseconds lease, time_point now) override {
    asks_.ask(made_here(p), wait, lease, now);
  }
  void gather() override { asks_.gather(); }
  void send_gathered(time_point now) override { several_.send_gathered(now); }
  void send_gathered_by_slot(time_point now) { several_.send_gathered_by_slot(now); }
  void leave_unless_granted(engine::place& p, time_point now) override {
    asks_.leave_unless_granted(made_here(p), now);
  }
  void give_up(engine::place& p, receipt* r, time_point now) override { asks_.give_up(made_here(p), r, now); }
  void release(engine::place& p, std::optional<milliseconds> again, receipt* r, time_point now) override {
    asks_.release(made_here(p), again, r, now);
  }
  void detach(engine::place& p, time_point) override { held_.detach(made_here(p)); }
  void renew(std::span<engine::place* const> places, time_point now) override;
  time_point late_after(receipt const& r) const override { return cleanups_.late_after(r); }
  bool connected() const noexcept override { return on_.link.connected(); }
  error_code too_late(engine::place const& p, time_point now) const override {
    return asks_.too_late(made_here(p), now);
  }
  duration answers_within(engine::place const&) const noexcept override { return on_.sent.answers_within(); }
  error_code no_answer() const override { return on_.link.no_answer(); }
  error_code why_not_done(receipt const& r) const override { return cleanups_.why_not_done(r); }
  bool has_room_for_renewal(engine::place const&) const noexcept override {
    return on_.sent.window().has_room_for_renewal();
  }
  std::string why_not_renewed(engine::place const& p, time_point now) const override {
    return renews_.why_not(made_here(p), now);
  }
  capabilities offers() const noexcept override {
    return {.several_owners = true,
            .segments = true,
            .all_free = true,
            .inspection = true,
            .wait_chains = true,
            .adoption = true,
            .intervals = true};
  }
  duration validity(milliseconds lease) const noexcept override { return good_for(lease); }
  void watch_requests(engine::place& p, time_point now) override { pushes_.watch_requests(made_here(p), now); }
  void introduce(std::string_view id, std::string_view text, time_point now) override {
    introduced_.present(id, text, now);
  }
  void administer(admin_request& i, admin_events& whose, time_point now) override { asked_.administer(i, whose, now); }
  void withdraw(admin_request& i) noexcept override { asked_.withdraw(i); }
  void admin_due(admin_request& i, time_point now) override { asked_.due(i, now); }
  void report(statistics& to) const override { to.cleanups_pending = cleanups_.count(); }
  bool settled() const noexcept override { return cleanups_.settled() && !on_.all.has_any() && introduced_.settled(); }
  std::uint64_t progress() const noexcept override { return on_.sent.progress(); }
  void prepare_close(time_point now) override;
  grant_id grant_of(engine::place const& p) const noexcept override { return made_here(p).id; }

  // As the backend of the places at this server.
  backend& whole() noexcept override { return *this; }
  void due(server_place& p, time_point now) override { asks_.due(p, now); }
  void assert_consistent(server_place const& p) const override { on_.all.assert_consistent(p); }
  void ask_because_of_push(server_place& p, time_point now) override { asks_.ask_because_of_push(p, now); }
  void lease_ends_in(server_place& p, milliseconds left, time_point now) override { asks_.lease_ends_in(p, left, now); }
  void taken_away(server_place& p, grant_id id, time_point now) override { held_.taken_away(p, id, now); }
  bool is_of_other_run(server_place const& p) const override { return held_.is_of_other_run(p); }
  void prolonged(server_place& p, time_point written, milliseconds lease, bool keeps_fence, time_point now) override {
    held_.prolonged(p, written, lease, keeps_fence, now);
  }
  void not_prolonged(server_place& p, time_point now) override { held_.not_prolonged(p, now); }

 private:
  of_client own_;  // unless it shares
  grant_ids& ids_;
  moves moves_;  // before `on_`, which is given it as a neighbour
  common_parts on_;
  cleanups cleanups_;
  holds held_;
  asking asks_;
  tries several_;
  release_answers released_;
  renewals renews_;
  pushes pushes_;
  orders asked_;
  introducer introduced_;
  catch_up rest_;
  votes votes_;
  arrivals arrivals_;
};

}  // namespace conch::protocol
