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
  again_.for_each([](server_place& p) { p.waiting.postponed = p.waiting.asks_again = false; });
  active_.splice_back(again_);
  active_.splice_back(resting_);
  holds_.splice_back(resting_holds_);
  failing_ = {};
}

void places::rest() { resting_.splice_back(active_); }

void places::fail_all(error_code why) {
  again_.for_each([&](server_place& p) {
    if (p.state == place_state::leaving) return;
    p.waiting.postponed = false;
    p.unlink();
    active_.push_back(p);
  });
  active_.splice_back(resting_);
  resting_.splice_back(active_);
  failing_ = why;
}

void places::receive(server_place& p) {
  BOOST_ASSERT_MSG(!p.linked(), "a place comes from another server that still has it");
  bool const rests = link_.connected();
  if (p.state == place_state::owned) (rests ? resting_holds_ : holds_).push_back(p);
  else (rests ? resting_ : active_).push_back(p);
}

void places::postpone(server_place& p) {
  BOOST_ASSERT_MSG(p.linked() && p.state != place_state::owned, "only what asks or leaves waits for room");
  if (std::exchange(p.waiting.postponed, true)) return;
  p.check.cancel();
  p.unlink();
  again_.push_back(p);
}

void places::hold(server_place& p) {
  BOOST_ASSERT_MSG(p.state == place_state::owned, "only an owned place is a hold");
  p.check.cancel();
  p.unlink();
  p.waiting.postponed = false;
  holds_.push_back(p);
}

void places::end(server_place& p) {
  enter(p, place_state::idle);
  p.unlink();
  p.check.cancel();
  p.owned = {};
  p.waiting.postponed = false;
}

void places::drop(server_place& p) {
  p.of->assert_consistent(p);
  --p.references;
  if (p.references != 0 || p.state != place_state::idle) return;
  p.next_owner.nothing_to_check();  // as for a new place
  env_.up.settled(p);
}

void places::assert_consistent([[maybe_unused]] server_place const& p) const {
  BOOST_ASSERT_MSG(p.references != 0, "a reference to a place is given up twice");
  BOOST_ASSERT_MSG(p.linked() == (p.state != place_state::idle),
                   "a place is in no list, and is asked for again by no new connection; or it is idle, and would be");
  BOOST_ASSERT_MSG(p.state == place_state::asking || p.state == place_state::in_line ||
                       p.state == place_state::leaving || !p.check.armed(),
                   "a safety check of what neither waits nor asks");
  bool const waits [[maybe_unused]] = p.state == place_state::asking || p.state == place_state::in_line;
  bool const not_come_to [[maybe_unused]] = failing_ || link_.dropping() || p.late.last_sent_on != link_.number();
  BOOST_ASSERT_MSG(!waits || p.check.armed() || p.references > 1 || p.waiting.postponed || not_come_to,
                   "a waiter without a timer, of which nothing is under way");
  BOOST_ASSERT_MSG(p.state == place_state::owned || !p.owned.renewing, "a renewal of what is not owned");
}

server_place& places::next_hold() {
  BOOST_ASSERT_MSG(has_resting_holds(), "no hold rests");
  server_place& p = resting_holds_.pop_front();
  holds_.push_back(p);
  return p;
}

server_place& places::next_postponed() {
  BOOST_ASSERT_MSG(has_postponed(), "nothing waits for room");
  server_place& p = again_.pop_front();
  active_.push_back(p);
  p.waiting.postponed = false;
  return p;
}

server_place& places::next() {
  BOOST_ASSERT_MSG(has_resting(), "no place rests");
  server_place& p = resting_.pop_front();
  active_.push_back(p);
  return p;
}

bool places::has_any() const noexcept { return !active_.empty() || !holds_.empty() || has_rest(); }

std::vector<server_place*> places::asking_in(std::set<unsigned> const& slots) {
  std::vector<server_place*> found;
  active_.for_each([&](server_place& p) {  // what rests is asked for anyway
    if (slots.contains(p.slot) && (p.state == place_state::asking || p.state == place_state::in_line))
      found.push_back(&p);
  });
  return found;
}

std::vector<server_place*> places::holds_in(std::set<unsigned> const& slots) {
  std::vector<server_place*> found;
  holds_.for_each([&](server_place& p) {
    if (slots.contains(p.slot)) found.push_back(&p);
  });
  return found;
}

void places::part(my_slots const& mine, time_point now) {
  auto const part_with = [&](server_place& p) {
    if (!mine.has(p)) mine.at(p.slot).receive(p, now);
  };
  for (list<server_place>* of : {&holds_, &resting_holds_, &active_, &again_, &resting_}) of->for_each(part_with);
}

}  // namespace conch::protocol
