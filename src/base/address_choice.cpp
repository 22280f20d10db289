// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/address_choice.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch {

namespace {

/// Two addresses on other continents have answered by then (RFC 8305, section 5, has the same time between its
/// attempts).
constexpr duration shortest_share = std::chrono::milliseconds{250};
constexpr unsigned most_doublings = 20;
/// Approximate: an error does not list more addresses than this.
constexpr std::size_t most_words = 500;

}  // namespace

void address_choice::begin(std::vector<std::string> addresses, limits l, time_point now) {
  if (std::exchange(met_silence_, false)) doublings_ = std::min(doublings_ + 1, most_doublings);
  std::vector<known> const before = std::exchange(known_, {});
  order_.clear();
  for (std::string& one : addresses) {
    auto const same = [&](known const& k) { return k.address == one; };
    bool const is_first = std::none_of(known_.begin(), known_.end(), same);
    auto const found = std::find_if(before.begin(), before.end(), same);
    if (is_first) order_.push_back(known_.size());
    known_.push_back(is_first && found != before.end() ? *found : known{std::move(one)});
  }
  std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
    known const &x = known_[a], &y = known_[b];
    return x.last != y.last ? x.last < y.last : x.last != state::unknown && x.since < y.since;
  });
  turn_ = 0;
  begun_ = false;
  words_.clear();
  end_ = detail::later_by(now, l.whole);
  // One alone has all the time there is.
  all_tried_ = order_.size() < 2 ? end_ : std::min(end_, detail::later_by(now, l.lease / 3));
}

bool address_choice::next(time_point now) {
  if (std::exchange(begun_, true) && turn_ < order_.size()) ++turn_;
  if (turn_ >= order_.size() || now >= end_) return false;
  duration share = std::max((all_tried_ - now) / static_cast<duration::rep>(order_.size() - turn_), shortest_share);
  for (unsigned i = 0; i < doublings_ && share < end_ - now; ++i) share *= 2;
  until_ = std::min(end_, detail::later_by(now, share));
  return true;
}

void address_choice::note(state s, time_point now) {
  BOOST_ASSERT_MSG(begun_ && turn_ < order_.size(), "it is the turn of no address");
  known_[order_[turn_]].last = s;
  known_[order_[turn_]].since = now;
}

void address_choice::say(std::string_view why) {
  if (words_.size() > most_words) return;
  if (!words_.empty()) words_ += "; ";
  if (size() > 1) words_.append(address()).append(": ");
  words_ += why;
}

void address_choice::silent(std::string_view why, time_point now) {
  note(state::silent, now);
  say(why);
  met_silence_ = true;
}

void address_choice::refused(std::string_view why, time_point now) {
  note(state::refused, now);
  say(why);
}

void address_choice::succeeded() {
  for (known& one : known_) {
    if (one.last == state::good) one.last = state::unknown;
  }
  note(state::good, {});
  met_silence_ = false;
  doublings_ = 0;
}

}  // namespace conch
