// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/quorum_lock.hpp"

#include <algorithm>
#include <utility>

// Members that prove to be one server: together they have one vote (distinct.hpp).
namespace conch::quorum {

using protocol::place;

/// That member has a new connection, or has lost one.
void quorum::look_for_doubles(member& m, time_point now) {
  if (m.up()) {
    distinct_.met(m.number, {m.server->link().of_session().run, m.server->link().of_session().at});
  } else {
    distinct_.gone(m.number);
  }
  std::erase_if(told_doubles_, [&](auto const& two) { return !distinct_.are_one(two.first, two.second); });
  for (auto const& one : members_) {
    auto const now_of = distinct_.spoken_for_by(one->number);
    bool const had_vote = !std::exchange(one->same_as, now_of);
    if (had_vote != !now_of) vote_changes(*one, now);
  }
}

void quorum::vote_changes(member& m, time_point now) {
  if (m.same_as) {
    m.last_trouble = why_double(m);
    if (told_doubles_.insert(std::minmax(m.number, *m.same_as)).second) log_.note(false, m.last_trouble);
    leave_line(m, engine::timer_queue::never, now);
  }
  std::vector<quorum_lock*> all;
  for (auto const& [name, b] : locks_) {
    if (!m.same_as) b->votes[m.number]->not_before = now;
    if (b->asks() || b->at == quorum_lock::phase::held) all.push_back(b.get());
  }
  for (quorum_lock* b : all) {
    keeping const keep{*b};
    if (b->at != quorum_lock::phase::held) {
      decide(*b, now);
    } else if (b->owned() < needed()) {
      lose(*b, now);
    }
  }
}

/// Is this vote ours, and the one of its server that counts? Each member may have had one before they proved to be one server.
bool quorum::counts(vote const& v) const noexcept {
  if (v.place.at != place::state::owned) return false;
  if (!distinct_.any()) return true;
  auto const rank = [](vote const& of) { return std::pair{of.place.deadline, -static_cast<std::ptrdiff_t>(of.from.number)}; };
  return std::none_of(v.in.votes.begin(), v.in.votes.end(), [&](auto const& other) {
    bool const of_same = other.get() != &v && distinct_.are_one(other->from.number, v.from.number);
    return of_same && other->place.at == place::state::owned && rank(*other) > rank(v);
  });
}

std::string quorum::why_double(member const& m) const {
  return m.shown + " is the same server as " + members_[*m.same_as]->shown + ", and they have one vote together; name each server once";
}

std::string quorum::all_doubles() const {
  std::string all;
  for (auto const& m : members_) {
    if (m->same_as) all += (all.empty() ? "" : "; ") + why_double(*m);
  }
  return all;
}

}  // namespace conch::quorum
