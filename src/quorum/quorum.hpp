// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/timer_queue.hpp"
#include "cohort/backend.hpp"
#include "protocol/request_window.hpp"
#include "protocol/server.hpp"
#include "quorum/distinct.hpp"
#include "quorum/election.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace conch::quorum {

/// Locks over N independent servers: a backend that is made of N times the protocol with one server. What a server answers or pushes is its
/// vote. No I/O, no clock.
class quorum final : public engine::backend {
 public:
  /// `settings`: its `claim` is the `vote_claim`, as the protocol with a server needs it. `client`: the client's id, 32 hexadecimal digits.
  quorum(config const& settings, std::string_view client, std::uint64_t seed, engine::entropy& nonces, engine::timer_queue& timers,
         engine::backend_events& up, engine::log_sink& log, statistics& stats);
  ~quorum();

  /// Adds a server. All servers are added before the first input. `shown` names the server in messages.
  protocol::server& add(protocol::wire& out, std::string shown);

  // From the cohort.
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& s, bool wait, engine::milliseconds lease, time_point now) override;
  void leave_unless_granted(engine::place& s, time_point now) override;
  void give_up(engine::place& s, engine::receipt* r, time_point now) override;
  void release(engine::place& s, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override;
  void forget(engine::receipt& r) noexcept override;
  time_point late_after(engine::receipt const& r) const override;
  error_code why_not_done(engine::receipt const& r) const override;
  bool connected() const noexcept override;
  error_code too_late(engine::place const& s, time_point now) const override;
  duration answers_within(engine::place const& s) const noexcept override;
  error_code no_answer() const override;

  engine::capabilities offers() const noexcept override {
    return {.where = "several servers", .instead = "use a client of its own for one server, or for each of them"};
  }
  duration validity(engine::milliseconds lease) const noexcept override { return protocol::good_for(lease); }
  /// Adds what is known of each server, and what their protocols have counted.
  void report(statistics& to) const override;
  bool settled() const noexcept override;
  std::uint64_t progress() const noexcept override;
  void prepare_close(time_point now) override;

  std::size_t pending() const noexcept;
  /// The ticket of the present or last attempt: where it stands in line.
  std::int64_t ticket_of(engine::place const& s) const noexcept;

 private:
  struct member;
  struct vote;
  struct quorum_lock;
  struct cohort_place;
  struct release_round;
  class keeping;

  // quorum.cpp: the cohort's side
  void start(quorum_lock& b, time_point now);
  bool waits_for_room(quorum_lock const& b) const noexcept;
  void count_as_asked(quorum_lock& b, time_point now);
  void count_as_answered(quorum_lock& b, time_point now);
  void start_next(time_point now);
  void ask_votes(quorum_lock& b, time_point now);
  void ask_vote(quorum_lock& b, vote& v, bool wait, time_point now);
  std::optional<std::int64_t> new_ticket(time_point now) const;
  void drop(cohort_place& front);
  static cohort_place& made_here(engine::place& s) noexcept;
  quorum_lock& lock_of(std::string_view name);
  quorum_lock* find(std::string_view name);
  std::size_t connected_servers() const noexcept;
  std::size_t voters_there(quorum_lock const& b, time_point now) const;
  std::size_t needed() const noexcept;
  void retire(quorum_lock& b);

  // release_round.cpp: the lock is given back at all servers
  void back_out(quorum_lock& b, engine::receipt* r, std::int64_t next_fence_floor, time_point now);
  void release_votes(quorum_lock& b, release_round* f, std::int64_t next_fence_floor, time_point now);
  static void give_back(vote& v, engine::receipt* r, std::int64_t next_fence_floor, time_point now);
  void vote_released(engine::receipt& r, bool was_mine, time_point now);
  void tell_released(release_round& f, time_point now);

  // votes.cpp: what the servers say
  void vote_granted(vote& v, bool pushed, time_point now);
  void vote_queued(vote& v, time_point now);
  void vote_refused(vote& v, time_point now);
  void vote_failed(vote& v, error_code why, time_point now);
  void vote_not_renewed(vote& v, time_point now);
  void vote_extended(vote& v, time_point now);
  void vote_lost(vote& v, time_point now);
  void connection_changed(member& m, time_point now);
  void connection_refused(time_point now);
  void leave_line(member& m, time_point until, time_point now);

  // doubles.cpp: members that are one server under several names
  void look_for_doubles(member& m, time_point now);
  void vote_changes(member& m, time_point now);
  bool counts(vote const& v) const noexcept;
  std::string why_double(member const& m) const;
  std::string all_doubles() const;

  // decision.cpp: is the lock ours?
  election count(quorum_lock const& b, time_point now) const;
  void decide(quorum_lock& b, time_point now);
  void win(quorum_lock& b, time_point deadline, std::int64_t fence, time_point now);
  enum class outcome { busy, left, failed };
  void end(quorum_lock& b, outcome how, error_code why, time_point now);
  bool is_silent(quorum_lock const& b, vote const& v, time_point now) const;
  error_code worst_trouble(quorum_lock const& b, time_point now) const;
  std::string why_no_connection() const;
  std::int64_t agreed_fence(quorum_lock& b, election const& e, time_point now);
  template <class Holds>
  std::size_t servers_with(quorum_lock const& b, time_point now, Holds holds) const;
  static bool accepts(vote const& v, std::int64_t fence);
  static void ask_to_accept(quorum_lock& b, std::int64_t fence, time_point now);
  std::int64_t fence_ahead(time_point now) const;

  // hold.cpp: while the lock is ours
  void lose(quorum_lock& b, time_point now);
  void refresh(quorum_lock& b, time_point now);
  void confirm_late_votes(quorum_lock& b, time_point now);
  void repair(quorum_lock& b, time_point now);

  // minority.cpp: some votes in hand, but not enough
  static std::size_t asked(quorum_lock const& b);
  void minority(quorum_lock& b, time_point now);
  std::optional<protocol::rival> rival_before(quorum_lock const& b, time_point first) const;
  void yield_all(quorum_lock& b, protocol::rival const& to, time_point now);
  void ask_others(quorum_lock& b, time_point first, bool too_few, time_point now);
  void yield(quorum_lock& b, vote& v, bool rest, time_point now);
  void plan(quorum_lock& b, time_point now);
  void due(quorum_lock& b, time_point now);

  duration jitter(duration from, duration to);
  duration round_trip() const;
  duration patience_with(member const& m) const;

  config const& settings_;
  std::int64_t const me_;  // the first 48 bits of the client's id, as rivals are told
  engine::timer_queue& timers_;
  engine::backend_events& up_;
  engine::log_sink& log_;
  statistics& stats_;
  engine::random_numbers random_;
  engine::entropy& nonces_;
  std::vector<std::unique_ptr<member>> members_;
  distinct_servers distinct_;
  std::set<std::pair<std::size_t, std::size_t>> told_doubles_;                // the log has a line about them
  std::unordered_map<std::string_view, std::unique_ptr<quorum_lock>> locks_;  // keys live in the quorum_locks
  std::list<std::unique_ptr<release_round>> release_rounds_;
  /// Of locks, not of votes: what is asked for at one server is asked for at all of them, or the votes of the fast ones would be over when the slow
  /// ones give theirs.
  protocol::request_window window_;
  engine::list<quorum_lock> waiting_;  // for room; in the order of their asking
  engine::timer next_;
};

}  // namespace conch::quorum
