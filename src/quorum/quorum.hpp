// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/random.hpp"
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
  quorum(config const& settings, std::string_view client, std::uint64_t seed, engine::entropy& nonces,
         engine::timer_queue& timers, engine::backend_events& up, engine::journal& log, statistics& stats);
  ~quorum();

  /// One more server; all of them before the first input. `shown` names it in messages.
  engine::server& add(engine::wire& out, std::string shown);

  // From the cohort.
  void ask(engine::seat& s, bool wait, engine::milliseconds lease, time_point now) override;
  void leave_unless_granted(engine::seat& s, time_point now) override;
  void give_up(engine::seat& s, engine::receipt* r, time_point now) override;
  void release(engine::seat& s, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) override;
  void renew(std::span<engine::seat* const> seats, time_point now) override;
  void forget(engine::receipt& r) noexcept override;
  time_point late_after(engine::receipt const& r) const override;
  void check(engine::seat&, time_point) override {}
  bool connected() const noexcept override;
  error_code too_late(engine::seat const& s) const override;

  std::size_t pending() const noexcept;
  std::uint64_t progress() const noexcept;
  bool settled() const noexcept;
  void drop_kicks();
  /// What is known of each server, and what their protocols have counted.
  void report(statistics& to) const;

 private:
  struct member;
  struct voter;
  struct ballot;
  struct farewell;
  class keeping;

  // quorum.cpp: the cohort's side
  void start(ballot& b, time_point now);
  void ask_votes(ballot& b, time_point now);
  void ask_vote(ballot& b, voter& v, bool wait, time_point now);
  std::optional<std::int64_t> new_ticket(time_point now) const;
  void drop(engine::seat& front);
  ballot& ballot_of(std::string_view name);
  ballot* find(std::string_view name);
  std::size_t connected_servers() const noexcept;
  std::size_t voters_there(ballot const& b, time_point now) const;
  std::size_t needed() const noexcept;
  void retire(ballot& b);

  // farewell.cpp: what was asked for or held is given back
  void back_out(ballot& b, engine::receipt* r, time_point now);
  void release_votes(ballot& b, farewell* f, time_point now);
  void vote_released(engine::receipt& part, bool was_mine, time_point now);
  void tell_released(farewell& f, time_point now);

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
  election count(ballot const& b, time_point now) const;
  void decide(ballot& b, time_point now);
  void win(ballot& b, time_point deadline, std::int64_t fence, time_point now);
  enum class outcome { busy, left, failed };
  void end(ballot& b, outcome how, error_code why, time_point now);
  bool is_silent(ballot const& b, voter const& v, time_point now) const;
  error_code worst_trouble(ballot const& b, time_point now) const;
  std::string why_no_connection() const;
  std::int64_t agreed_fence(ballot& b, election const& e, time_point now);
  std::int64_t fence_ahead(time_point now) const;

  // hold.cpp: while it is
  void lose(ballot& b, time_point now);
  void refresh(ballot& b, time_point now);
  void confirm_late_votes(ballot& b, time_point now);
  void repair(ballot& b, time_point now);

  // minority.cpp: some votes in hand, but not enough
  static std::size_t asked(ballot const& b);
  void minority(ballot& b, time_point now);
  void give_vote_back(ballot& b, voter& v, bool rest, time_point now);
  void plan(ballot& b, time_point now);
  void due(ballot& b, time_point now);

  duration jitter(duration from, duration to);
  duration round_trip() const;
  duration patience_with(member const& m) const;

  config const& settings_;
  std::int64_t const me_;  // the first 48 bits of the client's id: what rivals are told
  engine::timer_queue& timers_;
  engine::backend_events& up_;
  engine::journal& log_;
  statistics& stats_;
  engine::random_numbers random_;
  engine::entropy& nonces_;
  std::vector<std::unique_ptr<member>> members_;
  std::unordered_map<std::string_view, std::unique_ptr<ballot>> ballots_;  // keys live in the ballots
  std::list<std::unique_ptr<farewell>> farewells_;
};

}  // namespace conch::quorum
