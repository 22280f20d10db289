// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/back_off.hpp"
#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "cohort/backend.hpp"
#include "protocol/request_window.hpp"
#include "zookeeper/order.hpp"
#include "zookeeper/session.hpp"
#include "zookeeper/watches.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace conch::zookeeper {

class queue;

/// The node that a place has, or asks for.
struct own_node {
  std::uint64_t number = 0;   // a new one for each that is asked for
  std::string node{};         // its path; empty: the answer has not come
  std::int64_t created = 0;   // the transaction that made it
  std::uint64_t made_in = 0;  // the session, counted
  std::uint64_t told_on = 0;  // the connection on which something about it was sent last
  unsigned lists = 0;         // of the folder, under way for it
  unsigned tellers = 0;       // requests under way whose answer says whether there is a node
  bool leave_sent = false;    // on this connection
  bool left_before = false;   // the same on an earlier connection, unanswered
  error_code refusal{};       // why it is being removed; none: for what the cohort has asked
  unsigned folders_made = 0;  // since it was asked for
  bool asks_later = false;    // the server could not do it; `check` asks again
  time_point later_since{};   // and since when it cannot
};

/// The place of a client at a lock: an ephemeral sequential node in the folder of the lock. What stands before it says whether it has the lock
/// (order.hpp).
struct standing final : engine::place, engine::list_hook<standing>, own_node {
  standing(queue& keeper, std::string_view lock_name, engine::permit const& share, std::string folder);

  queue& of;
  std::string const folder;
  terms const asks;
  view ahead;                   // nodes before it
  bool watches_itself = false;  // owned: whoever removes the node takes the hold
  bool has_turn = false;        // nobody stands in its way, and the session's deadline is over: a proof is waited for
  bool wants_renewal = false;   // the deadline could not be moved when that was asked for
  bool by_push = false;
  standing* carrier = nullptr;      // a rider: whose node it has
  std::vector<standing*> riders{};  // have its node, too
  time_point full_until{};          // owned: the end of the whole lease that was asked for
  time_point trouble_since{};
  std::uint64_t checked_in = 0;  // the session, counted, that has asked who may change the folder
  engine::timer check;

  std::string path_of(std::string_view its_node) const { return folder + '/' + std::string{its_node}; }
  own_node& its_node() noexcept { return *this; }
  bool waits() const noexcept { return at == state::asking || at == state::in_line; }
};

/// A release or a leave that is not done yet.
struct cleanup final : engine::list_hook<cleanup> {
  cleanup(standing& s, std::uint64_t n) : at{s}, number{n} { ++s.references; }

  standing& at;
  std::uint64_t const number;
  std::string node;  // empty: it is not known whether there is one
  std::uint64_t made_in = 0;
  bool was_valid = false;  // of a hold
  bool sent = false, resent = false;
  engine::receipt* whom = nullptr;
};

/// Locks as folders of ephemeral sequential nodes, each watching those before it that keep it out. No I/O, no clock.
class queue final : public engine::backend, private session_events {
 public:
  /// All but `seed`, `root` and `secret` outlives this. `root`: root_of(); `secret`: "user:password", or empty.
  queue(config const& settings, std::string const& client_id, std::string root, std::string secret, std::uint64_t seed, engine::timer_queue& timers,
        wire& out, engine::backend_events& up, statistics& stats);
  ~queue() override;

  /// Where the wire reports to.
  wire_events& receiver() noexcept { return session_; }

  engine::capabilities offers() const noexcept override;
  std::unique_ptr<engine::place> make_place(std::string_view name, engine::permit const& share) override;
  void ask(engine::place& s, bool wait, engine::milliseconds lease, time_point now) override;
  void leave_unless_granted(engine::place& s, time_point now) override;
  void give_up(engine::place& s, engine::receipt* r, time_point now) override;
  void release(engine::place& s, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) override;
  void renew(std::span<engine::place* const> places, time_point now) override;
  void forget(engine::receipt& r) noexcept override;
  time_point late_after(engine::receipt const& r) const override;
  error_code why_not_done(engine::receipt const& r) const override;
  bool connected() const noexcept override { return session_.is_open(); }
  error_code too_late(engine::place const& s, time_point now) const override;
  duration answers_within(engine::place const&) const noexcept override { return session_.answers_usually_within(); }
  error_code no_answer() const override;
  duration validity(engine::milliseconds lease) const noexcept override;
  void report(statistics& to) const override;
  bool settled() const noexcept override { return cleanups_ == 0; }
  std::uint64_t progress() const noexcept override { return progress_; }
  void prepare_close(time_point) override {}
  void closed() override { session_.close(); }

 private:
  friend struct standing;

  enum class about : std::uint8_t { node, folder, list, watch, leave, clean_up, stray, search, found, rights, nothing };
  static bool tells_of_node(about what) noexcept { return what == about::node || what == about::search || what == about::found; }
  struct in_flight {
    about what;
    standing* at;
    std::uint64_t number;
    cleanup* of_cleanup;
    std::string path;  // that is watched
    time_point written{};
    std::size_t together = 0;  // of a list: with so many others in flight, itself included (request_window)
  };

  // session_events
  void opened(time_point now) override;
  void interrupted(time_point now) override;
  void ended(time_point now) override;
  void proved(time_point now) override;
  void answered(reply const& r, time_point now) override;
  void noticed(notice const& n, time_point now) override;
  void refused(error_code why, time_point now) override;

  void rest_all();
  void go_on(time_point now);
  void go_on_with(standing& s, time_point now);
  void send(about what, request const& r, standing& s, cleanup* c, time_point now, std::string path = {});
  void begin(standing& s);
  void make_node(standing& s, time_point now);
  void list(standing& s, time_point now);
  void search(standing& s, std::uint64_t number, cleanup* c, time_point now);
  void node_answer(in_flight const& r, reply const& a, time_point now);
  void ask_for_rights(standing& s, time_point now);
  void rights_answer(in_flight const& r, reply const& a, time_point now);
  void folder_answer(in_flight const& r, reply const& a, time_point now);
  void found_answer(in_flight const& r, reply const& a, time_point now);
  void list_answer(in_flight const& r, reply const& a, time_point now);
  void watch_answer(in_flight const& r, reply const& a, time_point now);
  void leave_answer(in_flight const& r, reply const& a, time_point now);
  void cleanup_answer(in_flight const& r, reply const& a, time_point now);
  void came_of(std::uint64_t number, std::string node, time_point now);
  void search_answer(in_flight const& r, reply const& a, time_point now);
  void look(standing& s, children const& all, time_point now);
  void remove_strays(standing& s, children const& all, time_point now);
  void is_gone(std::string const& path, time_point now);
  void gone(standing& s, std::string const& path, time_point now);
  void take_turn(standing& s, bool pushed, time_point now);
  void own(standing& s, time_point now);
  bool prolong(standing& s, time_point now);
  void watch_own(standing& s, time_point now);
  void removed(standing& s, time_point now);
  void found(standing& s, std::string path, std::int64_t created, time_point now);
  bool step_out(standing& s, time_point now);
  void leave(standing& s, time_point now);
  void gone_from_line(standing& s, time_point now);
  void has_no_node(standing& s, time_point now);
  void become_idle(standing& s);
  void watch(standing& s, view ahead, time_point now);
  void watch(standing& s, std::string const& path, time_point now);
  void unwatch(standing& s);
  bool ride(standing& s, time_point now);
  static void mount(standing& s, standing& carrier);
  static void dismount(standing& s);
  void rest(standing& s, time_point now);
  void rest_riders(standing& carrier, time_point now);
  void carry_no_more(standing& s);
  void go_on_riding(standing& s, time_point now);
  void granted_to_owner(standing& s, time_point now);
  standing& pass_on(standing& from, time_point now);
  void ask_anew(standing& s, time_point now);
  void pass_on_the_asking(standing& from, time_point now);
  standing& succeed(standing& from);
  static std::vector<standing*> sharing_with(standing& s);
  bool is_too_long(standing const& s) const;
  engine::milliseconds lease_of(standing const& s) const;
  error_code lease_too_long(standing const& s) const;
  void fail(standing& s, error_code why, time_point now);
  void request_refused(standing& s, status what, std::string const& asked, time_point now);
  void ask_later(standing& s, status what, std::string const& asked, time_point now);
  error_code error_of(status what, std::string const& asked, standing const& s) const;
  error_code error_of(verdict const& v, standing const& s) const;
  void owe(standing& s, engine::receipt* r, time_point now, bool was_valid = false);
  void send_cleanup(cleanup& c, time_point now);
  void refused_cleanup(cleanup& c, error_code why, time_point now);
  void send_later(cleanup& c, time_point now);
  duration pause_before_next();
  void finish(cleanup& c, bool was_mine, error_code why, time_point now);
  void patience(standing& s, time_point since);
  void check(standing& s, time_point now);
  void drop(standing& s);
  bool may_list() const noexcept { return resting_.empty() && window_.has_room(); }
  bool is_known(std::uint64_t number) const { return standing_.contains(number) || owed_.contains(number); }
  std::string why_not_connected() const;

  config const& settings_;
  std::string const client_id_;
  std::string const root_, secret_;
  engine::timer_queue& timers_;
  engine::backend_events& up_;
  statistics& stats_;
  session session_;

  std::uint64_t numbers_ = 0;   // of nodes
  std::uint64_t sessions_ = 1;  // counts sessions; a place of an earlier one has no node
  std::uint64_t connections_ = 1;
  engine::list<standing> active_, resting_;  // all that are not idle; resting: the present connection has not come to them, or there is no room
  /// Of lists of a folder, which are the longer the more stand in line.
  protocol::request_window window_;
  engine::list<cleanup> pending_, resting_cleanups_;
  std::unordered_map<std::uint64_t, standing*> standing_;  // by number: all that are not idle
  std::unordered_map<std::uint64_t, cleanup*> owed_;       // by number: all clean-ups
  std::unordered_map<std::string, standing*> carriers_;    // by owner and lock: on whom others of that owner ride
  watches watched_;
  std::deque<in_flight> in_flight_;
  std::size_t cleanups_ = 0;
  std::uint64_t progress_ = 0;
  time_point last_answer_{}, lost_at_{};
  engine::timer rest_, later_;
  back_off pauses_;  // before what a server could not do is asked for again
};

}  // namespace conch::zookeeper
