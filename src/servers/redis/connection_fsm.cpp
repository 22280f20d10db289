// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/connection_fsm.hpp"

#include "base/readable.hpp"
#include "base/turns.hpp"
#include "protocol/shortest_lease.hpp"
#include "resp/encoder.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/faults.hpp"
#include "servers/redis/topology/slots.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace conch::redis {

namespace {

/// The longest message is a grant for a name of 512 bytes, or an answer of 906 numbers. A peer that sends more than this is
/// no lock server.
constexpr resp::limits wire_limits{.max_depth = 8, .max_elements = 4096, .max_text = 64 << 10, .max_message = 1 << 20};
/// A whole map of a Cluster of which every slot has moved by itself.
constexpr resp::limits talk_limits{.max_depth = 8, .max_elements = 1 << 20, .max_text = 64 << 10, .max_message = 32 << 20};
/// Some Sentinels with all that is known of each.
constexpr resp::limits sentinel_limits{.max_depth = 8, .max_elements = 1 << 14, .max_text = 64 << 10, .max_message = 1 << 20};
constexpr std::size_t good_read = 16 << 10;

resp::limits const& limits_of(address const& where, bool talks) {
  if (!talks) return wire_limits;
  return where.is_sentinel ? sentinel_limits : talk_limits;
}
/// Until a server that is still a replica is greeted again: it is about to be made the master, or another one is.
constexpr duration after_replica = std::chrono::milliseconds{100};

/// Only of those that can be gathered.
unsigned slot_of(protocol::command const& c) {
  if (auto const* const a = std::get_if<protocol::acquire_command>(&c)) return slot_of_lock(a->name);
  if (auto const* const r = std::get_if<protocol::release_command>(&c)) return slot_of_lock(r->name);
  return slot_count;
}

}  // namespace

connection_fsm::connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed, stream_kind stream,
                               roles const& r)
    : settings_{settings}, who_{client_id, settings.key_prefix}, where_{std::move(where)}, stream_{stream}, roles_{r}, back_off_{seed},
      renewal_{settings, r.talk == nullptr}, decoder_{limits_of(where_, r.talk != nullptr)}, out_{!settings.single_threaded} {
  if (roles_.node == nullptr) return;
  who_.node = roles_.node->digits();
  subscribed_.begin(who_.home);
}

void connection_fsm::log(log_line line) { log(line.level, std::move(line.words)); }

void connection_fsm::log(log_level level, std::string words) {
  log_.push_back({level, std::move(words)});
  actions_.log = true;
}

// ---------------------------------------------------------------------------------------------- from the protocol

connection_fsm::flush_due connection_fsm::send(protocol::command const& c) {
  flush_due const when = out_.say(unanswered_ > 0, [&](std::string& out) {
    if (roles_.node != nullptr) hear(c, out);
    shared_.add(c, who_, roles_.node != nullptr ? slot_of(c) : 0, answered_ + unanswered_, out);
  });
  shortest_lease_ = std::min(shortest_lease_, protocol::shortest_lease(c));
  ++unanswered_;
  return when;
}

/// In the same write as the command, and before it: what comes of it may be pushed.
void connection_fsm::hear(protocol::command const& c, std::string& out) {
  auto const slot = subscribed_.before(c, answered_ + unanswered_, renewal_.is_sent());
  if (!slot) return;
  shared_.end(who_, out);
  resp::append_command(out, {"SSUBSCRIBE", channel_of(who_, *slot)});
}

bool connection_fsm::say(std::string_view bytes) {
  BOOST_ASSERT(roles_.talk != nullptr && state_ == state::up);
  return out_.say(true, [&](std::string& out) { out += bytes; }) != flush_due::no;
}

bool connection_fsm::want_connection() noexcept { return !std::exchange(wanted_, true); }

bool connection_fsm::drop_connection(std::string_view why) {
  if (std::exchange(dropping_, true)) return false;
  why_dropped_ = why;
  return true;
}

// -------------------------------------------------------------------------------------- making a connection

void connection_fsm::sleep(time_point until) noexcept {
  until_ = actions_.until = until;
  actions_.sleep = true;
}

void connection_fsm::due(time_point now) {
  if (std::exchange(moved_, false) && follow(now)) return;
  switch (state_) {
    case state::idle:
      if (wanted_) connect(now);
      return;
    case state::locating:
    case state::asking:
    case state::resolving:
    case state::connecting:
    case state::handshaking:
    case state::greeting:
      if (now < until_) return sleep(until_);
      return too_late(now);
    case state::up:
      if (dropping_) return lost(protocol::fault::reconnect, why_dropped_, now);
      if (now >= look_up_at_) {
        look_up_at_ = detail::later_by(now, settings_.topology_refresh);
        actions_.resolve = true;
      }
      if (now >= renewal_.next_due()) refresh(now);
      sleep_while_up();
      if (std::exchange(unfinished_, false)) hand_over(now);
      return;
    case state::pausing:
      if (now < until_) return sleep(until_);
      return connect(now);
    case state::closed: return;
  }
}

void connection_fsm::connect(time_point now) {
  attempt_until_ = detail::later_by(now, settings_.connect_timeout);
  sleep(attempt_until_);
  if (roles_.finder != nullptr) return locate(now);
  ask_or_look_up(now);
}

void connection_fsm::locate(time_point now) {
  state_ = state::locating;
  location const found = roles_.finder->locate(where_, now);
  switch (found.what) {
    case location::kind::here:
      attempt_until_ = std::min(attempt_until_, detail::later_by(now, found.within));
      if (attempt_until_ < until_) sleep(attempt_until_);
      return ask_or_look_up(now);
    case location::kind::wait: not_located_ = found.words; return;
    case location::kind::nowhere: return lost(found.why, found.words, now);
    case location::kind::not_needed:
      state_ = state::idle;
      wanted_ = false;
      return sleep(time_point::max());
  }
}

/// The locator has another answer. False: that changes nothing.
bool connection_fsm::follow(time_point now) {
  if (state_ == state::idle || state_ == state::closed) return false;
  back_off_.begin_anew();
  if (state_ == state::pausing) return connect(now), true;
  if (state_ == state::locating) return locate(now), true;
  address there = where_;
  location const found = roles_.finder->locate(there, now);
  if (found.what != location::kind::here || (there.host == where_.host && there.port == where_.port)) return false;
  lost(protocol::fault::reconnect, there.shown() + " has taken its place", now);
  sleep(now);
  return true;
}

void connection_fsm::ask_or_look_up(time_point now) {
  if (!settings_.credentials_provider) return look_up(now);
  state_ = state::asking;
  actions_.ask = true;
}

void connection_fsm::look_up(time_point now) {
  if (where_.is_unix_socket()) return begin_at({where_.path}, now);
  state_ = state::resolving;
  actions_.resolve = true;
}

void connection_fsm::resolved(std::vector<std::string> addresses, time_point now) {
  if (state_ == state::up) return still_there(addresses, now);
  BOOST_ASSERT(state_ == state::resolving);
  if (addresses.empty()) return lost(protocol::fault::try_later, "the host has no address", now);
  begin_at(std::move(addresses), now);
}

void connection_fsm::not_resolved(std::string_view why, time_point now) {
  if (state_ == state::up) return;  // the connection stands; the name is looked up again later
  failed(why, now);
}

void connection_fsm::begin_at(std::vector<std::string> addresses, time_point now) {
  choice_.begin(std::move(addresses), {.whole = attempt_until_ - now, .lease = settings_.lease}, now);
  if (!choice_.next(now)) return too_late(now);
  connect_next();
}

/// The name of the server that we are connected to means these addresses now.
void connection_fsm::still_there(std::vector<std::string> const& addresses, time_point now) {
  if (!own_.are_elsewhere(addresses)) return;
  lost(protocol::fault::reconnect, "the name " + where_.host + " means another address now: " + addresses.front(), now);
  back_off_.begin_anew();
  sleep(now);
}

/// Until something is due.
void connection_fsm::sleep_while_up() noexcept {
  time_point const next = std::min(renewal_.next_due(), look_up_at_);
  if (next != time_point::max()) sleep(next);
}

/// Of the provider: for a connection that is to be made, or for the present one.
void connection_fsm::credentials_found(credentials found, time_point now) {
  bool const of_live = state_ == state::up && renewal_.is_asking();
  if (state_ != state::asking && !of_live) return;  // too late
  renewal_.found(found);
  where_.user = std::move(found.user);
  where_.token = looks_like_a_token(where_.user) ? secret{where_.user} : secret{};
  where_.password = std::move(found.password);
  if (!of_live) return look_up(now);
  if (where_.password.empty()) return authenticated(now);
  // Encoded, not sent: the protocol must not wait for an answer that is not its own.
  out_.say_only([&](std::string& out) {
    shared_.end(who_, out);
    renewal_.send(where_, unanswered_, out);
  });
  if (out_.claim()) actions_.flush = true;
}

void connection_fsm::no_credentials(std::string_view why, time_point now) {
  std::string const words = "credentials_provider: " + readable(why);
  if (state_ == state::asking) return lost(protocol::fault::try_later, words, now);
  if (state_ == state::up && renewal_.is_asking()) refresh_failed(words, now);
}

/// The time has come to renew the credentials of the live connection, or to ask once more.
void connection_fsm::refresh(time_point now) {
  if (renewal_.is_asking()) return refresh_failed("credentials_provider: no answer within connect_timeout", now);
  renewal_.ask(now);
  actions_.ask = true;
}

void connection_fsm::refresh_failed(std::string_view why, time_point now) {
  ++counted_.renewals_failed;
  log(log_level::warning, where_.shown() + ": cannot renew the credentials: " + std::string{why});
  renewal_.refused(now);
  sleep_while_up();
}

/// The present credentials are known to the server.
void connection_fsm::authenticated(time_point now) {
  if (renewal_.accepted(now)) sleep_while_up();
}

void connection_fsm::connect_next() {
  state_ = state::connecting;
  if (actions_.close || choice_.until() != until_) sleep(choice_.until());  // the close ends a sleep
  actions_.connect = true;
}

void connection_fsm::refused(std::string_view why, time_point now) {
  BOOST_ASSERT(state_ == state::connecting);
  choice_.refused(readable(why), now);
  move_on(protocol::fault::try_later, now);
}

/// The present address was of no use: the next one follows, unless this was the last.
void connection_fsm::move_on(protocol::fault what, time_point now) {
  bool const for_now = what == protocol::fault::try_later || what == protocol::fault::reconnect;
  if (!for_now || !choice_.next(now)) return lost(what, choice_.words(), now);
  // It may be the master again when this attempt comes to it for the second time.
  if (what == protocol::fault::reconnect && roles_.talk == nullptr) events_->connect_failed(what, where_.shown() + ": " + choice_.words(), now);
  count_failed_handshake(what);
  actions_ = {.log = actions_.log, .close = true};
  forget_stream();
  connect_next();
}

void connection_fsm::count_failed_handshake(protocol::fault what) noexcept {
  // A certificate of ours is refused only behind the handshake.
  if (state_ == state::handshaking || (state_ == state::greeting && what == protocol::fault::tls_failed)) ++counted_.handshakes_failed;
}

/// What was known of the stream that ends.
void connection_fsm::forget_stream() noexcept {
  out_.end_stream();
  unfinished_ = false;
}

void connection_fsm::connected(time_point now) {
  BOOST_ASSERT(state_ == state::connecting);
  if (!stream_.handshakes) return greet(now);
  state_ = state::handshaking;
  actions_.handshake = true;
}

std::string connection_fsm::unfinished_attempt() const {
  auto const at = [this](std::string_view step) { return where_.shown().append(": ").append(step); };
  switch (state_) {
    case state::locating: return at(not_located_);
    case state::asking: return at("credentials_provider has not answered yet");
    case state::resolving: return at("the name is not looked up yet");
    case state::connecting: return at("not connected yet");
    case state::handshaking: return at("no answer to the TLS handshake yet; is this a TLS port?");
    case state::greeting: return at("no answer to the greeting yet");
    case state::idle:
    case state::up:
    case state::pausing:
    case state::closed: break;
  }
  return {};
}

/// The time of this step of the attempt is over.
void connection_fsm::too_late(time_point now) {
  if (state_ == state::locating) return lost(protocol::fault::try_later, not_located_, now);
  if (state_ == state::asking) return no_credentials("no answer within connect_timeout", now);
  if (state_ == state::resolving) return lost(protocol::fault::try_later, "no connection within connect_timeout", now);
  std::string const within = now < attempt_until_ ? "within its share of connect_timeout" : "within connect_timeout";
  if (state_ != state::handshaking) {
    choice_.silent((state_ == state::greeting ? "no answer to the greeting " : "no connection ") + within, now);
    return move_on(protocol::fault::try_later, now);
  }
  choice_.silent("no answer to the TLS handshake " + within + "; is this a TLS port?", now);
  // A server without TLS waits for the end of what it takes for a command. One that has spoken TLS before is only slow.
  move_on(was_up_ || choice_.has_more() ? protocol::fault::try_later : protocol::fault::tls_failed, now);
}

void connection_fsm::handshaken(time_point now) {
  BOOST_ASSERT(state_ == state::handshaking);
  greet(now);
}

void connection_fsm::greet(time_point now) {
  state_ = state::greeting;
  decoder_.reset();
  out_.begin(roles_.talk != nullptr ? roles_.talk->begin(where_, settings_.client_name)
                                    : greeting_.begin(where_, settings_.client_name, roles_.node != nullptr));
  greeted_at_ = now;
  heard_ = false;
  actions_.write = true;
  actions_.read = true;
}

void connection_fsm::failed(std::string_view why, time_point now, protocol::fault what) {
  BOOST_ASSERT(state_ != state::idle && state_ != state::pausing && state_ != state::closed);
  // So ends a plain connection to a TLS port.
  bool const unheard = state_ == state::greeting && !heard_ && !stream_.handshakes && !where_.is_unix_socket();
  std::string_view const over_tls = where_.is_sentinel ? "rediss-sentinel://" : "rediss://";
  std::string words = readable(why);
  if (unheard) words.append("; if this is a TLS port, the URL begins with ").append(over_tls);
  if (state_ != state::handshaking && state_ != state::greeting) return lost(what, words, now);
  choice_.refused(words, now);
  move_on(what, now);
}

void connection_fsm::write_failed(std::string_view why, time_point now) {
  if (state_ == state::greeting && stream_.handshakes) return;
  failed(why, now);
}

/// The end of this connection, or of the attempt to make one.
void connection_fsm::lost(protocol::fault what, std::string_view reason, time_point now) {
  bool const was_up = state_ == state::up;
  count_failed_handshake(what);
  bool const is_replica = state_ == state::greeting && what == protocol::fault::reconnect;
  bool const told = !was_up && ((roles_.talk != nullptr && back_off_.is_under_way()) || (is_replica && was_replica_ && roles_.finder != nullptr));
  was_replica_ = is_replica;
  std::string const why{reason};
  actions_ = {.log = actions_.log, .close = true};
  state_ = state::pausing;
  forget_stream();
  renewal_.end();
  look_up_at_ = time_point::max();
  if (!told) {  // nobody waits for a server that keeps no locks, and a replica is greeted again and again
    auto const event = was_up ? connection_event::lost : is_final(what) ? connection_event::refused : connection_event::failed;
    log(line_of(event, where_.shown(), why));
  }
  if (roles_.talk != nullptr) {
    roles_.talk->ended(what, where_.shown() + ": " + why);
  } else if (!was_up) {
    events_->connect_failed(what, where_.shown() + ": " + why, now);
  } else {
    events_->disconnected(why, now);
  }
  out_.forget();
  shared_.forget();
  if (was_up) back_off_.lasted(now - up_since_);
  sleep(detail::later_by(now, is_replica && roles_.finder != nullptr ? after_replica : back_off_.next(settings_, shortest_lease_)));
}

void connection_fsm::shut_down() noexcept {
  state_ = state::closed;
  actions_ = {.log = actions_.log, .close = true};
}

// ---------------------------------------------------------------------------------------------------- what comes in

std::span<char> connection_fsm::room() { return decoder_.prepare(good_read); }

void connection_fsm::received(std::size_t size, time_point now) {
  BOOST_ASSERT(state_ == state::greeting || state_ == state::up);
  decoder_.commit(size);
  if (!std::exchange(heard_, true) && stream_.handshakes) ++counted_.handshakes;
  if (state_ == state::greeting) hear_greeting(now);
  else hand_over(now);
}

void connection_fsm::hear_greeting(time_point now) {
  for (;;) {
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: actions_.read = true; return;
      case resp::decoder::progress::failed:
        return unwelcome(protocol::fault::malformed, std::string{decoder_.error()}.append(stranger(decoder_.rejected())), now);
      case resp::decoder::progress::message: break;
    }
    if (roles_.talk != nullptr) {
      switch (roles_.talk->heard(decoder_.message(), decoder_.is_push(), now)) {
        case dialogue::progress::greeting: continue;
        case dialogue::progress::failed: return unwelcome(roles_.talk->fault(), roles_.talk->why(), now);
        case dialogue::progress::good: return greeted(now);
      }
    }
    if (decoder_.is_push()) continue;
    switch (greeting_.next(decoder_.message())) {
      case greeting::progress::more: break;
      case greeting::progress::failed: return unwelcome(greeting_.fault(), greeting_.why(), now);
      case greeting::progress::done: return greeted(now);
    }
  }
}

/// The greeting shows that this is not the server to talk to, at least not now.
void connection_fsm::unwelcome(protocol::fault what, std::string_view why, time_point now) {
  choice_.refused(why, now);
  move_on(what, now);
}

void connection_fsm::greeted(time_point now) {
  state_ = state::up;
  bool const has_several = choice_.size() > 1;
  std::string const there = choice_.address();
  choice_.succeeded();
  own_.connected(roles_.talk == nullptr ? greeting_.run() : std::string{}, there);
  bool const has_name = !where_.is_unix_socket() && there != host_and_port(where_.host, where_.port);
  if (has_name && roles_.talk == nullptr) {  // what keeps no locks may stay where it answers
    look_up_at_ = detail::later_by(now, settings_.topology_refresh);
  }
  sleep(look_up_at_);
  authenticated(now);
  up_since_ = now;
  was_up_ = true;
  told_of_foreign_pushes_ = false;
  dropping_ = false;
  unanswered_ = answered_ = 0;
  shortest_lease_ = duration::max();
  if (roles_.node != nullptr) {
    who_.node = roles_.node->digits();
    who_.home = roles_.node->home().value_or(0);
    subscribed_.begin(who_.home);
  }
  std::string const passed_over = choice_.words().empty() ? std::string{} : "; passed over " + choice_.words();
  log(line_of(connection_event::connected, where_.shown() + (has_several ? " at " + there : std::string{}) + passed_over));
  if (!greeting_.warning().empty()) log(log_level::warning, greeting_.warning());
  protocol::session session{greeting_.client_id(), greeting_.client_address(), greeting_.server_us(), greeted_at_,
                            greeting_.run(),       greeting_.uptime()};
  session.has_channel = roles_.node == nullptr || roles_.node->home().has_value();
  session.at = there;
  actions_.flush = out_.claim();
  if (roles_.talk == nullptr) events_->connected_as(session, now);
  hand_over(now);
}

/// Reports received messages to the protocol: a limited number at a time, since a buffer has room for thousands of short answers.
void connection_fsm::hand_over(time_point now) {
  // The commands that this causes go out together, also those of the handlers that it completes.
  if (out_.claim()) actions_.flush = true;
  std::int64_t const before = answered_;
  for (std::size_t left = engine::in_one_turn; !dropping_; --left) {
    if (left == 0) {
      unfinished_ = true;
      actions_.go_on = true;
      return;
    }
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: actions_.read = true; return keep_busy(answered_ - before);
      case resp::decoder::progress::failed: actions_.go_on = drop_connection(decoder_.error()); return;
      case resp::decoder::progress::message: break;
    }
    if (roles_.talk != nullptr) {
      bool const failed = roles_.talk->heard(decoder_.message(), decoder_.is_push(), now) == dialogue::progress::failed;
      if (failed) actions_.go_on = drop_connection(roles_.talk->why());
    } else if (decoder_.is_push()) {
      auto const said = read_push(decoder_.message(), who_, name_);
      if (auto const* const p = std::get_if<protocol::push>(&said)) events_->pushed(*p, now);
      else noticed(std::get<notice>(said), now);
    } else if (subscribed_.is_own(answered_, false, renewal_.is_sent())) {
      roles_.node->put_off(decoder_.message()[0].text, now);
    } else if (renewal_.is_own_answer()) {
      auto const& said = decoder_.message()[0];
      bool const refused = said.what == resp::kind::simple_error || said.what == resp::kind::bulk_error;
      if (!refused) ++counted_.renewals;
      refused ? refresh_failed(said.text, now) : authenticated(now);
    } else if (auto const script = shared_.take(answered_)) {
      left -= std::min(left, script->count) - 1;
      deal_out(*script, now);
    } else {
      --unanswered_;
      ++answered_;
      report(understood(to_answer(decoder_.message(), numbers_)), now);
    }
  }
}

/// If the server has nothing left to do for us, it gets the first half of what these answers lead to while we make the other.
void connection_fsm::keep_busy(std::int64_t answers) {
  if (unanswered_ > 0 || answers < 2) return;
  out_.early(static_cast<std::size_t>(answers) / 2);
}

void connection_fsm::report(protocol::answer const& a, time_point now) {
  events_->answered(a, now);
  if (roles_.node != nullptr && a.what == protocol::fault::try_later) roles_.node->put_off(a.words, now);
}

/// The answer of a script for several commands: to each its own, in the order in which they were sent.
void connection_fsm::deal_out(shared_scripts::script const& script, time_point now) {
  if (script.tries) {
    --unanswered_;
    ++answered_;
    report(understood(to_tries_answer(decoder_.message(), numbers_)), now);
    return;
  }
  for (std::size_t others = script.count - 1; others > 0; --others) renewal_.is_own_answer();
  auto const message = decoder_.message();
  std::array<std::span<resp::node const>, protocol::gathering::most> answers;
  bool const each_has_its_own = split(message, std::span{answers}.first(script.count));
  protocol::answer for_all;
  if (!each_has_its_own) {
    for_all = understood(to_answer(message, numbers_));
    if (for_all.what == protocol::fault::none) for_all = {protocol::fault::malformed, "a script for several locks has not answered for each", {}};
    shared_.refused(script, for_all, roles_.node != nullptr, answered_ + unanswered_);
  }
  for (std::size_t i = 0; i < script.count && !dropping_; ++i) {
    --unanswered_;
    ++answered_;
    std::size_t const place = script.order[i];
    report(each_has_its_own ? understood(to_answer(answers[place], numbers_)) : for_all, now);
  }
}

/// A node that has not got the slot says so: the request is repeated, and by then it is known which node has.
protocol::answer connection_fsm::understood(protocol::answer a) const {
  if (roles_.node == nullptr || a.what != protocol::fault::refused) return a;
  if (a.words.starts_with("MOVED ") || a.words.starts_with("ASK ")) a.what = protocol::fault::try_later;
  return a;
}

/// A message that came unasked and is not a push of the protocol.
void connection_fsm::noticed(notice what, time_point now) {
  switch (what) {
    case notice::subscribed:
      --unanswered_;
      ++answered_;
      renewal_.is_own_answer();
      events_->answered({}, now);
      break;
    case notice::shard_subscribed:
      if (roles_.node == nullptr || subscribed_.is_own(answered_, true, renewal_.is_sent())) break;
      --unanswered_;
      ++answered_;
      renewal_.is_own_answer();
      events_->answered({}, now);
      break;
    case notice::shard_unsubscribed: {
      auto const slot = decoder_.message().size() > 2 ? slot_of_channel(decoder_.message()[2].text, who_) : std::nullopt;
      if (!slot) break;
      subscribed_.ended(*slot);
      roles_.node->unsubscribed(*slot, now);
      break;
    }
    case notice::other: break;
    case notice::malformed:
      if (!std::exchange(told_of_foreign_pushes_, true)) {
        log(log_level::warning, "ignored a push on our channel that conch did not send; further ones on this connection are not logged");
      }
      break;
  }
}

// ---------------------------------------------------------------------------------------------------- what goes out

void connection_fsm::flush() {
  if (out_.is_writing()) return;
  if (state_ != state::up) return;
  bool const has_some = out_.flush([this](std::string& out) { shared_.end(who_, out); });
  if (has_some) actions_.write = true;
}

void connection_fsm::written(std::size_t size) {
  switch (out_.written(size)) {
    case net::outbox::after::rest: actions_.write = true; return;
    case net::outbox::after::nothing: return;
    case net::outbox::after::flush: return flush();
  }
}

}  // namespace conch::redis
