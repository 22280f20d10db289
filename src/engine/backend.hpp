// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/failure.hpp"
#include "base/states.hpp"
#include "base/timer_queue.hpp"
#include "engine/admin_request.hpp"
#include "engine/grant_id.hpp"
#include "engine/permit.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>
#include <conch/observer.hpp>
#include <conch/stats.hpp>

#include <boost/system/system_category.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// The port between the cohort, which keeps the waiters and the holders of this process, and the servers.
namespace conch::engine {

using std::chrono::milliseconds;

/// A fencing token is the server part of a fence times this number, plus the index of the local hand-off.
constexpr std::int64_t hand_offs_per_grant = 4096;

enum class place_state : std::uint8_t {
  idle,     // the server has nothing of it, except what a clean-up ends
  asking,   // the request is not answered, or is not sent because there is no connection
  in_line,  // is in the server's queue
  leaving,  // leaves the line unless it was granted meanwhile; not answered yet
  owned,    // granted, as far as the server has reported
};

/// The one place of a client at a lock: in line for it, or owning it. The cohort and its backend share it. The backend
/// makes it, and adds what its protocol needs. The backend only reads the fields marked "set by the cohort".
struct place {
  /// `lock_name` must outlive the place.
  place(std::string_view lock_name, engine::permit const& share) : name{lock_name}, permit{share} {}
  place(place const&) = delete;
  place& operator=(place const&) = delete;
  virtual ~place() = default;

  std::string_view const name;
  engine::permit const permit;  // of a lock with several owners
  place_state state = place_state::idle;
  bool wait = true;
  bool written = false;                        // the request may have reached a server
  bool confirmed = false;                      // owned: granted for the full lease, not just for the claim
  bool renewable = false;                      // set by the cohort: the grant may still be renewed ...
  time_point renew_until = time_point::max();  // ... before this time
  // the lease that is asked for; owned: the lease of the next renewal, set by the cohort
  milliseconds lease{};
  // set by the cohort: a server keeps a grant for this time at the least, counted from the grant; 0: for the lease
  milliseconds at_least{};
  // set by the cohort, owned: given back before this time, the server keeps the grant until then; min(): it does not
  time_point kept_until = time_point::min();
  time_point deadline{};    // owned: the grant is not valid after this time
  time_point valid_from{};  // owned: the validity that ends at the deadline counts from here
  std::int64_t fence = 0;   // owned: the server's part of the fence
  // owned: what the server chose: the segment, or how many permits where all that were free were asked for; else 0
  std::uint32_t chosen = 0;
  time_point heard_from{};  // owned: when the request whose answer last confirmed it was written
  // takes over what that grant, "CLIENT.N FENCE", has left; empty: asks for the lock
  std::string origin;
  // references from the backend; the cohort may destroy the place only when there are none
  std::uint32_t references = 0;
  void* owner = nullptr;  // belongs to the receiver of the events

  bool may_renew(time_point now) const noexcept { return renewable && now < renew_until; }
};

/// The states that may follow each state of a place. A place starts by asking; an owned place can only become idle.
constexpr state_table<place_state, 5> place_states{{
    {place_state::idle, any_of(place_state::asking)},
    {place_state::asking, any_of(place_state::in_line, place_state::leaving, place_state::owned, place_state::idle)},
    {place_state::in_line, any_of(place_state::in_line, place_state::leaving, place_state::owned, place_state::idle)},
    {place_state::leaving, any_of(place_state::owned, place_state::idle)},
    {place_state::owned, any_of(place_state::idle)},
}};

/// The only way to change the state of a place.
inline void enter(place& p, place_state to) {
  BOOST_ASSERT_MSG(place_states.allows(p.state, to), "a place goes from one state to another that does not follow it");
  p.state = to;
}

struct receipt;

/// What a backend carries out for a caller derives from this.
struct awaited {
  receipt* caller = nullptr;  // none: no caller waits for it
};

/// The caller that waits for the end of a clean-up derives from this.
struct receipt {
  awaited* pending = nullptr;
};

/// `caller`: none, if no caller waits.
inline void wait_for(awaited& what, receipt* caller) noexcept {
  what.caller = caller;
  if (caller != nullptr) caller->pending = &what;
}

/// The caller does not wait any more.
inline void forget(receipt& r) noexcept {
  if (r.pending != nullptr) r.pending->caller = nullptr;
  r.pending = nullptr;
}

/// What a backend offers beyond a lock with one owner.
struct capabilities {
  bool several_owners = false;  // semaphores, readers and writers, a reentrant lock
  bool segments = false;        // ... and striped locks
  bool all_free = false;        // ... and all that is free of a semaphore
  bool inspection = false;      // questions and orders (admin_request)
  bool wait_chains = false;     // ... also about tasks: who waits for whom
  bool adoption = false;        // a hold may leave this client, and another client may take it over
  bool intervals = false;       // a minimum interval between grants of a mutex
  // in the error where something is not offered: the name that its users know, "zookeeper://" ...
  std::string_view where{};
  std::string_view instead{};  // ... and the advice

  bool has(permit const& p) const noexcept {
    return !p || (several_owners && (segments || p.kind != permit_kind::segments) && (all_free || !p.all_free));
  }
};

/// errc::not_supported, which names what is not offered.
error_code not_offered(capabilities const& of, std::string_view feature);
error_code not_offered(capabilities const& of, permit const& p);
error_code not_offered(capabilities const& of, order const& o);

/// What the cohort asks of the servers. A request that fails has already arranged its own clean-up.
class backend {
 public:
  virtual ~backend() = default;

  virtual capabilities offers() const noexcept = 0;
  /// Makes an idle place. `name` and the backend must outlive it.
  virtual std::unique_ptr<place> make_place(std::string_view name, permit const& share) = 0;
  /// Asks for the lock; the place must be idle. Ends in granted, busy (without `wait`) or failed.
  virtual void ask(place& p, bool wait, milliseconds lease, time_point now) = 0;
  /// From here to send_gathered the backend may hold back requests that do not wait, to send them together.
  virtual void gather() {}
  virtual void send_gathered(time_point) {}
  /// Leaves the line unless the lock was granted; the place must be asking or in_line. Ends in granted or left.
  virtual void leave_unless_granted(place& p, time_point now) = 0;
  /// Gives up a place that is asking, in_line or leaving; it is idle at once. Ends in released for `r`, if there is
  /// one. The caller checks whether the place is still needed.
  virtual void give_up(place& p, receipt* r, time_point now) = 0;
  /// Gives an owned lock back, and asks for it again if `again` holds a lease. Ends in released for `r`, also if the
  /// server keeps the grant until place::kept_until.
  virtual void release(place& p, std::optional<milliseconds> again, receipt* r, time_point now) = 0;
  /// Forgets an owned place without giving it back: another client may take the grant over, or the server keeps it for
  /// config::lock_delay after a loss. The place is idle at once. The caller checks whether the place is still needed.
  virtual void detach(place&, time_point) {}
  /// Renews the places that are owned and renewable. Each ends in extended, lost or renewal_failed.
  virtual void renew(std::span<place* const> places, time_point now) = 0;
  /// Has the server of this place so little to do that a hold which is not one of the first may be renewed?
  virtual bool has_room_for_renewal(place const&) const noexcept { return true; }
  /// The answer is not late before this time: the server may still be answering what was written earlier.
  virtual time_point late_after(receipt const& r) const = 0;
  virtual bool connected() const noexcept = 0;
  /// The error of a wait for this place that has timed out: errc::timed_out; or errc::unreachable, with the reason, if
  /// the server has been silent for longer than is usual, or if there is no connection.
  virtual error_code too_late(place const&, time_point now) const = 0;
  /// How long to wait for an answer under way when the wait for this place has ended (usual_time::soon).
  virtual duration answers_within(place const&) const noexcept = 0;
  /// The error of a release that got no answer in time, whose name the caller does not have any more: what the server
  /// answered to it, if it has refused it so far.
  virtual error_code why_not_done(receipt const&) const { return no_answer(); }
  /// The error of anything else that got no answer in time: errc::unreachable, with the reason.
  virtual error_code no_answer() const { return make_error_code(errc::unreachable); }
  /// Why an owned place could not be renewed in time, as text; empty: unknown, or nothing prevented it.
  virtual std::string why_not_renewed(place const&, time_point) const {
    return connected() ? std::string{} : cause_of(no_answer());
  }
  /// How long a grant of that lease is valid, counted from place::valid_from.
  virtual duration validity(milliseconds lease) const noexcept = 0;

  /// From now on requested is called if another client asks the owner of this place to let go. The place must be owned.
  virtual void watch_requests(place&, time_point) {}

  /// From now on the servers keep this text about the client or the task of that id, for as long as this client lives
  /// and once it is connected. Empty: nothing.
  virtual void introduce(std::string_view /*id*/, std::string_view /*text*/, time_point) {}

  /// Sends a question or an order; only where `inspection` is offered. Ends in on_admin_answered, perhaps before this
  /// returns.
  virtual void administer(admin_request&, admin_events&, time_point) {}
  /// The answer is no longer wanted. The server may still carry out the order.
  virtual void withdraw(admin_request&) noexcept {}
  /// The timer of the admin_request has fired.
  virtual void admin_due(admin_request&, time_point) {}

  /// Adds what the backend knows: the clean-ups that are still to be carried out, and the state of each server.
  virtual void report(statistics& to) const = 0;
  /// True if no server still has to carry out anything that matters.
  virtual bool settled() const noexcept = 0;
  /// Counts what the servers have carried out. A growing count shows that they make progress.
  virtual std::uint64_t progress() const noexcept = 0;
  /// The client is about to close: drops the work that is done for other clients, and ends the admin_requests.
  virtual void prepare_close(time_point now) = 0;
  /// The client is closed: the connections end behind what is sent now.
  virtual void closed() {}

  /// The id under which the server keeps the grant of an owned place. 0: no single server does.
  virtual grant_id grant_of(place const&) const noexcept { return 0; }
};

/// What the backend reports to the cohort.
class backend_events {
 public:
  virtual void granted(place& p, bool pushed, time_point now) = 0;
  virtual void busy(place& p, time_point now) = 0;
  /// The place is in line, or is still in line.
  virtual void queued(place&, time_point) {}
  /// A place that asks, or is in line, was asked for once more.
  virtual void asked_again(place&, retry_reason, time_point) {}
  virtual void left(place& p, time_point now) = 0;
  virtual void failed(place& p, error_code why, time_point now) = 0;
  /// As `failed`, for a reason that is only of the one attempt that was asked for: others that wait wait on.
  virtual void attempt_failed(place& p, error_code why, time_point now) { failed(p, why, now); }
  virtual void extended(place& p, time_point now) = 0;
  virtual void renewal_failed(place& p, time_point now) = 0;
  virtual void lost(place& p, time_point now) = 0;
  /// Another client asks for the lock.
  virtual void requested(place&, time_point) {}
  virtual void released(receipt& r, bool was_mine, error_code why, time_point now) = 0;
  /// Nothing refers to this idle place any more.
  virtual void settled(place& p) = 0;
  /// A connection was made, or has ended.
  virtual void connection_changed(time_point) {}
  /// A server is there, and refuses this client.
  virtual void connection_refused(error_code, time_point) {}
  virtual place* find(std::string_view name) = 0;
  virtual place& find_or_make(std::string_view name) = 0;
  /// Makes a place of a lock with several owners for the backend's own work: to give back a stray grant, or to check on
  /// the result of an order.
  virtual place& make_permit_place(std::string_view name, permit const&) { return find_or_make(name); }

 protected:
  ~backend_events() = default;
};

/// Durations go over the wire in whole milliseconds.
inline milliseconds whole_ms(duration d) { return std::chrono::duration_cast<milliseconds>(d); }

/// Equal to boost::asio::error::operation_aborted, which this room does not know.
inline error_code cancelled() { return {ECANCELED, boost::system::system_category()}; }

}  // namespace conch::engine
