// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/topology/sentinel.hpp"

#include "servers/redis/topology/address_map.hpp"

#include <boost/assert.hpp>

#include <algorithm>

namespace conch::redis {

namespace {

using protocol::fault;

/// Doubts come with every attempt to connect; Sentinels need a second or more for a failover.
constexpr duration between_doubts = std::chrono::milliseconds{500};

/// "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT": a name may not contain a blank.
bool is_of(std::string_view event, std::string_view name) {
  return event.starts_with(name) && event.substr(name.size()).starts_with(' ');
}

}  // namespace

sentinels::sentinels(sentinel_url const& url, times t, std::map<std::string, std::string> const& address_map)
    : server_{url.server},
      times_{t},
      address_map_{address_map} {
  BOOST_ASSERT(!url.sentinels.empty());
  for (address const& where : url.sentinels) {
    if (all_.size() == most) break;
    all_.push_back({.where = where});
  }
  of_url_ = all_.size();
}

void sentinels::begin(time_point now) {
  for (std::size_t i = 0; i < all_.size(); ++i) actions_.listen.push_back(i);
  refresh_at_ = detail::later_by(now, times_.refresh);
}

void sentinels::connected(std::size_t number, std::string_view id) {
  sentinel& s = all_[number];
  s.is_connected = true;
  if (!id.empty()) s.id = id;
  logged_silence_ = false;
}

void sentinels::answered(std::size_t number, std::optional<named_master> const& master) {
  bool const was_pending = is_pending();
  sentinel& s = all_[number];
  s.is_asked = false;
  s.last = master ? outcome::named : outcome::unknown_name;
  if (master) {
    s.named = *master;
    map_address(address_map_, s.named.host, s.named.port);
    believe(number, s.named);
  }
  verdict_may_have_changed(was_pending);
  listen_to_others();
}

/// The report of one counts if no other has reported a greater config-epoch. Those that do not know the last failover
/// yet, or have been cut off from the others, name the previous master: it may still be running, and consider itself
/// the master.
void sentinels::believe(std::size_t number, named_master const& m) {
  sentinel& s = all_[number];
  bool const same_place = master_ && master_->host == m.host && master_->port == m.port;
  bool const newer = !master_ || m.epoch > master_->epoch;
  // The same epoch, another address: the Sentinel has another name for the server than the others, or than before.
  bool const corrected = master_ && m.epoch == master_->epoch && named_by_ == number;
  if (!newer && !corrected) {
    if (!same_place && !std::exchange(s.logged_older, true)) {
      log(log_level::warning, s.where.shown() + " says that the master '" + server_.master + "' is at " +
                                  host_and_port(m.host, m.port) + " (epoch " + std::to_string(m.epoch) +
                                  "); ignored, since " + all_[named_by_].where.shown() + " has named " +
                                  host_and_port(master_->host, master_->port) + " (epoch " +
                                  std::to_string(master_->epoch) + ")");
    }
    return;
  }
  if (master_ && !same_place) ++switches_;
  if (!same_place) {
    actions_.moved = true;
    for (sentinel& other : all_) other.logged_older = false;
  }
  master_ = m;
  named_by_ = number;
  if (!same_place) log(log_level::info, present());
}

void sentinels::add_named(std::vector<named_sentinel> const& others) {
  for (named_sentinel other : others) {
    map_address(address_map_, other.host, other.port);
    auto const known =
        std::find_if(others_.begin(), others_.end(), [&](named_sentinel const& o) { return o.id == other.id; });
    if (known != others_.end()) *known = std::move(other);
    else others_.push_back(std::move(other));
    if (others_.size() > most_known) others_.pop_front();
  }
  listen_to_others();
}

/// When all of the URL have identified themselves, or could not be reached: one of them may have two addresses.
void sentinels::listen_to_others() {
  if (is_pending()) return;
  for (named_sentinel const& other : others_) {
    bool const known = std::any_of(all_.begin(), all_.end(), [&](sentinel const& s) {
      return (!other.id.empty() && s.id == other.id) || (s.where.host == other.host && s.where.port == other.port);
    });
    if (known) continue;
    sentinel* const place = place_for_another();
    if (place == nullptr) return;
    sentinel s{.where = all_.front().where};
    s.where.host = other.host;
    s.where.port = other.port;
    s.id = other.id;
    actions_.listen.push_back(static_cast<std::size_t>(place - all_.data()));
    log(log_level::info, "listens to " + s.where.shown() + " too");
    // The one that had this place comes back when another Sentinel names it again.
    std::string const gone = std::exchange(*place, std::move(s)).id;
    if (!gone.empty()) std::erase_if(others_, [&](named_sentinel const& o) { return o.id == gone; });
    return;  // until it has answered
  }
}

/// A new one, or that of a Sentinel which is not in the URL and cannot be reached: its next attempt to connect goes to
/// the other one.
sentinels::sentinel* sentinels::place_for_another() {
  if (all_.size() < most) return &all_.emplace_back();
  auto const gone = std::find_if(all_.begin() + static_cast<std::ptrdiff_t>(of_url_), all_.end(),
                                 [](sentinel const& s) { return s.last == outcome::failed && !s.is_connected; });
  return gone == all_.end() ? nullptr : &*gone;
}

void sentinels::switched(std::size_t number, std::string_view event, time_point now) {
  if (!is_of(event, server_.master)) return;
  // It has no epoch: a Sentinel that was cut off may report an old failover.
  ask(all_[number], now);
}

void sentinels::failed(std::size_t number, fault what, std::string_view why) {
  bool const was_pending = is_pending();
  sentinel& s = all_[number];
  s.is_connected = s.is_asked = false;
  s.last = outcome::failed;
  s.fault = what;
  s.why = why;
  verdict_may_have_changed(was_pending);
  listen_to_others();
  bool const none = std::none_of(all_.begin(), all_.end(), [](sentinel const& one) { return one.is_connected; });
  if (none && master_ && !is_pending() && !std::exchange(logged_silence_, true)) {
    log(log_level::warning, "no Sentinel can be reached; still using the master '" + server_.master + "' at " +
                                host_and_port(master_->host, master_->port));
  }
}

void sentinels::doubt(time_point now) {
  if (now < detail::later_by(doubted_at_, between_doubts)) return;
  doubted_at_ = now;
  ++refreshes_;
  for (sentinel& s : all_) ask(s, now);
}

void sentinels::due(time_point now) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    sentinel& s = all_[i];
    if (!s.is_asked || now < detail::later_by(s.asked, times_.patience)) continue;
    s.is_asked = false;
    actions_.drop.push_back(i);
  }
  if (now < refresh_at_) return;
  refresh_at_ = detail::later_by(now, times_.refresh);
  for (std::size_t tried = 0; tried < all_.size(); ++tried) {
    sentinel& s = all_[next_to_ask_++ % all_.size()];
    if (!s.is_connected) continue;
    ++refreshes_;
    return ask(s, now);
  }
}

void sentinels::ask(sentinel& s, time_point now) {
  if (!s.is_connected) return;
  if (!std::exchange(s.is_asked, true)) s.asked = now;
  actions_.ask.push_back(static_cast<std::size_t>(&s - all_.data()));
}

time_point sentinels::next_due() const noexcept {
  time_point next = refresh_at_;
  for (sentinel const& s : all_) {
    if (s.is_asked) next = std::min(next, detail::later_by(s.asked, times_.patience));
  }
  return next;
}

/// One has not answered yet, and may.
bool sentinels::is_pending() const noexcept {
  return std::any_of(all_.begin(), all_.end(), [](sentinel const& s) { return s.last == outcome::none; });
}

void sentinels::verdict_may_have_changed(bool was_pending) {
  // also if it has not: an error shows what they have answered until then
  if (was_pending && !master_) actions_.moved = true;
}

location sentinels::locate(address& to) const {
  using kind = location::kind;
  if (master_) {
    to.host = master_->host;
    to.port = master_->port;
    return {kind::here, fault::none};
  }
  if (is_pending()) return {kind::wait, fault::none, what_they_said()};
  // A name that none of the reachable ones knows is most likely wrong. Otherwise one that may be reached later may know
  // it.
  bool const name_is_unknown =
      std::any_of(all_.begin(), all_.end(), [](sentinel const& s) { return s.last == outcome::unknown_name; });
  if (name_is_unknown) return {kind::nowhere, fault::refused, what_they_said()};
  bool const for_good = std::all_of(all_.begin(), all_.end(), [](sentinel const& s) { return is_final(s.fault); });
  return {kind::nowhere, for_good ? all_.front().fault : fault::try_later, what_they_said()};
}

void sentinels::locate(std::size_t number, address& to) const {
  to.host = all_[number].where.host;
  to.port = all_[number].where.port;
}

std::string sentinels::present() const {
  if (!master_) return {};
  return "the master '" + server_.master + "' is at " + host_and_port(master_->host, master_->port) + " (epoch " +
         std::to_string(master_->epoch) + "), says " + all_[named_by_].where.shown();
}

std::string sentinels::what_they_said() const {
  std::string text;
  for (sentinel const& s : all_) {
    text += text.empty() ? "" : "; ";
    switch (s.last) {
      case outcome::none: text += s.where.shown() + ": no answer yet"; break;
      case outcome::named:
        text += s.where.shown() + ": at " + host_and_port(s.named.host, s.named.port) + ", epoch " +
                std::to_string(s.named.epoch);
        break;
      case outcome::unknown_name: text += s.where.shown() + ": does not know this name"; break;
      case outcome::failed: text += s.why; break;  // it begins with the address
    }
  }
  return text;
}

}  // namespace conch::redis
