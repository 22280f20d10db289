// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "cohort/admin_request.hpp"
#include "cohort/grant_id.hpp"
#include "cohort/permit.hpp"
#include "cohort/states.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>
#include <conch/stats.hpp>

#include <boost/system/system_category.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

// The port between the cohort (who in this process waits and holds) and the servers.
namespace conch::engine {

using std::chrono::milliseconds;

/// A fencing token is the server part of a fence times this, plus the index of the local hand-off.
constexpr std::int64_t hand_offs_per_grant = 4096;

struct cleanup;

/// Who has a lock at one server, as it told somebody who votes there.
struct rival {
  std::int64_t client = 0;  // the first 48 bits of its id; 0: no voter
  std::int64_t ticket = 0;
  bool confirmed = false;
  time_point asked = time_point::min();  // when the question was written
};

/// The client's one place at a lock: in line for it, or owning it. Belongs to the lock's entry in the engine.
struct place : list_hook<place> {
  enum class state : std::uint8_t {
    idle,     // nothing on the server that is not a clean-up's
    asking,   // asked, or to be asked once connected; not answered
    in_line,  // stands in the server's queue
    leaving,  // leaves unless granted meanwhile; not answered
    owned,    // granted, as far as the server has told
  };

  explicit place(std::string_view lock_name) noexcept;

  std::string_view name;
  state at = state::idle;
  bool wait = true;
  bool written = false;                        // the request under this id may have reached the server
  bool confirmed = false;                      // the full lease, not just the claim
  bool renewing = false;                       // a renewal is under way
  bool asks_again = false;                     // because of a push; not answered yet
  bool by_push = false;                        // its grant was pushed first: whoever passed it on keeps the fence
  bool renewable = false;                      // set by the cohort: this may (still) be renewed ...
  time_point renew_until = time_point::max();  // ... before this
  grant_id id;
  std::int64_t ticket = 0;
  std::int64_t fence = 0;     // server part
  time_point fence_until{};   // owned: the server remembers it at least until then, without a renewal that sees to it
  engine::permit permit;      // of a lock with several owners
  std::uint32_t segment = 0;  // owned: which one; 0: the lock has none

  // A vote, which is one server's part of a lock over several (src/quorum):
  std::int64_t vote = 0;              // the ticket, agreed between the servers; 0: not a vote
  std::int64_t floor = 0;             // fences given from now on shall be above this
  std::int64_t next_fence_floor = 0;  // what a release gives to the next in line should be above this, so that all servers give the same
  std::int64_t refused_by = 0;        // the fence above `floor` that the last confirmation met; 0: none
  std::int64_t accepted = 0;          // the floor of the last confirmation
  rival seen{};
  place const* part_of = nullptr;  // decides whether this may be renewed

  milliseconds lease{};
  time_point deadline{};                      // owned: not valid after this
  time_point valid_from{};                    // owned: when the request that led to this deadline was written
  time_point late_until = time_point::min();  // by then the server refuses any request under this id that was written so far
  time_point echo_until = time_point::min();  // the same, of those that an earlier connection may still hold
  time_point trouble_since{};                 // asking: since when the server has answered "later"; zero: it has not
  /// We passed the lock on while others waited: when to see that its new owner took it (server::look_after); max: nothing to see to.
  time_point follow_up = time_point::max();
  std::uint32_t run = 0;         // asked for at this run of the server, as counted by who keeps it
  std::uint32_t references = 0;  // commands and clean-ups that name this place
  std::uint32_t told_on = 0;     // the connection on which the server was asked or told something of this last
  cleanup* kick = nullptr;

  /// For a release or a confirmation of this (release_command::floor).
  std::int64_t floor_asked() const noexcept { return vote != 0 ? std::max<std::int64_t>(floor, 1) : 0; }

  bool may_renew(time_point now, bool in_any_case = false) const noexcept {
    place const& s = part_of != nullptr ? *part_of : *this;
    return (s.renewable || in_any_case) && now < s.renew_until;
  }

  void* owner = nullptr;            // for who listens to the events
  class backend* keeper = nullptr;  // who asked last
  timer check;                      // safety check, retry, or the end of patience with an absent server
};

/// What may follow a state of a place. Whoever asks is at first neither in line nor refused; whoever owns it can only give it back.
constexpr state_table<place::state, 5> place_states{{
    {place::state::idle, any_of(place::state::asking)},
    {place::state::asking, any_of(place::state::in_line, place::state::leaving, place::state::owned, place::state::idle)},
    {place::state::in_line, any_of(place::state::in_line, place::state::leaving, place::state::owned, place::state::idle)},
    {place::state::leaving, any_of(place::state::owned, place::state::idle)},
    {place::state::owned, any_of(place::state::idle)},
}};

/// The only way to change it.
inline void enter(place& s, place::state to) {
  BOOST_ASSERT_MSG(place_states.allows(s.at, to), "a seat goes from one state to another that does not follow it");
  s.at = to;
}

/// Who waits for the end of a clean-up. Embedded in the one who does.
struct receipt {
  cleanup* pending = nullptr;
  void* waited_by = nullptr;  // of a quorum, which waits for the ends of several
};

/// What a backend offers beyond a lock with one owner.
struct capabilities {
  bool several_owners = false;  // semaphores, readers and writers, segments, a reentrant lock
  bool inspection = false;      // admin_requests and orders
  std::string_view instead{};   // what to do where it is not offered, for the error
};

/// What the cohort asks for. Whatever fails has already arranged its own clean-up.
class backend {
 public:
  virtual ~backend() = default;

  virtual capabilities offers() const noexcept = 0;
  /// The place is idle: asks for the lock. Ends in granted, busy (not wait) or failed.
  virtual void ask(place& s, bool wait, milliseconds lease, time_point now) = 0;
  /// From here to send_gathered what is asked for without waiting may be put off, to go to the server together.
  virtual void gather() {}
  virtual void send_gathered(time_point) {}
  /// The place is asking or in_line: ends in granted or left.
  virtual void leave_unless_granted(place& s, time_point now) = 0;
  /// The place is asking, in_line or leaving: it is idle at once; ends in released for `r`, if there is one.
  virtual void give_up(place& s, receipt* r, time_point now) = 0;
  /// The place is owned: given back, and asked for again with `again` as the lease. Ends in released for `r`.
  virtual void release(place& s, std::optional<milliseconds> again, receipt* r, time_point now) = 0;
  /// Renews those that are owned and renewable. Each ends in extended, lost or renewal_failed.
  virtual void renew(std::span<place* const> places, time_point now) = 0;
  /// Nobody waits for that answer any more.
  virtual void forget(receipt& r) noexcept = 0;
  /// While the server is answering what was written before it, that answer is not late: not before this.
  virtual time_point late_after(receipt const& r) const = 0;
  /// The place's timer has fired.
  virtual void check(place& s, time_point now) = 0;
  virtual bool connected() const noexcept = 0;
  /// What is told of a wait for this place whose time is over: errc::timed_out or errc::unreachable, and what kept it from an
  /// answer. Not unreachable while the first connection is still being made.
  virtual error_code too_late(place const&) const { return make_error_code(connected() ? errc::timed_out : errc::unreachable); }
  /// For how long a grant of that lease is good, from the moment from which it counts (place::valid_from).
  virtual duration validity(milliseconds lease) const noexcept = 0;
  /// The place is about to be destroyed.
  virtual void dismiss(place&) noexcept {}

  /// Only where `inspection` is offered. Ends in its on_admin_answered, perhaps before this returns.
  virtual void administer(admin_request&, admin_events&, time_point) {}
  /// Nobody wants its answer any more; what it orders may be carried out all the same.
  virtual void withdraw(admin_request&) noexcept {}
  /// The admin_request's timer has fired.
  virtual void admin_due(admin_request&, time_point) {}

  /// Adds what it knows: what is still to be carried out, and of each server.
  virtual void report(statistics& to) const = 0;
  /// Nothing that matters is owed to a server.
  virtual bool settled() const noexcept = 0;
  /// Counts what servers have carried out: they are getting on.
  virtual std::uint64_t progress() const noexcept = 0;
  /// The client is about to close: forgets what is done for others, and ends the admin_requests.
  virtual void prepare_close(time_point now) = 0;
};

inline place::place(std::string_view lock_name) noexcept
    : name{lock_name}, check{this, [](void* self, time_point now) {
                               auto& s = *static_cast<place*>(self);
                               s.keeper->check(s, now);
                             }} {}

/// What the cohort is told.
class backend_events {
 public:
  virtual void granted(place& s, bool pushed, time_point now) = 0;
  virtual void busy(place& s, time_point now) = 0;
  /// In line now, or still; for a vote `seen` says behind whom.
  virtual void queued(place&, time_point) {}
  virtual void left(place& s, time_point now) = 0;
  virtual void failed(place& s, error_code why, time_point now) = 0;
  virtual void extended(place& s, time_point now) = 0;
  virtual void renewal_failed(place& s, time_point now) = 0;
  virtual void lost(place& s, time_point now) = 0;
  virtual void released(receipt& r, bool was_mine, error_code why, time_point now) = 0;
  /// Nothing refers to this idle place any more.
  virtual void settled(place& s) = 0;
  /// The connection has come or gone.
  virtual void connection_changed(time_point) {}
  /// There is a server, and it will not have us.
  virtual void connection_refused(error_code, time_point) {}
  virtual place* find(std::string_view name) = 0;
  virtual place& find_or_make(std::string_view name) = 0;
  /// For a grant of a lock with several owners that nobody wants any more.
  virtual place& make_permit_place(std::string_view name, permit const&) { return find_or_make(name); }

 protected:
  ~backend_events() = default;
};

/// As it goes over the wire.
inline milliseconds whole_ms(duration d) { return std::chrono::duration_cast<milliseconds>(d); }

/// Equal to boost::asio::error::operation_aborted, which this room does not know.
inline error_code cancelled() { return {ECANCELED, boost::system::system_category()}; }

}  // namespace conch::engine
