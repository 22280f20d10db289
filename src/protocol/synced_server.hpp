// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "engine/backend.hpp"
#include "protocol/server.hpp"
#include "protocol/sync_link.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// A server whose grants count when `config::sync_replicas` replicas have them. It asks the server for a claim, in an
/// answer or by a push as ever. Then the sync link renews it to the whole lease, and the grant is reported to the
/// cohort when enough replicas have acknowledged that. A deadline counts from before an acknowledged renewal was
/// written. No I/O, no clock.
class synced_server final : public backend, private backend_events, private sync_link::receiver {
 public:
  synced_server(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, wire& out, wire& sync,
                backend_events& up, log_sink& log, statistics& stats);

  /// The receivers of the events of `out` and of `sync`.
  server& first() noexcept { return server_; }
  sync_link& second() noexcept { return link_; }
  /// The server's place behind a place that was made here.
  static protocol::server_place const& at_server(engine::place const& p) noexcept;

  // From the cohort.
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& p, bool wait, milliseconds lease, time_point now) override;
  void gather() override { server_.gather(); }
  void send_gathered(time_point now) override { server_.send_gathered(now); }
  void leave_unless_granted(engine::place& p, time_point now) override;
  void give_up(engine::place& p, receipt* r, time_point now) override;
  void release(engine::place& p, std::optional<milliseconds> again, receipt* r, time_point now) override;
  void detach(engine::place& p, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override;
  bool has_room_for_renewal(engine::place const& p) const noexcept override {
    return server_.has_room_for_renewal(at_server(p));
  }
  time_point late_after(receipt const& r) const override { return server_.late_after(r); }
  bool connected() const noexcept override { return server_.connected(); }
  error_code too_late(engine::place const& p, time_point now) const override;
  duration answers_within(engine::place const& p) const noexcept override;
  error_code no_answer() const override { return server_.no_answer(); }
  std::string why_not_renewed(engine::place const& p, time_point now) const override {
    return server_.why_not_renewed(at_server(p), now);
  }
  error_code why_not_done(receipt const& r) const override { return server_.why_not_done(r); }
  capabilities offers() const noexcept override { return server_.offers(); }
  duration validity(milliseconds lease) const noexcept override { return server_.validity(lease); }
  void watch_requests(engine::place& p, time_point now) override;
  void introduce(std::string_view client, std::string_view text, time_point now) override {
    server_.introduce(client, text, now);
  }
  void administer(admin_request& i, admin_events& whose, time_point now) override;
  void withdraw(admin_request& i) noexcept override { server_.withdraw(i); }
  void admin_due(admin_request& i, time_point now) override { server_.admin_due(i, now); }
  void report(statistics& to) const override { server_.report(to); }
  bool settled() const noexcept override { return server_.settled(); }
  std::uint64_t progress() const noexcept override { return server_.progress(); }
  void prepare_close(time_point now) override { server_.prepare_close(now); }
  grant_id grant_of(engine::place const& p) const noexcept override { return server_.grant_of(at_server(p)); }

 private:
  struct front;
  class keeping;
  backend& below() noexcept { return server_; }
  static front& made_here(engine::place& p) noexcept;
  static front& front_of(engine::place& at_server) noexcept;

  // From the server.
  void granted(engine::place& p, bool pushed, time_point now) override;
  void busy(engine::place& p, time_point now) override;
  void queued(engine::place& p, time_point now) override;
  void asked_again(engine::place& p, retry_reason why, time_point now) override;
  void left(engine::place& p, time_point now) override;
  void failed(engine::place& p, error_code why, time_point now) override;
  void attempt_failed(engine::place& p, error_code why, time_point now) override;
  void extended(engine::place&, time_point) override {}  // not acknowledged
  void renewal_failed(engine::place&, time_point) override {}
  void lost(engine::place& p, time_point now) override;
  void requested(engine::place& p, time_point now) override;
  void released(receipt& r, bool was_mine, error_code why, time_point now) override {
    up_.released(r, was_mine, why, now);
  }
  void settled(engine::place& p) override;
  void connection_changed(time_point now) override;
  void connection_refused(error_code why, time_point now) override { up_.connection_refused(why, now); }
  engine::place* find(std::string_view name) override;
  engine::place& find_or_make(std::string_view name) override;
  engine::place& make_permit_place(std::string_view name, engine::permit const& share) override;

  // From the sync link.
  bool may_use(session const& s) const override;
  bool is_younger(time_point since) const override { return server_.connected() && connected_at_ > since; }
  bool follows(time_point since) override;
  void gather(std::vector<synced_renewal>& items, time_point now) override;
  void synced(sync_link::batch const& b, time_point now) override;

  void renew(front& f);
  void acknowledged(front& f, milliseconds lease, bool keeps_fence, time_point written, time_point now);
  void too_few(front& f, sync_link::result const& r, sync_link::batch const& b, time_point now);
  void give_back(front& f, time_point now);
  void due(front& f, time_point now);
  static void begin(front& f, bool wait, milliseconds lease);
  void end(front& f);
  void drop(front& f);
  static void count(front& f);
  static void uncount(front& f);
  error_code not_replicated(front const& f) const;

  config const& settings_;
  timer_queue& timers_;
  backend_events& up_;
  statistics& stats_;
  wire& out_;
  server server_;
  time_point connected_at_ = time_point::min();  // the first connection, the last time
  sync_link link_;
  std::vector<front*> wanted_;  // to be renewed with the next batch
};

}  // namespace conch::protocol
