// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/arrivals.hpp"

#include "base/fault.hpp"
#include "base/overloaded.hpp"
#include "base/readable.hpp"
#include "protocol/server/place_keeper.hpp"

#include <limits>
#include <string>
#include <vector>

namespace conch::protocol {

namespace {

/// The id of no connection: CLIENT KILL then only shows whether it would be allowed.
constexpr std::uint64_t no_session = std::numeric_limits<std::int64_t>::max();

in_flight of_session(request_kind what, time_point now, std::uint64_t id = 0) {
  return {what, id, 0, nullptr, nullptr, now};
}

}  // namespace

void arrivals::connected_as(session const& s, time_point now) {
  ++on_.env.stats.connects;
  on_.link.begin(s, now);
  on_.sent.begin(s, now);
  pushes_.begin_connection();
  greet(s, now);
  introduced_.begin(now);
  on_.all.begin();
  cleanups_.begin();
  rest_.resume_backlog(now);
  if (!asked_.is_ending()) asked_.repeat(now);
  on_.sent.watch_for_quiet(now);
  on_.env.up.connection_changed(now);
}

/// The order matters: what is left of earlier connections ends first.
void arrivals::greet(session const& s, time_point now) {
  if (on_.link.earlier().open().empty())
    on_.sent.send(kill_command{no_session, s.address}, of_session(request_kind::kill, now, no_session));
  for (session const& old : on_.link.earlier().open()) {
    on_.sent.send(kill_command{old.client_id, old.address}, of_session(request_kind::kill, now, old.client_id));
  }
  if (!s.has_channel) return;
  on_.sent.send(subscribe_command{}, of_session(request_kind::subscribe, now));
  on_.sent.send(prove_publish_command{}, of_session(request_kind::prove_publish, now));
}

void arrivals::connect_failed(fault what, std::string_view words, time_point now) {
  on_.link.failed(what, words);
  if (is_final(what)) {
    rest_.fail_all(to_error(what, words), now);
    on_.env.up.connection_refused(to_error(what, words), now);
  }
}

void arrivals::disconnected(std::string_view why, time_point now) {
  if (!on_.link.connected()) return;
  on_.sent.end(now);
  on_.link.end(why, now);
  ++on_.env.stats.disconnects;
  introduced_.rest();
  on_.all.end();
  cleanups_.end(now);
  forget_unanswered(now);
  asked_.connection_ended(why, now);
  on_.all.rest();
  rest_.resume_backlog(now);
  on_.env.up.connection_changed(now);
}

/// Forgets the requests in flight: they are not answered any more.
void arrivals::forget_unanswered(time_point now) {
  requests::unanswered const gone = on_.sent.take_all();
  auto batch_of_tries = gone.tries.begin();
  gone.all.for_each([&](in_flight const& r) {
    if (r.what == request_kind::acquire && !r.moved) {
      asks_.went_unanswered(*r.place, r.id, r.written, now);
      asks_.may_ask_again(*r.place);
    }
    if (r.what != request_kind::acquire_all) return;
    for (tried const& one : batch_of_tries->in_script) {
      if (!one.moved) asks_.went_unanswered(*one.place, one.id, r.written, now);
    }
    ++batch_of_tries;
  });
  gone.all.for_each([&](in_flight const& r) {
    if (r.place != nullptr) on_.all.drop(*r.place);
  });
  for (renewal_batch const& batch : gone.renewals) renews_.went_unanswered(batch);
  for (try_batch const& batch : gone.tries) {
    for (tried const& one : batch.in_script) on_.all.drop(*one.place);
    for (tried const& one : batch.later) on_.all.drop(*one.place);
  }
}

void arrivals::answered(answer const& as_sent, time_point now) {
  // From here on the server's words are readable: they may be logged, kept or appended to others.
  std::string const words = as_sent.words.empty() ? std::string{} : readable(as_sent.words);
  answer const a{as_sent.what, words, as_sent.content, as_sent.of_its_keys};
  if (on_.sent.empty()) return on_.link.drop("an unexpected answer");
  on_.link.runs().says(a.what);
  in_flight const r = on_.sent.take(a.what, rest_.has_rest(), now);
  read_answer(r, a, now);
  if (on_.link.connected() && rest_.has_rest() && on_.sent.window().has_room() && !on_.link.dropping())
    rest_.resume_backlog(now);
}

void arrivals::read_answer(in_flight const& r, answer const& a, time_point now) {
  switch (r.what) {
    case request_kind::acquire: asks_.answered(r, a, now); break;
    case request_kind::acquire_all: several_.answered(r, a, now); break;
    case request_kind::leave: asks_.leave_answered(r, a, now); break;
    case request_kind::cleanup: released_.answered(r, a, now); break;
    case request_kind::renew:
    case request_kind::confirm: renews_.answered(r, a, now); break;
    case request_kind::admin_request: asked_.answered(r, a, now); break;
    case request_kind::requested: pushes_.requested_answered(r, a, now); break;
    case request_kind::introduce: introduced_.answered(a); break;
    case request_kind::watch: break;  // for no place: if it was not carried out, the watchers ask by themselves
    case request_kind::kill:
    case request_kind::subscribe:
    case request_kind::prove_publish:
    case request_kind::asking:
    case request_kind::ping: session_answered(r, a, now); break;
  }
}

void arrivals::session_answered(in_flight const& r, answer const& a, time_point now) {
  if (r.what == request_kind::ping || r.what == request_kind::asking) return;
  if (r.what == request_kind::kill) return on_.link.kill_answered(a.what, r.id.count, now);
  // A client that cannot receive pushes, or cannot send them to the next in the queue, must not take part.
  bool const heard = r.what != request_kind::prove_publish || read_session(a).count > 0;
  if (a.what == fault::none && heard) return;
  // A node of a Cluster may have become a replica since it was greeted: a replica accepts a subscription, but its
  // PUBLISH counts no subscribers.
  bool const may_be_replica = a.what == fault::none && on_.slots.is_cluster();
  if (a.what == fault::try_later || a.what == fault::reconnect || may_be_replica) {
    on_.link.drop(may_be_replica ? "the node does not deliver our own pushes; it may be a replica now" : a.words);
    return;
  }
  on_.link.deny(
      make_error_code(errc::access_denied, a.words.empty() ? "the server does not deliver our own pushes" : a.words));
  on_.env.log.note(true, on_.link.denied().message());
  rest_.fail_all(on_.link.denied(), now);
}

void arrivals::pushed(push const& p, time_point now) {
  on_.sent.note_answer(now);
  std::visit(overloaded{[&](pushed_grant const& g) { pushes_.granted(g, now); },
                        [&](revocation const& r) { pushes_.revoked(r.name, r.id, now); },
                        [&](request_to_let_go const& r) { pushes_.requested(r.name, r.id, now); },
                        [&](end_of_hold const& e) { asked_.freed(e.name, e.id, e.more, now); },
                        [&](missed_turn const& m) { pushes_.missed(m.name, m.id, now); },
                        [&](end_of_lease const& e) {
                          if (!asked_.lease_ends_in(e.name, e.id, e.left, now))
                            pushes_.lease_ends_in(e.name, e.id, e.left, now);
                        }},
             p);
}

}  // namespace conch::protocol
