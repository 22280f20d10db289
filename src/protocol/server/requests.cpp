// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/requests.hpp"

#include "base/duration_text.hpp"
#include "protocol/server/my_slots.hpp"
#include "protocol/server/place_keeper.hpp"
#include "protocol/server_place.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

requests::requests(environment const& env, wire& out, server_link& link)
    : env_{env},
      out_{out},
      link_{link},
      keep_alive_{env.settings.keep_alive},
      overdue_{this, call<&requests::overdue>},
      quiet_{this, call<&requests::quiet>} {}

// ------------------------------------------------------------------------------------------------- the connection

void requests::begin(session const& s, time_point now) {
  last_heard_ = last_answer_ = now;
  reprieve_.reset();
  written_ = 0;
  sources_ = {};
  if (s.asked != time_point{}) usual_.sample(now - s.asked);
}

void requests::watch_for_quiet(time_point now) {
  if (keep_alive_.is_on()) env_.timers.arm(quiet_, now + keep_alive_.every());
}

void requests::end(time_point now) {
  overdue_.cancel();
  quiet_.cancel();
  if (link_.dropping() || !in_flight_.empty() || !keep_alive_.ended_idle(now - last_heard_)) return;
  env_.log.note(false, "something on the network closes connections that are idle for " + ms_text(now - last_heard_) +
                           "; from now on there is a ping every " + ms_text(keep_alive_.every()));
}

requests::unanswered requests::take_all() {
  window_.connection_ended();
  unanswered gone;
  gone.all.swap(in_flight_);
  gone.renewals.swap(renewals_);
  gone.tries.swap(tries_);
  return gone;
}

// ------------------------------------------------------------------------------------------------------- sending

void requests::send(command const& c, in_flight const& r) {
  out_.send(c);
  note(r);
}

void requests::send_tries(command const& c, in_flight r, try_batch batch) {
  out_.send(c);
  r.size = static_cast<std::uint32_t>(batch.in_script.size());
  tries_.push_back(std::move(batch));
  note(r);
}

void requests::send_renewals(command const& c, in_flight r, renewal_batch batch) {
  out_.send(c);
  env_.timers.arm(overdue_, std::min(overdue_.at(), r.written + batch.answer_within));
  r.together = window_.renewals_written(batch.places.size());
  renewals_.push_back(std::move(batch));
  note(r);
}

void requests::note(in_flight const& written) {
  BOOST_ASSERT_MSG(link_.connected(), "a request is written without a connection");
  in_flight& r = in_flight_.push_back(written);
  if (r.place != nullptr) {
    ++r.place->references;
    r.lease = r.place->lease;
  }
  if (r.of == script_kind::none) r.of = script_of(r);
  if (r.what == request_kind::acquire || r.what == request_kind::leave || r.what == request_kind::cleanup) r.size = 1;
  if (r.size != 0) {
    r.together = window_.written(r.size);
    if (r.what == request_kind::acquire) window_.uses(r.lease, r.written);
  }
  r.number = ++written_;
  if (!overdue_.armed()) env_.timers.arm(overdue_, answer_due());
}

script_kind requests::script_of(in_flight const& r) {
  bool const permit = r.place != nullptr && r.place->permit;
  switch (r.what) {
    case request_kind::acquire:
      if (r.place->adopts()) return permit ? script_kind::permit_adopt : script_kind::adopt;
      return permit ? script_kind::permit_acquire : script_kind::acquire;
    case request_kind::acquire_all: return script_kind::acquire_all;
    case request_kind::leave:
    case request_kind::cleanup: return permit ? script_kind::permit_release : script_kind::release;
    case request_kind::renew: return script_kind::renew;  // for permits the caller has set r.of
    case request_kind::confirm: return script_kind::confirm;
    default: return script_kind::none;
  }
}

// ------------------------------------------------------------------------------------------------------- answers

in_flight requests::take(fault what, bool others_wait, time_point now) {
  BOOST_ASSERT_MSG(!in_flight_.empty(), "an answer to nothing");
  in_flight const r = in_flight_.front();
  in_flight_.pop_front();
  last_heard_ = last_answer_ = now;
  reprieve_.reset();
  bool const of_a_lock = r.what == request_kind::acquire || r.what == request_kind::acquire_all ||
                         r.what == request_kind::leave || r.what == request_kind::cleanup;
  if (of_a_lock && (what == fault::none || what == fault::no_script)) ++progress_;
  duration const took = now - r.written;
  usual_.sample(took);
  round_trip_ = round_trip_ == duration::zero() ? took : round_trip_ + (took - round_trip_) / 8;
  if (r.size != 0) {
    window_.answered(r.size, r.together, r.written, others_wait, now);
    window_.renewals_due(env_.timers.next_urgent(), now);
  }
  return r;
}

try_batch requests::take_tries() {
  BOOST_ASSERT_MSG(!tries_.empty(), "an answer to tries that were not sent");
  try_batch batch = std::move(tries_.front());
  tries_.pop_front();
  return batch;
}

renewal_batch requests::take_renewals(in_flight const& r, time_point now) {
  BOOST_ASSERT_MSG(!renewals_.empty(), "an answer to renewals that were not sent");
  renewal_batch batch = std::move(renewals_.front());
  renewals_.pop_front();
  window_.renewals_answered(batch.places.size(), r.together, r.written, now);
  return batch;
}

/// It is sent once. A request that was written before it is sent again without the source. If a request that was
/// written after it meets no script either, the server has forgotten the script once more.
bool requests::source_is_due(in_flight const& r) {
  std::uint64_t& sent = sources_[static_cast<std::size_t>(r.of)];
  if (r.number < sent) return false;
  sent = written_ + 1;
  return true;
}

bool requests::is_under_way(server_place const& p, grant_id id) const {
  if (p.references <= 2) return false;
  auto const same = [&](auto const& one) { return one.place == &p && one.id == id; };
  return in_flight_.any_of(same) || std::any_of(tries_.begin(), tries_.end(), [&](auto const& batch) {
           return std::any_of(batch.in_script.begin(), batch.in_script.end(), same);
         });
}

void requests::mark_moved(my_slots const& mine) {
  in_flight_.for_each([&](in_flight& r) {
    if (r.place == nullptr || mine.has(*r.place)) return;
    r.moved = true;
    r.place->of = &mine.at(r.place->slot).keeper();
  });
  for (renewal_batch& batch : renewals_) {
    for (renewed& one : batch.places) {
      if (!batch.mode.asking && !mine.has(*one.place)) one.id = 0;
    }
  }
  for (try_batch& batch : tries_) {
    for (std::vector<tried>* of : {&batch.in_script, &batch.later}) {
      for (tried& one : *of) one.moved = one.moved || !mine.has(*one.place);
    }
  }
}

// ------------------------------------------------------------------------------------------------------- silence

/// Silence counts from the last answer: a request queued behind many others of this client is not late for that.
std::string requests::silence(time_point now) const {
  if (!link_.connected() || in_flight_.empty()) return {};
  duration const silent = now - std::max(in_flight_.front().written, last_answer_);
  if (silent < usual_.soon()) return {};
  return "the server has not answered for " + ms_text(silent);
}

/// When the connection counts as lost if there is no answer until then. A busy server comes late to what is due next,
/// so the time counts from its last answer. It does not count from the last push: other clients' releases make pushes,
/// and this client waits for answers.
time_point requests::answer_due() const {
  time_point due = std::max(in_flight_.front().written, last_answer_) + env_.settings.command_timeout;
  for (renewal_batch const& r : renewals_) due = std::min(due, std::max(r.written, last_answer_) + r.answer_within);
  return due;
}

/// Drops the connection to a server that does not answer.
void requests::overdue(time_point now) {
  if (in_flight_.empty()) return;
  time_point const due = answer_due();
  if (due > now) {
    env_.timers.arm(overdue_, due);
    return;
  }
  if (auto const until = reprieve_.grant_connection(overdue_.at(), env_.settings.command_timeout, now)) {
    env_.timers.arm(overdue_, *until);
    return;
  }
  link_.drop("the server did not answer in time");
}

void requests::quiet(time_point now) {
  time_point const due = last_heard_ + keep_alive_.every();
  if (due > now) {
    env_.timers.arm(quiet_, due);
    return;
  }
  if (in_flight_.empty()) send(ping_command{}, {request_kind::ping, 0, 0, nullptr, nullptr, now});
  env_.timers.arm(quiet_, now + keep_alive_.every());
}

}  // namespace conch::protocol
