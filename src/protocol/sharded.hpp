// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"
#include "protocol/server.hpp"
#include "protocol/shards.hpp"
#include "protocol/siblings.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// The masters of a Cluster: a backend that is made of the protocol with one server for each of them. A lock is with
/// the server of its slot, and goes to another one with it. Those of which no owner is known are with a server that is
/// never connected. No I/O, no clock.
class sharded final : public backend, public shard_events, private siblings {
 public:
  sharded(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, shards& where,
          backend_events& up, log_sink& log, statistics& stats);
  ~sharded() override;

  // Called by the owner of the map.
  void moved(time_point now) override;
  void unsubscribed(std::size_t number, unsigned slot, time_point now) override;

  // From the cohort.
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& p, bool wait, milliseconds lease, time_point now) override;
  void gather() override;
  void send_gathered(time_point now) override;
  void leave_unless_granted(engine::place& p, time_point now) override;
  void give_up(engine::place& p, receipt* r, time_point now) override;
  void release(engine::place& p, std::optional<milliseconds> again, receipt* r, time_point now) override;
  void detach(engine::place& p, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override;
  time_point late_after(receipt const& r) const override;
  /// To some master.
  bool connected() const noexcept override;
  error_code too_late(engine::place const& p, time_point now) const override;
  duration answers_within(engine::place const& p) const noexcept override;
  error_code no_answer() const override;
  error_code why_not_done(receipt const& r) const override;
  bool has_room_for_renewal(engine::place const& p) const noexcept override;
  std::string why_not_renewed(engine::place const& p, time_point now) const override;
  capabilities offers() const noexcept override { return unrouted_.offers(); }
  duration validity(milliseconds lease) const noexcept override { return good_for(lease); }
  void watch_requests(engine::place& p, time_point now) override;
  /// At the master of the slot of this id.
  void introduce(std::string_view id, std::string_view text, time_point now) override;
  void administer(admin_request& i, admin_events& whose, time_point now) override;
  void report(statistics& to) const override;
  bool settled() const noexcept override;
  std::uint64_t progress() const noexcept override;
  void prepare_close(time_point now) override;
  grant_id grant_of(engine::place const& p) const noexcept override { return static_cast<server_place const&>(p).id; }

  /// For tests and the simulator: the server of the master with that number; none: nothing was asked of it yet.
  server* at(std::size_t number) const noexcept { return number < masters_.size() ? masters_[number].get() : nullptr; }
  std::size_t size() const noexcept { return masters_.size(); }
  /// That of the locks of which no owner is known.
  server& unrouted() noexcept { return unrouted_; }
  std::size_t pending() const noexcept;
  /// As server::catching_up, of any of them.
  bool catching_up() const noexcept;

 private:
  neighbour& keeper(unsigned slot) override { return server_of(slot).as_neighbour(); }
  neighbour& keeper(std::string_view name) override { return keeper(where_.slot_of(name)); }
  unsigned slot_of(std::string_view name) const override { return where_.slot_of(name); }
  bool renewed_elsewhere(neighbour& by, put_off const& what, std::string_view words, time_point now) override;

  server& server_of(unsigned slot);
  server& master(std::size_t number);
  void reach_introduced(std::string_view id);
  static backend& keeper_of(engine::place const& p) noexcept { return made_here(p).of->whole(); }
  template <class F>
  void for_each(F f);
  template <class F>
  bool any_of(F f) const;
  template <class Number>
  Number sum(Number (server::*of_one)() const noexcept) const;
  std::size_t number_of(neighbour const& s) const;
  void report_unrouted(time_point now);
  void ask_unsubscribed(time_point now);
  void end_unused(time_point now);

  config const& settings_;
  timer_queue& timers_;
  shards& where_;
  backend_events& up_;
  log_sink& log_;
  statistics& stats_;
  random_numbers random_;
  entropy& nonces_;
  of_client shared_;
  server unrouted_;
  std::vector<std::unique_ptr<server>> masters_;  // by their numbers
  std::vector<std::set<unsigned>> unsubscribed_;  // by the number of the master: slots whose subscriptions it has ended
  bool gathering_ = false;
  std::map<std::string, std::string, std::less<>> introductions_;  // of introduce(), by id
  timer unsubscribed_due_, idle_due_;
};

}  // namespace conch::protocol
