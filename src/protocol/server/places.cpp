// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/places.hpp"

#include "protocol/server/my_slots.hpp"
#include "protocol/server/place_keeper.hpp"

#include <utility>

namespace conch::protocol {

void places::begin() {
  failing_ = {};
  resting_holds_.splice_back(holds_);
  active_.splice_back(resting_);
  resting_.splice_back(active_);
}

void places::end() {
  again_.for_each([](place& s) { s.waiting.postponed = s.waiting.asks_again = false; });
  active_.splice_back(again_);
  active_.splice_back(resting_);
  holds_.splice_back(resting_holds_);
  failing_ = {};
}

void places::rest() { resting_.splice_back(active_); }

void places::fail_all(error_code why) {
  again_.for_each([&](place& s) {
    if (s.at == place::state::leaving) return;
    s.waiting.postponed = false;
    s.unlink();
    active_.push_back(s);
  });
  active_.splice_back(resting_);
  resting_.splice_back(active_);
  failing_ = why;
}

void places::receive(place& s) {
  BOOST_ASSERT_MSG(!s.linked(), "a place comes from another server that still has it");
  bool const rests = link_.connected();
  if (s.at == place::state::owned) (rests ? resting_holds_ : holds_).push_back(s);
  else (rests ? resting_ : active_).push_back(s);
}

void places::postpone(place& s) {
  BOOST_ASSERT_MSG(s.linked() && s.at != place::state::owned, "only what asks or leaves waits for room");
  if (std::exchange(s.waiting.postponed, true)) return;
  s.check.cancel();
  s.unlink();
  again_.push_back(s);
}

void places::hold(place& s) {
  BOOST_ASSERT_MSG(s.at == place::state::owned, "what is not owned is no hold");
  s.check.cancel();
  s.unlink();
  s.waiting.postponed = false;
  holds_.push_back(s);
}

void places::end(place& s) {
  enter(s, place::state::idle);
  s.unlink();
  s.check.cancel();
  s.owned = {};
  s.waiting.postponed = false;
}

void places::drop(place& s) {
  s.of->assert_consistent(s);
  --s.references;
  if (s.references != 0 || s.at != place::state::idle) return;
  s.heir.nothing_to_check();  // as for a new place
  env_.up.settled(s);
}

void places::assert_consistent([[maybe_unused]] place const& s) const {
  using state [[maybe_unused]] = place::state;
  BOOST_ASSERT_MSG(s.references != 0, "a reference to a place is given up twice");
  BOOST_ASSERT_MSG(s.linked() == (s.at != state::idle),
                   "a place is in no list, and is asked for again by no new connection; or it is idle, and would be");
  BOOST_ASSERT_MSG(s.at == state::asking || s.at == state::in_line || s.at == state::leaving || !s.check.armed(),
                   "a safety check of what neither waits nor asks");
  bool const waits [[maybe_unused]] = s.at == state::asking || s.at == state::in_line;
  bool const not_come_to [[maybe_unused]] = failing_ || link_.dropping() || s.late.told_on != link_.number();
  BOOST_ASSERT_MSG(!waits || s.check.armed() || s.references > 1 || s.waiting.postponed || not_come_to,
                   "a waiter without a timer, of which nothing is under way");
  BOOST_ASSERT_MSG(s.at == state::owned || !s.owned.renewing, "a renewal of what is not owned");
}

place& places::next_hold() {
  BOOST_ASSERT_MSG(has_resting_holds(), "no hold rests");
  place& s = resting_holds_.pop_front();
  holds_.push_back(s);
  return s;
}

place& places::next_postponed() {
  BOOST_ASSERT_MSG(has_postponed(), "nothing waits for room");
  place& s = again_.pop_front();
  active_.push_back(s);
  s.waiting.postponed = false;
  return s;
}

place& places::next() {
  BOOST_ASSERT_MSG(has_resting(), "no place rests");
  place& s = resting_.pop_front();
  active_.push_back(s);
  return s;
}

bool places::has_any() const noexcept { return !active_.empty() || !holds_.empty() || has_rest(); }

std::vector<place*> places::asking_in(std::set<unsigned> const& slots) {
  std::vector<place*> found;
  active_.for_each([&](place& s) {  // what rests is asked for anyway
    if (slots.contains(s.slot) && (s.at == place::state::asking || s.at == place::state::in_line)) found.push_back(&s);
  });
  return found;
}

std::vector<place*> places::holds_in(std::set<unsigned> const& slots) {
  std::vector<place*> found;
  holds_.for_each([&](place& s) {
    if (slots.contains(s.slot)) found.push_back(&s);
  });
  return found;
}

void places::part(my_slots const& mine, time_point now) {
  auto const part_with = [&](place& s) {
    if (!mine.has(s)) mine.at(s.slot).receive(s, now);
  };
  for (list<place>* of : {&holds_, &resting_holds_, &active_, &again_, &resting_}) of->for_each(part_with);
}

}  // namespace conch::protocol
