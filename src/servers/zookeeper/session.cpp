// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/session.hpp"

#include "base/duration_text.hpp"
#include "base/readable.hpp"
#include "engine/backend.hpp"
#include "protocol/drift.hpp"
#include "protocol/wire.hpp"
#include "servers/zookeeper/faults.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace conch::zookeeper {

duration least_session(config const& settings) noexcept { return 4 * settings.zookeeper.session_margin; }

session::session(config const& settings, std::string const& root, std::string const& secret, timer_queue& timers,
                 wire& out, session_events& up, statistics& stats)
    : settings_{settings},
      timers_{timers},
      out_{out},
      up_{up},
      stats_{stats},
      beat_{this, call<&session::beat>, timer::rank::first},
      proof_{this, call<&session::proof_due>, timer::rank::first},
      overdue_{this, call<&session::answer_overdue>},
      timeout_{asked_timeout()},
      nodes_{root, secret},
      proofs_{settings.zookeeper.session_margin} {}

// ---------------------------------------------------------------------------------------------- the connection

void session::want(time_point now) {
  if (state_ != state::idle) return;
  state_ = state::away;
  out_.want(timeout_, now);
}

void session::connected(time_point now) {
  if (state_ != state::away) return;
  state_ = state::greeting;
  greeted_at_ = last_answer_ = now;
  // A server that is behind what this client has seen closes the connection, as does one without its quorum. Servers
  // that were built anew are behind for good. With nothing left to lose by it, they are asked for the session as if
  // nothing had been seen, to learn that it has ended. A new session is a transaction: a server that gives one has all
  // before it.
  inquires_ = id_ != 0 && std::exchange(unheard_, false) && now >= std::max(deadline_, inquired_);
  out_.greet({id_ == 0 || inquires_ ? 0 : last_seen_,
              static_cast<std::int32_t>(engine::whole_ms(asked_timeout() + settings_.lock_delay).count()), id_,
              password_});
}

void session::greeted(connect_response const& c, time_point now) {
  if (state_ != state::greeting) return;
  if (c.timeout_ms <= 0 || c.session == 0) {
    if (std::exchange(id_, 0) == 0) return drop("the server granted no session", now);
    password_.clear();
    last_seen_ = 0;
    deadline_ = time_point::min();
    up_.ended(now);
    return drop("the session has ended", ending::over, now);
  }
  if (inquires_) {
    // That was a message of the session: it ends at servers with an old state only if it is left alone.
    inquired_ = now + 2 * kept_for();
    return drop("the server may be behind what this client has seen", now);
  }
  bool const is_new = id_ != c.session;
  id_ = c.session;
  password_ = c.password;
  timeout_ = engine::milliseconds{c.timeout_ms} - settings_.lock_delay;
  if (!is_of_use(now)) return;
  if (is_new && timeout_ < asked_timeout()) {
    out_.log({log_level::info, out_.shown() + ": the servers give a session of " + ms_text(timeout_) + " instead of " +
                                   ms_text(asked_timeout()) + " (maxSessionTimeout): no lease is longer than that"});
  }
  sampled(greeted_at_, now);
  // A new session is a transaction. That an old one continues may come from a leader that has been cut off, and does
  // not know it yet.
  if (is_new) prove(greeted_at_, now);
  state_ = state::settling;
  ask(nodes_.begin(id_), now);
}

/// A session so short that each reconnect costs the holds is refused at once, as is one that has no room for the delay.
bool session::is_of_use(time_point now) {
  if (settings_.lock_delay > duration::zero() && timeout_ < asked_timeout()) {
    refuse(errc::invalid_config,
           "the servers end a session after " + ms_text(kept_for()) + ", and lease and lock_delay together need " +
               ms_text(asked_timeout() + settings_.lock_delay) +
               ": raise maxSessionTimeout at the servers, or lower config::lock_delay",
           now);
    return false;
  }
  if (timeout_ >= least_session(settings_)) return true;
  refuse(
      errc::invalid_config,
      "the servers end a session after " + ms_text(timeout_) + ", and with a zookeeper.session_margin of " +
          ms_text(settings_.zookeeper.session_margin) + " it needs " + ms_text(least_session(settings_)) +
          ": raise maxSessionTimeout at the servers, or set zookeeper.session_margin to their tickTime if that is less",
      now);
  return false;
}

void session::disconnected(fault what, std::string_view why, time_point now) {
  if (state_ == state::closed || state_ == state::idle) return;
  lost(why, now);
  if (is_final(what)) up_.refused(to_error(what, trouble_), now);
}

void session::drop(std::string_view why, ending how, time_point now) {
  if (!has_connection()) return;
  out_.drop(why, how, now);
  lost(why, now);
}

void session::refuse(errc what, std::string_view why, time_point now) {
  out_.drop(why, ending::refused, now);
  lost(why, now);
  up_.refused(make_error_code(what, trouble_), now);
}

/// The connection has ended, or the attempt to make one. Another attempt follows.
void session::lost(std::string_view why, time_point now) {
  bool const was_open = state_ == state::open;
  unheard_ = state_ == state::greeting && !inquires_;
  trouble_ = out_.shown() + ": " + std::string{why};
  unanswered_.clear();
  pings_.clear();
  proofs_.forget();
  beat_.cancel();
  proof_.cancel();
  overdue_.cancel();
  if (was_open) ++stats_.disconnects;
  state_ = state::away;
  if (was_open) up_.interrupted(now);
}

void session::close() {
  if (state_ == state::open || state_ == state::settling) out_.send(close_session{});
  abandon();
}

void session::abandon() {
  state_ = state::closed;
  beat_.cancel();
  proof_.cancel();
  overdue_.cancel();
}

// ------------------------------------------------------------------------------------ the nodes of every client

void session::settle(own_nodes::step of, reply const& r, time_point now) {
  using action = own_nodes::outcome::action;
  own_nodes::outcome const found = nodes_.answered(of, r);
  if (found.then == action::refuse) return refuse(errc::access_denied, found.words, now);
  if (!found.words.empty()) out_.log({log_level::warning, out_.shown() + ": " + found.words});
  switch (found.then) {
    case action::ask: return ask(found.next, now);
    case action::open: return open(now);
    case action::drop: return drop("an answer of the wrong kind", now);
    case action::consult: return refused(of, r.what, now);
    default: return;
  }
}

/// What every client needs is refused: that changes by itself, or no lock can be acquired.
void session::refused(own_nodes::step of, status what, time_point now) {
  refusal const row = refusal_of(what);
  std::string const words = words_of(what, nodes_.shown(of));
  row.then == remedy::none ? refuse(row.error, words, now) : drop(words, now);
}

void session::open(time_point now) {
  state_ = state::open;
  ++stats_.connects;
  out_.in_use(timeout_, now);
  timers_.arm(beat_, now + beat_every());
  prove_when_possible(now);
  up_.opened(now);
}

// ------------------------------------------------------------------------------------------ requests and answers

void session::send(request const& r, time_point now) { write({}, r, now); }

void session::write(std::optional<own_nodes::step> of, request const& r, time_point now) {
  time_point const proves = is_write(r) ? proofs_.written(now) : time_point::min();
  unanswered_.push_back({of, now, proves});
  out_.send(r);
  watch_answers(now);
}

void session::answered(reply const& r, time_point now) {
  if (state_ != state::settling && state_ != state::open) return;
  if (unanswered_.empty()) return drop("an unexpected answer", now);
  last_seen_ = std::max(last_seen_, r.zxid);
  if (refusal const row = refusal_of(r.what); row.then == remedy::reconnect) return drop(row.words, now);
  unanswered const one = unanswered_.front();
  unanswered_.pop_front();
  usual_.sample(now - one.written);
  last_answer_ = now;
  if (r.what == status::ok && one.proves != time_point::min()) prove(one.proves, now);
  if (one.of) settle(*one.of, r, now);
  else up_.answered(r, now);
}

void session::noticed(notice const& n, time_point now) {
  if (state_ == state::open && n.what != notice::event::none) up_.noticed(n, now);
}

/// A hold outlives a server that freezes: what was proved last is a sixth of the session and a margin old, and the next
/// server proves nothing before another margin.
duration session::answer_within() const { return std::min<duration>(settings_.command_timeout, timeout_ / 4); }

void session::watch_answers(time_point now) {
  if (!overdue_.armed()) timers_.arm(overdue_, now + answer_within());
}

/// It counts from the last answer: a request queued behind many others of this client is not late for that.
std::string session::silence(time_point now) const {
  time_point oldest = time_point::max();
  if (!unanswered_.empty()) oldest = unanswered_.front().written;
  if (!pings_.empty()) oldest = std::min(oldest, pings_.front());
  if (state_ != state::open || oldest == time_point::max()) return {};
  duration const silent = now - std::max(oldest, last_answer_);
  if (silent < usual_.soon()) return {};
  return "the server has not answered for " + ms_text(silent);
}

/// A busy server comes late to what was asked last. So the time counts from when a request became the oldest that is
/// not answered.
void session::answer_overdue(time_point now) {
  time_point oldest = time_point::max();
  if (!unanswered_.empty()) oldest = unanswered_.front().written;
  if (!pings_.empty()) oldest = std::min(oldest, pings_.front());
  if (oldest == time_point::max()) return;
  oldest = std::max(oldest, last_answer_);
  if (now < oldest + answer_within()) {
    timers_.arm(overdue_, oldest + answer_within());
  } else if (auto const until = reprieve_.grant_connection(overdue_.at(), answer_within(), now)) {
    timers_.arm(overdue_, *until);
  } else {
    drop("no answer for " + ms_text(now - oldest), ending::silent, now);
  }
}

// ------------------------------------------------------------------------------------------------- the deadline

duration session::asked_timeout() const { return std::max(settings_.lease, least_session(settings_)); }

/// A message that was sent at `sent` is answered now.
void session::sampled(time_point sent, time_point now) {
  proofs_.answered(sent, now);
  reprieve_.reset();
}

void session::prove(time_point sent, time_point now) {
  time_point const until = sent + protocol::good_for(engine::whole_ms(timeout_));
  if (until <= deadline_) return;
  deadline_ = until;
  if (state_ == state::open) up_.proved(now);
}

void session::need_deadline(time_point now) {
  if (std::exchange(needed_, true)) return;
  if (state_ == state::open) prove_when_possible(now);
}

/// The next write for the deadline: as soon as it can prove something new.
void session::prove_when_possible(time_point now) {
  if (!needed_ || proof_.armed()) return;
  if (auto const next = proofs_.next_use(now)) timers_.arm(proof_, *next);
}

void session::proof_due(time_point now) {
  if (state_ != state::open || !needed_) return;
  // The requests of the locks may have done it meanwhile.
  if (proofs_.is_write_of_use(now)) ask(nodes_.beat(), now);
  prove_when_possible(now);
}

void session::introduce(std::string_view text, time_point now) {
  nodes_.introduce(text);
  if (is_open()) ask(nodes_.beat(), now);
}

void session::beat(time_point now) {
  ping_now(now);
  timers_.arm(beat_, now + beat_every());
}

void session::prove_soon(time_point now) {
  if (state_ == state::open && now - last_ping_ >= timeout_ / 64) ping_now(now);
}

void session::ping_now(time_point now) {
  if (state_ != state::open || !pings_.empty()) return;
  last_ping_ = now;
  pings_.push_back(now);
  out_.send(ping{});
  watch_answers(now);
}

void session::answered_ping(std::int64_t zxid, time_point now) {
  if (state_ != state::open) return;
  if (pings_.empty()) return drop("an answer to a ping that was not sent", now);
  last_seen_ = std::max(last_seen_, zxid);
  time_point const sent = pings_.front();
  pings_.pop_front();
  last_answer_ = now;
  sampled(sent, now);
  prove_when_possible(now);
}

std::string session::why_not_open() const {
  if (!trouble().empty()) return trouble();
  std::string const attempt = unfinished_attempt();
  return attempt.empty() ? "there is no connection yet" : attempt;
}

}  // namespace conch::zookeeper
