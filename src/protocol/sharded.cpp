// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/sharded.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

namespace {

/// Until the connection to a master that has no slots any more is ended. What is in flight there is answered by then.
constexpr milliseconds until_unused{1000};

}  // namespace

sharded::sharded(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers, shards& where,
                 backend_events& up, log_sink& log, statistics& stats)
    : settings_{settings},
      timers_{timers},
      where_{where},
      up_{up},
      log_{log},
      stats_{stats},
      random_{seed},
      nonces_{nonces},
      shared_{nonces, this},
      unrouted_{settings, random_.next(), nonces,  timers, where.way_to(shards::unknown_master), up,
                log,      stats,          &shared_},
      unsubscribed_due_{this, call<&sharded::ask_unsubscribed>},
      idle_due_{this, call<&sharded::end_unused>} {
  where_.report_to(*this);
  where_.report_to(shards::unknown_master, unrouted_.receiver());
}

sharded::~sharded() = default;

// ---------------------------------------------------------------------------------------------------- the servers

server& sharded::server_of(unsigned slot) {
  std::size_t const number = where_.owner(slot);
  return number == shards::unknown_master ? unrouted_ : master(number);
}

server& sharded::master(std::size_t number) {
  if (number >= masters_.size()) masters_.resize(number + 1);
  std::unique_ptr<server>& one = masters_[number];
  if (!one) {
    one = std::make_unique<server>(settings_, random_.next(), nonces_, timers_, where_.way_to(number), up_, log_,
                                   stats_, &shared_);
    where_.report_to(number, one->receiver());
    if (gathering_) one->gather();
    for (auto const& [id, text] : introductions_) {
      masters_[number]->introduce(id, text, {});  // it is not connected yet
      reach_introduced(id);
    }
  }
  return *masters_[number];
}

/// The master that has the slot of this id is connected with the first other one: it may have none of the client's
/// locks.
void sharded::reach_introduced(std::string_view id) {
  std::size_t const number = where_.owner(where_.slot_of(id));
  if (number != shards::unknown_master) master(number).reach();
}

void sharded::introduce(std::string_view id, std::string_view text, time_point now) {
  auto const found = introductions_.find(id);
  if (text.empty()) {
    if (found != introductions_.end()) introductions_.erase(found);
  } else if (found != introductions_.end()) {
    found->second = text;
  } else {
    introductions_.emplace(id, text);
  }
  for_each([&](server& s) { s.introduce(id, text, now); });
  if (!text.empty() && connected()) reach_introduced(id);
}

std::size_t sharded::number_of(neighbour const& s) const {
  auto const found = std::find_if(masters_.begin(), masters_.end(),
                                  [&](auto const& one) { return one && &one->as_neighbour() == &s; });
  return found == masters_.end() ? shards::unknown_master : static_cast<std::size_t>(found - masters_.begin());
}

/// Every server, including those that this creates.
template <class F>
void sharded::for_each(F f) {
  f(unrouted_);
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    if (masters_[i]) f(*masters_[i]);
  }
}

template <class F>
bool sharded::any_of(F f) const {
  return f(unrouted_) || std::any_of(masters_.begin(), masters_.end(), [&](auto const& one) { return one && f(*one); });
}

template <class Number>
Number sharded::sum(Number (server::*of_one)() const noexcept) const {
  Number all = (unrouted_.*of_one)();
  for (auto const& one : masters_) {
    if (one) all += (*one.*of_one)();
  }
  return all;
}

// ------------------------------------------------------------------------------------------------------- the map

void sharded::moved(time_point now) {
  for_each([&](server& s) { s.as_neighbour().part(now); });
  for_each([&](server& s) { s.as_neighbour().take_over(now); });
  report_unrouted(now);
  timers_.arm(idle_due_, now + until_unused);
}

void sharded::report_unrouted(time_point now) {
  where_.wait_for_owner(unrouted_.as_neighbour().has_requests() || unrouted_.pending() != 0, now);
}

void sharded::end_unused(time_point now) {
  bool again = false;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    if (!masters_[i] || !masters_[i]->connected() || where_.is_master(i)) continue;
    if (masters_[i]->as_neighbour().is_unused()) masters_[i]->as_neighbour().leave("it has no slots any more");
    else again = true;
  }
  if (again) timers_.arm(idle_due_, now + until_unused);
}

/// A failover ends all subscriptions at once. The map, which changes too, is then read first.
void sharded::unsubscribed(std::size_t number, unsigned slot, time_point now) {
  if (number >= unsubscribed_.size()) unsubscribed_.resize(number + 1);
  unsubscribed_[number].insert(slot);
  timers_.arm(unsubscribed_due_, now);
}

/// The answer is a MOVED, or the slot is back already and is subscribed to again. So no place stays unsubscribed while
/// the map sees no change.
void sharded::ask_unsubscribed(time_point now) {
  for (std::size_t i = 0; i < unsubscribed_.size(); ++i) {
    std::set<unsigned> const slots = std::exchange(unsubscribed_[i], {});
    if (!slots.empty() && at(i) != nullptr) at(i)->as_neighbour().ask_once_more(slots, now);
  }
}

// ------------------------------------------------------------------------------------------------ from the cohort

std::unique_ptr<engine::place> sharded::make_place(std::string_view name, engine::permit const& share) {
  unsigned const slot = where_.slot_of(name);
  auto made = std::make_unique<server_place>(server_of(slot), name, share);
  made->slot = slot;
  return made;
}

void sharded::ask(engine::place& base, bool wait, milliseconds lease, time_point now) {
  server_place& p = made_here(base);
  server& there = server_of(p.slot);
  p.of = &there;  // it is idle, and does not know that its slot has moved
  there.ask(p, wait, lease, now);
  if (&there == &unrouted_) report_unrouted(now);
}

void sharded::gather() {
  gathering_ = true;
  for_each([](server& s) { s.gather(); });
}

/// Locks in several slots are each tried at their own master, or with those of their slot, at once.
void sharded::send_gathered(time_point now) {
  gathering_ = false;
  for_each([&](server& s) { s.send_gathered_by_slot(now); });
}

void sharded::leave_unless_granted(engine::place& p, time_point now) { keeper_of(p).leave_unless_granted(p, now); }

void sharded::give_up(engine::place& p, receipt* r, time_point now) { keeper_of(p).give_up(p, r, now); }

void sharded::release(engine::place& p, std::optional<milliseconds> again, receipt* r, time_point now) {
  keeper_of(p).release(p, again, r, now);
}

void sharded::detach(engine::place& p, time_point now) { keeper_of(p).detach(p, now); }

void sharded::renew(std::span<engine::place* const> places, time_point now) {
  std::vector<engine::place*> rest{places.begin(), places.end()};
  while (!rest.empty()) {
    backend& there = keeper_of(*rest.front());
    auto const others =
        std::stable_partition(rest.begin(), rest.end(), [&](engine::place* s) { return &keeper_of(*s) == &there; });
    there.renew({rest.begin(), others}, now);
    rest.erase(rest.begin(), others);
  }
}

time_point sharded::late_after(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c == nullptr ? time_point::min() : c->in->late_after(r);
}

bool sharded::has_room_for_renewal(engine::place const& p) const noexcept {
  return keeper_of(p).has_room_for_renewal(p);
}

std::string sharded::why_not_renewed(engine::place const& p, time_point now) const {
  return keeper_of(p).why_not_renewed(p, now);
}

error_code sharded::why_not_done(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c == nullptr ? no_answer() : c->in->why_not_done(r);
}

bool sharded::connected() const noexcept {
  return any_of([](server const& s) { return s.connected(); });
}

error_code sharded::too_late(engine::place const& p, time_point now) const { return keeper_of(p).too_late(p, now); }

duration sharded::answers_within(engine::place const& p) const noexcept { return keeper_of(p).answers_within(p); }

/// For a server that owes an answer.
error_code sharded::no_answer() const {
  error_code why;
  any_of([&](server const& s) {
    bool const has_requests = s.as_neighbour().has_requests() || s.pending() != 0;
    if (has_requests) why = s.no_answer();
    return has_requests && !s.connected();
  });
  return why ? why : unrouted_.no_answer();
}

void sharded::watch_requests(engine::place& p, time_point now) { keeper_of(p).watch_requests(p, now); }

void sharded::administer(admin_request& i, admin_events& whose, time_point now) {
  server& there = server_of(where_.slot_of(i.name));
  there.administer(i, whose, now);
  if (&there == &unrouted_) report_unrouted(now);
}

void sharded::report(statistics& to) const { to.cleanups_pending = pending(); }

bool sharded::settled() const noexcept {
  return !any_of([](server const& s) { return !s.settled(); });
}

std::uint64_t sharded::progress() const noexcept { return sum(&server::progress); }

void sharded::prepare_close(time_point now) {
  for_each([&](server& s) { s.prepare_close(now); });
}

std::size_t sharded::pending() const noexcept { return sum(&server::pending); }

bool sharded::catching_up() const noexcept {
  return any_of([](server const& s) { return s.catching_up(); });
}

bool sharded::renewed_elsewhere(neighbour& by, put_off const& what, std::string_view words, time_point now) {
  shards::detour const way = where_.detour_of(words, number_of(by));
  switch (way.what) {
    case shards::detour::kind::none: return false;
    case shards::detour::kind::each_alone:
      if (!what.can_be_divided) return false;
      if (what.asking) return by.renew_behind_asking(what.places, true, now);
      by.renew_each_alone(what.places, now);
      return true;
    case shards::detour::kind::there:
      if (what.asking) return false;
      return master(way.number).as_neighbour().renew_behind_asking(what.places, false, now);
  }
  return false;
}

}  // namespace conch::protocol
