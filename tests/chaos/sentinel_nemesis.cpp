#include "chaos/sentinel_nemesis.hpp"

#include <algorithm>
#include <limits>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds down_after = 1s;

std::vector<redis_server*> servers_of(sentinel_set& set) {
  std::vector<redis_server*> all;
  for (std::size_t i = 0; i < set.servers(); ++i) all.push_back(&set.server(i));
  return all;
}

}  // namespace

name_watch::name_watch(sentinel_set& set, role_watch& roles) : set_{set}, roles_{roles} {
  for (std::size_t i = 0; i < set.sentinels(); ++i) threads_.emplace_back([this, i] { keep_asking(i); });
}

name_watch::~name_watch() {
  ended_ = true;
  for (std::thread& t : threads_) t.join();
}

void name_watch::keep_asking(std::size_t sentinel) {
  std::optional<std::size_t> named;
  for (nanoseconds_of_boot last = boot_now(); !ended_; std::this_thread::sleep_for(5ms)) {
    nanoseconds_of_boot const asked = boot_now();
    try {
      std::size_t const now = set_.master(sentinel, 500ms);
      if (named != now) roles_.named(now, last, boot_now());
      named = now;
      last = asked;
    } catch (std::runtime_error const&) {
      // It is down, or paused.
    }
  }
}

// ---------------------------------------------------------------------------------------------------------- events

sentinel_nemesis::sentinel_nemesis(chaos_options const& options)
    : redis_nemesis{options},
      set_{{.down_after = down_after, .failover_timeout = 3s, .appendonly = true}},
      states_(set_.servers(), state::up),
      sentinel_states_(set_.sentinels(), state::up),
      first_{set_.server(0).port(), boot_now(), boot_now(), true},
      roles_{servers_of(set_)},
      names_{set_, roles_} {
  for (worker& w : workers_) start(w);
}

/// Some know one Sentinel, and are told of the others.
std::vector<std::string> sentinel_nemesis::arguments_of(worker const& w) {
  std::vector<std::size_t> listed;
  std::size_t const known = 1 + static_cast<std::size_t>(w.number) % set_.sentinels();
  for (std::size_t i = 0; i < known; ++i) listed.push_back((static_cast<std::size_t>(w.number) + i) % set_.sentinels());
  return {"--url", set_.url(listed)};
}

void sentinel_nemesis::stands_still(std::string const& who, bool does) {
  if (does) {
    standstills_.push_back({who, boot_now(), std::numeric_limits<nanoseconds_of_boot>::max()});
    return;
  }
  for (standstill& s : standstills_) {
    if (s.who == who) s.to = std::min(s.to, boot_now());
  }
}

void sentinel_nemesis::strike() {
  int const what = roll(100);
  if (what < 45) {
    hurt_worker(any_worker(), roll(100));
  } else if (what < 60) {
    std::size_t const at = master();
    if (states_[at] != state::up) return;
    try {
      kill_a_connection(set_.server(at));
    } catch (std::runtime_error const&) {
      // Too slow to answer at the moment: it is not this one's part to complain.
    }
  } else if (!options_.sabotage && steady::now() >= quiet_until_) {  // else a failover would explain some of it
    quiet_until_ = steady::now() + 500ms + milliseconds{roll(3500)};
    hurt_servers(roll(100));
  }
}

void sentinel_nemesis::hurt_servers(int chance) {
  std::size_t const at = master();
  // Shorter than the Sentinels' patience, or longer.
  auto const some_time = [&] { return milliseconds{roll(3) == 0 ? roll(700) : 1500 + roll(2500)}; };
  if (chance < 15) {
    kill_server(at, some_time());
  } else if (chance < 30) {
    stop_server(at, some_time());
  } else if (chance < 50) {
    fail_over();
  } else if (chance < 62) {
    change_roles();
  } else if (chance < 82) {
    cut_replicas_off(at);
  } else if (chance < 90) {
    stop_server((at + 1 + static_cast<std::size_t>(roll(2))) % set_.servers(), some_time());
  } else {
    hurt_sentinel();
  }
}

/// The first two that agree, of those that answer; otherwise the first.
std::size_t sentinel_nemesis::master() {
  std::vector<std::size_t> said;
  for (std::size_t i = 0; i < set_.sentinels(); ++i) {
    if (sentinel_states_[i] != state::up) continue;
    try {
      std::size_t const one = set_.master(i);
      if (std::find(said.begin(), said.end(), one) != said.end()) return one;
      said.push_back(one);
    } catch (std::runtime_error const&) {
      // It has just been started.
    }
  }
  if (said.empty()) throw std::runtime_error{"no Sentinel names a master"};
  return said.front();
}

/// Nothing if it does not answer.
std::optional<std::string> sentinel_nemesis::say(std::size_t server, std::vector<std::string> const& command) {
  if (states_[server] != state::up) return {};
  try {
    return redis_probe{set_.server(server), 2s}.command(command);
  } catch (std::runtime_error const&) {
    return {};
  }
}

void sentinel_nemesis::kill_server(std::size_t i, milliseconds back_after) {
  // What a new replica has is not on disk before its file is rewritten.
  auto const said = say(i, {"INFO", "persistence"});
  bool const on_disk = said && said->find("aof_rewrite_in_progress:0") != std::string::npos &&
                       said->find("aof_rewrite_scheduled:0") != std::string::npos &&
                       said->find("loading:0") != std::string::npos;
  if (!on_disk) return;
  note("masters killed");
  roles_.forget(i);
  set_.server(i).kill(SIGKILL);
  states_[i] = state::down;
  std::string const port = std::to_string(set_.server(i).port());
  stands_still(port, true);
  later(back_after, [this, i, port] {
    set_.server(i).restart(true);
    states_[i] = state::up;
    stands_still(port, false);
  });
}

void sentinel_nemesis::stop_server(std::size_t i, milliseconds goes_on_after) {
  if (states_[i] != state::up) return;
  note(i == master() ? "masters stopped" : "replicas stopped");
  set_.server(i).stop();
  states_[i] = state::stopped;
  std::string const port = std::to_string(set_.server(i).port());
  stands_still(port, true);
  later(goes_on_after, [this, i, port] {
    set_.server(i).cont();
    states_[i] = state::up;
    stands_still(port, false);
  });
}

void sentinel_nemesis::fail_over() {
  for (std::size_t i = 0; i < set_.sentinels(); ++i) {
    if (sentinel_states_[i] != state::up) continue;
    try {
      if (redis_probe{set_.sentinel(i), 2s}.command({"SENTINEL", "FAILOVER", "m"}) == "OK") note("SENTINEL FAILOVER");
    } catch (std::runtime_error const&) {
      // As above.
    }
    return;
  }
}

std::string sentinel_nemesis::epoch() {
  for (std::size_t i = 0; i < set_.sentinels(); ++i) {
    if (sentinel_states_[i] != state::up) continue;
    try {
      std::string const all = redis_probe{set_.sentinel(i), 2s}.command({"SENTINEL", "MASTER", "m"});
      auto const found = all.find("config-epoch, ");
      auto const flags = all.find("flags, master,");  // and nothing behind it: no failover is under way
      if (found != std::string::npos && flags != std::string::npos)
        return all.substr(found, all.find(',', found + 14) - found);
    } catch (std::runtime_error const&) {
      // As above.
    }
  }
  return {};
}

/// Redis' own FAILOVER, to a replica and back: the Sentinels are not told of it. They would take a master that has
/// become a replica for a failed one, after 20 s.
void sentinel_nemesis::change_roles() {
  std::size_t const at = master();
  std::string const before = epoch();
  if (before.empty()) return;
  nanoseconds_of_boot const since = boot_now();
  std::size_t const to = (at + 1 + static_cast<std::size_t>(roll(2))) % set_.servers();
  auto const said = say(at, {"FAILOVER", "TO", "127.0.0.1", std::to_string(set_.server(to).port()), "TIMEOUT", "500"});
  if (said != "OK") return;
  note("FAILOVER");
  to_be_changed_back_ = true;
  later(milliseconds{300 + roll(1500)}, [this, at, before, since] { change_back(at, before, since, 100); });
}

void sentinel_nemesis::change_back(std::size_t to, std::string const& before, nanoseconds_of_boot since, int tries) {
  auto const role = say(to, {"ROLE"});
  bool const master = role && role->starts_with("[master");
  to_be_changed_back_ = tries > 0 && role && !master && epoch() == before;  // else others have taken it in hand
  if (master && epoch() == before) without_loss_.push_back({since, boot_now()});
  if (!to_be_changed_back_) return;
  for (std::size_t i = 0; i < set_.servers(); ++i) {
    if (auto const said = say(i, {"ROLE"}); i == to || !said || !said->starts_with("[master")) continue;
    say(i, {"FAILOVER", "TO", "127.0.0.1", std::to_string(set_.server(to).port()), "TIMEOUT", "500"});
  }
  later(100ms, [this, to, before, since, tries] { change_back(to, before, since, tries - 1); });
}

/// The master goes on alone, and what it grants is lost if another one takes over.
void sentinel_nemesis::cut_replicas_off(std::size_t from) {
  if (!say(from, {"ACL", "SETUSER", "default", "-psync", "-sync"})) return;
  note("replicas cut off");
  say(from, {"CLIENT", "KILL", "TYPE", "REPLICA"});
  milliseconds const before{100 + roll(1500)};
  int const then = roll(4);
  later(before, [this, from, then] {
    if (states_[from] != state::up) return;
    if (then == 0) kill_server(from, 1500ms + milliseconds{roll(2500)});
    if (then == 1) stop_server(from, 1500ms + milliseconds{roll(2500)});
    if (then == 2) fail_over();
  });
  later(before + milliseconds{then == 2 ? 2500 : 500 + roll(1000)}, [this, from] {
    say(from, {"ACL", "SETUSER", "default", "+psync", "+sync"});
  });
}

void sentinel_nemesis::hurt_sentinel() {
  auto const i = static_cast<std::size_t>(roll(static_cast<int>(set_.sentinels())));
  bool const all_up =
      std::all_of(sentinel_states_.begin(), sentinel_states_.end(), [](state s) { return s == state::up; });
  if (!all_up) return;
  milliseconds const length{roll(4000)};
  if (roll(2) == 0) {
    note("Sentinels stopped");
    set_.sentinel(i).stop();
    sentinel_states_[i] = state::stopped;
    later(length, [this, i] {
      set_.sentinel(i).cont();
      sentinel_states_[i] = state::up;
    });
  } else {
    note("Sentinels killed");
    set_.sentinel(i).kill(SIGKILL);
    sentinel_states_[i] = state::down;
    later(length, [this, i] {
      set_.sentinel(i).restart(false);
      sentinel_states_[i] = state::up;
    });
  }
}

void sentinel_nemesis::calm() {
  for (auto const end = steady::now() + 15s; to_be_changed_back_ && steady::now() < end;
       std::this_thread::sleep_for(2ms))
    run_due();
  nemesis::calm();
  // A server that was frozen or killed at the time has not been told.
  for (std::size_t i = 0; i < set_.servers(); ++i) say(i, {"ACL", "SETUSER", "default", "+psync", "+sync"});
}

std::vector<promotion> sentinel_nemesis::promotions() {
  auto all = roles_.promotions();
  for (promotion& p : all) {
    p.lossless = std::any_of(without_loss_.begin(), without_loss_.end(),
                             [&](planned const& w) { return p.to >= w.from && p.to <= w.to; });
  }
  return all;
}

}  // namespace conch::test
