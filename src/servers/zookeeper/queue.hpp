// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/backend.hpp"
#include "protocol/drift.hpp"
#include "servers/zookeeper/queue/arrivals.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace conch::zookeeper {

/// Locks as folders of ephemeral sequential nodes, each watching those before it that keep it out. No I/O, no clock.
/// This class owns the parts and gives each call to one of them. A part uses only those before it
/// (docs/design/queue.md).
class queue final : public engine::backend {
 public:
  /// All but `seed`, `root` and `secret` outlives this. `root`: root_of(); `secret`: "user:password", or empty.
  queue(config const& settings, std::string const& client_id, std::string root, std::string secret, std::uint64_t seed,
        timer_queue& timers, wire& out, engine::backend_events& up, statistics& stats);

  /// Where the wire reports to.
  wire_events& receiver() noexcept { return on_.session; }

  engine::capabilities offers() const noexcept override;
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& p, bool wait, engine::milliseconds lease, time_point now) override;
  void leave_unless_granted(engine::place& p, time_point now) override;
  void give_up(engine::place& p, engine::receipt* r, time_point now) override;
  void release(engine::place& p, std::optional<engine::milliseconds> again, engine::receipt* r,
               time_point now) override;
  void detach(engine::place& p, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override { held_.renew(places, now); }
  time_point late_after(engine::receipt const& r) const override { return cleanups_.late_after(r); }
  error_code why_not_done(engine::receipt const& r) const override { return cleanups_.why_not_done(r); }
  bool connected() const noexcept override { return on_.session.is_open(); }
  error_code too_late(engine::place const& p, time_point now) const override;
  duration answers_within(engine::place const&) const noexcept override { return on_.session.answers_usually_within(); }
  error_code no_answer() const override { return cleanups_.no_answer(); }
  duration validity(engine::milliseconds lease) const noexcept override { return protocol::good_for(lease); }
  void report(statistics& to) const override;
  bool settled() const noexcept override { return cleanups_.count() == 0; }
  std::uint64_t progress() const noexcept override { return on_.sent.progress(); }
  void introduce(std::string_view /*client*/, std::string_view text, time_point now) override {
    on_.session.introduce(text, now);
  }
  void prepare_close(time_point) override {}
  void closed() override;

 private:
  common_parts on_;
  keeps keeps_;
  cleanups cleanups_;
  shared_nodes shared_;
  holds held_;
  line line_;
  catch_up rest_;
  arrivals arrivals_;
};

}  // namespace conch::zookeeper
