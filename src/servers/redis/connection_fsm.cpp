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

/// The longest message is a grant for a name of 512 bytes, or an answer of 906 numbers. A peer that sends more than
/// this is not a lock server.
constexpr resp::limits wire_limits{.max_depth = 8, .max_elements = 4096, .max_text = 64 << 10, .max_message = 1 << 20};
/// A whole map of a Cluster of which every slot has moved by itself.
constexpr resp::limits talk_limits{
    .max_depth = 8, .max_elements = 1 << 20, .max_text = 64 << 10, .max_message = 32 << 20};
/// Some Sentinels with all that is known of each.
constexpr resp::limits sentinel_limits{
    .max_depth = 8, .max_elements = 1 << 14, .max_text = 64 << 10, .max_message = 1 << 20};
constexpr std::size_t good_read = 16 << 10;

resp::limits const& limits_of(address const& where, bool talks) {
  if (!talks) return wire_limits;
  return where.is_sentinel ? sentinel_limits : talk_limits;
}
/// Until a server that is still a replica is greeted again.
constexpr duration after_replica = std::chrono::milliseconds{100};

/// Only of those that can be gathered.
unsigned slot_of(protocol::command const& c) {
  if (auto const* const a = std::get_if<protocol::acquire_command>(&c)) return slot_of_lock(a->name);
  if (auto const* const r = std::get_if<protocol::release_command>(&c)) return slot_of_lock(r->name);
  return slot_count;
}

}  // namespace

connection_fsm::connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed,
                               stream_kind stream, roles const& r)
    : settings_{settings},
      who_{client_id, settings.key_prefix},
      where_{std::move(where)},
      roles_{r},
      over_tls_{stream.handshakes},
      life_{settings, *this, seed, {stream.handshakes, static_cast<bool>(settings.credentials_provider), where_.path}},
      renewal_{settings, r.talk == nullptr},
      decoder_{limits_of(where_, r.talk != nullptr)},
      out_{!settings.single_threaded} {
  if (roles_.node == nullptr) return;
  who_.node = roles_.node->digits();
  subscribed_.begin(who_.home);
}

// ---------------------------------------------------------------------------------------------- from the protocol

connection_fsm::flush_due connection_fsm::send(protocol::command const& c) {
  flush_due const when = out_.say(unanswered_ > 0, [&](std::string& out) {
    if (roles_.node != nullptr) subscribe_to_slot(c, out);
    shared_.add(c, who_, roles_.node != nullptr ? slot_of(c) : 0, answered_ + unanswered_, out);
  });
  life_.note_lease(protocol::shortest_lease(c, settings_.lock_delay));
  ++unanswered_;
  return when;
}

/// In the same write as the command, and before it: what comes of it may be pushed.
void connection_fsm::subscribe_to_slot(protocol::command const& c, std::string& out) {
  auto const slot = subscribed_.before(c, answered_ + unanswered_, renewal_.is_sent());
  if (!slot) return;
  shared_.end(who_, out);
  resp::append_command(out, {"SSUBSCRIBE", channel_of(who_, *slot)});
}

bool connection_fsm::say(std::string_view bytes) {
  BOOST_ASSERT(roles_.talk != nullptr && life_.is_up());
  return out_.say(true, [&](std::string& out) { out += bytes; }) != flush_due::no;
}

// ------------------------------------------------------------------------------------------------ address and user

net::location connection_fsm::locate(time_point now) {
  return roles_.finder != nullptr ? roles_.finder->locate(where_, now) : location{.what = location::kind::here};
}

std::optional<std::string> connection_fsm::moved_to(time_point now) {
  address there = where_;
  location const found = roles_.finder->locate(there, now);
  if (found.what != location::kind::here || (there.host == where_.host && there.port == where_.port))
    return std::nullopt;
  return there.shown();
}

/// From the provider: for a connection that is to be made, or for the present one.
void connection_fsm::credentials_found(credentials found, time_point now) {
  bool const of_live = life_.is_up() && renewal_.is_asking();
  if (life_.state() != net::connection_state::asking && !of_live) return;  // too late
  renewal_.found(found);
  where_.user = std::move(found.user);
  where_.token = looks_like_a_token(where_.user) ? secret{where_.user} : secret{};
  where_.password = std::move(found.password);
  if (!of_live) return life_.logged_in(now);
  if (where_.password.empty()) return authenticated(now);
  // Encoded, not sent: the protocol must not wait for an answer that is not its own.
  out_.say_only([&](std::string& out) {
    shared_.end(who_, out);
    renewal_.send(where_, unanswered_, out);
  });
  if (out_.claim()) life_.todo.flush = true;
}

void connection_fsm::no_credentials(std::string_view why, time_point now) {
  std::string const words = "credentials_provider: " + readable(why);
  if (life_.state() == net::connection_state::asking) return life_.failed(protocol::fault::try_later, words, now);
  if (life_.is_up() && renewal_.is_asking()) refresh_failed(words, now);
}

/// The time has come to renew the credentials of the live connection, or to ask once more.
void connection_fsm::due(time_point now) {
  if (renewal_.is_asking()) return refresh_failed("credentials_provider: no answer within connect_timeout", now);
  renewal_.ask(now);
  life_.todo.ask = true;
}

void connection_fsm::refresh_failed(std::string_view why, time_point now) {
  life_.log(log_level::warning, where_.shown() + ": cannot renew the credentials: " + std::string{why});
  renewal_.refused(now);
  life_.sleep_while_up();
}

/// The present credentials are known to the server.
void connection_fsm::authenticated(time_point now) {
  if (renewal_.accepted(now)) life_.sleep_while_up();
}

// ------------------------------------------------------------------------------------------------ greeting, and the
// end

void connection_fsm::greet(time_point now) {
  decoder_.reset();
  out_.begin(roles_.talk != nullptr ? roles_.talk->begin(where_, settings_.client_name)
                                    : greeting_.begin(where_, settings_.client_name, roles_.node != nullptr));
  greeted_at_ = now;
  life_.todo.write = life_.todo.read = true;
}

/// It may be the master again when this attempt comes to it for the second time.
void connection_fsm::passed_over(protocol::fault what, std::string_view words, time_point now) {
  if (what == protocol::fault::reconnect && roles_.talk == nullptr)
    events_->connect_failed(what, where_.shown().append(": ").append(words), now);
}

void connection_fsm::failed(std::string_view why, time_point now, protocol::fault what) {
  // So ends a plain connection to a TLS port.
  bool const unheard =
      life_.state() == net::connection_state::greeting && !life_.has_heard() && !over_tls_ && !where_.is_unix_socket();
  std::string_view const over_tls = where_.is_sentinel ? "rediss-sentinel://" : "rediss://";
  std::string words = readable(why);
  if (unheard) words.append("; if this is a TLS port, the URL begins with ").append(over_tls);
  life_.failed(what, words, now);
}

void connection_fsm::write_failed(std::string_view why, time_point now) {
  if (life_.state() == net::connection_state::greeting && over_tls_) return;
  failed(why, now);
}

void connection_fsm::stream_ended() noexcept {
  out_.end_stream();
  unfinished_ = false;
}

net::role::retry connection_fsm::ended(end const& e, time_point now) {
  std::string const words = where_.shown().append(": ").append(e.why);
  renewal_.end();
  if (roles_.talk != nullptr) {
    roles_.talk->ended(e.what, words);
  } else if (!e.was_up) {
    events_->connect_failed(e.what, words, now);
  } else {
    events_->disconnected(e.why, now);
  }
  out_.forget();
  shared_.forget();
  bool const is_replica = e.was_greeting && e.what == protocol::fault::reconnect,
             was_replica = std::exchange(was_replica_, is_replica);
  // A replica is greeted again and again: it is about to be made the master, or another one is.
  if (is_replica && roles_.finder != nullptr)
    return {after_replica, was_replica || (roles_.talk != nullptr && !e.is_first)};
  // No caller waits for a server that keeps no locks.
  return {{}, roles_.talk != nullptr && !e.was_up && !e.is_first};
}

// ---------------------------------------------------------------------------------------------------- what comes in

std::span<char> connection_fsm::room() { return decoder_.prepare(good_read); }

/// True: the server has greeted.
bool connection_fsm::read_greeting(time_point now) {
  auto const failed = [&](protocol::fault what, std::string_view words) {
    life_.failed(what, words, now);
    return false;
  };
  for (;;) {
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: life_.todo.read = true; return false;
      case resp::decoder::progress::failed:
        return failed(protocol::fault::malformed, std::string{decoder_.error()}.append(stranger(decoder_.rejected())));
      case resp::decoder::progress::message: break;
    }
    if (roles_.talk != nullptr) {
      switch (roles_.talk->received(decoder_.message(), decoder_.is_push(), now)) {
        case dialogue::progress::greeting: continue;
        case dialogue::progress::failed: return failed(roles_.talk->fault(), roles_.talk->why());
        case dialogue::progress::good: return true;
      }
    }
    if (decoder_.is_push()) continue;
    switch (greeting_.next(decoder_.message())) {
      case greeting::progress::more: break;
      case greeting::progress::failed: return failed(greeting_.fault(), greeting_.why());
      case greeting::progress::done: return true;
    }
  }
}

void connection_fsm::greeted(time_point now) {
  bool const talks = roles_.talk != nullptr;
  std::string const there = life_.address();
  // What keeps no locks may stay where it answers.
  bool const by_name = !talks && !where_.is_unix_socket() && there != host_and_port(where_.host, where_.port);
  life_.up(talks ? std::string_view{} : greeting_.run(), by_name, now);
  authenticated(now);
  logged_foreign_pushes_ = false;
  unanswered_ = answered_ = 0;
  if (roles_.node != nullptr) {
    who_.node = roles_.node->digits();
    who_.home = roles_.node->home().value_or(0);
    subscribed_.begin(who_.home);
  }
  if (!greeting_.warning().empty()) life_.log(log_level::warning, greeting_.warning());
  protocol::session session{greeting_.client_id(), greeting_.client_address(), greeting_.server_us(), greeted_at_,
                            greeting_.run(),       greeting_.uptime()};
  session.has_channel = roles_.node == nullptr || roles_.node->home().has_value();
  session.server_address = there;
  life_.todo.flush = out_.claim();
  if (!talks) events_->connected_as(session, now);
}

/// What the last turn has left.
void connection_fsm::resume(time_point now) {
  if (std::exchange(unfinished_, false)) received(0, now);
}

/// Reports messages to the protocol: a limited number at a time, since a buffer has room for thousands of short
/// answers.
void connection_fsm::received(std::size_t size, time_point now) {
  decoder_.commit(size);
  life_.received();
  if (!life_.is_up()) {
    if (!read_greeting(now)) return;
    greeted(now);
  }
  // The commands that this causes go out together, also those of the handlers that it completes.
  if (out_.claim()) life_.todo.flush = true;
  std::int64_t const before = answered_;
  for (std::size_t left = in_one_turn; !life_.is_dropping(); --left) {
    if (left == 0) {
      unfinished_ = true;
      life_.todo.call_due_later = true;
      return;
    }
    switch (decoder_.next()) {
      case resp::decoder::progress::need_more: life_.todo.read = true; return keep_busy(answered_ - before);
      case resp::decoder::progress::failed: life_.todo.call_due_later = life_.drop(decoder_.error()); return;
      case resp::decoder::progress::message: break;
    }
    if (roles_.talk != nullptr) {
      bool const failed =
          roles_.talk->received(decoder_.message(), decoder_.is_push(), now) == dialogue::progress::failed;
      if (failed) life_.todo.call_due_later = life_.drop(roles_.talk->why());
    } else if (decoder_.is_push()) {
      auto const said = read_push(decoder_.message(), who_, name_);
      if (auto const* const p = std::get_if<protocol::push>(&said)) events_->pushed(*p, now);
      else noticed(std::get<notice>(said), now);
    } else if (subscribed_.is_own(answered_, false, renewal_.is_sent())) {
      roles_.node->put_off(decoder_.message()[0].text, now);
    } else if (renewal_.is_own_answer()) {
      auto const& said = decoder_.message()[0];
      bool const refused = said.what == resp::kind::simple_error || said.what == resp::kind::bulk_error;
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

/// If the server has nothing left to do for us, it gets the first half of what these answers lead to while we make the
/// other.
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
    if (for_all.what == protocol::fault::none)
      for_all = {protocol::fault::malformed, "a script for several locks has not answered for each", {}};
    shared_.refused(script, for_all, roles_.node != nullptr, answered_ + unanswered_);
  }
  for (std::size_t i = 0; i < script.count && !life_.is_dropping(); ++i) {
    --unanswered_;
    ++answered_;
    std::size_t const place = script.order[i];
    report(each_has_its_own ? understood(to_answer(answers[place], numbers_)) : for_all, now);
  }
}

/// A node that lacks the slot reports that: the request is repeated, and by then the right node is known.
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
      auto const slot =
          decoder_.message().size() > 2 ? slot_of_channel(decoder_.message()[2].text, who_) : std::nullopt;
      if (!slot) break;
      subscribed_.ended(*slot);
      roles_.node->unsubscribed(*slot, now);
      break;
    }
    case notice::other: break;
    case notice::malformed:
      if (!std::exchange(logged_foreign_pushes_, true)) {
        life_.log(
            log_level::warning,
            "ignored a push on our channel that conch did not send; further ones on this connection are not logged");
      }
      break;
  }
}

// ---------------------------------------------------------------------------------------------------- what goes out

void connection_fsm::flush() {
  if (out_.is_writing()) return;
  if (!life_.is_up()) return;
  bool const has_some = out_.flush([this](std::string& out) { shared_.end(who_, out); });
  if (has_some) life_.todo.write = true;
}

void connection_fsm::written(std::size_t size) {
  switch (out_.written(size)) {
    case net::outbox::after::rest: life_.todo.write = true; return;
    case net::outbox::after::nothing: return;
    case net::outbox::after::flush: return flush();
  }
}

}  // namespace conch::redis
