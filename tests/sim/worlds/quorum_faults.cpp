// What goes wrong in a world of several servers: connections, machines, clocks, operators.
#include "sim/worlds/quorum_world.hpp"

#include <algorithm>

namespace conch::sim {

void quorum_world::plan_faults() {
  for (std::int64_t n = random_.between(1, 8); n > 0; --n)
    after(random_.between(0, 3500) * millisecond, [this] { strike(); });
  if (steps_of_clocks) {
    for (std::int64_t n = random_.between(1, 5); n > 0; --n) {
      after(random_.between(0, 3500) * millisecond,
            [this] { step_clock(static_cast<int>(random_.below(servers_count))); });
    }
  }
  if (seldom) open_windows();
  if (fresh_rule && random_.chance(60)) {
    // Shortly before a second of the servers' clocks is full: soon after they say that they are a second old.
    after(random_.between(1, 3) * second - random_.between(10, 150) * millisecond, [this] { forget_everything(); });
  }
  if (foreign) {
    after(random_.between(0, 3000) * millisecond, [this] {
      be_in_the_way(static_cast<int>(random_.below(servers_count)), random_.between(5, 500) * millisecond);
    });
  }
}

bool quorum_world::reachable(int client, int which) const {
  return !seldom || which != 0 || window_[static_cast<std::size_t>(client)];
}

/// To the first server, now and then, for some; and the others do not answer at once all the time.
void quorum_world::open_windows() {
  window_.assign(clients_.size(), false);
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    for (std::int64_t n = random_.between(0, 3); n > 0; --n) {
      nanos const at = random_.between(0, 3500) * millisecond, length = random_.between(3, 150) * millisecond;
      after(at, [this, i] { window_[i] = true; });
      after(at + length, [this, i] {
        if (healing_) return;
        window_[i] = false;
        for (auto const& l : links_) {
          if (l->client == static_cast<int>(i) && l->server == 0 && l->client_open && !l->cut)
            cut(l, random_.between(0, 30) * millisecond, 0);
        }
      });
    }
  }
  for (nanos at = 0; at < 3500 * millisecond; at += random_.between(50, 400) * millisecond) {
    after(at, [this] {
      server& s = *servers_[static_cast<std::size_t>(random_.between(1, servers_count - 1))];
      s.stalled_until = std::max(s.stalled_until, now_ + random_.between(5, 100) * millisecond);
      ill(s, s.stalled_until);
    });
  }
}

void quorum_world::step_clock(int which) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  std::int64_t const before = s.offset_us;
  // Back only, or anywhere.
  s.offset_us = random_.chance(70) ? random_.between(std::min(-farthest_us(), before), before)
                                   : random_.between(-farthest_us(), farthest_us());
  if (s.offset_us > before) forget();
  else s.set_back = true;
  say("fault: the clock of server ", which, " is set by ", s.offset_us - before, " us");
  ill(s, now_);
}

void quorum_world::revive(quorum_client& c, nanos in) {
  ++revivals_;
  after(in, [this, &c] {
    --revivals_;
    c.revive();
  });
}

void quorum_world::ill(server& s, nanos until) {
  s.disturbed = std::max(s.disturbed, until);
  trouble(until);
}

/// Somebody else's key where the lock should be, until he takes it away. A vote that was there is lost.
void quorum_world::be_in_the_way(int which, nanos length) {
  say("fault: somebody writes something else into the lock's key at server ", which);
  by_hand(which, {"DEL", keys_[0]}, 0);
  by_hand(which, {"HSET", keys_[0], "something", "else"}, 0);
  ill(*servers_[static_cast<std::size_t>(which)], now_ + length);
  after(length, [this, which] { by_hand(which, {"DEL", keys_[0]}, 0); });
}

/// Nobody is told.
void quorum_world::delete_by_hand(int name) {
  auto const first = random_.below(servers_count), count = random_.between(1, servers_count);
  say("fault: somebody deletes lock ", name, " at ", count, " servers, from ", first);
  for (auto i = first; i < first + count; ++i) {
    auto const which = static_cast<int>(i % servers_count);
    if (servers_[static_cast<std::size_t>(which)]->up)
      by_hand(which, {"DEL", keys_[static_cast<std::size_t>(name)]}, name);
  }
}

void quorum_world::by_hand(int which, std::initializer_list<std::string_view> words, int name) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  forget();
  seen_lock& known = s.locks[static_cast<std::size_t>(name)];
  known = {};
  known.since = now_;
  set_clock(s);
  auto const id = s.model.connect("10.9.9.9:9");
  std::vector<std::string_view> const argv{words};
  (void)s.model.execute(id, argv);
  s.model.disconnect(id);
  ill(s, now_);
}

void quorum_world::forget() {
  forgot = true;
  history_.all_disowned(now_);
  history_.fences_may_fall();
}

void quorum_world::patrols(int which) {
  patrol(which);
  judge_holds();
  after(claim, [this, which] { patrols(which); });
}

void quorum_world::strike() {
  auto const which = static_cast<std::size_t>(random_.below(std::ssize(servers_)));
  auto who = static_cast<std::size_t>(random_.below(std::ssize(clients_)));
  for (watch const& w : locks_) {
    // Preferably a client that holds something.
    if (!w.active.empty() && random_.chance(50)) who = static_cast<std::size_t>(w.active.front()->client->number);
  }
  quorum_client& c = *clients_[who];
  nanos const a_while = random_.between(1, 1000) * millisecond;
  switch (random_.below(fresh_rule ? 14 : 12)) {
    case 0:
    case 1: break_connections(static_cast<int>(who), static_cast<int>(which), 300 * millisecond); return;
    case 2:
      say("fault: server ", which, " is paused");
      servers_[which]->stalled_until = std::max(servers_[which]->stalled_until, now_ + a_while);
      ill(*servers_[which], now_ + a_while);
      return;
    case 3: stop_server(static_cast<int>(which), true, a_while); return;
    case 4:
      say("fault: client ", who, " is paused");
      c.pause(a_while * 2);
      return;
    case 5:
    case 6:
      if (!strict && random_.chance(50)) return;
      say("fault: client ", who, " dies");
      c.die(random_.chance(50));
      if (random_.chance(50)) revive(c, random_.between(1, 500) * millisecond);
      return;
    case 7:
      say("fault: answers of server ", which, " are late");
      ill(*servers_[which], now_ + a_while);
      for (auto const& l : links_) {
        if (l->server == static_cast<int>(which) && l->client_open && !l->cut && random_.chance(70))
          l->last_down = std::max(l->last_down, now_ + a_while / 2);
      }
      return;
    case 8: ask_slowly(c, static_cast<int>(which)); return;
    case 9: c.slow_at_next = static_cast<int>(which); return;
    case 10:
      answer_errors(static_cast<int>(which), a_while);
      if (troubles_.chance(40)) answer_errors_at_several(static_cast<int>(which), a_while);
      return;
    case 11: be_slow(static_cast<int>(which), 2 * a_while); return;
    case 12:
    case 13:
      stop_server(static_cast<int>(which), false, a_while / 4);
      stop_server(static_cast<int>(random_.below(std::ssize(servers_))), false, a_while / 4);
      return;
    default: return;
  }
}

/// What the client writes now arrives only after the present claims have ended.
void quorum_world::ask_slowly(quorum_client& c, int slowest_server) {
  if (healing_) return;
  say("fault: client ", c.number, " is slow to ask, and then is paused");
  nanos const begins = random_.between(0, claim / 2), length = random_.between(claim, 3 * claim),
              goes_on = begins + length;
  // what it is granted then stands on few votes: one is still to come, and one is not confirmed
  bool const few = random_.chance(80);
  for (auto const& l : links_) {
    if (l->client != c.number || !l->client_open || l->cut || l->held_up_until > now_) continue;
    bool const to_come = few && l->server == slowest_server;
    l->held_up_until =
        now_ + (to_come ? goes_on + random_.between(claim / 3, claim) : random_.between(claim / 2, 2 * claim));
  }
  trouble(now_ + (few ? 4 : 2) * claim);
  after(begins, [&c, length] { c.pause(length); });
  if (!few) return;
  // while it is confirmed
  nanos const breaks = random_.chance(50) ? random_.between(0, claim / 3) : random_.between(0, 4 * latency);
  after(goes_on + breaks,
        [this, &c, which = (slowest_server + 1) % servers_count] { break_connections(c.number, which, 2 * claim); });
}

void quorum_world::break_connections(int client, int which, nanos latest) {
  say("fault: a connection of client ", client, " breaks");
  for (auto const& l : links_) {
    if (l->client != client || l->server != which || !l->client_open || l->cut) continue;
    nanos const client_notices = random_.between(0, latest), server_notices = random_.between(0, 1000) * millisecond;
    if (random_.chance(50)) {
      half_cut(l, client_notices, server_notices);
    } else {
      cut(l, client_notices, server_notices);
    }
  }
}

/// Any connection has the same user, the same memory, the same role.
void quorum_world::answer_errors(int which, nanos length) {
  static constexpr std::string_view errors[] = {
      "NOPERM this user has no permissions to run the 'evalsha' command",
      "OOM command not allowed when used memory > 'maxmemory'.",
      "LOADING Redis is loading the dataset in memory",
      "READONLY You can't write against a read only replica.",
      "WRONGTYPE Operation against a key holding the wrong kind of value",
      "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
  };
  server& s = *servers_[static_cast<std::size_t>(which)];
  s.says = errors[random_.below(std::size(errors))];
  s.says_until = now_ + length;
  errors_ = true;
  say("fault: server ", which, " answers ", s.says);
  ill(s, s.says_until);
}

/// All of them answer likewise, some for longer than others: so many that no lock can be had.
void quorum_world::answer_errors_at_several(int first, nanos length) {
  for (int i = 1; i < static_cast<int>(needed); ++i) {
    server& s = *servers_[static_cast<std::size_t>((first + i) % servers_count)];
    s.says = servers_[static_cast<std::size_t>(first)]->says;
    s.says_until = now_ + length * troubles_.between(50, 100) / 100;
    ill(s, s.says_until);
  }
  say("fault: so do ", needed - 1, " more");
}

/// Not silent: each answer comes, and each late.
void quorum_world::be_slow(int which, nanos length) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  s.slow_by = random_.between(5, 150) * millisecond;
  s.slow_until = now_ + length;
  say("fault: server ", which, " is slow by ", s.slow_by / millisecond, " ms");
  ill(s, s.slow_until + s.slow_by);
}

/// The holder is not told, and a new client finds a majority that knows nothing.
void quorum_world::forget_everything() {
  watch const& w = locks_[0];
  if (w.active.empty()) return;
  say("fault: a majority restarts empty, and the holder is paused");
  w.active.front()->client->pause(2 * lease);
  auto const first = static_cast<std::size_t>(random_.below(servers_count));
  for (std::size_t i = 0; i < needed; ++i)
    stop_server(static_cast<int>((first + i) % servers_.size()), false, random_.between(1, 8) * millisecond);
}

void quorum_world::stop_server(int which, bool keep, nanos length) {
  server& s = *servers_[static_cast<std::size_t>(which)];
  if (!s.up) return;
  say("fault: server ", which, keep ? " restarts" : " restarts empty");
  s.up = false;
  for (auto const& l : links_) {
    if (l->server != which || !l->server_open) continue;
    l->server_open = false;
    cut(l, order_ != nullptr ? jitter : random_.between(0, 50) * millisecond, 0);
  }
  s.model.restart(keep);
  s.links.clear();
  ill(s, now_ + length);
  if (!keep) {
    s.locks.assign(s.locks.size(), {});
    s.emptied_at = now_;
  }
  after(length, [this, &s] {
    s.up = true;
    if (fresh_rule) s.votes_from = now_ + youth();
    trouble(std::max(now_, s.votes_from));
    s.started_us = clock_us(s);
    set_clock(s);
    s.model.restart(true);  // whatever it has kept: from now on it is that old
  });
}

}  // namespace conch::sim
