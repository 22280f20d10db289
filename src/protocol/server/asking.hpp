// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/replies.hpp"
#include "protocol/server/cleanups.hpp"
#include "protocol/server/common_parts.hpp"
#include "protocol/server/grant_ids.hpp"
#include "protocol/server/grants.hpp"
#include "protocol/server/holds.hpp"

#include <string>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// A place that asks, waits in the queue or leaves: what is written for it, and what its answers mean.
class asking {
 public:
  asking(common_parts& on, grant_ids& ids, cleanups& pending, holds& held) noexcept
      : on_{on},
        ids_{ids},
        cleanups_{pending},
        held_{held} {}

  // What the caller wants.
  void ask(server_place& p, bool wait, milliseconds lease, time_point now);
  void leave_unless_granted(server_place& p, time_point now);
  void give_up(server_place& p, receipt* r, time_point now);
  void release(server_place& p, std::optional<milliseconds> again, receipt* r, time_point now);
  /// Sends the request of a place that is asking, in line or owned once more. Does nothing if the request is repeated
  /// anyway, because the server answered "later".
  void ask_again(server_place& p, time_point now);

  // What is written. In this order: clean-ups, what asks once more or leaves, what asks for the first time.
  /// May what asks once more, or leaves, be written now?
  bool may_repeat() const noexcept { return cleanups_.may_send() && !on_.all.has_postponed(); }
  /// ... and what asks for the first time?
  bool may_ask(time_point now) const noexcept {
    return may_repeat() && !on_.all.has_resting() && on_.sent.window().may_begin(now);
  }
  /// From here on tries are held back.
  void gather() noexcept { gathering_ = true; }
  std::vector<server_place*> take_gathered() noexcept;
  void send(server_place& p, bool with_source, time_point now);
  /// A request for the place is being written.
  void about_to_send(server_place& p, std::int64_t not_after_us);
  /// For a place that asks, or is in line. What was not written yet is only asked for.
  void ask_once_more(server_place& p, retry_reason why, time_point now);
  void ask_because_of_push(server_place& p, time_point now);
  /// Its slot is no longer subscribed to.
  void ask_unheard(server_place& p, time_point now);
  /// The question because of that, or of a push, is not answered any more.
  void may_ask_again(server_place& p) { p.waiting.asks_again = false; }
  /// Its grant is pushed.
  void pushed(server_place& p) { p.waiting.by_push = true; }
  /// Now, or when there is room.
  void send_leave(server_place& p, time_point now);
  void send_leave(server_place& p, bool with_source, time_point now);

  // What the answers make of it.
  void answered(in_flight const& r, answer const& a, time_point now);
  void leave_answered(in_flight const& r, answer const& a, time_point now);
  void take_result(server_place& p, in_flight const& r, acquire_reply const& reply, time_point now);
  void take_fault(server_place& p, answer const& a, time_point now);
  void take_grant(server_place& p, grant const& g, time_point now);
  void fail(server_place& p, error_code why, time_point now, bool of_one_attempt = false);

  // What time makes of it.
  void due(server_place& p, time_point now);
  /// No connection, or no answer.
  void be_patient(server_place& p, time_point now);
  /// The request that was written then is not answered any more.
  void went_unanswered(server_place& p, grant_id id, time_point written, time_point now);
  /// The lease of the holder ends in `left`.
  void lease_ends_in(server_place& p, milliseconds left, time_point now);
  /// From another server.
  void receive(server_place& p, place_keeper& mine, time_point now);

  /// Why the place has no answer; empty: only because another client has the lock.
  std::string trouble_of(server_place const& p) const;
  /// For a wait that has timed out.
  error_code too_late(server_place const& p, time_point now) const;

 private:
  void stand_again(server_place& p, cleanup& c, milliseconds lease, time_point now);
  void give_back_late(server_place& p, time_point now);
  void refuse_grant(server_place& p, error_code why, time_point now);
  void stand_in_line(server_place& p, std::int64_t left_ms, std::int64_t ticket, time_point now);
  time_point check_after(server_place const& p, milliseconds reported, time_point now);

  common_parts& on_;
  grant_ids& ids_;
  cleanups& cleanups_;
  holds& held_;
  bool gathering_ = false;
  std::vector<server_place*> gathered_;
};

}  // namespace conch::protocol
