// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/connection_fsm.hpp"

#include "base/back_off.hpp"
#include "base/duration_text.hpp"
#include "base/readable.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

namespace conch::zookeeper {

connection_fsm::connection_fsm(config const& settings, std::vector<address> servers, std::size_t first,
                               std::uint64_t seed)
    : settings_{settings},
      servers_{std::move(servers)},
      life_{settings, *this, seed, {.handshakes = servers_.front().over_tls}},
      addresses_(servers_.size()) {
  std::rotate(servers_.begin(), servers_.begin() + static_cast<std::ptrdiff_t>(first % servers_.size()),
              servers_.end());
}

// ------------------------------------------------------------------------------------------------ from the session

bool connection_fsm::want(duration lease) noexcept {
  lease_ = lease;
  return life_.want();
}

void connection_fsm::in_use(duration lease, time_point now) {
  lease_ = lease;
  is_trying_ = false;
  choice_.succeeded();
  life_.up({}, false, now);
}

void connection_fsm::greet(connect_request const& c) {
  out_.say_only([&](std::string& out) { append(out, c); });
}

void connection_fsm::send(request const& r) {
  if (!is_open()) return;
  if (!std::holds_alternative<ping>(r)) {
    xid_ = xid_ == std::numeric_limits<std::int32_t>::max() ? 1 : xid_ + 1;
    asked_.push_back({std::holds_alternative<add_auth>(r) ? auth_xid : xid_, op_of(r)});
  }
  out_.say_only([&](std::string& out) { append(out, xid_, r); });
}

void connection_fsm::drop(std::string_view why, ending how) {
  if (!is_open()) return;
  dropped_as_ = how;
  why_dropped_ = why;
}

// ------------------------------------------------------------------------------------------------------- an attempt

net::location connection_fsm::locate(time_point now) {
  if (!is_trying_ || !choice_.next(now)) {
    std::vector<std::string> names;
    for (address const& one : servers_) names.push_back(one.shown());
    choice_.begin(std::move(names), {settings_.connect_timeout, lease_}, now);
    (void)choice_.next(now);
  }
  is_trying_ = true;
  server_ = choice_.number();
  return {.what = net::location::kind::here,
          .within = choice_.until() - now,
          .known = &addresses_[server_],
          .lease = lease_};
}

void connection_fsm::greet(time_point now) {
  frames_.reset();
  life_.todo.read = true;
  events_->connected(now);
  flush();
}

std::string connection_fsm::silence(duration time, bool looks_up) const {
  return (looks_up ? "the name is not looked up after " : "no answer for ") + ms_text(time);
}

void connection_fsm::passed_over(fault what, std::string_view words, time_point now) {
  if (is_open()) events_->disconnected(what, words, now);
}

void connection_fsm::stream_ended() noexcept {
  out_.end_stream();
  out_.forget();
  asked_.clear();
  has_session_ = false;
}

net::role::retry connection_fsm::ended(end const& e, time_point now) {
  // A server that has answered this once answers it again; and one that closes each connection at once will do so the
  // next time.
  bool const was_of_use = e.was_up && e.what == fault::try_later && e.stood >= back_off::steady_after;
  if (e.is_silent) {
    choice_.silent(e.why, now);
    if (e.was_up) addresses_[server_].silent(e.why, now);
  } else if (!was_of_use) {
    choice_.refused(e.why, now);
    if (e.was_up) addresses_[server_].refused(e.why, now);
  }
  if (!std::exchange(dropped_as_, std::nullopt)) events_->disconnected(e.what, e.why, now);
  bool const goes_on = !e.was_up && !is_final(e.what) && has_another();
  return {.pause = goes_on ? std::optional{duration::zero()} : std::nullopt};
}

// ------------------------------------------------------------------------------------------------------ what comes in

void connection_fsm::received(std::size_t size, time_point now) {
  if (!is_open()) return;
  frames_.received(size);
  for (;;) {
    auto const next = frames_.next();
    if (next == frame_reader::progress::malformed) return malformed("invalid length of a message", now);
    if (next == frame_reader::progress::need_more) break;
    take_frame(frames_.frame(), now);
    if (!is_open()) return;
  }
  life_.todo.read = true;
  flush();
}

void connection_fsm::take_frame(std::string_view frame, time_point now) {
  if (!has_session_) {
    connect_response c;
    if (auto const wrong = read(frame, c); !wrong.empty()) return malformed(wrong, now);
    has_session_ = true;
    return events_->greeted(c, now);
  }
  reply_header header;
  if (auto const wrong = read(frame, header); !wrong.empty()) return malformed(wrong, now);
  if (header.xid == notice_xid) {
    notice n;
    if (auto const wrong = read(frame, n); !wrong.empty()) return malformed(wrong, now);
    return events_->noticed(n, now);
  }
  if (header.xid == ping_xid) return events_->answered_ping(header.zxid, now);
  if (asked_.empty() || asked_.front().xid != header.xid) return out_of_order(header, now);
  op const what = asked_.front().what;
  asked_.pop_front();
  reply r;
  if (auto const wrong = read(frame, header, what, r); !wrong.empty()) return malformed(wrong, now);
  events_->answered(r, now);
}

/// A server that loses its leader may let a refusal overtake earlier answers. What was asked is asked again on a new
/// connection, as ZooKeeper's own client does.
void connection_fsm::out_of_order(reply_header const& header, time_point now) {
  std::string const due =
      asked_.empty() ? "none is due" : "the next is that to request " + std::to_string(asked_.front().xid);
  broken(fault::try_later,
         "an answer to request " + std::to_string(header.xid) + " (status " +
             std::to_string(static_cast<int>(header.what)) + "), and " + due,
         now);
}

void connection_fsm::malformed(std::string_view why, time_point now) {
  // Servers of other protocols begin with letters, where this one has a length.
  std::string_view const rest = !has_session_ ? frames_.rest().substr(0, 40) : std::string_view{};
  if (rest.starts_with("\x15\x03")) {  // an alert
    return broken(fault::malformed, "it answers with TLS: the URL then begins with zookeepers://", now);
  }
  bool const is_text =
      rest.size() >= 4 && std::all_of(rest.begin(), rest.begin() + 4, [](char c) { return c >= ' ' && c <= '~'; });
  std::string words = "this server does not speak ZooKeeper's protocol: " + std::string{why};
  if (rest.starts_with("HTTP")) words += "; this looks like HTTP";
  else if (is_text) words += "; it answered '" + std::string{rest} + '\'';
  broken(fault::malformed, words, now);
}

/// After the answer to the greeting the address is not what is wrong.
void connection_fsm::broken(fault what, std::string_view why, time_point now) {
  has_session_ ? life_.end(what, why, now) : life_.failed(what, why, now);
}

void connection_fsm::failed(std::string_view why, time_point now, fault what) {
  auto const state = life_.state();
  if (dropped_as_ || state == net::connection_state::pausing || state == net::connection_state::closed) return;  // late
  std::string words = readable(why);
  if (state == net::connection_state::handshaking && what == fault::try_later) {
    words += ", in the TLS handshake: if this port is without TLS, the URL begins with zookeeper://";
  }
  if (state == net::connection_state::greeting && !has_session_ && what == fault::try_later) {
    words +=
        ", before it gave a session: it may have no quorum at present, or too many connections (maxClientCnxns, "
        "maxCnxns)";
    if (!where().over_tls) words += "; or this port is one of TLS, and the URL begins with zookeepers://";
  }
  broken(what, words, now);
}

// ------------------------------------------------------------------------------------------------------ what goes out

void connection_fsm::end_turn(time_point now) {
  if (!dropped_as_) return flush();
  ending const how = *dropped_as_;
  if (how == ending::over) life_.begin_anew();
  life_.end(how == ending::refused ? fault::refused : fault::try_later, why_dropped_, now, how == ending::silent);
}

void connection_fsm::flush() {
  if (!is_open() || out_.is_writing()) return;
  if (out_.flush([](std::string&) {})) life_.todo.write = true;
}

void connection_fsm::written(std::size_t size) {
  if (!out_.is_writing()) return;  // late
  if (out_.written(size) == net::outbox::after::rest) {
    life_.todo.write = true;
    return;
  }
  if (life_.state() == net::connection_state::closed) life_.todo.close = true;
  else flush();
}

bool connection_fsm::writes_last() {
  flush();
  return out_.is_writing();
}

}  // namespace conch::zookeeper
