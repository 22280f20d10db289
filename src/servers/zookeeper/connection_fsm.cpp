// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/connection_fsm.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>

namespace conch::zookeeper {

namespace {

/// A server that ends a connection sooner than this may do so with each.
constexpr duration steady_after = std::chrono::seconds{1};

}  // namespace

connection_fsm::connection_fsm(std::vector<address> servers, std::size_t first) : servers_{std::move(servers)}, addresses_(servers_.size()) {
  std::rotate(servers_.begin(), servers_.begin() + static_cast<std::ptrdiff_t>(first % servers_.size()), servers_.end());
}

// ------------------------------------------------------------------------------------------------ from the session

time_point connection_fsm::want(address_choice::limits l, time_point now) {
  wanted_ = true;
  limits_ = l;
  if (!is_trying_ || !choice_.next(now)) {
    std::vector<std::string> names;
    for (address const& one : servers_) names.push_back(one.shown());
    choice_.begin(std::move(names), l, now);
    (void)choice_.next(now);
  }
  is_trying_ = true;
  is_in_use_ = has_addresses_ = false;
  server_ = choice_.number();
  return choice_.until();
}

time_point connection_fsm::silent(time_point now) {
  bool const is_open = state_ == state::connecting || state_ == state::handshaking || state_ == state::greeting;
  if (!is_open || is_past()) return time_point::min();
  address_choice& known = addresses_[server_];
  known.silent("no answer", now);
  has_addresses_ = now < choice_.until() && known.next(now);
  if (!has_addresses_) return time_point::min();
  address_ = known.number();
  moving_ = true;
  clear();
  return known.until();
}

void connection_fsm::in_use(time_point now) {
  is_trying_ = false;
  is_in_use_ = true;
  in_use_since_ = now;
  choice_.succeeded();
  addresses_[server_].succeeded();
}

void connection_fsm::greet(connect_request const& c) { append(outgoing_, c); }

void connection_fsm::send(request const& r) {
  if (is_past() || state_ == state::closed) return;
  if (!std::holds_alternative<ping>(r)) {
    xid_ = xid_ == std::numeric_limits<std::int32_t>::max() ? 1 : xid_ + 1;
    asked_.push_back({std::holds_alternative<add_auth>(r) ? auth_xid : xid_, op_of(r)});
  }
  append(outgoing_, xid_, r);
}

void connection_fsm::drop(bool is_silent, time_point now) {
  if (is_silent && state_ != state::idle && state_ != state::closed) {
    choice_.silent("no answer", now);
    if (has_addresses_ && !moving_) addresses_[server_].silent("no answer", now);
  } else {
    was_refused("dropped", now);
  }
  wanted_ = moving_ = is_in_use_ = false;
  if (state_ != state::idle && state_ != state::closed) dropping_ = true;
  clear();
}

/// The server has answered, and could not be used; or it has ended a connection that was hardly made.
void connection_fsm::was_refused(std::string_view why, time_point now) {
  bool const is_steady = is_in_use_ && now - in_use_since_ >= steady_after;
  if (state_ == state::idle || state_ == state::closed || is_past() || is_steady) return;
  choice_.refused(why, now);
  if (has_addresses_) addresses_[server_].refused(why, now);
}

/// Nothing of the present stream counts any more.
void connection_fsm::clear() {
  asked_.clear();
  outgoing_.clear();
}

// --------------------------------------------------------------------------------------------- from the interpreter

void connection_fsm::go_on() {
  if (state_ == state::closed) return;
  if (std::exchange(dropping_, false)) {
    state_ = state::idle;
    actions_ = {.close = true};
    write_under_way_ = false;
  }
  if (std::exchange(moving_, false)) {
    state_ = state::connecting;
    frames_.reset();
    actions_ = {.close = true, .connect = true};
    write_under_way_ = false;
  }
  if (state_ == state::idle && std::exchange(wanted_, false)) begin();
  flush();
}

void connection_fsm::begin() {
  state_ = state::resolving;
  frames_.reset();
  clear();
  actions_.resolve = true;
}

void connection_fsm::resolved(std::vector<std::string> addresses, time_point now) {
  if (is_past()) return;
  if (addresses.empty()) return ended(fault::try_later, "the name has no address", now);
  addresses_[server_].begin(std::move(addresses), {std::max(choice_.until() - now, duration{1}), limits_.lease}, now);
  if (!connect_next(now)) ended(fault::try_later, "no time is left for its addresses", now);
}

/// False: all addresses of the server have had their turn.
bool connection_fsm::connect_next(time_point now) {
  address_choice& known = addresses_[server_];
  has_addresses_ = known.next(now);
  if (!has_addresses_) return false;
  address_ = known.number();
  state_ = state::connecting;
  actions_.connect = true;
  events_->trying(known.until());
  return true;
}

void connection_fsm::refused(std::string_view why, time_point now) {
  if (is_past()) return;
  addresses_[server_].refused(why, now);
  if (!connect_next(now)) ended(fault::try_later, std::string{addresses_[server_].words()}, now);
}

void connection_fsm::connected(time_point now) {
  if (is_past()) return;
  if (!where().over_tls) return handshaken(now);
  state_ = state::handshaking;
  actions_.handshake = true;
}

void connection_fsm::handshaken(time_point now) {
  if (is_past()) return;
  state_ = state::greeting;
  actions_.read = true;
  events_->connected(now);
  flush();
}

void connection_fsm::received(std::size_t size, time_point now) {
  if (is_past() || state_ == state::closed) return;
  frames_.received(size);
  for (;;) {
    auto const next = frames_.next();
    if (next == frame_reader::progress::malformed) return malformed("invalid length of a message", now);
    if (next == frame_reader::progress::need_more) break;
    hear(frames_.frame(), now);
    if (is_past() || state_ == state::idle || state_ == state::closed) return;
  }
  actions_.read = true;
  flush();
}

void connection_fsm::hear(std::string_view frame, time_point now) {
  if (state_ == state::greeting) {
    connect_response c;
    if (auto const wrong = read(frame, c); !wrong.empty()) return malformed(wrong, now);
    state_ = state::up;
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

/// A server that loses its leader may let a refusal overtake earlier answers. What was asked is asked again on a new connection, as ZooKeeper's own
/// client does.
void connection_fsm::out_of_order(reply_header const& header, time_point now) {
  std::string const due = asked_.empty() ? "none is due" : "the next is that to request " + std::to_string(asked_.front().xid);
  ended(fault::try_later,
        "an answer to request " + std::to_string(header.xid) + " (status " + std::to_string(static_cast<int>(header.what)) + "), and " + due, now);
}

void connection_fsm::malformed(std::string_view why, time_point now) {
  // Servers of other protocols begin with letters, where this one has a length.
  std::string_view const rest = state_ == state::greeting ? frames_.rest().substr(0, 40) : std::string_view{};
  if (rest.starts_with("\x15\x03")) {  // an alert
    return ended(fault::malformed, "it answers with TLS: the URL then begins with zookeepers://", now);
  }
  bool const is_text = rest.size() >= 4 && std::all_of(rest.begin(), rest.begin() + 4, [](char c) { return c >= ' ' && c <= '~'; });
  std::string words = "this server does not speak ZooKeeper's protocol: " + std::string{why};
  if (rest.starts_with("HTTP")) words += "; this looks like HTTP";
  else if (is_text) words += "; it said '" + std::string{rest} + '\'';
  ended(fault::malformed, words, now);
}

void connection_fsm::failed(std::string_view why, time_point now, fault what) {
  if (is_past() || state_ == state::closed || state_ == state::idle) return;
  bool const is_greeting = state_ == state::greeting && what == fault::try_later,
             is_handshake = state_ == state::handshaking && what == fault::try_later;
  if ((is_greeting || is_handshake) && addresses_[server_].has_more()) {
    addresses_[server_].refused(why, now);
    actions_ = {.close = true};
    write_under_way_ = false;
    frames_.reset();
    clear();
    if (connect_next(now)) return;
  }
  std::string words{why};
  if (is_handshake) words += ", in the TLS handshake: if this port is without TLS, the URL begins with zookeeper://";
  if (is_greeting) {
    words += ", before it gave a session: it may have no quorum at present, or too many connections (maxClientCnxns, maxCnxns)";
    if (!where().over_tls) words += "; or this port is one of TLS, and the URL begins with zookeepers://";
  }
  ended(what, words, now);
}

void connection_fsm::ended(fault what, std::string_view why, time_point now) {
  if (what != fault::try_later) is_in_use_ = false;  // what it has said once it says again
  was_refused(why, now);
  state_ = state::idle;
  is_in_use_ = false;
  actions_ = {.close = true};
  write_under_way_ = false;
  clear();
  events_->disconnected(what, why, now);
}

void connection_fsm::flush() {
  bool const open = state_ == state::greeting || state_ == state::up;
  if (!open || is_past() || write_under_way_ || outgoing_.empty()) return;
  writing_.clear();
  writing_.swap(outgoing_);
  written_ = 0;
  write_under_way_ = actions_.write = true;
}

void connection_fsm::written(std::size_t size) {
  if (!write_under_way_) return;
  written_ += size;
  if (written_ < writing_.size()) {
    actions_.write = true;
    return;
  }
  write_under_way_ = false;
  if (state_ == state::closed) actions_.close = true;
  else flush();
}

void connection_fsm::shut_down() {
  bool const open = state_ == state::greeting || state_ == state::up;
  if (open && !is_past()) flush();
  state_ = state::closed;
  if (!write_under_way_) actions_ = {.close = true};
}

}  // namespace conch::zookeeper
