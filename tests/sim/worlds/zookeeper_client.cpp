#include "sim/worlds/zookeeper_world.hpp"

#include "servers/zookeeper/names.hpp"

#include <algorithm>
#include <cstdio>

// A process of the simulated world: the shell that src/client and the transport are, and the coroutines that use it.
namespace conch::sim {

namespace {

constexpr nanos never = -1;

std::string words_of(zookeeper::request const& r) {
  struct words {
    std::string operator()(zookeeper::ping const&) const { return "ping"; }
    std::string operator()(zookeeper::add_auth const&) const { return "auth"; }
    std::string operator()(zookeeper::create const& c) const { return "create " + c.path; }
    std::string operator()(zookeeper::remove const& d) const { return "delete " + d.path; }
    std::string operator()(zookeeper::get_data const& g) const { return (g.watch ? "watch " : "get ") + g.path; }
    std::string operator()(zookeeper::get_children const& g) const { return "list " + g.path; }
    std::string operator()(zookeeper::set_data const& s) const { return "set " + s.path; }
    std::string operator()(zookeeper::sync const&) const { return "sync"; }
    std::string operator()(zookeeper::get_acl const& g) const { return "rights of " + g.path; }
    std::string operator()(zookeeper::close_session const&) const { return "close"; }
  };
  return std::visit(words{}, r);
}

}  // namespace

zookeeper_client::zookeeper_client(zookeeper_world& w, int n) : world{w}, number{n} {
  random_source& r = w.random();
  offset = r.between(1, 1'000'000) * millisecond;
  ppm = r.between(-2500, 2500);
  settings.lease = duration{w.lease};
  settings.renew_every = settings.lease / 3;
  settings.stop_margin = duration{r.between(0, w.lease / 10)};
  settings.command_timeout = settings.lease / 3;
  settings.offline_timeout = duration{r.between(1, 3) * w.lease};
  settings.connect_timeout = settings.lease / 4;
  settings.reconnect_min = std::chrono::milliseconds{10};
  settings.reconnect_max = std::chrono::milliseconds{200};
  settings.local_slice = duration{r.between(0, 5) * millisecond};
  settings.keep_alive = duration::zero();
  settings.zookeeper.session_margin = duration{w.margin};
  auto const many = static_cast<std::size_t>(r.between(1, 3));
  coroutines_.resize(many + static_cast<std::size_t>(w.of_all_kinds ? r.between(0, 3) : 0));
  for (coroutine& one : coroutines_) one.left = static_cast<int>(r.between(2, 12));
  if (w.small_ != nullptr) follow(w.small_->clients[static_cast<std::size_t>(number)]);
}

zookeeper_client::~zookeeper_client() {
  coroutines_.clear();
  cohort.reset();
  backend.reset();
  life_.reset();
}

void zookeeper_client::start() {
  alive = true;
  process = world.new_process();
  char text[40];
  std::snprintf(text, sizeof text, "%012llx%020llx", static_cast<unsigned long long>(0xa0000 + process * 17),
                static_cast<unsigned long long>(process));
  id = text;
  next_server_ = static_cast<std::size_t>(world.random().below(static_cast<std::int64_t>(world.model_->size())));
  cohort = std::make_unique<engine::cohort>(settings, timers, *this, stats);
  std::uint64_t const draws = world.random().next();
  life_ = std::make_unique<zookeeper::life_in_test>(settings, draws, timers, *this);
  backend = std::make_unique<zookeeper::queue>(settings, id, zookeeper::root_of("", "conch:"), "", draws, timers, *this,
                                               *cohort, stats);
  cohort->use(*backend);
  world.say("client ", number, " starts as ", id);
  for (std::size_t i = 0; i < coroutines_.size(); ++i) {
    if (coroutines_[i].left != 0) think(static_cast<int>(i));
  }
}

void zookeeper_client::take_apart() {
  alive = paused = false;
  ++wake_version_;
  wakes_at_ = never;
  for (coroutine& one : coroutines_) {
    if (one.hold != nullptr) world.ended(*one.hold);
    one.hold.reset();
    one.left = 0;
    one.busy = false;
    ++one.round;
  }
  notices_.clear();
  inbox_.clear();
  to_send_.clear();
  line.reset();
  cohort.reset();
  backend.reset();
  life_.reset();
}

void zookeeper_client::die(bool silently) {
  if (!alive) return;
  if (line != nullptr) world.hang_up(line, silently);
  take_apart();
}

/// As client_core does it when nobody holds any more: the session ends with the client.
void zookeeper_client::close() {
  if (!alive || paused) return;
  input([this](time_point now) {
    cohort->close(now);
    cohort->give_back_everything(now);
    backend->closed();
  });
  if (!alive) return;
  die(false);
}

void zookeeper_client::revive() {
  if (alive) return;
  world.say("client ", number, " is started anew");
  for (coroutine& one : coroutines_) one.left = static_cast<int>(world.random().between(1, 6));
  start();
}

void zookeeper_client::pause(nanos length) {
  if (!alive || paused) return;
  paused = true;
  disturbed = world.now() + length;
  world.after(length, [this, mine = process] {
    if (!alive || process != mine) return;
    paused = false;
    if (world.order_ == nullptr && world.random().chance(50)) tick();
    while (!inbox_.empty() && alive && !paused) {
      auto const what = std::move(inbox_.front());
      inbox_.pop_front();
      what(local());
      finish_input();
    }
    look_at_timers();
  });
}

bool zookeeper_client::settled() const {
  return !alive || (!paused && backend->settled() && backend->connected() && cohort->idle());
}

bool zookeeper_client::finished() const {
  if (!alive) return true;
  return !paused &&
         std::all_of(coroutines_.begin(), coroutines_.end(), [](coroutine const& c) { return c.left == 0 && !c.busy; });
}

std::string zookeeper_client::describe() const {
  std::string text = " [client " + std::to_string(number) + (paused ? ", paused" : "") + (alive ? "" : ", dead");
  if (alive) {
    text += backend->connected() ? "" : ", not connected";
    for (coroutine const& one : coroutines_) {
      text += ", " + std::to_string(one.left) + " to do" +
              (one.busy ? one.hold == nullptr ? ", thinking"
                          : one.hold->active  ? ", inside"
                          : one.hold->waiting ? ", asking for lock " + std::to_string(one.hold->name)
                                              : ", releasing"
                        : "");
    }
    statistics s;
    backend->report(s);
    text += ", owes " + std::to_string(s.cleanups_pending);
  }
  return text + "]";
}

nanos zookeeper_client::true_time(time_point t) const {
  nanos found = t.time_since_epoch().count() - offset;
  for (int i = 0; i < 4; ++i) found += (t - local_at(found)).count();
  return found + 1000;
}

// ------------------------------------------------------------------------------------------------------- the shell

void zookeeper_client::finish_input() {
  if (in_input_) return;
  in_input_ = true;
  while (alive && !notices_.empty()) {
    notice const n = notices_.front();
    notices_.pop_front();
    hear(n);
  }
  in_input_ = false;
  if (!alive) return;
  for (auto& m : std::exchange(to_send_, {})) {
    if (line != nullptr) world.send(line, std::move(m));
  }
  rearm();
  world.checked(*this);
}

void zookeeper_client::tick() {
  if (!alive || paused) return;
  input([this](time_point now) {
    in_tick_ = true;
    cohort->tick(now);
    in_tick_ = false;
  });
}

void zookeeper_client::rearm() {
  time_point const next_at = timers.next();
  if (next_at == timer_queue::never) return;
  nanos const at = std::max(true_time(next_at), world.now() + 1000);
  if (at == wakes_at_) return;
  wakes_at_ = at;
  world.after(at - world.now(), [this, version = ++wake_version_] {
    if (version != wake_version_) return;
    wakes_at_ = never;
    tick();
  });
}

/// One after the other, which is more than an address_choice does: clients come to each server, whatever it was like
/// before.
void zookeeper_client::dial() {
  next_server_ = (next_server_ + 1) % world.model_->size();
  to_send_.clear();
  line = world.connect(number, next_server_);
}

void zookeeper_client::greet(zookeeper::connect_request const& c) {
  world.say("client ", number, " greets server ", next_server_,
            c.session == 0 ? " without a session" : " with its session");
  to_send_.emplace_back(c);
}

void zookeeper_client::send(zookeeper::request const& r) {
  if (world.traced_) world.say("client ", number, " to server ", next_server_, ": ", words_of(r));
  world.writes(*this, r);
  to_send_.emplace_back(r);
}

void zookeeper_client::hang_up(std::string_view why) {
  if (line == nullptr) return;
  world.say("client ", number, " drops its connection: ", why);
  // What was written in this turn is on its way.
  for (auto& m : std::exchange(to_send_, {})) world.send(line, std::move(m));
  world.hang_up(line, false);
  line.reset();
}

void zookeeper_client::accepted(zookeeper_world::line_ptr const& l) {
  input([this, l](time_point now) {
    if (line == l) life_->connected(now);
  });
}

void zookeeper_client::lost_line(zookeeper_world::line_ptr const& l) {
  if (!alive || process != l->process || !l->client_open) return;
  l->client_open = false;
  input([this, l](time_point now) {
    if (line != l) return;
    world.say("client ", number, " has lost its connection");
    line.reset();
    to_send_.clear();
    life_->failed(fault::try_later, "cut", now);
  });
}

void zookeeper_client::receive(zookeeper_world::line_ptr const& l,
                               std::function<void(zookeeper::wire_events&, time_point)> const& what) {
  input([this, l, what](time_point now) {
    if (line == l) what(backend->receiver(), now);
  });
}

void zookeeper_client::on_acquired(engine::acquisition& a, engine::acquired how, error_code why) {
  auto& h = static_cast<zookeeper_hold&>(a);
  bool const got = how == engine::acquired::granted;
  h.waiting = false;
  if (got) world.granted(h);
  else world.answered(h, how == engine::acquired::failed, why);
  notices_.push_back({notice::kind::acquired, &h, got});
}

void zookeeper_client::on_lost(engine::acquisition& a, error_code why) {
  auto& h = static_cast<zookeeper_hold&>(a);
  world.say("client ", number, " is told that it lost lock ", h.name, ": ", why.message());
  world.lost(h);
  notices_.push_back({notice::kind::lost, &h});
}

void zookeeper_client::on_released(engine::acquisition& a, bool was_held, error_code why) {
  auto& h = static_cast<zookeeper_hold&>(a);
  world.release_answered(h, was_held, why);
  notices_.push_back({notice::kind::released, &h});
}

// -------------------------------------------------------------------------------------------------- the coroutines

void zookeeper_client::later(int which, nanos delay, void (zookeeper_client::*what)(int, time_point)) {
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

void zookeeper_client::think(int which) {
  random_source& r = world.random();
  coroutines_[static_cast<std::size_t>(which)].busy = true;
  if (operation const* const o = planned(which)) {
    later(which, o->think, &zookeeper_client::ask);
    return;
  }
  nanos const delay = r.chance(40)   ? r.between(0, 300) * microsecond
                      : r.chance(50) ? r.between(0, 100) * millisecond
                                     : r.between(0, world.lease / 2);
  later(which, delay, &zookeeper_client::ask);
}

void zookeeper_client::ask(int which, time_point now) {
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  operation const* const o = planned(which);
  ++me.round;
  me.hold = std::make_unique<zookeeper_hold>();
  zookeeper_hold& h = *me.hold;
  h.client = this;
  h.coroutine = which;
  h.asked_at = world.now();
  h.waiting = true;
  h.serial = world.new_serial();
  if (o != nullptr) take_over(*o, h, now);
  else draw(h, now);
  if (o == nullptr) draw_cancellations(which);
  else if (o->cancel != operation::cancels::never) cancel_after(o->cancel_after, which, engine::cancel_type::total);
  world.asks(h);
  cohort->acquire(h, name_of(h.name), now);
}

void zookeeper_client::draw(zookeeper_hold& h, time_point now) {
  random_source& r = world.random();
  h.name = static_cast<int>(r.below(world.names));
  if (world.of_all_kinds) h.permit = world.draw_permit(h.name, id);
  h.lease =
      std::chrono::milliseconds{(r.chance(80) ? world.lease : r.between(world.lease / 2, world.lease)) / millisecond};
  h.once = r.chance(12);
  h.fixed = r.chance(3);
  if (!h.once && r.chance(10)) h.until = now + duration{r.between(0, 200) * millisecond};
  h.at_least = world.draw_interval();
}

void zookeeper_client::draw_cancellations(int which) {
  random_source& r = world.random();
  if (!r.chance(12)) return;
  nanos const first = r.chance(50) ? r.between(0, 6 * world.latency) : r.between(0, 100) * millisecond;
  cancel_after(first, which, draw_cancel_type());
  if (!r.chance(40)) return;
  nanos const again = first + r.between(0, 8 * world.latency);
  cancel_after(again, which, draw_cancel_type());
}

engine::cancel_type zookeeper_client::draw_cancel_type() {
  return static_cast<engine::cancel_type>(world.random().below(3));
}

void zookeeper_client::cancel_after(nanos delay, int which, engine::cancel_type type) {
  auto const is_waiting = [this, which, round = coroutines_[static_cast<std::size_t>(which)].round] {
    coroutine const& one = coroutines_[static_cast<std::size_t>(which)];
    return one.round == round && one.hold != nullptr && one.hold->waiting;
  };
  auto const then = [this, which, is_waiting, mine = process, type] {
    if (!alive || process != mine) return;
    input([this, which, is_waiting, type](time_point at) {
      if (!is_waiting()) return;
      zookeeper_hold& h = *coroutines_[static_cast<std::size_t>(which)].hold;
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

void zookeeper_client::hear(notice const& n) {
  zookeeper_hold& h = *n.about;
  int const which = h.coroutine;
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  random_source& r = world.random();
  if (n.what == notice::kind::acquired && n.granted) {
    ++me.round;
    if (operation const* const o = planned(which)) {
      later(which, o->hold, &zookeeper_client::leave);
      return;
    }
    nanos const inside = r.chance(60)   ? r.between(0, 5000) * microsecond
                         : r.chance(60) ? r.between(0, 200) * millisecond
                                        : r.between(0, 3 * world.lease);
    later(which, inside, &zookeeper_client::leave);
    // B1: a client that holds for long is on a server that is cut off.
    if (!world.calm && inside > world.lease && r.chance(30)) {
      world.after(r.between(0, world.lease / 2), [this, mine = process] {
        if (alive && process == mine && line != nullptr) world.isolate_with(*this);
      });
    }
  } else if (n.what == notice::kind::lost) {
    ++me.round;
    later(which, planned(which) != nullptr ? 0 : r.between(0, 2000) * microsecond, &zookeeper_client::leave);
  } else {
    next(which);
  }
}

void zookeeper_client::leave(int which, time_point now) {
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  ++me.round;
  world.releases(*me.hold);
  world.say("client ", number, " releases lock ", me.hold->name);
  cohort->release(*me.hold, now);
}

void zookeeper_client::next(int which) {
  coroutine& me = coroutines_[static_cast<std::size_t>(which)];
  ++me.round;
  me.hold.reset();
  me.busy = false;
  if (--me.left > 0) think(which);
  else me.left = 0;
}

}  // namespace conch::sim
