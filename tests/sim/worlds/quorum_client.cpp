#include "sim/worlds/quorum_world.hpp"

#include <cstdio>

// A process of the simulated world: the shell that src/client and src/servers/redis are, and the coroutines that use
// it.
namespace conch::sim {

quorum_client::quorum_client(quorum_world& w, int n)
    : world{w},
      number{n},
      nonces{w.seed * 7000003 + static_cast<std::uint64_t>(n)},
      leases{w.seed ^ 0x1ea5'e000 ^ static_cast<std::uint64_t>(n)} {
  random_source& r = w.random();
  offset = r.between(0, 1'000'000) * millisecond;
  ppm = r.between(-2500, 2500);
  settings.lease = duration{w.lease};
  settings.renew_every = settings.lease / 3;
  settings.quorum.vote_claim = duration{w.claim};
  settings.claim = settings.quorum.vote_claim;
  settings.quorum.min_validity = std::chrono::milliseconds{5};
  settings.stop_margin = duration{r.between(0, w.lease / 10)};
  settings.command_timeout = settings.lease / 3;
  settings.offline_timeout = std::chrono::seconds{3};
  settings.connect_timeout = std::chrono::milliseconds{500};
  settings.reconnect_min = std::chrono::milliseconds{10};
  settings.reconnect_max = std::chrono::milliseconds{100};
  settings.local_slice = duration{r.between(0, 5) * millisecond};
  settings.keep_alive = duration::zero();
  settings.quorum.strict_fence = w.strict;
  if (w.fresh_rule) settings.quorum.min_server_uptime = settings.lease;
  if (w.credentials) take_credentials(settings);
  settings.quorum.servers.resize(static_cast<std::size_t>(w.servers_count));
  coroutines_.resize(static_cast<std::size_t>(r.between(1, 3)));
  shown_.resize(static_cast<std::size_t>(w.names));
  failed_.assign(static_cast<std::size_t>(w.names), {-1, 0});
  for (coroutine& one : coroutines_) one.left = static_cast<int>(r.between(2, 12));
  if (w.small_ != nullptr) follow(w.small_->clients[static_cast<std::size_t>(number)]);
}

quorum_client::~quorum_client() {
  coroutines_.clear();
  cohort.reset();
  owner.reset();
}

void quorum_client::start() {
  alive = true;
  process = world.new_process();
  char text[40];
  std::snprintf(text, sizeof text, "%012llx%020llx", static_cast<unsigned long long>(0xa0000 + process * 17),
                static_cast<unsigned long long>(process));
  id = text;
  cohort = std::make_unique<engine::cohort>(settings, timers, *this, stats);
  owner = std::make_unique<quorum::quorum>(settings, id, world.random().next(), nonces, timers, *cohort, *this, stats);
  int const tears = world.random().chance(30) ? static_cast<int>(world.random().between(1, 30)) : 0;
  bool const in_turns = world.random().chance(50);
  for (int i = 0; i < world.servers_count; ++i) {
    way& one = *ways_.emplace_back(std::make_unique<way>());
    one.client = this;
    one.server = i;
    one.protocol = &owner->add(one, "server " + std::to_string(i));
    sim_connection::habits how;
    how.tears = tears;
    how.in_turns = in_turns;
    // (what is quick is judged where nobody is ill)
    if (!world.calm && world.random().chance(20)) how.slowest_write = world.latency;
    how.dead_addresses = 5;
    if (!world.calm) {
      how.silent_addresses = 30;
      how.hanging_lookups = 2;
    }
    one.connection = std::make_unique<sim_connection>(one, settings, id, world.random().next(), how);
    one.connection->report_to(one);
    // The attempt is three digits of a vote's id.
    if (world.random().chance(30))
      one.protocol->ids().skip(static_cast<std::uint64_t>(world.random().between(990, 999)));
  }
  cohort->use(*owner);
  for (auto const& one : ways_) one->want_connection();
  for (std::size_t i = 0; i < coroutines_.size(); ++i) {
    if (coroutines_[i].left != 0) think(static_cast<int>(i));
  }
}

void quorum_client::die(bool silently) {
  if (!alive) return;
  alive = paused = false;
  ++wake_version_;
  wakes_at_ = never_;
  for (auto const& one : ways_) {
    if (one->link != nullptr) world.hang_up(one->link, silently);
    one->link.reset();
    one->connection.reset();
  }
  for (coroutine& one : coroutines_) {
    if (one.hold != nullptr) world.ended(*one.hold);
    one.hold.reset();
    one.left = 0;
    one.busy = false;
    ++one.round;
  }
  notices_.clear();
  inbox_.clear();
  cohort.reset();
  owner.reset();
}

void quorum_client::revive() {
  if (alive) return;
  world.say("client ", number, " is started anew");
  ways_.clear();
  for (coroutine& one : coroutines_) one.left = static_cast<int>(world.random().between(1, 6));
  start();
}

void quorum_client::pause(nanos length) {
  if (!alive || paused) return;
  paused = true;
  disturbed = world.now() + length;
  world.trouble(disturbed);
  world.after(length, [this, mine = process] {
    if (!alive || process != mine) return;
    paused = false;
    while (!inbox_.empty() && alive) {
      auto const what = std::move(inbox_.front());
      inbox_.pop_front();
      what(local());
      finish_input();
    }
    look_at_timers();
  });
}

bool quorum_client::settled() const {
  if (!alive) return true;
  return owner->pending() == 0 && std::all_of(ways_.begin(), ways_.end(), [](auto const& one) {
           return one->protocol->connected() && one->protocol->settled();
         });
}

std::string quorum_client::describe() const {
  std::string text = " client " + std::to_string(number) + (paused ? ", paused" : "");
  for (coroutine const& one : coroutines_) {
    text += ", " + std::to_string(one.left) + " to do" +
            (one.busy ? one.hold == nullptr ? ", thinking"
                        : one.hold->active  ? ", inside"
                                            : ", asking"
                      : "");
  }
  statistics s;
  owner->report(s);
  for (std::size_t i = 0; i < s.servers.size(); ++i) {
    text += " [" + std::to_string(i) + (s.servers[i].connected ? " up" : " down") + ", owed " +
            std::to_string(s.servers[i].cleanups_pending) + (ways_[i]->protocol->settled() ? "" : ", busy") + "]";
  }
  return text;
}

bool quorum_client::finished() const {
  if (!alive) return true;
  return !paused &&
         std::all_of(coroutines_.begin(), coroutines_.end(), [](coroutine const& c) { return c.left == 0 && !c.busy; });
}

// ---------------------------------------------------------------------------------------------------------- the shell

void quorum_client::finish_input() {
  if (in_input_) return;
  in_input_ = true;
  for (bool more = true; more && alive;) {
    more = false;
    if (!notices_.empty()) {
      notice const n = notices_.front();
      notices_.pop_front();
      hear(n);
      more = true;
      continue;
    }
    for (auto const& one : ways_) {
      if (one->connection->end_of_turn()) more = true;
    }
  }
  in_input_ = false;
  if (!alive) return;
  rearm();
  world.checked(*this);
}

void quorum_client::rearm() {
  time_point const next_at = timers.next();
  if (next_at == timer_queue::never) return;
  nanos const at = std::max(true_time(next_at), world.now() + 1000);
  if (at == wakes_at_) return;
  wakes_at_ = at;
  world.after(at - world.now(), [this, version = ++wake_version_] {
    if (version != wake_version_) return;
    wakes_at_ = never_;
    if (alive && !paused) input([this](time_point now) { cohort->tick(now); });
  });
}

void quorum_client::way::send(protocol::command const& c) {
  if (auto const* const acquire = std::get_if<protocol::acquire_command>(&c)) client->world.writes(*client, *acquire);
  connection->send(c);
}

void quorum_client::way::drop_connection(std::string_view why) {
  if (connection->drop(why)) why_dropped = why;
}

void quorum_client::way::connected_as(protocol::session const& s, time_point now) {
  link->up_since = client->world.now();
  protocol->receiver().connected_as(s, now);
}

void quorum_client::way::disconnected(std::string_view why, time_point now) {
  if (why != "cut" && why != why_dropped)
    throw violation{10, "the connection does not understand what the server sent: " + std::string{why}};
  protocol->receiver().disconnected(why, now);
}

void quorum_client::way::later(nanos delay, std::function<void(time_point)> what) {
  client->world.after(delay, [who = client, mine = client->process, what = std::move(what)] {
    if (who->alive && who->process == mine) who->input(what);
  });
}

void quorum_client::way::open(sim_connection&) { link = client->world.connect(client->number, server); }

void quorum_client::way::write(sim_connection&, std::string bytes) { client->world.send(link, std::move(bytes)); }

void quorum_client::way::hang_up(sim_connection&) {
  if (link != nullptr) client->world.hang_up(link, false);
  link.reset();
}

void quorum_client::way::note(sim_connection&, log_level, std::string_view words) {
  if (words.starts_with("ignored a push")) throw violation{10, "a push that cannot be read"};
  client->world.say("client ", client->number, ", server ", server, ": ", words);
}

void quorum_client::accepted(quorum_world::link_ptr const& l) {
  input([this, l](time_point now) {
    way& one = *ways_[static_cast<std::size_t>(l->server)];
    if (one.link == l) one.connection->opened(now);
  });
}

void quorum_client::lost_link(quorum_world::link_ptr const& l, std::string_view why) {
  if (!alive || process != l->process || !l->client_open) return;
  l->client_open = false;
  input([this, l, text = std::string{why}](time_point now) {
    way& one = *ways_[static_cast<std::size_t>(l->server)];
    if (one.link == l) one.connection->ended(text, now);
  });
}

void quorum_client::receive(quorum_world::link_ptr const& l, std::string const& bytes) {
  auto const take = [this, l](std::string_view what, time_point now) {
    way& one = *ways_[static_cast<std::size_t>(l->server)];
    if (one.link == l) one.connection->arrived(what, now);
  };
  if (paused) {
    input([take, bytes](time_point now) { take(bytes, now); });
  } else {
    input([&](time_point now) { take(bytes, now); });
  }
}

void quorum_client::on_acquired(engine::acquisition& a, engine::acquired how, error_code why) {
  auto& h = static_cast<quorum_hold&>(a);
  bool const got = how == engine::acquired::granted;
  h.waiting = false;
  if (got) {
    world.granted(h);
  } else {
    bool const no_time = h.busy_is_late && why == errc::timed_out;
    bool const asked_for = h.cancelled || h.until != time_point::max();  // or it was not even connected by then
    world.answered(h, how == engine::acquired::failed && !asked_for && !no_time, asked_for, why.message());
  }
  notices_.push_back({notice::kind::acquired, &h, got});
}

void quorum_client::on_lost(engine::acquisition& a, error_code) {
  auto& h = static_cast<quorum_hold&>(a);
  world.say("client ", number, " is told that it lost lock ", h.name);
  world.lost(h);
  h.told = true;
  world.ended(h);
  notices_.push_back({notice::kind::lost, &h});
}

void quorum_client::on_released(engine::acquisition& a, bool was_held, error_code why) {
  auto& h = static_cast<quorum_hold&>(a);
  world.release_answered(h, in_release_, was_held, static_cast<bool>(why));
  notices_.push_back({notice::kind::released, &h});
}

void quorum_client::on_extended(engine::acquisition& a, bool is_held, error_code why) {
  world.extended(static_cast<quorum_hold&>(a), is_held, why);
}

// ----------------------------------------------------------------------------------------------------- the coroutines

void quorum_client::later(int which, nanos delay, void (quorum_client::*what)(int, time_point)) {
  auto const round = coroutines_[static_cast<std::size_t>(which)].round;
  auto then = [this, which, round, what, mine = process] {
    if (!alive || process != mine) return;
    input([this, which, round, what](time_point now) {
      if (coroutines_[static_cast<std::size_t>(which)].round == round) (this->*what)(which, now);
    });
  };
  // Where every order is tried, the user takes no time, but any, unless the plan says how long.
  if (world.order_ == nullptr || delay >= millisecond) {
    world.after(delay, then);
    return;
  }
  world.order_->add({stream_of_user(), of_client(number), world.now() + world.jitter, 0, then,
                     [this, which, round] { return coroutines_[static_cast<std::size_t>(which)].round != round; }});
}

void quorum_client::think(int which) {
  random_source& r = world.random();
  coroutines_[static_cast<std::size_t>(which)].busy = true;
  if (operation const* const o = planned(which)) {
    later(which, o->think, &quorum_client::ask);
    return;
  }
  nanos delay = r.chance(50) ? r.between(0, 300) * microsecond : r.between(0, 100) * millisecond;
  // All at the same time, for votes that are split.
  constexpr nanos beat = 60 * millisecond;
  if (world.bursts && r.chance(70))
    delay = (world.now() / beat + 1) * beat - world.now() + r.between(0, world.latency / 2);
  later(which, delay, &quorum_client::ask);
}

void quorum_client::ask(int which, time_point now) {
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  operation const* const o = planned(which);
  me.hold = std::make_unique<quorum_hold>();
  quorum_hold& h = *me.hold;
  h.client = this;
  h.coroutine = which;
  h.asked_at = world.now();
  h.waiting = true;
  h.serial = world.new_serial();
  if (o != nullptr) take_over(*o, h, now);
  else draw(h, now);
  h.least_lease = h.lease;
  world.asks(h);
  world.stirs(h);
  world.present(h);
  if (o == nullptr) draw_cancellations(which);
  else if (o->cancel != operation::cancels::never) cancel_after(o->cancel_after, which, engine::cancel_type::total);
  if (slow_at_next >= 0) world.ask_slowly(*this, std::exchange(slow_at_next, -1));
  cohort->acquire(h, name_of(h.name), now);
}

void quorum_client::draw(quorum_hold& h, time_point now) {
  random_source& r = world.random();
  h.name = static_cast<int>(r.below(world.names));
  h.lease = leases.chance(20) ? some_lease() : std::chrono::duration_cast<std::chrono::milliseconds>(settings.lease);
  h.once = r.chance(10);
  if (!h.once && r.chance(15)) h.until = now + duration{r.between(0, 200) * millisecond};
}

void quorum_client::draw_cancellations(int which) {
  random_source& r = world.random();
  if (!r.chance(10)) return;
  nanos const first = r.between(0, 50) * millisecond;
  cancel_after(first, which, draw_cancel_type());
  // Impatient: once more, and perhaps by another kind, while the first is under way.
  if (!r.chance(40)) return;
  nanos const again = first + r.between(0, 8 * world.latency);
  cancel_after(again, which, draw_cancel_type());
}

engine::cancel_type quorum_client::draw_cancel_type() {
  return static_cast<engine::cancel_type>(world.random().below(3));
}

void quorum_client::cancel_after(nanos delay, int which, engine::cancel_type type) {
  auto const is_waiting = [this, which, round = coroutines_[static_cast<std::size_t>(which)].round] {
    coroutine const& one = coroutines_[static_cast<std::size_t>(which)];
    return one.round == round && one.hold != nullptr && !one.hold->active && one.hold->waiting;
  };
  auto const then = [this, which, is_waiting, mine = process, type] {
    if (!alive || process != mine) return;
    input([this, which, is_waiting, type](time_point at) {
      if (!is_waiting()) return;
      quorum_hold& h = *coroutines_[static_cast<std::size_t>(which)].hold;
      // The strongest of several counts, and terminal ones end it at once.
      if (!h.cancelled || type == engine::cancel_type::terminal) {
        h.cancelled_at = world.now();
        h.cancelled_as = type;
      }
      h.cancelled = true;
      world.say("client ", number, " cancels, type ", static_cast<int>(type));
      cohort->cancel(h, type, at);
    });
  };
  if (world.order_ == nullptr || delay >= millisecond) {
    world.after(delay, then);
    return;
  }
  world.order_->add({stream_of_user(), of_client(number), world.now() + world.jitter, 0, then,
                     [is_waiting] { return !is_waiting(); }});
}

void quorum_client::hear(notice const& n) {
  quorum_hold& h = *n.about;
  int const which = h.coroutine;
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  random_source& r = world.random();
  if (n.what == notice::kind::acquired && n.granted) {
    ++me.round;
    if (operation const* const o = planned(which)) {
      later(which, o->hold, &quorum_client::leave);
      return;
    }
    nanos const inside = r.chance(60)   ? r.between(0, 5000) * microsecond
                         : r.chance(60) ? r.between(0, world.claim / 2)
                                        : r.between(0, 2 * world.lease);
    later(which, inside, &quorum_client::leave);
    if (leases.chance(20)) later(which, leases.between(0, inside), &quorum_client::extend);
    // perhaps while the first is under way
    if (leases.chance(5)) later(which, leases.between(0, inside), &quorum_client::extend);
    if (world.foreign && r.chance(10))
      world.after(inside * r.between(50, 100) / 100, [this, name = h.name] { world.delete_by_hand(name); });
  } else if (n.what == notice::kind::lost) {
    ++me.round;
    later(which, planned(which) != nullptr ? 0 : r.between(0, 2000) * microsecond, &quorum_client::leave);
  } else {
    next(which);
  }
}

/// For a hold, or what it has become: not above what all the bounds of this world allow for.
std::chrono::milliseconds quorum_client::some_lease() {
  return std::chrono::milliseconds{leases.between(std::max(world.claim, world.lease / 2), world.lease) / millisecond};
}

void quorum_client::extend(int which, time_point now) {
  quorum_hold& h = *coroutines_[static_cast<std::size_t>(which)].hold;
  if (h.extension_asked_at >= 0) return;
  std::chrono::milliseconds const lease = some_lease();
  world.say("client ", number, " asks for a lease of ", lease.count(), " ms for lock ", h.name);
  h.extension_asked_at = world.now();
  h.extended_at = now;
  h.least_lease = std::min<duration>(h.least_lease, lease);
  cohort->extend(h, lease, now);
}

void quorum_client::leave(int which, time_point now) {
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  world.releases(*me.hold);
  world.ended(*me.hold);
  ++me.round;
  world.say("client ", number, " releases");
  in_release_ = true;
  cohort->release(*me.hold, now);
  in_release_ = false;
}

void quorum_client::next(int which) {
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  ++me.round;
  me.hold.reset();
  me.busy = false;
  if (--me.left > 0) {
    think(which);
  } else {
    me.left = 0;
  }
}

}  // namespace conch::sim
