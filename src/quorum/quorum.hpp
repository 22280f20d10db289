// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/timer_queue.hpp"
#include "cohort/backend.hpp"
#include "protocol/server.hpp"
#include "quorum/election.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace conch::quorum {

/// One lock over N independent servers: the backend of the cohort, made of N times the protocol with one server. What
/// each of them answers or pushes is a vote. No I/O, no clock.
class quorum final : public engine::backend {
 public:
  /// `settings`: with `vote_claim` as the `claim`, which is what the servers' protocol goes by. `client`: its id, 32
  /// hexadecimal digits.
  quorum(config const& settings, std::string_view client, std::uint64_t seed, engine::entropy& nonces, engine::timer_queue& timers,
         engine::backend_events& up, engine::log_sink& log, statistics& stats);
  ~quorum();

  /// One more server; all of them before the first input. `shown` names it in messages.
  engine::server& add(engine::wire& out, std::string shown);

  // From the cohort.
  void ask(engine::place& s, bool wait, engine::milliseconds lease, time_point now) override;
  void leave_unless_granted(engine::place& s, time_point now) override;
  void give_up(engine::place& s, engine::receipt* r, time_point now) override;
  void release(engine::place& s, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override;
  void forget(engine::receipt& r) noexcept override;
  time_point late_after(engine::receipt const& r) const override;
  void check(engine::place&, time_point) override {}
  bool connected() const noexcept override;
  error_code too_late(engine::place const& s) const override;

  engine::capabilities offers() const noexcept override {
    return {.instead = "not over several servers: use a client of its own for one server, or for each of them"};
  }
  duration validity(engine::milliseconds lease) const noexcept override { return engine::good_for(lease); }
  /// What is known of each server, and what their protocols have counted.
  void report(statistics& to) const override;
  bool settled() const noexcept override;
  std::uint64_t progress() const noexcept override;
  void prepare_close(time_point now) override;

  std::size_t pending() const noexcept;

 private:
  struct member;
  struct voter;
  struct quorum_lock;
  struct release_round;
  class keeping;

  // quorum.cpp: the cohort's side
  void start(quorum_lock& b, time_point now);
  void ask_votes(quorum_lock& b, time_point now);
  void ask_vote(quorum_lock& b, voter& v, bool wait, time_point now);
  std::optional<std::int64_t> new_ticket(time_point now) const;
  void drop(engine::place& front);
  quorum_lock& lock_of(std::string_view name);
  quorum_lock* find(std::string_view name);
  std::size_t connected_servers() const noexcept;
  std::size_t voters_there(quorum_lock const& b, time_point now) const;
  std::size_t needed() const noexcept;
  void retire(quorum_lock& b);

  // release_round.cpp: what was asked for or held is given back
  void back_out(quorum_lock& b, engine::receipt* r, time_point now);
  void release_votes(quorum_lock& b, release_round* f, time_point now);
  void vote_released(engine::receipt& r, bool was_mine, time_point now);
  void tell_released(release_round& f, time_point now);

  // votes.cpp: what the servers say
  void vote_granted(voter& v, bool pushed, time_point now);
  void vote_queued(voter& v, time_point now);
  void vote_refused(voter& v, time_point now);
  void vote_failed(voter& v, error_code why, time_point now);
  void vote_not_renewed(voter& v, time_point now);
  void vote_extended(voter& v, time_point now);
  void vote_lost(voter& v, time_point now);
  void connection_changed(member& m, time_point now);
  void connection_refused(time_point now);
  void leave_fresh_server(member& m, time_point now);

  // decision.cpp: is the lock ours?
  election count(quorum_lock const& b, time_point now) const;
  void decide(quorum_lock& b, time_point now);
  void win(quorum_lock& b, time_point deadline, std::int64_t fence, time_point now);
  enum class outcome { busy, left, failed };
  void end(quorum_lock& b, outcome how, error_code why, time_point now);
  bool is_silent(quorum_lock const& b, voter const& v, time_point now) const;
  error_code worst_trouble(quorum_lock const& b, time_point now) const;
  std::string why_no_connection() const;
  std::int64_t agreed_fence(quorum_lock& b, election const& e, time_point now);
  std::int64_t fence_ahead(time_point now) const;

  // hold.cpp: while it is
  void lose(quorum_lock& b, time_point now);
  void refresh(quorum_lock& b, time_point now);
  void confirm_late_votes(quorum_lock& b, time_point now);
  void repair(quorum_lock& b, time_point now);

  // minority.cpp: some votes in hand, but not enough
  static std::size_t asked(quorum_lock const& b);
  void minority(quorum_lock& b, time_point now);
  void give_vote_back(quorum_lock& b, voter& v, bool rest, time_point now);
  void plan(quorum_lock& b, time_point now);
  void due(quorum_lock& b, time_point now);

  duration jitter(duration from, duration to);
  duration round_trip() const;
  duration patience_with(member const& m) const;

  config const& settings_;
  std::int64_t const me_;  // the first 48 bits of the client's id: what rivals are told
  engine::timer_queue& timers_;
  engine::backend_events& up_;
  engine::log_sink& log_;
  statistics& stats_;
  engine::random_numbers random_;
  engine::entropy& nonces_;
  std::vector<std::unique_ptr<member>> members_;
  std::unordered_map<std::string_view, std::unique_ptr<quorum_lock>> locks_;  // keys live in the quorum_locks
  std::list<std::unique_ptr<release_round>> release_rounds_;
};

}  // namespace conch::quorum
