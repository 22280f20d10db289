// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/fifo.hpp"
#include "base/reprieve.hpp"
#include "base/usual_time.hpp"
#include "protocol/request_window.hpp"
#include "protocol/server/environment.hpp"
#include "protocol/server/keep_alive.hpp"
#include "protocol/server/server_link.hpp"
#include "protocol/wire.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace conch::protocol {

using namespace engine;

class my_slots;
struct cleanup;
struct server_place;

enum class request_kind : std::uint8_t {
  acquire,
  acquire_all,
  leave,
  cleanup,
  renew,
  confirm,
  admin_request,
  introduce,
  requested,
  watch,
  kill,
  subscribe,
  prove_publish,
  asking,
  ping
};

/// A server may know some of these scripts and not others.
enum class script_kind : std::uint8_t {
  none,
  acquire,
  permit_acquire,
  adopt,
  permit_adopt,
  acquire_all,
  release,
  release_later,
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

/// A request that was written and is not answered.
struct in_flight {
  request_kind what;
  grant_id id;
  grant_id new_id;
  protocol::server_place* place;
  cleanup* of_cleanup;
  time_point written;
  milliseconds lease{};       // as asked for; the place may want another lease when the answer comes
  std::int64_t proposal = 0;  // of a vote, as asked for
  std::uint64_t serial = 0;   // of an admin_request
  script_kind of = script_kind::none;
  std::uint64_t number = 0;  // counts the requests of a connection
  bool moved = false;        // its place has gone to another server since: it is asked for there
  std::uint32_t size = 0;    // for how many locks, of those that wait for room; 0: waits for none
  std::size_t together = 0;  // how many were in flight with it, itself included (request_window)
};

/// A lock of a script that tries several.
struct tried {
  protocol::server_place* place;
  grant_id id;
  milliseconds lease;
  bool moved = false;  // as in_flight::moved
};

/// For each acquire_all in flight: the locks that it tries, and those to try if it takes all of them.
struct try_batch {
  std::vector<tried> in_script, later;
};

/// A hold of a script that renews several.
struct renewed {
  protocol::server_place* place;
  grant_id id;  // 0: the place has gone to another server since
  milliseconds lease;
  std::int64_t floor;
  bool keeps_fence;
};

/// How renewals are sent.
struct renewal_mode {
  bool with_source = false;
  bool asking = false;  // of places of another server
  bool alone = false;   // each lock in a script of its own, and without its fence
};

struct renewal_batch {
  std::vector<renewed> places;
  time_point written;
  duration answer_within;
  renewal_mode mode{};
};

/// What was written on this connection and is not answered, when an answer is overdue, and which scripts the server
/// knows. Each request is a reference to its place until it is answered.
class requests {
 public:
  requests(environment const& env, wire& out, server_link& link);

  // The connection.
  void begin(session const& s, time_point now);
  /// From now on a silent connection is pinged.
  void watch_for_quiet(time_point now);
  /// The connection is about to end.
  void end(time_point now);
  struct unanswered {
    fifo<in_flight> all;
    std::deque<renewal_batch> renewals;
    std::deque<try_batch> tries;
  };
  /// They are not answered any more.
  unanswered take_all();

  void send(command const& c, in_flight const& r);
  void send_tries(command const& c, in_flight r, try_batch batch);
  void send_renewals(command const& c, in_flight r, renewal_batch batch);

  /// Something was pushed.
  void note_answer(time_point now) noexcept { last_heard_ = now; }
  /// The request that is answered now; there is one. `others_wait`: for room.
  in_flight take(fault what, bool others_wait, time_point now);
  try_batch take_tries();
  /// The renewals that `r` asked for.
  renewal_batch take_renewals(in_flight const& r, time_point now);
  /// The server does not know the script of a request: is the source to be sent?
  bool source_is_due(in_flight const& r);

  bool empty() const noexcept { return in_flight_.empty(); }
  /// Is another request for the place under that id still under way? The answer in hand and the caller have one
  /// reference each.
  bool is_under_way(server_place const& p, grant_id id) const;
  /// For places that go to other servers: the answers are read only for the clock.
  void mark_moved(my_slots const& mine);

  request_window& window() noexcept { return window_; }
  request_window const& window() const noexcept { return window_; }
  time_point last_heard() const noexcept { return last_heard_; }
  time_point last_answer() const noexcept { return last_answer_; }
  /// The smoothed time from a command to its answer; zero: not known yet.
  duration round_trip() const noexcept { return round_trip_; }
  /// How long an answer takes at most, as a rule.
  duration answers_within() const noexcept { return usual_.soon(); }
  /// Why the server cannot be used at this moment: it has been silent for longer than usual. Empty: it answers, or
  /// there is no connection.
  std::string silence(time_point now) const;
  /// Counts the requests that the server has carried out, or can when it has the script's source.
  std::uint64_t progress() const noexcept { return progress_; }

 private:
  void note(in_flight const& written);
  static script_kind script_of(in_flight const& r);
  time_point answer_due() const;
  void overdue(time_point now);
  void quiet(time_point now);

  environment const& env_;
  wire& out_;
  server_link& link_;
  fifo<in_flight> in_flight_;
  std::deque<renewal_batch> renewals_;
  std::deque<try_batch> tries_;
  request_window window_;
  std::uint64_t written_ = 0;  // on this connection
  // the number of the request that last carried each source
  std::array<std::uint64_t, static_cast<std::size_t>(script_kind::count)> sources_{};
  time_point last_heard_{};
  time_point last_answer_{};
  reprieve reprieve_;
  duration round_trip_{};
  usual_time usual_;
  keep_alive keep_alive_;
  std::uint64_t progress_ = 0;
  timer overdue_;
  timer quiet_;
};

}  // namespace conch::protocol
