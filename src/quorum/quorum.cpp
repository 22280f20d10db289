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

quorum::quorum(config const& settings, std::string_view client, std::uint64_t seed, engine::entropy& nonces, engine::timer_queue& timers,
               engine::backend_events& up, engine::log_sink& log, statistics& stats)
    : on_{settings, first_48_bits(client), timers, up, log, stats, nonces, engine::random_numbers{seed}}, servers_{on_}, locks_{servers_, events_},
      room_{on_, servers_, &attempts_, [](void* self, time_point now) { static_cast<attempts*>(self)->start_next(now); }}, requests_{on_},
      releases_{on_, servers_, room_}, minority_{on_, servers_, requests_}, held_{on_, servers_, requests_, releases_},
      attempts_{on_, servers_, room_, requests_, releases_, minority_}, events_{on_,       servers_,  locks_, room_,
                                                                                requests_, releases_, held_,  attempts_} {}

std::unique_ptr<engine::place> quorum::make_place(std::string_view name, engine::permit const&) {
  return std::make_unique<cohort_place>(locks_.get(name), name);
}

void quorum::ask(engine::place& of, bool wait, engine::milliseconds lease, time_point now) {
  cohort_place& s = made_here(of);
  quorum_lock& b = s.lock;
  keeping const keep{b};
  releases_.release_votes(b, nullptr, 0, now);  // votes of a hold that was lost just now
  ++s.references;
  enter(s, engine::place::state::asking);
  s.wait = wait;
  s.lease = lease;
  s.written = s.confirmed = false;
  b.front = &s;
  b.at = quorum_lock::phase::starting;
  b.wait = wait;
  b.lease = lease;
  b.ticket = b.agreeing_on = 0;
  b.pushed = b.told_in_line = false;
  b.began = b.since = now;
  b.pause = {};
  b.ask_others_at = engine::timer_queue::never;
  ++b.round;
  if (servers_.connected() && !room_.is_free()) {
    room_.wait(b);
    attempts_.plan(b, now);
  } else {
    attempts_.start(b, now);
  }
}

void quorum::leave_unless_granted(engine::place& s, time_point now) {
  quorum_lock& b = made_here(s).lock;
  keeping const keep{b};
  enter(s, engine::place::state::leaving);
  b.at = quorum_lock::phase::leaving;
  b.since = now;
  std::uint64_t const round = b.round;
  for (auto const& v : b.votes) {
    bool const asks = v->place.at == engine::place::state::asking || v->place.at == engine::place::state::in_line;
    if (asks) v->from.server->as_votes().leave_unless_granted(v->place, now);
    if (b.round != round) return;
  }
  attempts_.decide(b, now);
}

void quorum::give_up(engine::place& s, engine::receipt* r, time_point now) {
  quorum_lock& b = made_here(s).lock;
  keeping const keep{b};
  if (r == nullptr) {
    releases_.back_out(b, nullptr, 0, now);
    --s.references;  // the cohort looks after the place itself
  } else {
    releases_.back_out(b, r, 0, now);
  }
}

void quorum::release(engine::place& of, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) {
  cohort_place& s = made_here(of);
  quorum_lock& b = s.lock;
  keeping const keep{b};
  b.floor = std::max(b.floor, s.fence);
  ++s.references;
  releases_.back_out(b, r, on_.settings.quorum.strict_fence ? servers_.fence_ahead(now) : 0, now);
  if (r == nullptr) --s.references;
  if (again) ask(s, true, *again, now);
  releases_.drop(s);
}

error_code quorum::too_late(engine::place const& s, time_point now) const {
  quorum_lock const& b = made_here(s).lock;
  if (!servers_.connected()) {
    std::string const why = servers_.why_no_connection();
    if (!why.empty()) return make_error_code(errc::unreachable, why);
    auto const away = std::find_if(servers_.all().begin(), servers_.all().end(), [](auto const& m) { return !m->has_vote(); });
    bool const in_vain = b.front == &s && now - b.began >= servers_.answers_within(s);
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
  if (silent + servers_.needed() > servers_.size()) return make_error_code(errc::unreachable, "too few servers answer; " + silences);
  if (b.front != &s || b.at == quorum_lock::phase::held) return make_error_code(errc::timed_out);
  // The reason is told only if so many servers have one that even a free lock could not be had.
  std::size_t troubled = 0;
  std::string why;
  for (auto const& v : b.votes) {
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
