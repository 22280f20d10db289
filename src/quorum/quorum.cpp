// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/quorum.hpp"

#include "base/readable.hpp"
#include "quorum/quorum_lock.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

// The requests of the cohort, and the bookkeeping.
namespace conch::quorum {

namespace {

std::int64_t first_48_bits(std::string_view client) {
  std::int64_t bits = 0;
  std::string_view const digits = client.substr(0, 12);
  std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  return bits;
}

}  // namespace

quorum::quorum_lock::quorum_lock(quorum& q, std::string lock_name)
    : name{std::move(lock_name)}, in{q}, timer{this, [](void* self, time_point now) {
                                                 auto& b = *static_cast<quorum_lock*>(self);
                                                 b.in.due(b, now);
                                               }} {
  votes.reserve(q.members_.size());
  for (auto const& m : q.members_) votes.push_back(std::make_unique<vote>(*this, *m, name));
}

quorum::quorum(config const& settings, std::string_view client, std::uint64_t seed, engine::entropy& nonces, engine::timer_queue& timers,
               engine::backend_events& up, engine::log_sink& log, statistics& stats)
    : settings_{settings}, me_{first_48_bits(client)}, timers_{timers}, up_{up}, log_{log}, stats_{stats}, random_{seed}, nonces_{nonces},
      next_{this, [](void* self, time_point now) { static_cast<quorum*>(self)->start_next(now); }} {}

quorum::~quorum() {
  for (auto const& m : members_) m->server.reset();
}

protocol::server& quorum::add(protocol::wire& out, std::string shown) {
  auto& m = *members_.emplace_back(std::make_unique<member>(*this, members_.size(), std::move(shown), out));
  m.server = std::make_unique<protocol::server>(settings_, random_.next(), nonces_, timers_, out, m, m, m.counted);
  return *m.server;
}

std::size_t quorum::needed() const noexcept {
  return settings_.quorum.votes_needed != 0 ? settings_.quorum.votes_needed : majority_of(members_.size());
}

// ------------------------------------------------------------------------------------------------ from the cohort

std::unique_ptr<engine::place> quorum::make_place(std::string_view name, engine::permit const&) {
  return std::make_unique<cohort_place>(lock_of(name), name);
}

quorum::cohort_place& quorum::made_here(engine::place& s) noexcept { return static_cast<cohort_place&>(s); }

void quorum::ask(engine::place& of, bool wait, engine::milliseconds lease, time_point now) {
  cohort_place& s = made_here(of);
  quorum_lock& b = s.lock;
  keeping const keep{b};
  release_votes(b, nullptr, 0, now);  // votes of a hold that was lost just now
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
  if (connected() && !(waiting_.empty() && window_.has_room())) {
    waiting_.push_back(b);
    plan(b, now);
  } else {
    start(b, now);
  }
}

bool quorum::waits_for_room(quorum_lock const& b) const noexcept { return b.linked() && connected(); }

/// From here to the answers of as many servers as are needed.
void quorum::count_as_asked(quorum_lock& b, time_point now) {
  b.together = window_.written(1);
  window_.uses(std::min<duration>(b.lease, settings_.quorum.vote_claim), now);
}

void quorum::count_as_answered(quorum_lock& b, time_point now) {
  b.unlink();
  if (b.together == 0) return;
  window_.answered(1, std::exchange(b.together, 0), b.since, !waiting_.empty(), now);
  if (!waiting_.empty() && window_.has_room()) timers_.arm(next_, engine::in_next_turn(now));
}

void quorum::start_next(time_point now) {
  std::size_t left = engine::in_one_turn;
  for (; left != 0 && !waiting_.empty() && (window_.has_room() || !connected()); --left) {
    quorum_lock& b = waiting_.pop_front();
    keeping const keep{b};
    b.began = now;
    start(b, now);
  }
  if (left == 0) timers_.arm(next_, engine::in_next_turn(now));
}

void quorum::start(quorum_lock& b, time_point now) {
  std::optional<std::int64_t> const ticket = new_ticket(now);
  if (!ticket) {
    for (auto const& m : members_) m->out.want_connection();
    plan(b, now);
    return;
  }
  b.ticket = *ticket;
  b.since = now;
  count_as_asked(b, now);
  b.floor = settings_.quorum.strict_fence ? std::max(b.floor, fence_ahead(now)) : 0;
  b.front->written = true;
  for (auto const& v : b.votes) {
    v->refused = false;
    v->trouble = {};
    v->not_before = v->gone_at = time_point::min();
    v->yielded_to.clear();
    v->rests = 0;
  }
  std::uint64_t const round = b.round;
  ask_votes(b, now);
  if (b.round != round) return;
  b.at = quorum_lock::phase::collecting;
  decide(b, now);
}

/// The lower median of what the servers' clocks show now. All servers count that have ever told their time; they must be a quorum at least.
std::optional<std::int64_t> quorum::new_ticket(time_point now) const {
  std::vector<std::int64_t> clocks;
  for (auto const& m : members_) {
    if (auto const us = m->server->link().clock().shows_us(now)) clocks.push_back(*us);
  }
  if (clocks.size() < needed()) return std::nullopt;
  return agreed_ticket(clocks);
}

/// Asks for the votes that are idle. A try does not ask again where another client has the lock. It does ask again where a server has
/// answered with an error, while it waits for other servers to connect.
void quorum::ask_votes(quorum_lock& b, time_point now) {
  std::uint64_t const round = b.round;
  for (auto const& v : b.votes) {
    bool const answered = v->refused && !b.wait;
    if (v->place.at != engine::place::state::idle || v->not_before > now || answered) continue;
    ask_vote(b, *v, b.wait, now);
    if (b.round != round) return;
  }
}

void quorum::ask_vote(quorum_lock& b, vote& v, bool wait, time_point now) {
  member& m = v.from;
  if (m.same_as) {
    v.not_before = engine::timer_queue::never;
    return;
  }
  if (m.fresh_until > now) {
    v.not_before = m.fresh_until;
    return;
  }
  // Every attempt at a server has a new id; the place in line depends on the ticket.
  bool const held = b.at == quorum_lock::phase::held;
  v.refused = false;
  auto const claim = std::chrono::duration_cast<engine::milliseconds>(settings_.quorum.vote_claim);
  m.server->as_votes().ask(v.place, {b.ticket, b.floor, 0, held ? b.front : nullptr}, wait, held ? b.lease : claim, now);
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
  decide(b, now);
}

void quorum::give_up(engine::place& s, engine::receipt* r, time_point now) {
  quorum_lock& b = made_here(s).lock;
  keeping const keep{b};
  if (r == nullptr) {
    back_out(b, nullptr, 0, now);
    --s.references;  // the cohort looks after the place itself
  } else {
    back_out(b, r, 0, now);
  }
}

void quorum::release(engine::place& of, std::optional<engine::milliseconds> again, engine::receipt* r, time_point now) {
  cohort_place& s = made_here(of);
  quorum_lock& b = s.lock;
  keeping const keep{b};
  b.floor = std::max(b.floor, s.fence);
  ++s.references;
  back_out(b, r, settings_.quorum.strict_fence ? fence_ahead(now) : 0, now);
  if (r == nullptr) --s.references;
  if (again) ask(s, true, *again, now);
  drop(s);
}

bool quorum::connected() const noexcept { return connected_servers() >= needed(); }

error_code quorum::too_late(engine::place const& s, time_point now) const {
  quorum_lock const& b = static_cast<cohort_place const&>(s).lock;
  if (!connected()) {
    std::string const why = why_no_connection();
    if (!why.empty()) return make_error_code(errc::unreachable, why);
    auto const away = std::find_if(members_.begin(), members_.end(), [](auto const& m) { return !m->has_vote(); });
    bool const in_vain = b.front == &s && now - b.began >= answers_within(s);
    return make_error_code(in_vain ? errc::unreachable : errc::timed_out, (*away)->why_no_vote());
  }
  std::size_t silent = 0;
  std::string silences;
  for (auto const& m : members_) {
    std::string const words = m->has_vote() ? m->server->as_votes().silence(now) : m->why_no_vote();
    if (words.empty()) continue;
    ++silent;
    silences += (silences.empty() ? "" : "; ") + (m->same_as ? "" : m->shown + ": ") + words;
  }
  if (silent + needed() > members_.size()) return make_error_code(errc::unreachable, "too few servers answer; " + silences);
  if (b.front != &s || b.at == quorum_lock::phase::held) return make_error_code(errc::timed_out);
  // The reason is told only if so many servers have one that even a free lock could not be had.
  std::size_t troubled = 0;
  std::string why;
  for (auto const& v : b.votes) {
    std::string words = v->from.same_as ? all_doubles() : v->trouble ? v->trouble.message() : v->from.server->as_votes().trouble_of(v->place);
    if (words.empty()) continue;
    ++troubled;
    why = v->from.shown + ": " + words;
  }
  return make_error_code(errc::timed_out, troubled + needed() > members_.size() ? why : std::string{});
}

/// By then so many servers as are needed have usually answered.
duration quorum::answers_within(engine::place const& s) const noexcept {
  std::array<duration, most_servers> all{};
  std::size_t up = 0;
  for (auto const& m : members_) {
    if (m->up()) all[up++] = m->server->answers_within(s);
  }
  if (up == 0) return members_.front()->server->answers_within(s);
  auto const kth = all.begin() + static_cast<std::ptrdiff_t>(std::min(needed(), up) - 1);
  std::nth_element(all.begin(), kth, all.begin() + static_cast<std::ptrdiff_t>(up));
  return *kth;
}

error_code quorum::no_answer() const {
  std::string const why = why_no_connection();
  return make_error_code(errc::unreachable, why.empty() ? "too few servers answered" : why);
}

/// Why servers are missing; empty: no attempt to connect has failed yet.
std::string quorum::why_no_connection() const {
  std::string const doubles = all_doubles();
  for (auto const& m : members_) {
    if (!m->up() && !m->server->link().trouble().empty()) return m->server->link().trouble() + (doubles.empty() ? "" : "; " + doubles);
  }
  return doubles;
}

// --------------------------------------------------------------------------------------------------- bookkeeping

std::size_t quorum::connected_servers() const noexcept {
  return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), [](auto const& m) { return m->has_vote(); }));
}

/// The servers that are connected, are not so fresh that they have no vote, and have not answered with an error.
std::size_t quorum::voters_there(quorum_lock const& b, time_point now) const {
  return static_cast<std::size_t>(std::count_if(
      members_.begin(), members_.end(), [&](auto const& m) { return m->has_vote() && m->fresh_until <= now && !b.votes[m->number]->trouble; }));
}

std::size_t quorum::pending() const noexcept {
  std::size_t n = 0;
  for (auto const& m : members_) n += m->server->pending();
  return n;
}

std::uint64_t quorum::progress() const noexcept {
  std::uint64_t n = 0;
  for (auto const& m : members_) n += m->server->progress();
  return n;
}

/// Clean-ups for a minority of servers that is not connected do not count.
bool quorum::settled() const noexcept {
  std::size_t done = 0;
  for (auto const& m : members_) {
    if (m->server->settled()) {
      ++done;
    } else if (m->up()) {
      return false;
    }
  }
  return done >= needed();
}

void quorum::prepare_close(time_point now) {
  for (auto const& m : members_) m->server->prepare_close(now);
}

void quorum::report(statistics& to) const {
  to.cleanups_pending = pending();
  for (auto const& m : members_) {
    server_statistics s;
    s.url = readable_line(m->shown);
    s.connected = m->up();
    s.connects = m->counted.connects;
    s.disconnects = m->counted.disconnects;
    s.scripts = m->counted.scripts;
    s.votes = m->votes;
    s.cleanups_pending = m->server->pending();
    s.round_trip = m->server->as_votes().round_trip();
    bool const away = !m->up() && !m->server->link().trouble().empty();
    s.last_trouble = readable_line(away ? m->server->link().trouble() : m->last_trouble);
    to.servers.push_back(std::move(s));
    for (auto const counter : {&statistics::connects, &statistics::disconnects, &statistics::scripts, &statistics::kicks, &statistics::pushes,
                               &statistics::pushes_late, &statistics::pushes_doubted, &statistics::pushes_stray, &statistics::safety_checks,
                               &statistics::renewals, &statistics::renewal_scripts, &statistics::renewals_refused}) {
      to.*counter += m->counted.*counter;
    }
  }
}

quorum::quorum_lock* quorum::find(std::string_view name) {
  auto const at = locks_.find(name);
  return at == locks_.end() ? nullptr : at->second.get();
}

quorum::quorum_lock& quorum::lock_of(std::string_view name) {
  if (quorum_lock* const known = find(name)) return *known;
  auto made = std::make_unique<quorum_lock>(*this, std::string{name});
  std::string_view const key = made->name;
  return *locks_.emplace(key, std::move(made)).first->second;
}

void quorum::retire(quorum_lock& b) {
  if (b.keepers != 0 || b.at != quorum_lock::phase::idle) return;
  for (auto const& v : b.votes) {
    if (v->place.at != engine::place::state::idle || v->place.references != 0) return;
  }
  locks_.erase(locks_.find(b.name));
}

std::int64_t quorum::ticket_of(engine::place const& s) const noexcept { return static_cast<cohort_place const&>(s).lock.ticket; }

void quorum::drop(cohort_place& front) {
  --front.references;
  if (front.references == 0 && front.at == engine::place::state::idle) up_.settled(front);
}

duration quorum::round_trip() const {
  std::vector<duration> all;
  for (auto const& m : members_) {
    if (m->up() && m->server->as_votes().round_trip() != duration::zero()) all.push_back(m->server->as_votes().round_trip());
  }
  constexpr duration least = std::chrono::microseconds{100};
  if (all.empty()) return engine::milliseconds{1};
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return std::max(*middle, least);
}

duration quorum::patience_with(member const& m) const { return std::max<duration>(engine::milliseconds{10}, 16 * m.server->as_votes().round_trip()); }

duration quorum::jitter(duration from, duration to) {
  auto const range = static_cast<std::uint64_t>(std::max<duration::rep>((to - from).count(), 1));
  return from + duration{static_cast<duration::rep>(random_.next() % range)};
}

}  // namespace conch::quorum
