// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "zookeeper/connection_fsm.hpp"

#include <algorithm>
#include <limits>

namespace conch::zookeeper {

connection_fsm::connection_fsm(std::vector<redis::address> servers, std::size_t first)
    : servers_{std::move(servers)}, server_{(first + servers_.size() - 1) % servers_.size()} {}  // the first attempt is to the next one

// ------------------------------------------------------------------------------------------------ from the session

void connection_fsm::want() { wanted_ = true; }

void connection_fsm::greet(connect_request const& c) { append(outgoing_, c); }

void connection_fsm::send(request const& r) {
  if (dropping_ || state_ == state::closed) return;
  if (!std::holds_alternative<ping>(r)) {
    xid_ = xid_ == std::numeric_limits<std::int32_t>::max() ? 1 : xid_ + 1;
    asked_.push_back({std::holds_alternative<add_auth>(r) ? auth_xid : xid_, op_of(r)});
  }
  append(outgoing_, xid_, r);
}

void connection_fsm::drop() {
  wanted_ = false;
  if (state_ != state::idle && state_ != state::closed) dropping_ = true;
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
  if (state_ == state::idle && std::exchange(wanted_, false)) begin();
  flush();
}

void connection_fsm::begin() {
  state_ = state::resolving;
  server_ = (server_ + 1) % servers_.size();
  frames_.reset();
  asked_.clear();
  outgoing_.clear();
  actions_.resolve = true;
}

void connection_fsm::resolved(std::size_t addresses, time_point now) {
  if (dropping_) return;
  addresses_ = addresses;
  next_address_ = 0;
  if (addresses == 0) return ended(fault::later, "the name has no address", now);
  connect_next();
}

void connection_fsm::connect_next() {
  state_ = state::connecting;
  actions_.connect = true;
}

void connection_fsm::refused(std::string_view why, time_point now) {
  if (dropping_) return;
  if (++next_address_ == addresses_) return ended(fault::later, why, now);
  connect_next();
}

void connection_fsm::connected(time_point now) {
  if (dropping_) return;
  if (!where().over_tls) return handshaken(now);
  state_ = state::handshaking;
  actions_.handshake = true;
}

void connection_fsm::handshaken(time_point now) {
  if (dropping_) return;
  state_ = state::greeting;
  actions_.read = true;
  events_->connected(now);
  flush();
}

void connection_fsm::received(std::size_t size, time_point now) {
  if (dropping_ || state_ == state::closed) return;
  frames_.received(size);
  for (;;) {
    auto const next = frames_.next();
    if (next == frame_reader::progress::malformed) return malformed("the length of a message makes no sense", now);
    if (next == frame_reader::progress::need_more) break;
    hear(frames_.frame(), now);
    if (dropping_ || state_ == state::idle || state_ == state::closed) return;
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
  if (asked_.empty() || asked_.front().xid != header.xid) return malformed("an answer to something else than was asked", now);
  op const what = asked_.front().what;
  asked_.pop_front();
  reply r;
  if (auto const wrong = read(frame, header, what, r); !wrong.empty()) return malformed(wrong, now);
  events_->answered(r, now);
}

void connection_fsm::malformed(std::string_view why, time_point now) {
  // Servers of other protocols begin with letters, where this one has a length.
  std::string_view const rest = state_ == state::greeting ? frames_.rest().substr(0, 40) : std::string_view{};
  bool const is_text = rest.size() >= 4 && std::all_of(rest.begin(), rest.begin() + 4, [](char c) { return c >= ' ' && c <= '~'; });
  std::string words = "this server does not speak ZooKeeper's protocol: " + std::string{why};
  if (rest.starts_with("HTTP")) words += "; this looks like HTTP";
  else if (is_text) words += "; it said '" + std::string{rest} + '\'';
  ended(fault::malformed, words, now);
}

void connection_fsm::failed(std::string_view why, time_point now, fault what) {
  if (dropping_ || state_ == state::closed || state_ == state::idle) return;
  bool const silent = state_ == state::greeting && what == fault::later;
  ended(what, std::string{why} + (silent ? ", before it gave a session: a server without its quorum does that" : ""), now);
}

void connection_fsm::ended(fault what, std::string_view why, time_point now) {
  state_ = state::idle;
  actions_ = {.close = true};
  write_under_way_ = false;
  asked_.clear();
  outgoing_.clear();
  events_->disconnected(what, why, now);
}

void connection_fsm::flush() {
  bool const open = state_ == state::greeting || state_ == state::up;
  if (!open || dropping_ || write_under_way_ || outgoing_.empty()) return;
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
  if (open && !dropping_) flush();
  state_ = state::closed;
  if (!write_under_way_) actions_ = {.close = true};
}

}  // namespace conch::zookeeper
