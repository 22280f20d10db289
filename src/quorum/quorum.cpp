// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/quorum.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::quorum {

namespace {

std::int64_t first_48_bits(std::string_view client) {
  std::int64_t bits = 0;
  std::string_view const digits = client.substr(0, 12);
  std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  return bits;
}

}  // namespace

quorum::quorum(config const& settings, std::string_view client, std::uint64_t seed, entropy& nonces,
               timer_queue& timers, engine::backend_events& up, log_sink& log, statistics& stats)
    : on_{settings, first_48_bits(client), timers, up, log, stats, nonces, random_numbers{seed}},
      servers_{on_},
      locks_{servers_, events_},
      room_{on_, servers_, {&attempts_, call<&attempts::start_next>}},
      requests_{on_},
      releases_{on_, servers_, room_},
      minority_{on_, servers_, requests_},
      held_{on_, servers_, requests_, releases_},
      attempts_{on_, servers_, room_, requests_, releases_, minority_},
      events_{on_, servers_, locks_, room_, requests_, releases_, held_, attempts_} {}

std::unique_ptr<engine::place> quorum::make_place(std::string_view name, engine::permit const&) {
  return std::make_unique<cohort_place>(locks_.get(name), name);
}

void quorum::ask(engine::place& of, bool wait, engine::milliseconds lease, time_point now) {
  cohort_place& p = made_here(of);
  quorum_lock& q = p.lock;
  keeping const keep{q};
  releases_.release_votes(q, nullptr, 0, now);  // votes of a hold that was lost just now
  q.kept_until = time_point::min();
  q.at_least = p.at_least;
  ++p.references;
  enter(p, engine::place_state::asking);
  p.wait = wait;
  p.lease = lease;
  p.written = p.confirmed = false;
  q.front = &p;
  q.phase = lock_phase::starting;
  q.wait = wait;
  q.lease = lease;
  q.ticket = q.agreeing_on = 0;
  q.pushed = q.reported_in_line = false;
  q.began = q.since = now;
  q.pause = {};
  q.ask_others_at = timer_queue::never;
  ++q.round;
  if (servers_.connected() && !room_.is_free()) {
    room_.wait(q);
    attempts_.plan(q, now);
  } else {
    attempts_.start(q, now);
  }
}

void quorum::leave_unless_granted(engine::place& p, time_point now) {
  quorum_lock& q = made_here(p).lock;
  keeping const keep{q};
  enter(p, engine::place_state::leaving);
  q.phase = lock_phase::leaving;
  q.since = now;
  std::uint64_t const round = q.round;
  for (auto const& v : q.votes) {
    bool const asks = v->place.state == engine::place_state::asking || v->place.state == engine::place_state::in_line;
    if (asks) v->from.server->as_votes().leave_unless_granted(v->place, now);
    if (q.round != round) return;
  }
  attempts_.decide(q, now);
}

void quorum::give_up(engine::place& p, engine::receipt* r, time_point now) {
  quorum_lock& q = made_here(p).lock;
  keeping const keep{q};
  if (r == nullptr) {
    releases_.back_out(q, nullptr, 0, now);
    --p.references;  // the cohort takes care of the place itself
  } else {
    releases_.back_out(q, r, 0, now);
  }
}

void quorum::release(engine::place& of, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) {
  cohort_place& p = made_here(of);
  quorum_lock& q = p.lock;
  keeping const keep{q};
  q.floor = std::max(q.floor, p.fence);
  q.kept_until = p.kept_until;
  ++p.references;
  releases_.back_out(q, r, on_.settings.quorum.strict_fence ? servers_.fence_ahead(now) : 0, now);
  if (r == nullptr) --p.references;
  if (again) ask(p, true, *again, now);
  releases_.drop(p);
}

void quorum::detach(engine::place& of, time_point now) {
  cohort_place& p = made_here(of);
  quorum_lock& q = p.lock;
  keeping const keep{q};
  q.floor = std::max(q.floor, p.fence);
  releases_.leave_votes(q, now);
  releases_.back_out(q, nullptr, 0, now);
  --p.references;  // the cohort takes care of the place itself
}

error_code quorum::too_late(engine::place const& p, time_point now) const {
  quorum_lock const& q = made_here(p).lock;
  if (!servers_.connected()) {
    std::string const why = servers_.why_no_connection();
    if (!why.empty()) return make_error_code(errc::unreachable, why);
    auto const away =
        std::find_if(servers_.all().begin(), servers_.all().end(), [](auto const& m) { return !m->has_vote(); });
    bool const in_vain = q.front == &p && now - q.began >= servers_.answers_within(p);
    return make_error_code(in_vain ? errc::unreachable : errc::timed_out, (*away)->why_no_vote());
  }
  std::size_t silent = 0;
  std::string silences;
  for (auto const& m : servers_.all()) {
    std::string const words = m->has_vote() ? m->server->as_votes().silence(now) : m->why_no_vote();
    if (words.empty()) continue;
    ++silent;
    silences += (silences.empty() ? "" : "; ") + (m->same_as ? "" : m->shown + ": ") + words;
  }
  if (silent + servers_.needed() > servers_.size())
    return make_error_code(errc::unreachable, "too few servers answer; " + silences);
  if (q.front != &p || q.phase == lock_phase::held) return make_error_code(errc::timed_out);
  // The reason is reported only if too many servers have one, so that even a free lock could not be acquired.
  std::size_t troubled = 0;
  std::string why;
  for (auto const& v : q.votes) {
    std::string words = v->from.same_as ? servers_.all_doubles()
                        : v->trouble    ? v->trouble.message()
                                        : v->from.server->as_votes().trouble_of(v->place);
    if (words.empty()) continue;
    ++troubled;
    why = v->from.shown + ": " + words;
  }
  return make_error_code(errc::timed_out, troubled + servers_.needed() > servers_.size() ? why : std::string{});
}

}  // namespace conch::quorum
