#include "sim/worlds/sim_connection.hpp"

#include "protocol/shortest_lease.hpp"
#include "sim/judges/observer.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::sim {

namespace {

redis::address somewhere() {
  redis::address a;
  a.host = "server";
  return a;
}

constexpr std::string_view password_begins = "password-";

}  // namespace

std::optional<std::int64_t> number_of_credentials(std::span<std::string_view const> command) {
  if (command[0] != "HELLO" && command[0] != "AUTH") return std::nullopt;
  for (std::string_view const word : command) {
    if (!word.starts_with(password_begins)) continue;
    std::int64_t number = 0;
    std::from_chars(word.data() + password_begins.size(), word.data() + word.size(), number);
    return number;
  }
  return std::nullopt;
}

void take_credentials(config& c) {
  c.credentials_provider = [](std::string const&, credentials_handler const&) {};
}

sim_connection::sim_connection(shell& of, config const& settings, std::string const& client_id, std::uint64_t seed,
                               habits h, redis::connection_fsm::roles r)
    : shell_{of},
      settings_{settings},
      fsm_{settings, client_id, somewhere(), seed, {}, r},
      random_{seed},
      habits_{h},
      located_{r.finder != nullptr && r.talk == nullptr},
      credentials_{seed ^ 0xc4ed'e471},
      talks_{r.talk != nullptr} {}

void sim_connection::send(protocol::command const& c) {
  shortest_lease_ = std::min(shortest_lease_, protocol::shortest_lease(c, settings_.lock_delay));
  ++sent_;
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
  if (fsm_.life().take().write) write_at_most(habits_.slowest_write);
}

void sim_connection::want() {
  if (fsm_.life().want()) shell_.later(0, [this](time_point now) { input(now, [&] { fsm_.life().due(now); }); });
}

bool sim_connection::drop(std::string_view why) {
  if (!fsm_.life().drop(why)) return false;
  shell_.later(0, [this](time_point now) { input(now, [&] { fsm_.life().due(now); }); });
  return true;
}

void sim_connection::moved() {
  if (fsm_.life().moved()) shell_.later(0, [this](time_point now) { input(now, [&] { fsm_.life().due(now); }); });
}

void sim_connection::say(std::string_view bytes) {
  if (fsm_.say(bytes)) flush_due_ = true;
}

bool sim_connection::end_of_turn() {
  if (!std::exchange(flush_due_, false)) return false;
  if (std::exchange(sent_, 0) >= gives_with_ && gives_ == giving::before_a_write) give_while_busy(asked_at_);
  fsm_.flush();
  if (fsm_.life().take().write) write_at_most(habits_.slowest_write);
  if (gives_ == giving::behind_a_write) {
    shell_.later(0, [this](time_point at) {
      if (gives_ == giving::behind_a_write) input(at, [&] { give_while_busy(at); });
    });
  }
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
  input(now, [&] { fsm_.life().connected(now); });
}

void sim_connection::ended(std::string_view why, time_point now) {
  if (!open_) return input(now, [&] { fsm_.failed(why, now); });
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
  if (length > settings_.reconnect_max)
    throw violation{4, "a pause between attempts to connect is longer than the longest"};
  // Holds with a short lease are to outlive an outage.
  duration const longest = std::min(settings_.reconnect_max, shortest_lease_ / 10);
  duration const least = failures_ < 2
                             ? duration::zero()
                             : std::min(settings_.reconnect_min * (1 << std::min(failures_ - 2, 12)), longest) / 2;
  if (length < least)
    throw violation{10, "attempt " + std::to_string(failures_) + " to connect failed, and the next comes too soon"};
}

void sim_connection::carry_out(time_point now) {
  for (net::steps todo = fsm_.life().take(); todo.any(); todo = fsm_.life().take()) {
    if (fsm_.life().is_up() && up_since_ == time_point{}) up_since_ = now;
    if (todo.log) {
      for (auto const& [level, words] : fsm_.life().take_log()) shell_.note(*this, level, words);
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
          if (mine == sleep_) input(at, [&] { fsm_.life().due(at); });
        });
      }
    }
    if (todo.ask) give_credentials(now);
    if (todo.resolve) look_up(now);
    if (todo.connect) dial();
    flush_due_ = flush_due_ || todo.flush;
    if (todo.write) write_at_most(habits_.slowest_write);
    reading_ = reading_ || todo.read;
    if (todo.call_due_later) shell_.later(0, [this](time_point at) { input(at, [&] { fsm_.life().due(at); }); });
  }
  credentials_checked(now);
}

// --------------------------------------------------------------------------------------------------- credentials

/// Before a connection, and for the one that is up. There the provider may be slow, fail, or say nothing, and the
/// server may refuse what it gives.
void sim_connection::give_credentials(time_point now) {
  ++asked_;
  gives_ = giving::nothing;
  if (!fsm_.life().is_up()) return give_new_credentials(now);
  if (credentials_.chance(5)) return;
  if (credentials_.chance(5)) return fsm_.no_credentials("the vault is sealed", now);
  if (credentials_.chance(20)) return give_new_credentials(now);
  if (credentials_.chance(70)) {
    // While something is under way: behind what is written, or before it is.
    gives_ = credentials_.chance(40) ? giving::behind_a_write : giving::before_a_write;
    gives_with_ = credentials_.chance(30) ? 1 : 3;
    asked_at_ = now;
    return;
  }
  nanos const slowest = std::min<nanos>(100 * millisecond, settings_.connect_timeout.count() / 2);
  shell_.later(credentials_.between(0, slowest), [this, mine = asked_](time_point at) {
    // What an earlier question led to is left alone, as by the shell.
    if (mine == asked_) input(at, [&] { give_new_credentials(at); });
  });
}

void sim_connection::give_while_busy(time_point now) {
  gives_ = giving::nothing;
  if (fsm_.life().is_up()) give_new_credentials(now);
}

void sim_connection::give_new_credentials(time_point now) {
  bool const of_live = fsm_.life().is_up();
  if (of_live && !fsm_.renewal().is_asking()) return;  // too late: after a pause the client has given up waiting
  bool const refused = of_live && credentials_.chance(10);
  password_ = std::string{password_begins} + std::to_string(++given_) + '.';
  good_for_ = credentials_.chance(30)
                  ? duration::max()
                  : duration{credentials_.between(10, credentials_.chance(50) ? 30 : 300) * millisecond};
  shown_ = false;
  credentials c;
  c.user = refused ? "somebody" : "";
  c.password = password_;
  c.refresh_after = good_for_;
  fsm_.credentials_found(std::move(c), now);
  if (of_live) renewals_are_due(std::chrono::milliseconds{50}, "new credentials are not written to the server", now);
}

/// Something must have become of the credentials by then, unless the connection has ended.
void sim_connection::renewals_are_due(duration within, std::string_view words, time_point now) {
  // What the clock, the timer or a slow stream may add.
  constexpr nanos slack = 100 * millisecond;
  duration const allowed{within.count() * 102 / 100 + slack};
  shell_.later(allowed.count(), [=, this, mine = ++watch_, asked = asked_](time_point at) {
    bool const done = words.starts_with("new") ? shown_ : asked != asked_;
    if (mine != watch_ || !fsm_.life().is_up() || done) return;
    // A process that was paused still has to write what it began before.
    bool const was_paused = at - now > allowed + allowed * 3 / 100;
    if (was_paused) return renewals_are_due(within, words, at);
    throw violation{10, std::string{words}};
  });
}

/// The provider is asked again when the credentials that the server knows have expired, and a while after it had none.
void sim_connection::credentials_checked(time_point now) {
  if (!settings_.credentials_provider || talks_) return;
  bool const is_up = fsm_.life().is_up();
  std::uint64_t const answered = fsm_.renewal().successes() + fsm_.renewal().failures();
  bool const failed = fsm_.renewal().failures() != failed_;
  failed_ = fsm_.renewal().failures();
  bool const is_news = is_up && (!was_up_ || answered != answered_);
  was_up_ = is_up;
  answered_ = answered;
  if (!is_up || failed) gives_ = giving::nothing;  // too late
  if (!is_up) ++watch_;
  if (!is_news || (!failed && good_for_ == duration::max())) return;
  renewals_are_due(failed ? settings_.reconnect_max : good_for_, "the provider is not asked for other credentials",
                   now);
}

/// The greeting of a connection, and the next write of one that is up.
void sim_connection::written_with_credentials() {
  if (shown_ || fsm_.bytes().find(password_) != std::string_view::npos) {
    shown_ = true;
  } else if (!fsm_.life().is_up()) {
    throw violation{10, "a greeting does not show the credentials that the provider gave for it"};
  }
}

/// One address of a host with several has a server. At the others there is none: they refuse, or are silent. A look-up
/// may be silent, too. What is well is tried at the latest in the attempt behind one that met silence: so the bounds of
/// the judges count two.
void sim_connection::look_up(time_point now) {
  if (fsm_.life().is_up()) return fsm_.life().resolved({found_}, now);
  attempt_began_ = now;
  tried_ = 0;
  tried_alive_ = false;
  bool const may_be_silent = !std::exchange(met_silence_, false);
  if (may_be_silent && habits_.hanging_lookups != 0 && random_.chance(habits_.hanging_lookups)) {
    met_silence_ = true;
    found_.clear();
    return;
  }
  std::int64_t const found =
      habits_.dead_addresses != 0 && random_.chance(habits_.dead_addresses) ? random_.between(2, 3) : 1;
  alive_ = static_cast<std::size_t>(random_.below(found));
  silent_ = found > 1 && may_be_silent && habits_.silent_addresses != 0 && random_.chance(habits_.silent_addresses)
                ? static_cast<std::size_t>(random_.below(found))
                : alive_;
  found_.clear();
  for (std::int64_t i = 0; i < found; ++i) found_.push_back("address " + std::to_string(i));
  fsm_.life().resolved({found_}, now);
}

void sim_connection::dial() {
  std::size_t const number = fsm_.life().address_number();
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
    input(at, [&] { fsm_.failed("nobody is there", at); });
    was_refused_ = false;
  });
}

/// An attempt has come to nothing.
void sim_connection::given_up(time_point now) {
  bool const had_time = now < attempt_began_ + settings_.connect_timeout;
  if (was_refused_ && !tried_alive_ && had_time)
    throw violation{4, "a host is given up, and somebody is at its next address"};
  // Where something was silent before, which in a faulty network may be anything, one address may have all the time.
  // A process that was paused past the end of the attempt had no time for another address.
  bool const stood_still = now > attempt_began_ + settings_.connect_timeout + std::chrono::milliseconds{1};
  bool const was_left_alone = tried_ == 1 && found_.size() > 1 && met_silence_ && !had_time && !stood_still;
  if (was_left_alone && !was_silent_) throw violation{4, "a silent address has cost a whole attempt"};
  was_silent_ = was_silent_ || met_silence_ || !was_refused_;
}

/// All at once; or, where streams are slow, some of it, after a while. Until then the bytes must not change. However
/// many parts the stream makes of it, all that is there is written when `left` has passed.
void sim_connection::write_at_most(nanos left) {
  while (!fsm_.bytes().empty()) {
    std::string_view const bytes = fsm_.bytes();
    written_with_credentials();
    if (habits_.slowest_write == 0 || random_.chance(50)) {
      shell_.write(*this, std::string{bytes});
      fsm_.written(bytes.size());
      if (!fsm_.life().take().write) return;
      continue;
    }
    under_way_ = bytes.substr(0, static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(bytes.size()))));
    nanos const pause = random_.between(0, left);
    shell_.later(pause, [this, left = left - pause, mine = generation_](time_point) {
      if (mine != generation_) return;
      if (!fsm_.bytes().starts_with(under_way_))
        throw violation{10, "the bytes of a write that is under way have changed"};
      std::size_t const size = under_way_.size();
      shell_.write(*this, std::exchange(under_way_, {}));
      fsm_.written(size);
      if (fsm_.life().take().write) write_at_most(left);
    });
    return;
  }
}

}  // namespace conch::sim
