// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/reprieve.hpp"
#include "base/timer_queue.hpp"
#include "base/usual_time.hpp"
#include "protocol/replies.hpp"
#include "protocol/server/keep_alive.hpp"
#include "protocol/server_place.hpp"
#include "protocol/wire.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// A renewal on the sync link.
struct synced_renewal {
  void* whose;  // for the receiver
  protocol::server_place* place;
  grant_id id;
  milliseconds lease{};
  bool keeps_fence = false;  // and prolongs how long the fence is kept
};

/// The second connection to a server: it renews grants, and then waits until replicas have them. While one WAIT blocks
/// the connection, the next batch gathers. No I/O, no clock.
///
/// A batch is the scripts, a mark and one WAIT. The mark is a PUBLISH without subscribers: since 7.2 a WAIT waits for
/// the last command of its connection that was replicated, and a renewal may have had nothing to write. The count that
/// a WAIT answers is one of its own batch: nothing else is written before it has answered.
class sync_link final : public wire_events {
 public:
  struct result {
    renew_reply::kind what = renew_reply::kind::failed;
    // of the script or the WAIT that failed; no_script, try_later, reconnect: to be asked again
    fault why = fault::none;
  };
  struct batch {
    std::vector<synced_renewal> items;
    std::vector<result> results;  // of each item
    time_point written;           // before the scripts were
    std::int64_t replicas = 0;    // how many have acknowledged all of it
    std::string words{};          // of the server, with a fault
  };

  /// The owner of what there is to renew.
  class receiver {
   public:
    /// Is that connection to the server that has granted?
    virtual bool may_use(session const& s) const = 0;
    /// Has that one been made later than this one, at `since`?
    virtual bool is_younger(time_point since) const = 0;
    /// This connection, made at `since`, leads to another one. True: the one that has granted is looked for anew.
    virtual bool follows(time_point since) = 0;
    /// Appends what is to be renewed now. Each of it ends in `synced`.
    virtual void gather(std::vector<synced_renewal>& items, time_point now) = 0;
    virtual void synced(batch const& b, time_point now) = 0;

   protected:
    ~receiver() = default;
  };

  sync_link(config const& settings, timer_queue& timers, wire& out, receiver& up, statistics& stats);

  /// There is something to renew.
  void more(time_point now);
  /// How long it takes as a rule until enough replicas have a batch.
  duration acknowledges_within() const noexcept { return acknowledged_.soon(); }

  // From the wire. Nothing is pushed to this connection: it has no subscription.
  void connected_as(session const& s, time_point now) override;
  void connect_failed(fault what, std::string_view words, time_point now) override;
  void disconnected(std::string_view why, time_point now) override;
  void answered(answer const& a, time_point now) override;
  void pushed(push const&, time_point) override {}

 private:
  struct in_flight {
    enum class kind : std::uint8_t { script, mark, wait, ping } what;
    bool permits = false;
    std::vector<std::size_t> of{};  // script: the items
  };

  void send(time_point now);
  void send_scripts(bool permits, bool keep_fences);
  void script_answer(in_flight const& r, answer const& a);
  void wait_answer(answer const& a, time_point now);
  void fail(answer const& a, std::vector<std::size_t> const& of);
  void end_batch(time_point now);
  void leave_other_server(time_point now);
  void overdue(time_point now);
  void quiet(time_point now);
  duration answer_within() const;

  config const& settings_;
  timer_queue& timers_;
  wire& out_;
  receiver& up_;
  statistics& stats_;

  bool connected_ = false;
  session session_;
  time_point since_{};      // the present connection
  bool notifying_ = false;  // the receiver is being notified
  std::deque<in_flight> in_flight_;
  batch batch_;  // under way, unless it is empty
  std::array<bool, 2> source_due_{};
  std::vector<renewal> scratch_;
  keep_alive keep_alive_{settings_.keep_alive};
  time_point last_heard_{};
  usual_time acknowledged_;
  reprieve reprieve_;
  timer elsewhere_;
  timer overdue_;
  timer quiet_;
};

}  // namespace conch::protocol
