// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/reprieve.hpp"
#include "base/timer_queue.hpp"
#include "base/usual_time.hpp"
#include "servers/zookeeper/own_nodes.hpp"
#include "servers/zookeeper/proofs.hpp"
#include "servers/zookeeper/wire.hpp"

#include <conch/config.hpp>
#include <conch/error.hpp>
#include <conch/stats.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace conch::zookeeper {

/// What the session reports to its user.
class session_events {
 public:
  /// A connection is there and ready. All that was asked on earlier ones is not answered any more.
  virtual void opened(time_point now) = 0;
  /// The connection has ended. The session may continue.
  virtual void interrupted(time_point now) = 0;
  /// The session has ended, and with it every node that was created in it. Another one follows.
  virtual void ended(time_point now) = 0;
  /// The deadline has moved on.
  virtual void proved(time_point now) = 0;
  /// The answer to the oldest request that was given to send() on this connection.
  virtual void answered(reply const& r, time_point now) = 0;
  virtual void noticed(notice const& n, time_point now) = 0;
  /// The servers are there, and refuse this client.
  virtual void refused(error_code why, time_point now) = 0;

 protected:
  ~session_events() = default;
};

/// The shortest session that is of use. On a reconnect the newest proof may be a margin and a sixth of the session old,
/// and the new connection proves nothing before another margin: what is left of four is for finding a server, and for
/// telling the holder in time.
duration least_session(config const& settings) noexcept;

/// A session with an ensemble, over one connection after another: to whichever server is there. It keeps
/// the session alive, and knows until when it lasts. No I/O, no clock.
///
/// The deadline. An answered ping proves nothing: a follower that is cut off from the leader answers pings while the
/// leader ends the session. A follower tells the leader which sessions it has heard from only in its answer to the
/// leader's own ping, each half tick; a write that it passes on is not such a word. So a message m that was answered,
/// and a write that was sent on the same connection at least `session_margin` later and was committed, prove together
/// that the leader has received m (proofs): the session lasts until sent(m) + timeout. docs/design/zookeeper.md has the
/// sources.
class session final : public wire_events {
 public:
  /// All outlive this. `root`: the folder of the locks. `secret`: "user:password"; then the nodes are for that user
  /// only.
  session(config const& settings, std::string const& root, std::string const& secret, timer_queue& timers, wire& out,
          session_events& up, statistics& stats);
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  /// Makes a connection if there is none, and keeps one from then on.
  void want(time_point now);
  /// A connection is there and ready.
  bool is_open() const noexcept { return state_ == state::open; }
  /// Only while open.
  void send(request const& r, time_point now);
  /// A request got an answer that is invalid on this connection.
  void drop(std::string_view why, time_point now) { drop(why, ending::of_no_use, now); }

  /// Nothing that was made in this session ends before this time, unless this client ends it.
  time_point deadline() const noexcept { return deadline_; }
  /// Does anything depend on the deadline? Without it there are no writes.
  void need_deadline(time_point now);
  void need_no_deadline() noexcept { needed_ = false; }
  /// A proof is wanted earlier than the next heartbeat would give it.
  void prove_soon(time_point now);

  std::int64_t id() const noexcept { return id_; }
  /// When the servers end the session if they receive nothing from it, without the delay after a loss for which they
  /// keep it. Until there is one: what will be asked for, which is config::lease, or more if that is too short for a
  /// proof on each of two connections (least_session).
  duration timeout() const noexcept { return timeout_; }
  own_nodes const& nodes() const noexcept { return nodes_; }
  /// What this client tells others about itself, from now on.
  void introduce(std::string_view text, time_point now);
  /// The server of the connection, in words.
  std::string server() const { return out_.shown(); }
  /// Why there is no connection; empty: none has been tried yet.
  std::string const& trouble() const noexcept { return trouble_; }
  /// What the attempt that is under way waits for. Empty: there is none.
  std::string unfinished_attempt() const { return out_.unfinished_attempt(); }
  /// Why it is not open: one of the two, or that there is nothing yet.
  std::string why_not_open() const;
  /// Why the server cannot be used at this moment: it has been silent for longer than usual. Empty: it answers, or
  /// there is no connection.
  std::string silence(time_point now) const;
  duration answers_usually_within() const noexcept { return usual_.soon(); }
  /// What ends the session at the servers, when the client is gone. The connection must be closed after it.
  void close();
  /// The session ends by itself.
  void abandon();

  // wire_events
  void connected(time_point now) override;
  void greeted(connect_response const& c, time_point now) override;
  void answered(reply const& r, time_point now) override;
  void answered_ping(std::int64_t zxid, time_point now) override;
  void noticed(notice const& n, time_point now) override;
  void disconnected(fault what, std::string_view why, time_point now) override;

 private:
  enum class state : std::uint8_t { idle, away, greeting, settling, open, closed };
  struct unanswered {
    std::optional<own_nodes::step> of;  // none: a request of the user
    time_point written;
    time_point proves;  // a success proves that the leader has received what was sent then; min(): nothing
  };
  bool has_connection() const noexcept {
    return state_ == state::greeting || state_ == state::settling || state_ == state::open;
  }
  void drop(std::string_view why, ending how, time_point now);
  bool is_of_use(time_point now);
  void lost(std::string_view why, time_point now);
  void write(std::optional<own_nodes::step> of, request const& r, time_point now);
  void ask(own_nodes::question const& q, time_point now) { write(q.of, q.what, now); }
  void settle(own_nodes::step of, reply const& r, time_point now);
  void open(time_point now);
  void refuse(errc what, std::string_view why, time_point now);
  void refused(own_nodes::step of, status what, time_point now);
  void sampled(time_point sent, time_point now);
  void prove(time_point sent, time_point now);
  void beat(time_point now);
  void ping_now(time_point now);
  void prove_when_possible(time_point now);
  void proof_due(time_point now);
  void answer_overdue(time_point now);
  duration asked_timeout() const;
  duration kept_for() const { return timeout_ + settings_.lock_delay; }
  duration beat_every() const { return timeout_ / 6; }
  duration answer_within() const;
  void watch_answers(time_point now);

  config const& settings_;
  timer_queue& timers_;
  wire& out_;
  session_events& up_;
  statistics& stats_;

  state state_ = state::idle;
  timer beat_, proof_, overdue_;
  std::string trouble_;

  // The session.
  std::int64_t id_ = 0;
  std::string password_;
  duration timeout_;
  time_point deadline_ = time_point::min();
  std::int64_t last_seen_ = 0;
  own_nodes nodes_;
  bool needed_ = false;
  bool unheard_ = false;   // the last greeting was answered by the end of the connection
  bool inquires_ = false;  // this one asks only whether there is the session still
  time_point inquired_{};  // not again before

  // The connection.
  time_point greeted_at_{};
  std::deque<unanswered> unanswered_;
  std::deque<time_point> pings_;  // sent and not answered
  reprieve reprieve_;
  proofs proofs_;
  time_point last_ping_{};
  time_point last_answer_ = time_point::min();
  usual_time usual_;
};

}  // namespace conch::zookeeper
