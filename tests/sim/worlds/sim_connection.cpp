#include "sim/worlds/sim_connection.hpp"

#include "protocol/shortest_lease.hpp"
#include "sim/judges/observer.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

redis::address somewhere() {
  redis::address a;
  a.host = "server";
  return a;
}

}  // namespace

sim_connection::sim_connection(shell& of, config const& settings, std::string const& client_id, std::uint64_t seed, habits h,
                               redis::connection_fsm::roles r)
    : shell_{of}, settings_{settings}, fsm_{settings, client_id, somewhere(), seed, {}, r}, random_{seed}, habits_{h}, located_{r.finder != nullptr &&
                                                                                                                                r.talk == nullptr} {}

void sim_connection::send(protocol::command const& c) {
  shortest_lease_ = std::min(shortest_lease_, protocol::shortest_lease(c));
  switch (fsm_.send(c)) {
    case redis::connection_fsm::flush_due::no: return;
    case redis::connection_fsm::flush_due::later: flush_due_ = true; return;
    case redis::connection_fsm::flush_due::at_once: break;
  }
  if (!habits_.in_turns) {
    flush_due_ = true;
    return;
  }
  fsm_.flush();
  if (fsm_.take().write) write_at_most(habits_.slowest_write);
}

void sim_connection::want() {
  if (fsm_.want_connection()) shell_.later(0, [this](time_point now) { input(now, [&] { fsm_.due(now); }); });
}

bool sim_connection::drop(std::string_view why) {
  if (!fsm_.drop_connection(why)) return false;
  shell_.later(0, [this](time_point now) { input(now, [&] { fsm_.due(now); }); });
  return true;
}

void sim_connection::moved() {
  if (fsm_.moved()) shell_.later(0, [this](time_point now) { input(now, [&] { fsm_.due(now); }); });
}

void sim_connection::say(std::string_view bytes) {
  if (fsm_.say(bytes)) flush_due_ = true;
}

bool sim_connection::end_of_turn() {
  if (!std::exchange(flush_due_, false)) return false;
  fsm_.flush();
  if (fsm_.take().write) write_at_most(habits_.slowest_write);
  return true;
}

template <class F>
void sim_connection::input(time_point now, F const& what) {
  what();
  carry_out(now);
  take_in(now);
}

void sim_connection::opened(time_point now) {
  open_ = true;
  input(now, [&] { fsm_.connected(now); });
}

void sim_connection::ended(std::string_view why, time_point now) {
  if (!open_) return input(now, [&] { fsm_.refused(why, now); });
  end_ = why;
  take_in(now);
}

void sim_connection::arrived(std::string_view bytes, time_point now) {
  if (read_ == unread_.size()) {
    unread_.clear();
    read_ = 0;
  }
  unread_ += bytes;
  take_in(now);
}

/// While it reads: in pieces, and then perhaps the end.
void sim_connection::take_in(time_point now) {
  while (reading_ && (read_ != unread_.size() || !end_.empty())) {
    reading_ = false;
    if (read_ == unread_.size()) {
      std::string const why = std::exchange(end_, {});
      fsm_.failed(why, now);
    } else {
      auto const room = fsm_.room();
      std::size_t n = std::min(unread_.size() - read_, room.size());
      if (n > 1 && habits_.tears != 0 && random_.chance(habits_.tears))
        n = static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(n) - 1));
      std::copy_n(unread_.data() + read_, n, room.data());
      read_ += n;
      fsm_.received(n, now);
    }
    carry_out(now);
  }
}

/// What has just ended is made again after a pause: P10, no server is asked all the time; P4, nobody waits for long.
void sim_connection::pauses(duration length, time_point now) {
  bool const was_up = up_since_ != time_point{};
  if (was_up) was_silent_ = false;
  bool const lasted = was_up && now - up_since_ > std::chrono::seconds{1};
  failures_ = was_up ? 0 : failures_ + 1;
  up_since_ = {};
  if (lasted && length != duration::zero()) throw violation{4, "a connection that lasted is not made again at once"};
  if (located_) return;  // a replica is greeted again all the time, and at another place everything begins anew
  if (length > settings_.reconnect_max) throw violation{4, "a pause between attempts to connect is longer than the longest"};
  // Holds with a short lease are to outlive an outage.
  duration const longest = std::min(settings_.reconnect_max, shortest_lease_ / 10);
  duration const least = failures_ < 2 ? duration::zero() : std::min(settings_.reconnect_min * (1 << std::min(failures_ - 2, 12)), longest) / 2;
  if (length < least) throw violation{10, "attempt " + std::to_string(failures_) + " to connect failed, and the next comes too soon"};
}

void sim_connection::carry_out(time_point now) {
  for (redis::connection_actions todo = fsm_.take(); todo.any(); todo = fsm_.take()) {
    if (fsm_.is_up() && up_since_ == time_point{}) up_since_ = now;
    if (todo.log) {
      for (auto const& [level, words] : fsm_.take_log()) shell_.note(*this, level, words);
    }
    if (todo.close) {
      ++generation_;
      ++sleep_;
      open_ = reading_ = flush_due_ = false;
      unread_.clear();
      end_.clear();
      read_ = 0;
      shell_.hang_up(*this);
      if (!todo.connect) {
        bool const was_up = up_since_ != time_point{};
        pauses(todo.until - now, now);
        if (!was_up) given_up(now);
      }
    }
    if (todo.sleep) {
      ++sleep_;
      if (todo.until != time_point::max()) {
        shell_.later(shell_.until(todo.until), [this, mine = sleep_](time_point at) {
          if (mine == sleep_) input(at, [&] { fsm_.due(at); });
        });
      }
    }
    if (todo.resolve) look_up(now);
    if (todo.connect) dial();
    flush_due_ = flush_due_ || todo.flush;
    if (todo.write) write_at_most(habits_.slowest_write);
    reading_ = reading_ || todo.read;
    if (todo.go_on) shell_.later(0, [this](time_point at) { input(at, [&] { fsm_.due(at); }); });
  }
}

/// Of a host with several addresses somebody is at one. At the others nobody is: they refuse, or say nothing. A look-up may say nothing, too. What is
/// well is tried at the latest in the attempt behind one that met silence: so the bounds of the judges count two.
void sim_connection::look_up(time_point now) {
  if (fsm_.is_up()) return fsm_.resolved(found_, now);
  attempt_began_ = now;
  tried_ = 0;
  tried_alive_ = false;
  bool const may_be_silent = !std::exchange(met_silence_, false);
  if (may_be_silent && habits_.hanging_lookups != 0 && random_.chance(habits_.hanging_lookups)) {
    met_silence_ = true;
    found_.clear();
    return;
  }
  std::int64_t const found = habits_.dead_addresses != 0 && random_.chance(habits_.dead_addresses) ? random_.between(2, 3) : 1;
  alive_ = static_cast<std::size_t>(random_.below(found));
  silent_ = found > 1 && may_be_silent && habits_.silent_addresses != 0 && random_.chance(habits_.silent_addresses)
                ? static_cast<std::size_t>(random_.below(found))
                : alive_;
  found_.clear();
  for (std::int64_t i = 0; i < found; ++i) found_.push_back("address " + std::to_string(i));
  fsm_.resolved(found_, now);
}

void sim_connection::dial() {
  std::size_t const number = fsm_.address_number();
  ++tried_;
  if (number == alive_) {
    tried_alive_ = true;
    return shell_.open(*this);
  }
  if (number == silent_) {
    met_silence_ = true;
    return;
  }
  shell_.later(0, [this, mine = generation_](time_point at) {
    if (mine != generation_) return;
    was_refused_ = true;
    input(at, [&] { fsm_.refused("nobody is there", at); });
    was_refused_ = false;
  });
}

/// An attempt has come to nothing.
void sim_connection::given_up(time_point now) {
  bool const had_time = now < attempt_began_ + settings_.connect_timeout;
  if (was_refused_ && !tried_alive_ && had_time) throw violation{4, "a host is given up, and somebody is at its next address"};
  // Where something was silent before, which in a faulty network may be anything, one address may have all the time.
  // A process that stood still past the end of the attempt had no time for another address.
  bool const stood_still = now > attempt_began_ + settings_.connect_timeout + std::chrono::milliseconds{1};
  bool const was_left_alone = tried_ == 1 && found_.size() > 1 && met_silence_ && !had_time && !stood_still;
  if (was_left_alone && !was_silent_) throw violation{4, "a silent address has cost a whole attempt"};
  was_silent_ = was_silent_ || met_silence_ || !was_refused_;
}

/// All at once; or, where streams are slow, some of it, after a while. Until then the bytes must not change. However many parts the
/// stream makes of it, all that is there is written when `left` has passed.
void sim_connection::write_at_most(nanos left) {
  while (!fsm_.bytes().empty()) {
    std::string_view const bytes = fsm_.bytes();
    if (habits_.slowest_write == 0 || random_.chance(50)) {
      shell_.write(*this, std::string{bytes});
      fsm_.written(bytes.size());
      if (!fsm_.take().write) return;
      continue;
    }
    under_way_ = bytes.substr(0, static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(bytes.size()))));
    nanos const pause = random_.between(0, left);
    shell_.later(pause, [this, left = left - pause, mine = generation_](time_point) {
      if (mine != generation_) return;
      if (!fsm_.bytes().starts_with(under_way_)) throw violation{10, "the bytes of a write that is under way have changed"};
      std::size_t const size = under_way_.size();
      shell_.write(*this, std::exchange(under_way_, {}));
      fsm_.written(size);
      if (fsm_.take().write) write_at_most(left);
    });
    return;
  }
}

}  // namespace conch::sim
