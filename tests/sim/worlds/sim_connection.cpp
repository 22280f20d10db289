#include "sim/worlds/sim_connection.hpp"

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
  bool const lasted = was_up && now - up_since_ > std::chrono::seconds{1};
  failures_ = was_up ? 0 : failures_ + 1;
  up_since_ = {};
  if (lasted && length != duration::zero()) throw violation{4, "a connection that lasted is not made again at once"};
  if (located_) return;  // a replica is greeted again all the time, and at another place everything begins anew
  if (length > settings_.reconnect_max) throw violation{4, "a pause between attempts to connect is longer than the longest"};
  duration const least =
      failures_ < 2 ? duration::zero() : std::min(settings_.reconnect_min * (1 << std::min(failures_ - 2, 12)), settings_.reconnect_max) / 2;
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
      pauses(todo.until - now, now);
      if (was_refused_) throw violation{4, "a host is given up, and somebody is at its next address"};
    }
    if (todo.sleep) {
      ++sleep_;
      if (todo.until != time_point::max()) {
        shell_.later(shell_.until(todo.until), [this, mine = sleep_](time_point at) {
          if (mine == sleep_) input(at, [&] { fsm_.due(at); });
        });
      }
    }
    if (todo.resolve) {
      std::int64_t const found = habits_.dead_addresses != 0 && random_.chance(habits_.dead_addresses) ? random_.between(2, 3) : 1;
      alive_ = static_cast<std::size_t>(random_.below(found));
      fsm_.resolved(static_cast<std::size_t>(found), now);
    }
    if (todo.connect) {
      if (fsm_.address_number() == alive_) {
        shell_.open(*this);
      } else {
        shell_.later(0, [this, mine = generation_](time_point at) {
          if (mine != generation_) return;
          was_refused_ = fsm_.address_number() < alive_;
          input(at, [&] { fsm_.refused("nobody is there", at); });
          was_refused_ = false;
        });
      }
    }
    flush_due_ = flush_due_ || todo.flush;
    if (todo.write) write_at_most(habits_.slowest_write);
    reading_ = reading_ || todo.read;
    if (todo.go_on) shell_.later(0, [this](time_point at) { input(at, [&] { fsm_.due(at); }); });
  }
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
