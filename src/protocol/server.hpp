// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/fifo.hpp"
#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/turns.hpp"
#include "base/usual_time.hpp"
#include "cohort/admin_request.hpp"
#include "cohort/backend.hpp"
#include "protocol/cleanup.hpp"
#include "protocol/drift.hpp"
#include "protocol/place.hpp"
#include "protocol/replies.hpp"
#include "protocol/server/environment.hpp"
#include "protocol/server/grant_ids.hpp"
#include "protocol/server/keep_alive.hpp"
#include "protocol/server/request_window.hpp"
#include "protocol/server/server_link.hpp"
#include "protocol/siblings.hpp"
#include "protocol/wire.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// The parts below all others. Each uses only those before it.
struct common_parts {
  environment env;
  pauses pause;
  server_link link;
};

/// The error of a request that the server answered with that fault.
error_code to_error(fault what, std::string_view words);

/// The protocol with one server: ids and tickets, claims, the order of a new connection, safety checks, kicks, and the
/// clean-ups. No I/O, no clock: inputs carry the time, outputs go to `wire`.
class server final : public backend, public wire_events {
 public:
  /// `shared`: what it shares with the other servers of its client, and outlives it; none: there are no others.
  server(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, wire& out, backend_events& up, log_sink& log,
         statistics& stats, of_client* shared = nullptr);
  ~server();

  // From the wire.
  void connected_as(session const& s, time_point now) override;
  void connect_failed(fault what, std::string_view words, time_point now) override;
  void disconnected(std::string_view why, time_point now) override;
  void answered(answer const& a, time_point now) override;
  void granted(pushed_grant const& g, time_point now) override;
  void revoked(std::string_view name, grant_id id, time_point now) override;
  void requested(std::string_view name, grant_id id, time_point now) override;
  void freed(std::string_view name, grant_id id, bool more, time_point now) override;
  void missed(std::string_view name, grant_id id, time_point now) override;
  void told_end(std::string_view name, grant_id id, milliseconds left, time_point now) override;

  // From the cohort.
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& s, bool wait, milliseconds lease, time_point now) override { ask(made_here(s), wait, lease, now); }
  void gather() override;
  void send_gathered(time_point now) override;
  void leave_unless_granted(engine::place& s, time_point now) override { leave_unless_granted(made_here(s), now); }
  void give_up(engine::place& s, receipt* r, time_point now) override { give_up(made_here(s), r, now); }
  void release(engine::place& s, std::optional<milliseconds> again, receipt* r, time_point now) override { release(made_here(s), again, r, now); }
  void detach(engine::place& s, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override;
  void forget(receipt& r) noexcept override;
  time_point late_after(receipt const& r) const override;
  bool connected() const noexcept override { return on_.link.connected(); }
  error_code too_late(engine::place const& s, time_point now) const override;
  duration answers_within(engine::place const&) const noexcept override { return usual_.soon(); }
  error_code no_answer() const override { return on_.link.no_answer(); }
  error_code why_not_done(receipt const& r) const override;
  std::string why_not_renewed(engine::place const& p, time_point now) const override;
  capabilities offers() const noexcept override {
    return {.several_owners = true, .segments = true, .all_free = true, .inspection = true, .adoption = true};
  }
  duration validity(milliseconds lease) const noexcept override { return good_for(lease); }

  void watch_requests(engine::place& s, time_point now) override;
  void administer(admin_request& i, admin_events& whose, time_point now) override;
  void withdraw(admin_request& i) noexcept override;
  void admin_due(admin_request& i, time_point now) override;
  void report(statistics& to) const override { to.cleanups_pending = cleanups_; }
  bool settled() const noexcept override { return cleanups_ == lapsed_ && !has_places(); }
  std::uint64_t progress() const noexcept override { return progress_; }
  void prepare_close(time_point now) override;
  grant_id grant_of(engine::place const& s) const noexcept override { return static_cast<place const&>(s).id; }

  // From src/quorum, for votes.
  void ask_vote(place& s, vote_terms const& terms, bool wait, milliseconds lease, time_point now);
  /// The lock is held with this vote, or may soon be. A renewal of the vote, also by a new connection, carries these terms and this lease.
  static void hold_vote(place& s, vote_terms const& terms, milliseconds lease) noexcept;
  void renew_votes(std::span<place* const> votes, time_point now);
  /// Gives back a place that is not idle; it is idle at once. Ends in released for `r`, if there is one.
  void give_vote_back(place& s, vote_terms const& terms, receipt* r, time_point now);
  void leave_unless_granted(place& s, time_point now);
  /// Sends the request of a place that is asking, in line or owned once more. Does nothing if the request is repeated anyway, because the
  /// server answered "later".
  void ask_again(place& s, time_point now);
  /// Why the place has no answer; empty: only because another client has the lock.
  std::string trouble_of(place const& s) const;
  /// The smoothed time from a command to its answer; zero: not known yet.
  duration round_trip() const noexcept { return round_trip_; }
  /// Why nothing can be had of the server at this moment: no connection since a while, or a silence that is longer than usual. Empty: it answers.
  std::string silence(time_point now) const;
  /// What is known of the connection, and why there is none.
  server_link const& link() const noexcept { return on_.link; }

  // From synced_server, for owned places that are renewed on another connection.
  bool fence_is_due(place const& s, time_point now) const;
  /// The server has renewed the grant; that was written at `written`.
  void prolonged(place& s, time_point written, milliseconds lease, bool keeps_fence, time_point now);
  /// The server has no such grant. It is lost, and what there may be of it is given back.
  void not_renewed(place& s, time_point now) { lose_and_give_back(s, now); }
  // From sharded: locks that go from one server to another with their slot (server_moves.cpp).
  /// Gives all that is known of the locks of slots that another server has to that server: places, clean-ups, kicks, questions. What is in flight
  /// stays, and its answers are read for nothing but the clock.
  void part(time_point now);
  /// Goes on with what others have given it since, as a new connection does.
  void take_over(time_point now);
  /// Asks once more for all that is known of these slots: the server has ended their subscriptions.
  void ask_once_more(std::set<unsigned> const& slots, time_point now);
  /// These places are another server's, which has named this one for the time being: their slot is on its way here. `alone`: as
  /// renew_each_alone. False: there is no connection yet.
  bool renew_behind_asking(std::span<place* const> places, bool alone, time_point now);
  /// Without their fences, which may be elsewhere.
  void renew_each_alone(std::span<place* const> places, time_point now);
  /// The tries that were held back since gather(): those of one slot in one script.
  void send_gathered_by_slot(time_point now);
  bool is_unused() const noexcept { return settled() && in_flight_.empty() && !has_requests(); }
  bool has_requests() const noexcept { return has_places() || !admin_requests_.empty(); }
  /// Ends the connection, if there is one.
  void leave(std::string_view why) { on_.link.leave(why); }

  /// The count of the last id.
  std::uint64_t last_id() const noexcept { return ids_.last(); }
  /// The ids from here on are above `last`. For tests that need ids that begin like others.
  void skip_ids(std::uint64_t last) noexcept { ids_.skip(last); }

  /// Releases and leaves that are not answered yet.
  std::size_t pending() const noexcept { return cleanups_; }
  /// True while the present connection has not repeated all requests and clean-ups, or while a failure is not reported to all.
  bool catching_up() const noexcept { return failing_ || (on_.link.connected() && has_resting()); }
  /// Looks after nobody later: the client is about to close. What is to be looked after goes to those in line, by a script that is sent now.
  void drop_kicks(time_point now);

 private:
  enum class request : std::uint8_t {
    acquire,
    acquire_all,
    leave,
    cleanup,
    renew,
    confirm,
    admin_request,
    requested,
    watch,
    kill,
    subscribe,
    prove_publish,
    asking,
    ping
  };
  /// A server may know some of these scripts and not others.
  enum class script : std::uint8_t {
    none,
    acquire,
    permit_acquire,
    adopt,
    permit_adopt,
    acquire_all,
    release,
    permit_release,
    renew,
    permit_renew,
    confirm,
    inspect,
    force,
    request,
    watch,
    limit,
    count
  };

  struct in_flight {
    request what;
    grant_id id;
    grant_id new_id;
    place* at;
    cleanup* of_cleanup;
    time_point written;
    milliseconds lease{};       // as asked for; the place may want another lease when the answer comes
    std::int64_t proposal = 0;  // of a vote, as asked for
    std::uint64_t serial = 0;   // of an admin_request
    script of = script::none;   // the script that it runs
    std::uint64_t number = 0;   // counts the requests of a connection
    bool moved = false;         // its place has gone to another server since: it is asked for there
    std::uint32_t size = 0;     // for so many locks, of those that wait for room; 0: waits for none
    std::size_t together = 0;   // with so many others in flight, itself included (request_window)
  };

  friend struct place;
  static place& made_here(engine::place& s) noexcept { return static_cast<place&>(s); }
  static place* made_here(engine::place* s) noexcept { return static_cast<place*>(s); }

  struct tried {
    place* at;
    grant_id id;
    milliseconds lease;
    bool moved = false;  // as in_flight::moved
  };

  // server.cpp: the connection
  void push_request(in_flight r);
  void end_requests();
  bool has_places() const noexcept;
  bool has_resting() const noexcept;
  bool may_send() const noexcept;
  bool may_repeat() const noexcept;
  bool may_ask(time_point now) const noexcept;
  void postpone(place& s);
  void send_postponed(std::size_t& left, time_point now);
  void renew_holds(std::size_t& left, time_point now);
  static script script_of(in_flight const& r);
  bool source_is_due(in_flight const& r);
  time_point answer_due() const;
  void answer_overdue(time_point now);
  void quiet(time_point now);
  bool is_asked_again(place const& s, grant_id id) const;
  void read_answer(in_flight const& r, answer const& a, time_point now);
  void session_answer(in_flight const& r, answer const& a, time_point now);
  static void become_idle(place& s);
  void assert_consistent(place const& s) const;
  void drop(place& s);
  void fail(place& s, error_code why, time_point now, bool of_one_attempt = false);
  void fail_all_asking(error_code why, time_point now);
  void go_on(time_point now);
  void repeat_cleanups(std::size_t& left, time_point now);
  void ask_everything_again(std::size_t& left, time_point now);
  /// What has the keys of a command locked may do so for long, and other locks wait behind each attempt.
  time_point again_at(answer const& a, time_point now) {
    return on_.pause.again_at(now) + (a.of_its_keys ? on_.env.settings.command_timeout / 2 : duration::zero());
  }

  // server_tries.cpp: several locks in one script
  void send_tries(std::span<place* const> places, std::vector<tried> later, bool with_source, time_point now);
  enum class of_the_rest : std::uint8_t { next, busy, each_alone, as_these };
  void try_the_rest(std::vector<tried> const& later, of_the_rest what, answer const& a, time_point now);
  void tries_answer(in_flight const& r, answer const& a, time_point now);

  // server_locks.cpp: one lock
  void ask(place& s, bool wait, milliseconds lease, time_point now);
  void give_up(place& s, receipt* r, time_point now);
  void release(place& s, std::optional<milliseconds> again, receipt* r, time_point now);
  /// Safety check, retry, or out of patience.
  void check(place& s, time_point now);
  void send_acquire(place& s, bool with_source, time_point now);
  void ask_once_more(place& s, retry_reason why, time_point now);
  void about_to_ask(place& s, std::int64_t not_after_us);
  void send_leave(place& s, time_point now);
  void send_leave(place& s, bool with_source, time_point now);
  void acquire_answer(in_flight const& r, answer const& a, time_point now);
  void ask_result(place& s, in_flight const& r, acquire_reply const& reply, time_point now);
  void leave_answer(in_flight const& r, answer const& a, time_point now);
  void acquire_fault(place& s, answer const& a, time_point now);
  void own(place& s, std::int64_t fence, std::int64_t segment, time_point from, duration lease, bool confirmed, bool pushed, time_point now);
  void own_still(place& s, std::int64_t fence, time_point from, time_point deadline, bool confirmed, time_point now);
  void give_back_late(place& s, time_point now);
  void refuse_grant(place& s, error_code why, time_point now);
  void in_line(place& s, std::int64_t left_ms, std::int64_t ticket, time_point now);
  time_point check_after(place const& s, milliseconds told, time_point now);
  duration sleep_for(milliseconds told) const;
  void patience(place& s, time_point now);
  void lose(place& s, time_point now);
  void lose_and_give_back(place& s, time_point now);
  void end_lost(place& s, bool gives_back, time_point now);
  place* wanted(pushed_grant const& g);
  bool fits(place const& s, pushed_grant const& g) const;
  bool is_plausible(std::int64_t fence, time_point now) const;
  void ask_because_of_push(place& s, time_point now);
  void stray(pushed_grant const& g, time_point now);

  // server_renewals.cpp: many holds in one script
  struct renewed {
    place* at;
    grant_id id;  // 0: the place has gone to another server since
    milliseconds lease;
    std::int64_t floor;
    bool keeps_fence;
  };
  /// How renewals are sent.
  struct renewal_way {
    bool with_source = false;
    bool asking = false;  // of places of another server
    bool alone = false;   // each lock in a script of its own, and without its fence
  };
  struct renewal_batch {
    std::vector<renewed> places;
    time_point written;
    duration answer_within;
    renewal_way way{};
  };
  void renew_answer(in_flight const& r, answer const& a, time_point now);
  void send_renewals(std::span<place* const> places, renewal_way way, time_point now);
  bool renew_elsewhere(renewal_batch const& sent, answer const& a, time_point now);
  bool granted_elsewhere(place const& s) const;
  static milliseconds lease_left(place const& s, time_point now);
  void send_renewals_of(std::span<place* const> places, bool permits, bool keep_fences, renewal_way way, time_point now);

  // server_admin.cpp: questions and orders
  void send_admin(admin_request& i, bool with_source, time_point now);
  void end_unrepeatable_admin(std::string_view why, time_point now);
  void watch_answer(admin_request& i, answer const& a, time_point now);
  void watch_for(admin_request& i, milliseconds left, time_point now);
  void unwatch(std::size_t& left, time_point now);
  void repeat_admin(time_point now);
  void admin_answer(in_flight const& r, answer const& a, time_point now);
  static std::optional<order_reply> read_order(order const& o, answer const& a);
  void order_answer(admin_request& i, answer const& a, time_point now);
  void order_done(order const& o, order_reply const& reply, time_point now);
  void end_all_admin(error_code why, time_point now);
  void end_admin(admin_request& i, admin_result const& result, error_code why);
  void taken_away(place* s, grant_id id, time_point now);
  place* owned_under(std::string_view name, grant_id id);
  void ask_for_requests(place& s, time_point now);
  void requested_answer(in_flight const& r, answer const& a, time_point now);
  void asked_to_let_go(place& s, time_point now);

  // server_moves.cpp: from one server to another
  void mark_in_flight();
  void part_with_admin(time_point now);
  void receive(place& s, time_point now);
  void receive(cleanup& c, time_point now);
  void receive(admin_request& i, admin_events* whose, time_point now);
  bool keeps(place const& s) const;
  bool keeps(std::string_view name) const;
  server& keeper_of(std::string_view name);
  void owe_if_carried_out(place& s, grant_id id, acquire_reply const& reply, time_point now);
  static bool may_be_repeated(admin_request const& i);

  // server_cleanups.cpp: clean-ups and kicks
  cleanup& owe(place& s, grant_id id, receipt* r, time_point now);
  duration kept_for(place const& s, time_point now) const;
  time_point forgotten_by(cleanup const& c, time_point now) const;
  void extend(cleanup& c, time_point until);
  void send_cleanup(cleanup& c, time_point now);
  void send_cleanup(cleanup& c, grant_id new_id, bool with_source, time_point now);
  void cleanup_answer(in_flight const& r, answer const& a, time_point now);
  static bool is_under(place const& s, grant_id new_id);
  static bool asks_under(place const& s, grant_id new_id);
  void cleanup_put_off(cleanup& c, in_flight const& r, time_point now);
  void cleanup_done(cleanup& c, in_flight const& r, release_reply const& reply, time_point now);
  void cleanup_refused(cleanup& c, in_flight const& r, answer const& a, time_point now);
  void cleanup_due(cleanup& c, time_point now);
  error_code not_done(cleanup const& c) const;
  void finish(cleanup& c, bool was_mine, error_code why, time_point now);
  void tell_released(cleanup& c, bool was_mine, time_point now);
  void go_on(place& s, grant_id dead, time_point now);
  static void seen(place& s, in_flight const& r);
  void passed_on(place& s, milliseconds lease, time_point now);
  void look_after(place& s, grant_id dead, time_point now);
  time_point after_claim(milliseconds claim, time_point now);
  void drop_kick(place& s);
  cleanup* pending_cleanup(grant_id id);
  bool owes_cleanup(place const& s);

  common_parts on_;
  wire& out_;
  duration round_trip_{};
  usual_time usual_;
  keep_alive keep_alive_{on_.env.settings.keep_alive};
  time_point last_heard_{};
  time_point last_answer_{};
  bool excused_ = false;  // a late answer was excused once, because this process was late itself
  of_client own_;         // unless it shares
  of_client& client_;
  grant_ids& ids_;

  fifo<in_flight> in_flight_;
  std::deque<renewal_batch> renewing_;  // one for each renewal script in flight
  std::vector<renewal> scratch_;
  struct tries {
    std::vector<tried> in_script, later;
  };
  std::deque<tries> trying_;  // for each acquire_all in flight: the locks that it tries, and those to try if it takes all of them
  bool gathering_ = false;
  std::vector<place*> gathered_;
  // All places that are not idle, in the order of their asking: what waits for an answer or a turn, and the holds. What this connection has not
  // come to yet rests, and is written in this order: the holds, clean-ups, what asks again, what asks. All but the holds wait for room.
  list<place> active_;
  list<place> resting_;  // also those that are still to fail
  list<place> again_;
  list<place> holds_;
  list<place> resting_holds_;
  list<cleanup> resting_cleanups_;
  request_window window_;
  error_code failing_;                                                            // set: the places in resting_ are to fail with it
  error_code ending_admin_;                                                       // set: all admin_requests are to end with it
  std::uint64_t requests_ = 0;                                                    // written on this connection
  std::array<std::uint64_t, static_cast<std::size_t>(script::count)> sources_{};  // the number of the request that last carried each source
  list<cleanup> pending_cleanups_;
  bool has_received_ = false;  // from another server, what take_over() goes on with
  bool closing_ = false;       // nobody is looked after later: those in line are told to do so
  std::size_t cleanups_ = 0;
  std::uint64_t progress_ = 0;                   // counts the requests that the server has carried out, or can when it has the script's source
  std::size_t lapsed_ = 0;                       // how many of the pending clean-ups have lapsed
  time_point strays_since_ = time_point::min();  // when the present second of stray grants began
  int strays_ = 0;                               // in that second
  bool told_of_strays_ = false;                  // logged once for each connection
  list<admin_request> admin_requests_;           // not answered yet
  std::vector<std::pair<std::string, grant_id>> unwatched_;      // watchers that are gone, and that the server still has
  std::unordered_map<std::uint64_t, admin_request*> by_serial_;  // the same
  std::unordered_map<std::uint64_t, order> orphans_;             // orders whose caller waits no more; the clients that they let in are looked after
  admin_events* admin_events_ = nullptr;
  timer overdue_;
  timer rest_;
  timer quiet_;
};

}  // namespace conch::protocol
