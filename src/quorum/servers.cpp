// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/servers.hpp"

#include "base/readable.hpp"
#include "base/votes.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace conch::quorum {

using protocol::server_place;

namespace {

/// How far a proposed fence lies ahead of the servers' clocks. This is more than what they differ by on a good day, so
/// all servers grant the same fence and no second round is needed.
constexpr std::int64_t fence_slack_us = 20'000;

}  // namespace

servers::~servers() {
  for (auto const& m : members_) m->server.reset();
}

member& servers::add(protocol::wire& out, std::string shown, events& to) {
  auto& m =
      *members_.emplace_back(std::make_unique<member>(to, *this, on_.log, members_.size(), std::move(shown), out));
  m.server =
      std::make_unique<protocol::server>(on_.settings, on_.random.next(), on_.nonces, on_.timers, out, m, m, m.counted);
  return m;
}

std::string member::why_no_vote() const {
  if (same_as) return in.why_double(*this);
  return up() ? std::string{} : server->link().why_not_connected();
}

void servers::met(member& m) {
  if (m.up()) {
    distinct_.met(m.number, {m.server->link().of_session().run, m.server->link().of_session().server_address});
  } else {
    distinct_.gone(m.number);
  }
  std::erase_if(logged_doubles_, [&](auto const& two) { return !distinct_.are_one(two.first, two.second); });
}

bool servers::vote_changes(member& m) {
  auto const now_of = distinct_.spoken_for_by(m.number);
  bool const had_vote = !std::exchange(m.same_as, now_of);
  return had_vote != !now_of;
}

bool servers::is_news(member const& m) { return logged_doubles_.insert(std::minmax(m.number, *m.same_as)).second; }

std::size_t servers::owned(quorum_lock const& q) const {
  return static_cast<std::size_t>(
      std::count_if(q.votes.begin(), q.votes.end(), [this](auto const& v) { return counts(*v); }));
}

std::size_t servers::needed() const noexcept { return votes_needed(on_.settings.quorum, members_.size()); }

std::optional<std::int64_t> servers::new_ticket(time_point now) const {
  std::vector<std::int64_t> clocks;
  for (auto const& m : members_) {
    if (auto const us = m->server->link().clock().shows_us(now)) clocks.push_back(*us);
  }
  if (clocks.size() < needed()) return std::nullopt;
  return agreed_ticket(clocks);
}

duration servers::answers_within(engine::place const& p) const noexcept {
  std::array<duration, most_servers> all{};
  std::size_t up = 0;
  for (auto const& m : members_) {
    if (m->up()) all[up++] = m->server->answers_within(p);
  }
  if (up == 0) return members_.front()->server->answers_within(p);
  auto const kth = all.begin() + static_cast<std::ptrdiff_t>(std::min(needed(), up) - 1);
  std::nth_element(all.begin(), kth, all.begin() + static_cast<std::ptrdiff_t>(up));
  return *kth;
}

error_code servers::no_answer() const {
  std::string const why = why_no_connection();
  return make_error_code(errc::unreachable, why.empty() ? "too few servers answered" : why);
}

std::string servers::why_no_connection() const {
  std::string const doubles = all_doubles();
  for (auto const& m : members_) {
    if (!m->up() && !m->server->link().trouble().empty())
      return m->server->link().trouble() + (doubles.empty() ? "" : "; " + doubles);
  }
  return doubles;
}

std::size_t servers::connected_servers() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(), [](auto const& m) { return m->has_vote(); }));
}

std::size_t servers::voters_there(quorum_lock const& q, time_point now) const {
  return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), [&](auto const& m) {
    return m->has_vote() && m->fresh_until <= now && !q.votes[m->number]->trouble;
  }));
}

std::size_t servers::pending() const noexcept {
  std::size_t n = 0;
  for (auto const& m : members_) n += m->server->pending();
  return n;
}

std::uint64_t servers::progress() const noexcept {
  std::uint64_t n = 0;
  for (auto const& m : members_) n += m->server->progress();
  return n;
}

bool servers::settled() const noexcept {
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

void servers::prepare_close(time_point now) {
  for (auto const& m : members_) m->server->prepare_close(now);
}

void servers::report(statistics& to) const {
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
    for (auto const counter : {&statistics::connects, &statistics::disconnects, &statistics::scripts,
                               &statistics::kicks, &statistics::pushes, &statistics::pushes_late,
                               &statistics::pushes_doubted, &statistics::pushes_stray, &statistics::safety_checks,
                               &statistics::renewals, &statistics::renewal_scripts, &statistics::renewals_refused}) {
      to.*counter += m->counted.*counter;
    }
  }
}

duration servers::round_trip() const {
  std::vector<duration> all;
  for (auto const& m : members_) {
    if (m->up() && m->server->as_votes().round_trip() != duration::zero())
      all.push_back(m->server->as_votes().round_trip());
  }
  constexpr duration least = std::chrono::microseconds{100};
  if (all.empty()) return engine::milliseconds{1};
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return std::max(*middle, least);
}

duration servers::patience_with(member const& m) const {
  return std::max<duration>(engine::milliseconds{10}, 16 * m.server->as_votes().round_trip());
}

std::int64_t servers::fence_ahead(time_point now) const {
  std::int64_t latest = 0;
  for (auto const& m : members_) latest = std::max(latest, m->server->link().clock().shows_us(now).value_or(0));
  return std::max<std::int64_t>(latest - protocol::fence_epoch_us + fence_slack_us, 1);
}

bool servers::counts(vote const& v) const noexcept {
  if (v.place.state != engine::place_state::owned) return false;
  if (!distinct_.any()) return true;
  auto const rank = [](vote const& of) {
    return std::pair{of.place.deadline, -static_cast<std::ptrdiff_t>(of.from.number)};
  };
  return std::none_of(v.in.votes.begin(), v.in.votes.end(), [&](auto const& other) {
    bool const of_same = other.get() != &v && distinct_.are_one(other->from.number, v.from.number);
    return of_same && other->place.state == engine::place_state::owned && rank(*other) > rank(v);
  });
}

std::string servers::why_double(member const& m) const {
  return m.shown + " is the same server as " + members_[*m.same_as]->shown +
         ", and they have one vote together; name each server once";
}

std::string servers::all_doubles() const {
  std::string all;
  for (auto const& m : members_) {
    if (m->same_as) all += (all.empty() ? "" : "; ") + why_double(*m);
  }
  return all;
}

}  // namespace conch::quorum
