// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include "base/readable.hpp"

#include <algorithm>
#include <limits>
#include <utility>

// The connection: what a new one sends first, its clock sample, its end.
namespace conch::protocol {

namespace {

/// The id of no connection: CLIENT KILL then only shows whether it would be allowed.
constexpr std::uint64_t nobody = std::numeric_limits<std::int64_t>::max();

}  // namespace

error_code to_error(fault what, std::string_view words) {
  switch (what) {
    case fault::wrong_type: return make_error_code(errc::wrong_type, words);
    case fault::access_denied: return make_error_code(errc::access_denied, words);
    case fault::refused: return make_error_code(errc::server_refused, words);
    case fault::malformed: return make_error_code(errc::protocol, words);
    case fault::tls_failed: return make_error_code(errc::tls_failed, words);
    case fault::not_supported: return make_error_code(errc::not_supported, words);
    default: return make_error_code(errc::unreachable, words);
  }
}

server::server(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, wire& out, backend_events& up, log_sink& log,
               statistics& stats, of_client* shared)
    : on_{{settings, timers, up, log, stats}, pauses{seed}, server_link{settings, out, log}}, out_{out}, own_{nonces}, client_{shared != nullptr
                                                                                                                                   ? *shared
                                                                                                                                   : own_},
      ids_{client_.ids}, overdue_{this, [](void* self, time_point now) { static_cast<server*>(self)->answer_overdue(now); }},
      rest_{this, [](void* self, time_point now) { static_cast<server*>(self)->go_on(now); }}, quiet_{this, [](void* self, time_point now) {
                                                                                                        static_cast<server*>(self)->quiet(now);
                                                                                                      }} {}

server::~server() {
  pending_cleanups_.splice_back(resting_cleanups_);
  while (!pending_cleanups_.empty()) delete &pending_cleanups_.pop_front();
}

void server::connected_as(session const& s, time_point now) {
  on_.link.begin(s, now);
  told_of_strays_ = false;
  ++on_.env.stats.connects;
  last_heard_ = last_answer_ = now;
  excused_ = false;
  requests_ = 0;
  sources_ = {};
  if (s.asked != time_point{}) usual_.sample(now - s.asked);

  // The order matters: what is left of earlier connections ends first.
  if (on_.link.earlier().open().empty()) {
    out_.send(kill_command{nobody, s.address});
    push_request({request::kill, nobody, 0, nullptr, nullptr, now});
  }
  for (session const& old : on_.link.earlier().open()) {
    out_.send(kill_command{old.client_id, old.address});
    push_request({request::kill, old.client_id, 0, nullptr, nullptr, now});
  }
  if (s.has_channel) {
    out_.send(subscribe_command{});
    push_request({request::subscribe, 0, 0, nullptr, nullptr, now});
    out_.send(prove_publish_command{});
    push_request({request::prove_publish, 0, 0, nullptr, nullptr, now});
  }

  failing_ = {};
  resting_holds_.splice_back(holds_);
  resting_cleanups_.splice_back(pending_cleanups_);
  active_.splice_back(resting_);
  resting_.splice_back(active_);
  go_on(now);
  if (!ending_admin_) repeat_admin(now);
  if (keep_alive_.is_on()) on_.env.timers.arm(quiet_, now + keep_alive_.every());
  on_.env.up.connection_changed(now);
}

/// Does one turn of the work that follows a new connection, the end of one, or a failure; and of what waits for room.
void server::go_on(time_point now) {
  std::size_t left = in_one_turn;
  if (on_.link.connected()) renew_holds(left, now);
  if (on_.link.connected() && !failing_) {
    repeat_cleanups(left, now);
    send_postponed(left, now);
    ask_everything_again(left, now);
  }
  for (; (failing_ || !on_.link.connected()) && left != 0 && !resting_.empty(); --left) {
    place& s = resting_.pop_front();
    active_.push_back(s);
    bool const asks = s.at == place::state::asking || s.at == place::state::in_line;
    if (asks && failing_) {
      fail(s, failing_, now);
    } else if (asks) {
      patience(s, on_.link.lost_at());
    } else if (s.at == place::state::leaving && !on_.link.connected()) {
      if (!s.check.armed()) on_.env.timers.arm(s.check, on_.link.lost_at() + on_.env.settings.command_timeout);
    } else if (s.at == place::state::leaving && s.told_on != on_.link.number()) {
      send_leave(s, now);  // the failure came before this connection had come to the place
    }
  }
  if (resting_.empty()) failing_ = {};
  for (; ending_admin_ && left != 0 && !admin_requests_.empty(); --left) end_admin(admin_requests_.front(), {}, ending_admin_);
  if (admin_requests_.empty()) ending_admin_ = {};
  if (on_.link.connected()) unwatch(left, now);
  bool const waits_for_holds = may_repeat() && !resting_.empty() && !resting_.front().written && !window_.may_begin(now);
  bool const more_to_send = !resting_holds_.empty() || (window_.has_room() && has_resting());  // else an answer goes on with it
  bool const more = failing_ || ending_admin_ || !unwatched_.empty() || (on_.link.connected() ? more_to_send : !resting_.empty());
  if (!more) return;
  on_.env.timers.arm(rest_,
                     on_.link.connected() && waits_for_holds && resting_holds_.empty() && !failing_ ? window_.begins_again() : in_next_turn(now));
}

bool server::has_places() const noexcept {
  return !(active_.empty() && resting_.empty() && again_.empty() && holds_.empty() && resting_holds_.empty());
}

bool server::has_resting() const noexcept { return !(resting_.empty() && again_.empty() && resting_holds_.empty() && resting_cleanups_.empty()); }

/// May a clean-up be written now? What frees a lock goes before what asks for one.
bool server::may_send() const noexcept { return window_.has_room() && resting_cleanups_.empty(); }

/// ... and what asks once more, or leaves?
bool server::may_repeat() const noexcept { return may_send() && again_.empty(); }

/// ... and what asks for the first time?
bool server::may_ask(time_point now) const noexcept { return may_repeat() && resting_.empty() && window_.may_begin(now); }

/// It asks once more, or leaves, when there is room.
void server::postpone(place& s) {
  if (std::exchange(s.postponed, true)) return;
  s.check.cancel();
  s.unlink();
  again_.push_back(s);
}

void server::send_postponed(std::size_t& left, time_point now) {
  for (; left != 0 && may_send() && !again_.empty(); --left) {
    place& s = again_.pop_front();
    active_.push_back(s);
    s.postponed = false;
    if (s.at == place::state::leaving) send_leave(s, false, now);
    else send_acquire(s, false, now);
  }
}

/// They wait for no room: a hold that is not renewed in time is lost, whatever else is to be done.
void server::renew_holds(std::size_t& left, time_point now) {
  std::vector<place*> renewals;
  for (; left != 0 && !resting_holds_.empty(); --left) {
    place& s = resting_holds_.pop_front();
    holds_.push_back(s);
    if (s.told_on != on_.link.number()) renewals.push_back(&s);
  }
  if (renewals.empty()) return;
  std::sort(renewals.begin(), renewals.end(), [](place* a, place* b) { return a->deadline < b->deadline; });
  send_renewals(renewals, {}, now);
  for (place* s : renewals) {
    if (s->at == place::state::owned && s->watches_requests && !s->requested) ask_for_requests(*s, now);
  }
}

void server::repeat_cleanups(std::size_t& left, time_point now) {
  for (; left != 0 && window_.has_room() && !resting_cleanups_.empty(); --left) {
    cleanup& c = resting_cleanups_.pop_front();
    pending_cleanups_.push_back(c);
    if (c.is_kick) {
      bool const is_due = !c.due.armed() && !c.sent;  // or was not answered
      if (is_due && c.over <= now) finish(c, false, {}, now);
      else if (is_due) send_cleanup(c, 0, false, now);
      continue;
    }
    if (c.sent) continue;
    extend(c, on_.link.earlier().are_ended() ? on_.link.earlier().ended_at() : now);
    if (c.over <= now) {
      finish(c, c.was_valid, {}, now);
    } else {
      if (std::exchange(c.lapsed, false)) --lapsed_;
      send_cleanup(c, 0, false, now);
    }
  }
}

/// Repeats the requests of all places about which nothing was written on this connection yet. A place that was released, cancelled or given
/// up since is not in the list any more.
void server::ask_everything_again(std::size_t& left, time_point now) {
  for (; left != 0 && may_repeat() && !resting_.empty() && (resting_.front().written || window_.may_begin(now)); --left) {
    place& s = resting_.pop_front();
    active_.push_back(s);
    if (s.told_on == on_.link.number()) continue;
    switch (s.at) {
      case place::state::asking:
      case place::state::in_line: ask_once_more(s, retry_reason::reconnected, now); break;
      case place::state::leaving: send_leave(s, now); break;
      case place::state::owned:
      case place::state::idle: break;
    }
  }
}

void server::connect_failed(fault what, std::string_view words, time_point now) {
  on_.link.failed(what, words);
  // A wrong password or certificate does not get better by waiting; everything else may.
  bool const final =
      what == fault::access_denied || what == fault::malformed || what == fault::refused || what == fault::tls_failed || what == fault::not_supported;
  if (final) {
    fail_all_asking(to_error(what, words), now);
    on_.env.up.connection_refused(to_error(what, words), now);
  }
}

void server::disconnected(std::string_view why, time_point now) {
  if (!on_.link.connected()) return;
  if (!on_.link.dropping() && in_flight_.empty() && keep_alive_.ended_idle(now - last_heard_)) {
    on_.env.log.note(false, "something on the way ends connections that are silent for " + std::to_string(whole_ms(now - last_heard_).count()) +
                                " ms; from now on there is a ping every " + std::to_string(whole_ms(keep_alive_.every()).count()) + " ms");
  }
  on_.link.end(why, now);
  ++on_.env.stats.disconnects;
  again_.for_each([](place& s) { s.postponed = s.asks_again = false; });
  active_.splice_back(again_);
  active_.splice_back(resting_);
  holds_.splice_back(resting_holds_);
  pending_cleanups_.splice_back(resting_cleanups_);
  failing_ = {};
  overdue_.cancel();
  quiet_.cancel();

  pending_cleanups_.for_each([&](cleanup& c) {
    c.resent = c.resent || c.sent;
    // The server may have carried it out at any time until now: after a standstill, or as the server of before a role change.
    if (!c.is_kick) c.over = std::max(c.over, forgotten_by(c, now));
    c.echo_until = c.late_until;
    c.sent = false;
  });
  end_requests();
  end_unrepeatable_admin(why, now);
  resting_.splice_back(active_);
  go_on(now);
  on_.env.up.connection_changed(now);
}

/// Forgets the requests in flight: they are not answered any more.
void server::end_requests() {
  window_.connection_ended();
  fifo<in_flight> unanswered;
  unanswered.swap(in_flight_);
  std::deque<renewal_batch> unrenewed;
  unrenewed.swap(renewing_);
  std::deque<tries> untried;
  untried.swap(trying_);
  // Patience counts from the first request without an answer.
  auto const has_waited = [](place& s, grant_id id, time_point since) {
    bool const waits = s.at == place::state::asking || s.at == place::state::in_line;
    if (waits && s.id == id && s.trouble_since == time_point{}) s.trouble_since = since;
  };
  auto batch_of_tries = untried.begin();
  unanswered.for_each([&](in_flight const& r) {
    if (r.what == request::acquire && !r.moved) {
      has_waited(*r.at, r.id, r.written);
      r.at->asks_again = false;
    }
    if (r.what != request::acquire_all) return;
    for (tried const& one : batch_of_tries->in_script) {
      if (!one.moved) has_waited(*one.at, one.id, r.written);
    }
    ++batch_of_tries;
  });
  unanswered.for_each([&](in_flight const& r) {
    if (r.at != nullptr) drop(*r.at);
  });
  for (renewal_batch const& batch : unrenewed) {
    for (renewed const& one : batch.places) {
      if (one.id != 0) one.at->renewing = false;
      drop(*one.at);
    }
  }
  for (tries const& batch : untried) {
    for (tried const& one : batch.in_script) drop(*one.at);
    for (tried const& one : batch.later) drop(*one.at);
  }
}

void server::answered(answer const& as_sent, time_point now) {
  // From here on the server's words are readable: they may be logged, kept or appended to others.
  std::string const words = as_sent.words.empty() ? std::string{} : readable(as_sent.words);
  answer const a{as_sent.what, words, as_sent.content, as_sent.of_its_keys};
  if (in_flight_.empty()) {
    on_.link.drop("an unexpected answer");
    return;
  }
  on_.link.runs().says(a.what);
  in_flight const r = in_flight_.front();
  in_flight_.pop_front();
  last_heard_ = last_answer_ = now;
  excused_ = false;
  bool const of_a_lock = r.what == request::acquire || r.what == request::acquire_all || r.what == request::leave || r.what == request::cleanup;
  if (of_a_lock && (a.what == fault::none || a.what == fault::no_script)) ++progress_;
  duration const took = now - r.written;
  usual_.sample(took);
  round_trip_ = round_trip_ == duration::zero() ? took : round_trip_ + (took - round_trip_) / 8;
  if (r.size != 0) {
    window_.answered(r.size, r.together, r.written, has_resting(), now);
    window_.renewals_due(on_.env.timers.next_urgent(), now);
  }
  read_answer(r, a, now);
  if (on_.link.connected() && has_resting() && window_.has_room() && !on_.link.dropping()) go_on(now);
}

void server::read_answer(in_flight const& r, answer const& a, time_point now) {
  switch (r.what) {
    case request::acquire: acquire_answer(r, a, now); break;
    case request::acquire_all: tries_answer(r, a, now); break;
    case request::leave: leave_answer(r, a, now); break;
    case request::cleanup: cleanup_answer(r, a, now); break;
    case request::renew:
    case request::confirm: renew_answer(r, a, now); break;
    case request::admin_request: admin_answer(r, a, now); break;
    case request::requested: requested_answer(r, a, now); break;
    case request::watch: break;  // of nobody: if it was not carried out, the watchers ask by themselves
    case request::kill:
    case request::subscribe:
    case request::prove_publish:
    case request::asking:
    case request::ping: session_answer(r, a, now); break;
  }
}

void server::session_answer(in_flight const& r, answer const& a, time_point now) {
  if (r.what == request::ping || r.what == request::asking) return;
  if (r.what == request::kill) return on_.link.kill_answered(a.what, r.id.count, now);
  // A client that cannot hear pushes, or cannot send them to the next in line, must not take part.
  bool const heard = r.what != request::prove_publish || read_session(a).count > 0;
  if (a.what == fault::none && heard) return;
  // A node of a Cluster may have become a replica since it was greeted: that takes a subscription, and counts nobody.
  bool const may_be_replica = a.what == fault::none && client_.servers != nullptr;
  if (a.what == fault::try_later || a.what == fault::reconnect || may_be_replica) {
    on_.link.drop(may_be_replica ? "the node does not deliver our own pushes; it may be a replica now" : a.words);
    return;
  }
  on_.link.deny(make_error_code(errc::access_denied, a.words.empty() ? "the server does not deliver our own pushes" : a.words));
  on_.env.log.note(true, on_.link.denied().message());
  fail_all_asking(on_.link.denied(), now);
}

void server::push_request(in_flight r) {
  if (r.at != nullptr) {
    ++r.at->references;
    r.lease = r.at->lease;
  }
  if (r.of == script::none) r.of = script_of(r);
  if (r.what == request::acquire || r.what == request::leave || r.what == request::cleanup) r.size = 1;
  if (r.size != 0) {
    r.together = window_.written(r.size);
    if (r.what == request::acquire) window_.uses(r.lease, r.written);
  }
  r.number = ++requests_;
  in_flight_.push_back(r);
  if (!overdue_.armed()) on_.env.timers.arm(overdue_, answer_due());
}

server::script server::script_of(in_flight const& r) {
  bool const permit = r.at != nullptr && r.at->permit;
  switch (r.what) {
    case request::acquire:
      if (r.at->adopts()) return permit ? script::permit_adopt : script::adopt;
      return permit ? script::permit_acquire : script::acquire;
    case request::acquire_all: return script::acquire_all;
    case request::leave:
    case request::cleanup: return permit ? script::permit_release : script::release;
    case request::renew: return script::renew;  // for permits the caller has set r.of
    case request::confirm: return script::confirm;
    default: return script::none;
  }
}

/// The server does not know the script of a request: is the source to be sent? It is sent once. A request that was written before it is
/// sent again without the source. If a request that was written after it meets no script either, the server has forgotten the script once
/// more.
bool server::source_is_due(in_flight const& r) {
  std::uint64_t& sent = sources_[static_cast<std::size_t>(r.of)];
  if (r.number < sent) return false;
  sent = requests_ + 1;
  return true;
}

/// When the connection counts as lost if there is no answer until then. A busy server comes late to what is due next, so the time counts from
/// its last answer. It does not count from the last push: other clients' releases make pushes, and this client waits for answers.
time_point server::answer_due() const {
  time_point due = std::max(in_flight_.front().written, last_answer_) + on_.env.settings.command_timeout;
  for (renewal_batch const& r : renewing_) due = std::min(due, std::max(r.written, last_answer_) + r.answer_within);
  return due;
}

/// Drops the connection to a server that does not answer.
void server::answer_overdue(time_point now) {
  if (in_flight_.empty()) return;
  time_point const due = answer_due();
  if (due > now) {
    on_.env.timers.arm(overdue_, due);
    return;
  }
  // This timer itself comes late, after a long handler or a pause of the process. The answers that have come in meanwhile are read first.
  duration const a_while = on_.env.settings.command_timeout / 4;
  if (now - overdue_.at() > a_while && !std::exchange(excused_, true)) {
    on_.env.timers.arm(overdue_, now + a_while);
    return;
  }
  on_.link.drop("the server did not answer in time");
}

void server::quiet(time_point now) {
  time_point const due = last_heard_ + keep_alive_.every();
  if (due > now) {
    on_.env.timers.arm(quiet_, due);
    return;
  }
  if (in_flight_.empty()) {
    out_.send(ping_command{});
    push_request({request::ping, 0, 0, nullptr, nullptr, now});
  }
  on_.env.timers.arm(quiet_, now + keep_alive_.every());
}

/// The server has nothing of the place any more, except what a clean-up ends.
void server::become_idle(place& s) {
  enter(s, place::state::idle);
  s.unlink();
  s.check.cancel();
  s.refused_renewal = {};
  s.postponed = s.renewing = s.renewed_alone = s.requested = s.watches_requests = false;
}

/// Asserts what is true of a place at the end of every input that concerns it.
void server::assert_consistent([[maybe_unused]] place const& s) const {
  using state [[maybe_unused]] = place::state;
  BOOST_ASSERT_MSG(s.references != 0, "a reference to a place is given up twice");
  BOOST_ASSERT_MSG(s.linked() == (s.at != state::idle),
                   "a place is in no list, and is asked for again by no new connection; or it is idle, and would be");
  BOOST_ASSERT_MSG(s.at == state::asking || s.at == state::in_line || s.at == state::leaving || !s.check.armed(),
                   "a safety check of what neither waits nor asks");
  bool const waits [[maybe_unused]] = s.at == state::asking || s.at == state::in_line;
  bool const not_come_to [[maybe_unused]] = failing_ || on_.link.dropping() || s.told_on != on_.link.number();
  BOOST_ASSERT_MSG(!waits || s.check.armed() || s.references > 1 || s.postponed || not_come_to,
                   "a waiter without a timer, of which nothing is under way");
  BOOST_ASSERT_MSG(s.at == state::owned || !s.renewing, "a renewal of what is not owned");
}

void server::drop(place& s) {
  s.of->assert_consistent(s);
  --s.references;
  if (s.references != 0 || s.at != place::state::idle) return;
  s.nothing_to_check();  // as for a new place
  on_.env.up.settled(s);
}

void server::fail(place& s, error_code why, time_point now, bool of_one_attempt) {
  bool const may_have_acted = s.written;
  grant_id const id = s.id;
  become_idle(s);
  ++s.references;  // the place must outlive its clean-up and the event
  // If a key has another type a try has taken nothing, unless its request is under way once more. But a waiter may stand in line: it may be
  // the key of the fence that has the other type.
  if (may_have_acted && (why != errc::wrong_type || s.wait || is_asked_again(s, id))) {
    owe(s, id, nullptr, now);
  } else {
    look_after(s, id, now);
  }
  if (of_one_attempt) on_.env.up.attempt_failed(s, why, now);
  else on_.env.up.failed(s, why, now);
  drop(s);
}

/// Is another request under that id still under way? The answer in hand and the caller have one reference each.
bool server::is_asked_again(place const& s, grant_id id) const {
  if (s.references <= 2) return false;
  auto const same = [&](auto const& one) { return one.at == &s && one.id == id; };
  return in_flight_.any_of(same) || std::any_of(trying_.begin(), trying_.end(),
                                                [&](auto const& batch) { return std::any_of(batch.in_script.begin(), batch.in_script.end(), same); });
}

void server::fail_all_asking(error_code why, time_point now) {
  again_.for_each([&](place& s) {
    if (s.at == place::state::leaving) return;
    s.postponed = false;
    s.unlink();
    active_.push_back(s);
  });
  active_.splice_back(resting_);
  resting_.splice_back(active_);
  failing_ = ending_admin_ = why;
  go_on(now);
}

void server::acquire_fault(place& s, answer const& a, time_point now) {
  switch (a.what) {
    case fault::reconnect: on_.link.drop(a.words); break;
    case fault::try_later:
      on_.link.note_once(a.words);
      if (s.trouble_since == time_point{}) s.trouble_since = now;
      if (now - s.trouble_since >= on_.env.settings.offline_timeout) {
        fail(s, to_error(a.what, a.words), now);
      } else {
        on_.env.timers.arm(s.check, again_at(a, now));
      }
      break;
    default: fail(s, to_error(a.what, a.words), now); break;
  }
}

}  // namespace conch::protocol
