// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/sync_link.hpp"

#include "base/readable.hpp"
#include "protocol/server/environment.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

namespace {

/// For a connection that leads to another server than the first one, which may be about to connect there.
constexpr milliseconds time_to_follow{100};

}  // namespace

sync_link::sync_link(config const& settings, timer_queue& timers, wire& out, receiver& up, statistics& stats)
    : settings_{settings},
      timers_{timers},
      out_{out},
      up_{up},
      stats_{stats},
      elsewhere_{this, call<&sync_link::leave_other_server>},
      overdue_{this, call<&sync_link::overdue>},
      quiet_{this, call<&sync_link::quiet>} {}

void sync_link::more(time_point now) {
  if (notifying_ || !batch_.items.empty()) return;
  if (!connected_) {
    out_.want_connection();
  } else if (up_.may_use(session_)) {
    send(now);
  } else {
    time_point const until = up_.is_younger(since_) ? now : std::max(now, since_ + time_to_follow);
    if (!elsewhere_.armed() || until < elsewhere_.at()) timers_.arm(elsewhere_, until);
  }
}

/// One of the two connections leads to what was the master before: the older one.
void sync_link::leave_other_server(time_point) {
  bool const elsewhere = connected_ && !up_.may_use(session_);
  if (elsewhere && !up_.follows(since_)) out_.drop_connection("leads to another server than the first connection");
}

/// All that is to be renewed now, then the mark and the WAIT, in one write.
void sync_link::send(time_point now) {
  up_.gather(batch_.items, now);
  if (batch_.items.empty()) return;
  batch_.results.assign(batch_.items.size(), {});
  batch_.written = now;
  for (bool const permits : {false, true}) {
    for (bool const keep_fences : {false, true}) send_scripts(permits, keep_fences);
  }
  out_.send(mark_command{});
  in_flight_.push_back({in_flight::kind::mark});
  batch_.replicas = 0;
  out_.send(wait_command{static_cast<std::uint32_t>(settings_.sync_replicas), whole_ms(settings_.sync_timeout)});
  in_flight_.push_back({in_flight::kind::wait});
  reprieve_.reset();
  timers_.arm(overdue_, now + answer_within());
}

void sync_link::send_scripts(bool permits, bool keep_fences) {
  std::vector<std::size_t> of;
  milliseconds longest{};
  scratch_.clear();
  auto const flush = [&] {
    if (of.empty()) return;
    ++stats_.scripts;
    ++stats_.renewal_scripts;
    milliseconds const retention = keep_fences ? whole_ms(settings_.fence_retention + longest) : milliseconds{};
    out_.send(renew_command{scratch_, source_due_[permits], permits, retention});
    source_due_[permits] = false;
    in_flight_.push_back({in_flight::kind::script, permits, std::move(of)});
    of.clear();
    scratch_.clear();
  };
  for (std::size_t i = 0; i < batch_.items.size(); ++i) {
    synced_renewal const& one = batch_.items[i];
    if (static_cast<bool>(one.place->permit) != permits || one.keeps_fence != keep_fences) continue;
    milliseconds const kept = kept_at_server(settings_, one.lease);
    scratch_.push_back({one.place->name, one.id, kept, 0, one.place->fence});
    longest = std::max(longest, kept);
    of.push_back(i);
    if (of.size() == renewals_per_script) flush();
  }
  flush();
}

/// A hold outlives a connection that has died silently: there is time for another renewal.
duration sync_link::answer_within() const {
  milliseconds shortest = milliseconds::max();
  for (synced_renewal const& one : batch_.items) shortest = std::min(shortest, one.lease);
  return settings_.sync_timeout + std::min<duration>(settings_.command_timeout, shortest / 3);
}

// ---------------------------------------------------------------------------------------------------- from the wire

void sync_link::connected_as(session const& s, time_point now) {
  connected_ = true;
  session_ = s;
  since_ = now;
  source_due_ = {};
  last_heard_ = now;
  if (keep_alive_.is_on()) timers_.arm(quiet_, now + keep_alive_.every());
  more(now);
}

/// The first connection reports the problem to those that wait; what is granted meanwhile is given back when its claim
/// ends.
void sync_link::connect_failed(fault, std::string_view, time_point) {}

void sync_link::disconnected(std::string_view, time_point now) {
  if (!connected_) return;
  if (in_flight_.empty()) keep_alive_.ended_idle(now - last_heard_);
  connected_ = false;
  in_flight_.clear();
  elsewhere_.cancel();
  overdue_.cancel();
  quiet_.cancel();
  if (batch_.items.empty()) return;
  batch_.replicas = 0;
  for (result& one : batch_.results) one = {renew_reply::kind::failed, fault::reconnect};
  end_batch(now);
}

void sync_link::answered(answer const& a, time_point now) {
  if (in_flight_.empty()) {
    out_.drop_connection("an unexpected answer");
    return;
  }
  last_heard_ = now;
  in_flight const r = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (a.what == fault::reconnect) out_.drop_connection(readable(a.words));
  switch (r.what) {
    case in_flight::kind::script: script_answer(r, a); break;
    case in_flight::kind::wait: wait_answer(a, now); break;
    case in_flight::kind::mark:
      if (a.what != fault::none) fail(a, {});
      break;
    case in_flight::kind::ping: break;
  }
  if (!in_flight_.empty()) return;
  overdue_.cancel();
  end_batch(now);
}

void sync_link::script_answer(in_flight const& r, answer const& a) {
  if (a.what == fault::no_script) source_due_[r.permits] = true;
  auto const reply = read_renew(a, r.of.size(), false);
  if (a.what == fault::none && !reply) out_.drop_connection("an answer of the renew script that has the wrong length");
  if (!reply) return fail(a, r.of);
  for (std::size_t i = 0; i < r.of.size(); ++i) batch_.results[r.of[i]].what = reply->locks[i].what;
}

void sync_link::wait_answer(answer const& a, time_point now) {
  stats_.sync_wait.add(now - batch_.written);
  if (a.what == fault::refused) {  // it is a replica now
    out_.drop_connection(readable(a.words));
    return fail({fault::reconnect, a.words, {}}, {});
  }
  if (a.what != fault::none) return fail(a, {});
  if (a.numbers().size() != 1) out_.drop_connection("the answer to WAIT is not a number");
  else batch_.replicas = a.numbers().front();
  if (batch_.replicas >= static_cast<std::int64_t>(settings_.sync_replicas)) acknowledged_.sample(now - batch_.written);
}

/// With these items, or with all, it came to nothing.
void sync_link::fail(answer const& a, std::vector<std::size_t> const& of) {
  batch_.words = readable(a.words);
  auto const one = [&](result& r) {
    if (r.why == fault::none) r = {r.what == renew_reply::kind::not_mine ? r.what : renew_reply::kind::failed, a.what};
  };
  if (of.empty()) std::for_each(batch_.results.begin(), batch_.results.end(), one);
  for (std::size_t const i : of) one(batch_.results[i]);
}

void sync_link::end_batch(time_point now) {
  if (batch_.items.empty()) return;
  batch const done = std::exchange(batch_, {});
  notifying_ = true;
  up_.synced(done, now);
  notifying_ = false;
  more(now);
}

// ----------------------------------------------------------------------------------------------------------- timers

void sync_link::overdue(time_point now) {
  if (auto const until = reprieve_.grant_connection(overdue_.at(), settings_.command_timeout, now)) {
    timers_.arm(overdue_, *until);
    return;
  }
  out_.drop_connection("the server did not answer a WAIT in time");
}

void sync_link::quiet(time_point now) {
  time_point const due = last_heard_ + keep_alive_.every();
  bool const idle = in_flight_.empty();
  if (due <= now && idle) {
    out_.send(ping_command{});
    in_flight_.push_back({in_flight::kind::ping});
    timers_.arm(overdue_, now + settings_.command_timeout);
  }
  timers_.arm(quiet_, due <= now ? now + keep_alive_.every() : due);
}

}  // namespace conch::protocol
