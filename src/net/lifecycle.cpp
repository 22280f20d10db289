// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "net/lifecycle.hpp"

#include "base/readable.hpp"

#include <boost/assert.hpp>

#include <algorithm>

namespace conch::net {

namespace {

/// How much of an attempt the addresses that are known wait for those of other names: a fifth.
constexpr int share_of_names = 5;

}  // namespace

lifecycle::lifecycle(config const& settings, role& what, std::uint64_t seed, traits t)
    : settings_{settings},
      role_{what},
      traits_{std::move(t)},
      back_off_{seed} {}

void lifecycle::enter(connection_state to) noexcept {
  BOOST_ASSERT_MSG(to == connection_state::closed || connection_states.allows(state_, to),
                   "a connection goes from one connection_state to another that does not follow it");
  state_ = to;
}

void lifecycle::log(log_level level, std::string words) {
  log_.push_back({level, std::move(words)});
  todo.log = true;
}

bool lifecycle::drop(std::string_view why) {
  if (std::exchange(dropping_, true)) return false;
  why_dropped_ = why;
  return true;
}

std::string lifecycle::unfinished_attempt() const {
  auto const shown = [this](std::string_view step) { return role_.shown().append(": ").append(step); };
  switch (state_) {
    case connection_state::locating: return shown(not_located_);
    case connection_state::asking: return shown("credentials_provider has not answered yet");
    case connection_state::resolving: return shown("the name is not looked up yet");
    case connection_state::connecting: return shown("not connected yet");
    case connection_state::handshaking: return shown("no answer to the TLS handshake yet; is this a TLS port?");
    case connection_state::greeting: return shown(role_.step());
    case connection_state::idle:
    case connection_state::up:
    case connection_state::pausing:
    case connection_state::closed: break;
  }
  return {};
}

void lifecycle::sleep(time_point until) noexcept {
  until_ = todo.until = until;
  todo.sleep = true;
}

void lifecycle::due(time_point now) {
  if (std::exchange(moved_, false) && follow(now)) return;
  switch (state_) {
    case connection_state::idle:
      if (wanted_) connect(now);
      return;
    case connection_state::locating:
    case connection_state::asking:
    case connection_state::resolving:
    case connection_state::connecting:
    case connection_state::handshaking:
    case connection_state::greeting:
      if (now < until_) return sleep(until_);
      return too_late(now);
    case connection_state::up:
      if (dropping_) return lost(fault::reconnect, why_dropped_, now);
      if (now >= look_up_at_) {
        look_up_at_ = detail::later_by(now, settings_.topology_refresh);
        todo.resolve = true;
      }
      if (now >= role_.next_due()) role_.due(now);
      sleep_while_up();
      return role_.resume(now);
    case connection_state::pausing:
      if (now < until_) return sleep(until_);
      return connect(now);
    case connection_state::closed: return;
  }
}

// --------------------------------------------------------------------------------------------------------- an attempt

void lifecycle::connect(time_point now) {
  attempt_from_ = now;
  attempt_until_ = detail::later_by(now, settings_.connect_timeout);
  sleep(attempt_until_);
  locate(now);
}

void lifecycle::locate(time_point now) {
  enter(connection_state::locating);
  location const where = role_.locate(now);
  switch (where.what) {
    case location::kind::here:
      attempt_until_ = std::min(attempt_until_, detail::later_by(now, where.within));
      if (attempt_until_ < until_) sleep(attempt_until_);
      choice_ = where.known != nullptr ? where.known : &own_choice_;
      lease_ = where.lease.value_or(settings_.lease);
      if (!traits_.asks) return look_up(now);
      enter(connection_state::asking);
      todo.ask = true;
      return;
    case location::kind::wait: not_located_ = where.words; return;
    case location::kind::nowhere: return lost(where.why, where.words, now);
    case location::kind::not_needed:
      enter(connection_state::idle);
      wanted_ = false;
      return sleep(time_point::max());
  }
}

void lifecycle::logged_in(time_point now) {
  BOOST_ASSERT(state_ == connection_state::asking);
  look_up(now);
}

void lifecycle::look_up(time_point now) {
  enter(connection_state::resolving);
  if (!traits_.path.empty()) return begin({traits_.path}, now);
  found_ = {{}, false};
  todo.resolve = true;
}

/// A name that hangs does not keep the other hosts waiting for long.
void lifecycle::resolved(found f, time_point now) {
  if (state_ == connection_state::up) {
    // If a look-up fails the connection stands; the name is looked up again later.
    if (!f.is_all || !f.why_not.empty() || !own_.are_elsewhere(f.addresses)) return;
    return go_elsewhere("the name " + role_.name() + " means another address now: " + f.addresses.front(), now);
  }
  if (state_ != connection_state::resolving) return;
  bool const is_first = found_.addresses.empty();
  found_ = std::move(f);
  if (found_.is_all) return begin(found_.addresses, now);
  if (is_first && !found_.addresses.empty())
    sleep(std::min(until_, detail::later_by(now, settings_.connect_timeout / share_of_names)));
}

void lifecycle::begin(std::vector<std::string> addresses, time_point now) {
  if (addresses.empty())
    return lost(fault::try_later, found_.why_not.empty() ? "the host has no address" : readable(found_.why_not), now);
  choice_->begin(std::move(addresses), {.whole = attempt_until_ - now, .lease = lease_}, now);
  if (!choice_->next(now)) return lost(fault::try_later, "no connection within connect_timeout", now);
  connect_next();
}

void lifecycle::connect_next() {
  enter(connection_state::connecting);
  sleep(choice_->until());
  todo.connect = true;
}

void lifecycle::connected(time_point now) {
  BOOST_ASSERT(state_ == connection_state::connecting);
  if (!traits_.handshakes) return greet(now);
  enter(connection_state::handshaking);
  todo.handshake = true;
}

void lifecycle::handshaken(time_point now) {
  BOOST_ASSERT(state_ == connection_state::handshaking);
  greet(now);
}

void lifecycle::greet(time_point now) {
  enter(connection_state::greeting);
  has_heard_ = false;
  role_.greet(now);
}

void lifecycle::take_time() {
  BOOST_ASSERT(state_ == connection_state::greeting);
  sleep(attempt_until_);
}

/// The time for this step of the attempt has passed.
void lifecycle::too_late(time_point now) {
  if (state_ == connection_state::locating) return lost(fault::try_later, not_located_, now, true);
  if (state_ == connection_state::asking)
    return lost(fault::try_later, "credentials_provider: no answer within connect_timeout", now, true);
  if (state_ == connection_state::resolving && now < attempt_until_) return begin(found_.addresses, now);
  std::string const words = role_.silence(now - attempt_from_, state_ == connection_state::resolving);
  if (state_ == connection_state::resolving)
    return lost(fault::try_later, words.empty() ? "no connection within connect_timeout" : words, now, true);
  bool const is_handshake = state_ == connection_state::handshaking;
  std::string const what = is_handshake                           ? "answer to the TLS handshake"
                           : state_ == connection_state::greeting ? "answer to the greeting"
                                                                  : "connection";
  std::string const within = now < attempt_until_ ? " within its share of connect_timeout" : " within connect_timeout";
  choice_->silent(words.empty() ? "no " + what + within + (is_handshake ? "; is this a TLS port?" : "") : words, now);
  // A server without TLS waits for the end of what it takes for a command. One that has spoken TLS before is only slow;
  // and if there are others, one that is silent proves nothing.
  bool const is_alone = choice_ == &own_choice_ && !choice_->has_more();
  move_on(is_handshake && !was_up_ && is_alone ? fault::tls_failed : fault::try_later, now, true);
}

void lifecycle::failed(fault what, std::string_view why, time_point now) {
  BOOST_ASSERT(state_ != connection_state::idle && state_ != connection_state::pausing &&
               state_ != connection_state::closed);
  // Before the name is looked up, there is no address to blame.
  if (!has_address()) return lost(what, why, now);
  choice_->refused(why, now);
  move_on(what, now);
}

void lifecycle::end(fault what, std::string_view why, time_point now, bool is_silent) {
  if (has_address()) is_silent ? choice_->silent(why, now) : choice_->refused(why, now);
  lost(what, why, now, is_silent);
}

/// The present address was of no use: the next one follows, unless this was the last.
void lifecycle::move_on(fault what, time_point now, bool is_silent) {
  bool const for_now = what == fault::try_later || what == fault::reconnect;
  if (!for_now || !choice_->next(now)) return lost(what, choice_->words(), now, is_silent);
  role_.passed_over(what, choice_->words(), now);
  count_failed_handshake(what);
  close();
  connect_next();
}

void lifecycle::count_failed_handshake(fault what) noexcept {
  // Our certificate is refused only after the handshake.
  if (state_ == connection_state::handshaking || (state_ == connection_state::greeting && what == fault::tls_failed))
    ++counted_.handshakes_failed;
}

/// The role locates the server elsewhere, perhaps. False: that changes nothing.
bool lifecycle::follow(time_point now) {
  if (state_ == connection_state::idle || state_ == connection_state::closed) return false;
  back_off_.begin_anew();
  if (state_ == connection_state::pausing) return connect(now), true;
  if (state_ == connection_state::locating) return locate(now), true;
  auto const there = role_.moved_to(now);
  if (!there) return false;
  lost(fault::reconnect, *there + " has taken its place", now);
  sleep(now);
  return true;
}

// ------------------------------------------------------------------------------------------- a connection, and its end

void lifecycle::up(std::string_view run, bool by_name, time_point now) {
  BOOST_ASSERT(state_ == connection_state::greeting);
  enter(connection_state::up);
  std::string const there = choice_->size() > 1 ? " at " + choice_->address() : std::string{};
  std::string const passed_over = choice_->words().empty() ? std::string{} : "; passed over " + choice_->words();
  choice_->succeeded();
  own_.connected(run, choice_->address());
  look_up_at_ = by_name ? detail::later_by(now, settings_.topology_refresh) : time_point::max();
  sleep(look_up_at_);
  up_since_ = now;
  was_up_ = true;
  dropping_ = false;
  shortest_lease_ = duration::max();
  log_.push_back(line_of(connection_event::connected, role_.shown() + there + passed_over));
  todo.log = true;
}

void lifecycle::sleep_while_up() noexcept {
  time_point const next = std::min(role_.next_due(), look_up_at_);
  if (next != time_point::max()) sleep(next);
}

/// The server that was wanted is at another address by now.
void lifecycle::go_elsewhere(std::string_view why, time_point now) {
  lost(fault::reconnect, why, now);
  back_off_.begin_anew();
  sleep(now);
}

void lifecycle::close() noexcept {
  todo = {.log = todo.log, .close = true};
  role_.stream_ended();
}

/// The end of this connection, or of the attempt to make one.
void lifecycle::lost(fault what, std::string_view reason, time_point now, bool is_silent) {
  bool const was_up = state_ == connection_state::up, was_greeting = state_ == connection_state::greeting;
  count_failed_handshake(what);
  std::string const why{reason};
  enter(connection_state::pausing);
  close();
  look_up_at_ = time_point::max();
  role::retry const then = role_.ended({what, why, was_up, was_greeting, is_silent, !back_off_.is_under_way(),
                                        was_up ? now - up_since_ : duration::zero()},
                                       now);
  if (!then.is_logged) {
    auto const event = was_up           ? connection_event::lost
                       : is_final(what) ? connection_event::refused
                                        : connection_event::failed;
    log_.push_back(line_of(event, role_.shown(), why));
    todo.log = true;
  }
  if (was_up) back_off_.lasted(now - up_since_);
  sleep(detail::later_by(now, then.pause ? *then.pause : back_off_.next(settings_, shortest_lease_)));
}

void lifecycle::shut_down() {
  bool const writes_last = role_.writes_last();
  enter(connection_state::closed);
  if (!writes_last) close();
}

}  // namespace conch::net
